"""SentenceScorer: the loss of labelled images for sentences that end with a candidate word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.prefix_cache import PrefixCache
from ipl.support.errors import ConfigError, brief
from ipl.words.gain import CrossEntropy, Objective
from ipl.words.template import Template

WHOLE_PROMPTS = 512  # encoded together where the tower is not causal


class SentenceScorer:
    """Scores words for images (images, dim) with normalised features and labels (images,)."""

    def __init__(
        self,
        backbone: Backbone,
        class_names: Sequence[str],
        image_features: Tensor,
        labels: Tensor,
        template: Template | None = None,
        objective: Objective | None = None,
        store: FeatureStore | None = None,  # of text features, for other images of these classes
    ) -> None:
        self.backbone, self.store = backbone, store
        self.class_names = tuple(class_names)
        self.template = template or Template()
        self.objective = objective or Objective()
        self.cross_entropy = CrossEntropy(
            image_features.to(backbone.device),
            labels,
            len(class_names),
            backbone.logit_scale,
            self.objective.utility,
        )
        self._prefix: tuple[tuple[str, ...], PrefixCache] | None = None

    @property
    def half(self) -> torch.dtype | None:
        """The precision of two bytes that the device multiplies faster than fp32, if any."""
        device = self.backbone.device.type
        if not self.backbone.causal:
            return None
        if device == "cuda":
            return torch.float16
        native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # not in torch's public API
        return torch.bfloat16 if device == "cpu" and native and native() else None

    def score(
        self,
        selected: Sequence[str],
        candidates: Sequence[str],
        advance: Callable[..., None] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The loss of the selected words followed by each candidate, in two parts (candidates, 2).

        Each part is what one half of the images contributes; their sum is the loss.
        """
        # Losses of features in half precision need no more digits than fp32 has.
        precision = torch.float64 if dtype == torch.float32 else torch.float32
        losses = []
        for features in self.features(selected, candidates, dtype):
            losses.append(self.cross_entropy.losses(features, precision))
            if advance is not None:
                advance(len(features))
        return torch.cat(losses)

    def prompt(self, words: Sequence[str]) -> Tensor:
        """The features (classes, dim) of the prompt with these words, the plain prompt if none."""
        if words and self.backbone.causal:  # as precise as the candidates of the next step
            tokens = self.backbone.tokenize_words(words[-1:])
            return next(self._prefix_for(words[:-1]).features(tokens))[0]
        return self.backbone.encode_texts([self.template.full(n, words) for n in self.class_names])

    def features(
        self, selected: Sequence[str], candidates: Sequence[str], dtype: torch.dtype = torch.float32
    ) -> Iterator[Tensor]:
        """Yields text features (chunk, classes, dim) of the candidates in order."""
        tokens = self.backbone.tokenize_words(candidates)

        def run() -> Iterator[Tensor]:
            if not self.backbone.causal:
                return self._whole_prompts(selected, candidates)
            return self._prefix_for(selected).features(tokens, dtype)

        if self.store is None:
            return run()
        key = (self.class_names, self.template, tuple(selected), tuple(tokens), dtype)
        return self.store.texts(key, run)

    def _prefix_for(self, selected: Sequence[str]) -> PrefixCache:
        """The prompts up to the next word; those of the last call are kept."""
        words = tuple(selected)
        if self._prefix is not None and self._prefix[0] == words:
            return self._prefix[1]
        self._prefix = None  # both would need twice the memory
        tokenize = self.backbone.tokenize
        chosen = [token for word in words for token in tokenize(f"{word},")]
        before = [
            [*self.backbone.opening, *tokenize(self.template.before(name)), *chosen]
            for name in self.class_names
        ]
        prefix = PrefixCache(self.backbone, before, tokenize(self.template.tail))
        self._prefix = (words, prefix)
        return prefix

    def _whole_prompts(
        self, selected: Sequence[str], candidates: Sequence[str]
    ) -> Iterator[Tensor]:
        """Yields features (chunk, classes, dim), with every prompt encoded in full."""
        chunk = max(1, WHOLE_PROMPTS // len(self.class_names))
        for start in range(0, len(candidates), chunk):
            part = candidates[start : start + chunk]
            texts = [
                self.template.full(name, [*selected, word])
                for word in part
                for name in self.class_names
            ]
            yield self.backbone.encode_texts(texts).unflatten(0, (len(part), -1))


def check_length(
    template: Template, backbone: Backbone, class_names: Sequence[str], k: int
) -> None:
    """Raises ConfigError if the template with k words is too long for the text tower."""
    if not k:
        return
    longest = max(class_names, key=lambda name: len(backbone.tokenize(name)))
    # One token per word, one per comma between words, SOS (if the backbone has it) and EOS.
    text = backbone.tokenize(template.before(longest) + template.tail)
    length = len(backbone.opening) + len(text) + 2 * k - 1 + 1
    if length > backbone.positions:
        words = "1 word needs" if k == 1 else f"{k} words need"
        raise ConfigError(
            f"{words} {length} tokens in the scoring template with class {brief(longest)}, but "
            f"{backbone.name} has {backbone.positions} positions; use fewer words, a shorter class "
            "name or a shorter template."
        )
