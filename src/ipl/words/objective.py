"""Objective: the gain of a word, utility - lambda * redundancy."""

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
AT_ONCE = 512  # words that are encoded together where the tower is not causal
Numbers = TypeVar("Numbers", float, np.ndarray[Any, Any])  # of one word, or of many


@dataclass(frozen=True)
class Objective:
    """The gain of a word: utility - lambda * redundancy.

    Utility is the fall of the cross-entropy when the word joins the prompt; redundancy is its
    similarity to the words chosen so far.

    Parameters
    ----------
    lambda_ : float, default 0.1
        The weight of redundancy.
    preset : str, default "paper"
        Redundancy as the sum of cosines ("paper") or their mean ("reference", the authors' code).
    word_embedding : str, default "text"
        What redundancy compares: "text" (text features of the bare words) or "token" (rows of the
        token embedding).

    Raises
    ------
    ConfigError
        If a value is not allowed.
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
        """Returns the embeddings that redundancy compares.

        Parameters
        ----------
        backbone : Backbone
            The frozen towers.
        words : sequence of str
            Words that are single tokens of the backbone.

        Returns
        -------
        Tensor of shape (words, dim)
            The embeddings, normalised.
        """
        tokens = backbone.tokenize_words(words)
        if self.word_embedding == "token":
            return normalize(backbone.embed(tokens), dim=-1)
        if backbone.causal:
            prefix = PrefixCache(backbone, [backbone.opening])
            features = [chunk[:, 0] for chunk in prefix.features(tokens)]
        else:
            parts = [words[i : i + AT_ONCE] for i in range(0, len(words), AT_ONCE)]
            features = [backbone.encode_texts(part) for part in parts]
        return normalize(torch.cat(features), dim=-1)

    def redundancy(self, embeddings: Tensor, chosen: Sequence[int]) -> Tensor:
        """Returns the redundancy of each word with the words chosen so far.

        Parameters
        ----------
        embeddings : Tensor of shape (words, dim)
            The embeddings of all words, from `embed_words`.
        chosen : sequence of int
            The indices of the words chosen so far.

        Returns
        -------
        Tensor of shape (words,)
            The sum or the mean of the cosines; zeros if no word is chosen.
        """
        if not chosen:
            return torch.zeros(len(embeddings), device=embeddings.device)
        cosines = embeddings @ embeddings[list(chosen)].T  # (words, chosen)
        return cosines.sum(1) if self.preset == "paper" else cosines.mean(1)

    def gain(self, utility: Numbers, redundancy: Numbers) -> Numbers:
        """Returns utility - lambda * redundancy.

        Parameters
        ----------
        utility : float or ndarray
            The fall of the cross-entropy, of one word or of many.
        redundancy : float or ndarray
            The redundancy of the same words.

        Returns
        -------
        float or ndarray
            The gain.
        """
        return utility - self.lambda_ * redundancy
