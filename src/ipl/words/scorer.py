"""SentenceScorer: losses of candidate words at the end of a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.prefix_cache import MEMORY, PrefixCache
from ipl.support.errors import ConfigError
from ipl.words.loss import CrossEntropy
from ipl.words.template import Template

WHOLE_PROMPTS = 512  # encoded together where the tower is not causal


class SentenceScorer:
    """Computes the cross-entropy of labelled images for a sentence with a candidate word.

    Parameters
    ----------
    backbone : Backbone
        The frozen towers.
    class_names : sequence of str
        The classes of the images.
    image_features : Tensor of shape (images, dim)
        The normalised features of the images.
    labels : Tensor of shape (images,)
        The index of each image's class.
    template : Template, optional
        The sentence that scores words.
    store : FeatureStore, optional
        Keeps text features, so that other images of the same classes can reuse them.
    memory : float
        GiB of working memory.
    """

    def __init__(
        self,
        backbone: Backbone,
        class_names: Sequence[str],
        image_features: Tensor,
        labels: Tensor,
        template: Template | None = None,
        store: FeatureStore | None = None,
        memory: float = MEMORY,
    ) -> None:
        self.backbone, self.memory = backbone, memory
        self.cross_entropy = CrossEntropy(
            image_features.to(backbone.device), labels, len(class_names), backbone.logit_scale
        )
        self.class_names = tuple(class_names)
        self.template = template or Template()
        self.store = store
        self._prefix: tuple[tuple[str, ...], PrefixCache] | None = None

    @property
    def question(self) -> dict[str, Any]:
        """Returns what the losses depend on beside the backbone, for the key of a cache."""
        return {
            "images": self.cross_entropy.sha256,  # features, whatever the images were read from
            "labels": self.cross_entropy.labels.tolist(),
            "classes": list(self.class_names),
            "template": self.template.text,
        }

    @property
    def half(self) -> torch.dtype | None:
        """Returns the half precision that the device multiplies faster than fp32, if any."""
        return fast_half(self.backbone.device) if self.backbone.causal else None

    def score(
        self,
        selected: Sequence[str],
        candidates: Sequence[str],
        advance: Callable[..., None] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Returns the loss (candidates,) of the selected words followed by each candidate."""
        # Losses of features in half precision need no more digits than fp32 has.
        precision = torch.float64 if dtype == torch.float32 else torch.float32
        losses = [self.cross_entropy.images.new_zeros(0)]
        for features in self.features(selected, candidates, dtype):
            losses.append(self.cross_entropy.losses(features, precision))
            if advance is not None:
                advance(len(features))
        return torch.cat(losses)

    def loss(self, words: Sequence[str]) -> float:
        """Returns the loss of the prompt with these words; without words, of the plain prompt."""
        return float(self.losses_without(words).mean())

    def losses_without(self, selected: Sequence[str]) -> Tensor:
        """Returns the loss of each image (images,) with the selected words and no candidate."""
        return self.cross_entropy.image_losses(self.features_without(selected)[None])[0].cpu()

    def image_losses(self, selected: Sequence[str], candidates: Sequence[str]) -> Tensor:
        """Returns the loss of each image (candidates, images)."""
        features = self.features(selected, candidates)
        return torch.cat([self.cross_entropy.image_losses(chunk) for chunk in features]).cpu()

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
            yield from run()
            return
        # Candidate features depend on no image: other shots of the same classes can reuse them.
        key = (self.class_names, self.template, tuple(selected), tuple(tokens), dtype)
        yield from self.store.texts(key, run)

    def features_without(self, selected: Sequence[str]) -> Tensor:
        """Returns the text features (classes, dim) with the selected words and no candidate."""
        if selected and self.backbone.causal:  # as precise as the candidates of the next step
            tokens = self.backbone.tokenize_words(selected[-1:])
            return next(self._prefix_for(selected[:-1]).features(tokens))[0]
        texts = [self.template.full(name, selected) for name in self.class_names]
        return self.backbone.encode_texts(texts)

    def _prefix_for(self, selected: Sequence[str]) -> PrefixCache:
        """Returns the cache of the prompts up to the next word, extended from the last one."""
        words = tuple(selected)
        if self._prefix is None or words[: len(self._prefix[0])] != self._prefix[0]:
            self._prefix = ((), self._first_prefix())
        previous, prefix = self._prefix
        self._prefix = None  # an interruption must not leave a cache that is half extended
        for word in words[len(previous) :]:
            prefix.extend(self.backbone.tokenize(f"{word},"))
        self._prefix = (words, prefix)
        return prefix

    def _first_prefix(self) -> PrefixCache:
        before = [self._before(name, []) for name in self.class_names]
        tail = self.backbone.tokenize(self.template.tail)
        return PrefixCache(self.backbone, before, tail, self.memory)

    def _before(self, class_name: str, selected: Sequence[str]) -> list[int]:
        text = self.template.before(class_name, selected)
        return [*self.backbone.opening, *self.backbone.tokenize(text)]

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


def fast_half(device: torch.device) -> torch.dtype | None:
    """Returns the precision of two bytes that a device multiplies faster than fp32, if any."""
    if device.type == "cuda":
        return torch.float16
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # not in torch's public API
    return torch.bfloat16 if device.type == "cpu" and native and native() else None


def check_room(template: Template, backbone: Backbone, class_names: Sequence[str], k: int) -> None:
    """Raises ConfigError if the template with k words is too long for the text tower."""
    longest = max(class_names, key=lambda name: len(backbone.tokenize(name)))
    # One token per word, one per comma between words, SOS (if the backbone has it) and EOS.
    text = backbone.tokenize(template.before(longest, []) + template.tail)
    length = len(backbone.opening) + len(text) + 2 * k - 1 + 1
    if length > backbone.positions:
        words = "1 word needs" if k == 1 else f"{k} words need"
        name = longest if len(longest) <= 40 else longest[:40] + "..."
        raise ConfigError(
            f"{words} {length} tokens in the scoring template with class {name!r}, but "
            f"{backbone.name} has {backbone.positions} positions; use fewer words, a shorter class "
            "name or a shorter template."
        )
