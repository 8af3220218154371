"""CoOp, plain and with words, and where the vectors of all learners start."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch, Learner
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError

NAMES = ["cat", "starry night", "pirate ship"]
Images = tuple[torch.Tensor, torch.Tensor]


def make(backbone: Backbone, name: str, words: int, seed: int = 1, **options: str) -> Learner:
    kind = learner_class(name)
    hyperparameters = kind.hyperparameters(words)
    layout = kind.layout_for(words, hyperparameters.m)
    return kind(backbone, layout, NAMES, seed, depth=hyperparameters.depth, **options)


def coop(backbone: Backbone, words: int, seed: int = 1, **options: str) -> Learner:
    return make(backbone, "coop", words, seed, **options)


@pytest.fixture
def few(few_images: Images) -> Batch:
    return Batch(few_images[1], few_images[0])


def test_layouts() -> None:
    assert CoOp.layout_for(0, 4).readable() == "[V V V V] {cls}."
    assert CoOp.layout_for(0, 4).groups[0].init == "a photo of a"
    assert CoOp.layout_for(0, 2).groups[0].init is None
    assert CoOp.layout_for(2, 2).readable() == "[V V] *_* [V V] *_* [V V] {cls}."


def test_the_plain_learner_starts_as_zero_shot_clip(pocket: Backbone, few: Batch) -> None:
    texts = normalize(pocket.encode_texts([f"a photo of a {name}." for name in NAMES]), dim=-1)
    expected = pocket.logit_scale * few.features @ texts.T
    ours = coop(pocket, 0).logits(few.features)
    torch.testing.assert_close(ours, expected, atol=1e-3, rtol=0)


def test_every_vector_matters_and_no_other_tensor_learns(pocket: Backbone, few: Batch) -> None:
    learner = coop(pocket, 3)
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == {"soft": (8, 192)}
    learner.loss(few).backward()
    assert learner.soft.grad is not None
    assert (learner.soft.grad.abs().sum(1) > 0).all()
    assert all(p.grad is None for p in pocket.model.parameters())


def test_the_loss_is_cross_entropy(pocket: Backbone, few: Batch) -> None:
    learner = coop(pocket, 2)
    texts = normalize(
        pocket.encode_text(learner.prompts.assemble(learner.soft), learner.prompts.eos), dim=-1
    )
    expected = cross_entropy(pocket.logit_scale * few.features @ texts.T, few.labels)
    torch.testing.assert_close(learner.loss(few), expected, atol=1e-4, rtol=0)


def test_placing_a_word_changes_its_row_alone(pocket: Backbone) -> None:
    learner = coop(pocket, 2)
    before = learner.prompts.embeddings.clone()
    features = learner.text_features()
    learner.place_word("furry")
    changed = (learner.prompts.embeddings != before).any(-1)
    assert changed.nonzero()[:, 1].unique().tolist() == [3]
    assert not torch.allclose(learner.text_features(), features, atol=1e-4)
    learner.place_word("blue")
    assert learner.words == ("furry", "blue")
    with pytest.raises(ConfigError, match="All 2 word slots are taken"):
        learner.place_word("adopt")


def test_a_word_of_two_tokens_is_refused(pocket: Backbone) -> None:
    with pytest.raises(ConfigError, match="'pirate ship' is 2 tokens"):
        coop(pocket, 1).place_word("pirate ship")


@pytest.mark.parametrize("name", ["cocoop", "coop", "kgcoop", "maple", "promptsrc"])
def test_where_the_soft_vectors_start(pocket: Backbone, name: str) -> None:
    """Plain: words of a sentence. With words: N(0, .01) before each, N(0, .02) before the class."""
    plain = make(pocket, name, 0)
    start = "a photo" if name == "maple" else "a photo of a"
    assert torch.equal(plain.soft, pocket.embed(pocket.tokenize(start)))
    assert plain.soft.dtype == torch.float32
    learner = make(pocket, name, 3)
    m = 2 if name in ("coop", "maple") else 4
    *before, last = learner.soft.detach().split(m)
    assert len(before) == 3
    for group, std in [*((group, 0.01) for group in before), (last, 0.02)]:
        assert group.std().item() == pytest.approx(std, rel=0.15)
        assert group.mean().item() == pytest.approx(0, abs=0.2 * std)
    assert len(learner.soft.unique(dim=0)) == 4 * m
