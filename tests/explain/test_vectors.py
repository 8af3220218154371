"""The words nearest to a vector, against a plain loop."""

from __future__ import annotations

import pytest
from torch.nn.functional import cosine_similarity

from ipl.backbone.backbone import Backbone
from ipl.explain.run import LoadedRun
from ipl.explain.vectors import describe_vectors, nearest
from ipl.words.pool import Pool


def test_nearest_is_the_highest_cosine(pocket: Backbone, pool: Pool) -> None:
    rows = pocket.embed(pocket.tokenize_words(pool.words))
    vector = rows[3] + 0.5 * rows[7]
    found = nearest(vector, rows, pool)
    cosines = [float(cosine_similarity(row, vector, dim=0)) for row in rows]
    order = sorted(range(len(pool)), key=lambda i: -cosines[i])[:3]
    assert [near.word for near in found] == [pool.words[i] for i in order]
    assert found[0].cosine == pytest.approx(max(cosines), abs=1e-6)


def test_every_vector_is_described(loaded: LoadedRun, pool: Pool) -> None:
    found = describe_vectors(loaded.learner, pool)
    assert len(found) == loaded.learner.layout.soft_count
    assert found[0].name == "1.1"
