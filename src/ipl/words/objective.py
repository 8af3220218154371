"""G(W) = utility - lambda * redundancy: what the greedy search climbs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.support.errors import ConfigError

PRESETS = ("paper", "reference")
EMBEDDINGS = ("text", "token")
AT_ONCE = 512
Numbers = TypeVar("Numbers", float, np.ndarray[Any, Any])  # one word's number, or many words'


@dataclass(frozen=True)
class Objective:
    """How much a word may repeat the others.

    `paper` adds up the cosines with the words chosen so far, `reference` (the authors' code) takes
    their mean. `text` compares text features of the bare words, `token` rows of the embedding.
    """

    lambda_: float = 0.1
    preset: str = "paper"
    word_embedding: str = "text"

    def __post_init__(self) -> None:
        if not 0 <= self.lambda_ < float("inf"):
            raise ConfigError(f"lambda is {self.lambda_}; it must be 0 or more.")
        if self.preset not in PRESETS:
            raise ConfigError(f"preset is {self.preset!r}; allowed are {', '.join(PRESETS)}.")
        if self.word_embedding not in EMBEDDINGS:
            raise ConfigError(
                f"word_embedding is {self.word_embedding!r}; allowed are {', '.join(EMBEDDINGS)}."
            )

    def embed_words(self, backbone: Backbone, words: Sequence[str]) -> Tensor:
        """Returns one normalised embedding (words, dim) per word, each a single token."""
        tokens = backbone.tokenize_words(words)
        if self.word_embedding == "token":
            return normalize(backbone.embed(tokens), dim=-1)
        if backbone.causal:
            alone = PrefixCache(backbone, [backbone.opening])
            features = [chunk[:, 0] for chunk in alone.features(tokens)]
        else:
            parts = [words[i : i + AT_ONCE] for i in range(0, len(words), AT_ONCE)]
            features = [backbone.encode_texts(part) for part in parts]
        return normalize(torch.cat(features), dim=-1)

    def redundancy(self, embeddings: Tensor, chosen: Sequence[int]) -> Tensor:
        """Returns what adding each word (words,) repeats of the words chosen so far."""
        if not chosen:
            return torch.zeros(len(embeddings), device=embeddings.device)
        cosines = embeddings @ embeddings[list(chosen)].T  # (words, chosen)
        return cosines.sum(1) if self.preset == "paper" else cosines.mean(1)

    def gain(self, utility: Numbers, redundancy: Numbers) -> Numbers:
        """Returns utility - lambda * redundancy, of one word or of many."""
        return utility - self.lambda_ * redundancy
