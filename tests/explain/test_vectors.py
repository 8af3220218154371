"""Distances and cosines, recomputed by hand."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cosine_similarity

from ipl.backbone.backbone import Backbone
from ipl.config import FitConfig
from ipl.explain.vectors import describe_vectors, nearest, untrained
from ipl.learners.registry import learner_class
from ipl.words.pool import Pool

CLASSES = ("castle", "lake")


@pytest.mark.parametrize("name", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
@pytest.mark.parametrize("words", [0, 2])
def test_moved_is_the_distance_from_the_start(
    pocket: Backbone, pool: Pool, name: str, words: int
) -> None:
    kind = learner_class(name)
    learner = kind(pocket, kind.layout_for(words, 2), CLASSES, seed=5)
    config = FitConfig(learner=name, words=words, m=2, depth=1, seed=5)
    before = learner.soft.detach().clone()
    assert all(v.moved == 0.0 for v in describe_vectors(learner, config, pool).vectors)
    with torch.no_grad():
        learner.soft += torch.randn(learner.soft.shape, generator=torch.Generator().manual_seed(1))
    found = describe_vectors(learner, config, pool)
    by_hand = (learner.soft.detach() - before).norm(dim=-1)
    assert [v.moved for v in found.vectors] == pytest.approx(by_hand.tolist())
    assert [v.start_norm for v in found.vectors] == pytest.approx(before.norm(dim=-1).tolist())
    assert len(found.vectors) == learner.layout.soft_count
    assert all(other.distance == 0.0 for other in found.others)


def test_what_else_was_trained_moves_too(pocket: Backbone, pool: Pool) -> None:
    kind = learner_class("cocoop")
    learner = kind(pocket, kind.layout_for(1, 2), CLASSES, seed=5)
    with torch.no_grad():
        learner.meta[0].bias += 3.0
    config = FitConfig(learner="cocoop", words=1, m=2, seed=5)
    found = {o.name: o.distance for o in describe_vectors(learner, config, pool).others}
    assert found["meta.0.bias"] == pytest.approx(3.0 * learner.meta[0].bias.numel() ** 0.5)
    assert found["meta.0.weight"] == 0.0


def test_nearest_is_the_highest_cosine(pocket: Backbone, pool: Pool) -> None:
    rows = pocket.embed(pocket.tokenize_words(pool.words))
    vector = rows[3] + 0.5 * rows[7]
    found = nearest(vector, rows, pool)
    cosines = [float(cosine_similarity(row, vector, dim=0)) for row in rows]
    order = sorted(range(len(pool)), key=lambda i: -cosines[i])[:3]
    assert [near.word for near in found] == [pool.words[i] for i in order]
    assert found[0].cosine == pytest.approx(max(cosines), abs=1e-6)
    assert found[0].distance == pytest.approx(float((rows[order[0]] - vector).norm()))


def test_an_unknown_start_is_none(pocket: Backbone, pool: Pool) -> None:
    kind = learner_class("coop")
    learner = kind(pocket, kind.layout_for(1, 2), CLASSES)
    assert untrained(learner, FitConfig(words=1, m=2)) is not None
    other = FitConfig(words=1, m=3)  # the layout has changed since
    assert untrained(learner, other) is None
    found = describe_vectors(learner, other, pool)
    assert found.vectors[0].moved is None
    assert found.vectors[0].nearest_at_start is None
    assert found.others == ()
