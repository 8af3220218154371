"""The cross-entropy of every candidate word, exactly, on frozen towers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone import Backbone, FeatureStore, PrefixCache
from ipl.errors import ConfigError
from ipl.selection.template import Template


class CandidateScorer:
    """Mean cross-entropy over labelled image features, for prompts that end in a candidate."""

    def __init__(
        self,
        backbone: Backbone,
        class_names: Sequence[str],
        image_features: Tensor,  # (images, dim), normalised
        labels: Tensor,  # (images,)
        template: Template | None = None,
        store: FeatureStore | None = None,
    ) -> None:
        self.backbone = backbone
        self.class_names = tuple(class_names)
        self.images = image_features.to(backbone.device)
        self.labels = labels.to(backbone.device)
        self.template = template or Template()
        self.store = store
        self._tokens: dict[str, int] = {}  # every step asks for the whole pool again

    def score(
        self,
        selected: Sequence[str],
        candidates: Sequence[str],
        advance: Callable[..., None] | None = None,
    ) -> Tensor:
        """Returns the loss (candidates,) of the selected words followed by each candidate."""
        tokens = [self.token(word) for word in candidates]

        def run() -> Iterator[Tensor]:
            return self._cache(selected).features(tokens)

        # Candidate features depend on no picture: other shots of the same classes can reuse them.
        key = (self.class_names, self.template, tuple(selected), tuple(tokens))
        losses = []
        for features in self.store.texts(key, run) if self.store else run():
            losses.append(self._losses(features))
            if advance is not None:
                advance(features.shape[1])
        return torch.cat(losses).cpu()

    def loss(self, words: Sequence[str]) -> float:
        """Returns the loss of a whole list of words; of none, that of the plain prompt."""
        texts = [self.template.full(name, words) for name in self.class_names]
        features = self.backbone.encode_texts(texts)
        return float(self._losses(features[:, None])[0])

    def token(self, word: str) -> int:
        """Returns the one token of a word."""
        if word in self._tokens:
            return self._tokens[word]
        ids = self.backbone.tokenize(word)
        if len(ids) != 1:
            raise ConfigError(
                f"{word!r} is {len(ids)} tokens of {self.backbone.name}; a candidate must be one."
            )
        self._tokens[word] = ids[0]
        return ids[0]

    def check_room(self, k: int) -> None:
        """Raises ConfigError if the sentence with k words would not fit the text tower."""
        longest = max(self.class_names, key=lambda name: len(self.backbone.tokenize(name)))
        # One token a word and one for the comma after each but the last; SOS and EOS around it.
        text = self.backbone.tokenize(self.template.before(longest, []) + self.template.tail)
        need = len(text) + 2 * k - 1 + 2
        if need > self.backbone.positions:
            raise ConfigError(
                f"{k} words need {need} tokens in the scoring template with class {longest!r}, "
                f"but {self.backbone.name} has {self.backbone.positions} positions; use fewer "
                "words, a shorter class name or a shorter template."
            )

    def _cache(self, selected: Sequence[str]) -> PrefixCache:
        tokenize, sos = self.backbone.tokenize, self.backbone.sos
        before = [self.template.before(name, selected) for name in self.class_names]
        return PrefixCache(
            self.backbone, [[sos, *tokenize(text)] for text in before], tokenize(self.template.tail)
        )

    def _losses(self, features: Tensor) -> Tensor:
        """Returns the loss (candidates,) of text features (classes, candidates, dim)."""
        texts = normalize(features, dim=-1).transpose(0, 1)  # (candidates, classes, dim)
        logits = self.backbone.logit_scale * self.images @ texts.transpose(-1, -2)
        right = logits[:, torch.arange(len(self.labels)), self.labels]  # (candidates, images)
        return (logits.logsumexp(-1) - right).mean(-1)
