"""CoOp, plain and with words; and where the vectors of all learners start."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch
from ipl.support.errors import ConfigError
from tests.helpers.learners import NAMES, make_learner
from tests.helpers.library_towers import library_features


def test_layouts() -> None:
    assert CoOp.layout_for(0, 4).readable() == "[V V V V] {cls}."
    assert CoOp.layout_for(0, 4).groups[0].init == "a photo of a"
    assert CoOp.layout_for(0, 2).groups[0].init is None
    assert CoOp.layout_for(2, 2).readable() == "[V V] *_* [V V] *_* [V V] {cls}."


def test_the_plain_learner_starts_as_zero_shot_clip(pocket: Backbone, batch: Batch) -> None:
    texts = normalize(pocket.encode_texts([f"a photo of a {name}." for name in NAMES]), dim=-1)
    expected = pocket.logit_scale * batch.features @ texts.T
    ours = make_learner(pocket, "coop").logits(batch.features)
    torch.testing.assert_close(ours, expected, atol=1e-3, rtol=0)


def test_the_loss_is_cross_entropy_and_every_vector_matters(pocket: Backbone, batch: Batch) -> None:
    learner = make_learner(pocket, "coop", 2)
    texts = library_features(learner)
    expected = cross_entropy(pocket.logit_scale * batch.features @ texts.T, batch.labels)
    loss = learner.loss(batch)
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=0)
    loss.backward()
    assert (learner.soft.grad.abs().sum(1) > 0).all()
    assert all(p.grad is None for p in pocket.model.parameters())


def test_placing_a_word_changes_its_row_alone(pocket: Backbone) -> None:
    learner = make_learner(pocket, "coop", 2, placed=False)
    before = learner.prompts.rows.clone()
    with pytest.raises(ConfigError, match="'pirate ship' is 2 tokens"):
        learner.place_word("pirate ship")
    learner.place_word("furry")
    changed = (learner.prompts.rows != before).any(-1)
    assert changed.nonzero()[:, 0].tolist() == [3]
    learner.place_word("blue")
    assert learner.words == ("furry", "blue")
    with pytest.raises(ConfigError, match="All 2 word slots are taken"):
        learner.place_word("adopt")


@pytest.mark.parametrize("name", ["cocoop", "coop", "kgcoop", "maple", "promptsrc"])
def test_where_the_soft_vectors_start(pocket: Backbone, name: str) -> None:
    """Plain: words of a sentence. With words: N(0, .01) before each, N(0, .02) before the class."""
    plain = make_learner(pocket, name)
    start = "a photo" if name == "maple" else "a photo of a"
    assert torch.equal(plain.soft, pocket.embed(pocket.tokenize(start)))
    learner = make_learner(pocket, name, 3)
    m = 2 if name in ("coop", "maple") else 4
    *before, last = learner.soft.detach().split(m)
    assert len(before) == 3
    for group, std in [*((group, 0.01) for group in before), (last, 0.02)]:
        assert group.std().item() == pytest.approx(std, rel=0.15)
        assert group.mean().item() == pytest.approx(0, abs=0.2 * std)
    assert len(learner.soft.unique(dim=0)) == 4 * m
