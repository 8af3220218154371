"""The cache of searches: finished steps, and the embeddings that redundancy compares."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.support.cache import Cache, key_of
from ipl.support.errors import ConfigError
from ipl.support.plain_values import from_plain
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection

ALGORITHM = 3  # part of the keys; increase it when the same settings give another result


class SelectionCache:
    """The cache entry of one search; it does not depend on k, the learner or the training."""

    def __init__(
        self,
        cache: Cache | None,
        scorer: SentenceScorer,
        pool: Pool,
        objective: Objective,
        search: str,
    ) -> None:
        self.cache = cache
        question, backbone = scorer.question, scorer.backbone
        self.facts = {
            "backbone": backbone.name,
            "classes": question["classes"],
            "template": scorer.template.text,
            "pool_size": len(pool),
            "images": len(question["labels"]),
        }
        self.key = key_of(
            way=ALGORITHM,
            backbone=backbone.fingerprint,
            **question,
            pool=pool.sha256,
            objective=asdict(objective),
            search=search,
        )

    def read(self) -> Selection | None:
        """Returns the finished steps, None if there are none."""
        entry = self.cache.get("selections", self.key) if self.cache else None
        if entry is None:
            return None
        try:
            return from_plain(Selection, entry.facts["selection"], "selection")
        except (KeyError, ConfigError):  # another version wrote it
            return None

    def write(self, selection: Selection) -> None:
        """Writes the finished steps, unless another process has written as many."""
        if self.cache is None:
            return
        existing = self.read()
        if existing is not None and len(existing.steps) >= len(selection.steps):
            return
        facts = {**self.facts, "words": list(selection.words), "selection": selection.as_dict()}
        self.cache.put("selections", self.key, {}, facts)


def word_embeddings(
    cache: Cache | None, backbone: Backbone, pool: Pool, objective: Objective
) -> Tensor:
    """Returns the embeddings (words, dim) that redundancy compares, from the cache if possible."""
    if objective.word_embedding == "token":
        return objective.embed_words(backbone, pool.words)  # cheaper than reading a file
    key = key_of(
        way=ALGORITHM,
        backbone=backbone.fingerprint,
        pool=pool.sha256,
        embedding=objective.word_embedding,
    )
    entry = cache.get("words", key) if cache else None
    cached = None if entry is None else entry.arrays.get("embeddings")
    if cached is not None and cached.shape == (len(pool), backbone.feature_dim):
        return torch.from_numpy(cached).to(backbone.device)
    embeddings = objective.embed_words(backbone, pool.words)
    if cache is not None:
        facts = {"backbone": backbone.name, "words": len(pool)}
        cache.put("words", key, {"embeddings": embeddings.cpu().numpy()}, facts)
    return embeddings
