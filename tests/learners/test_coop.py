"""CoOp, plain and with words, and what every learner shares."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone import Backbone
from ipl.errors import ConfigError
from ipl.learners import CoOp, Learner, Recipe, known_learners, learner_class, register

NAMES = ["cat", "starry night", "pirate ship"]
Images = tuple[torch.Tensor, torch.Tensor]


def coop(backbone: Backbone, words: int, seed: int = 1, **options: str) -> Learner:
    return CoOp(backbone, CoOp.layout_for(words, CoOp.recipe(words).m), NAMES, seed, **options)


def test_the_published_numbers() -> None:
    assert CoOp.recipe(0) == Recipe(epochs=200, interval=10, batch=32, lr=0.002, m=4)
    assert CoOp.recipe(3) == Recipe(epochs=100, interval=10, batch=32, lr=0.002, m=2)


def test_layouts() -> None:
    assert CoOp.layout_for(0, 4).readable() == "[V V V V] {cls}."
    assert CoOp.layout_for(0, 4).groups[0].init == "a photo of a"
    assert CoOp.layout_for(0, 2).groups[0].init is None
    assert CoOp.layout_for(2, 2).readable() == "[V V] *_* [V V] *_* [V V] {cls}."


def test_the_plain_learner_starts_as_zero_shot_clip(pocket: Backbone, few_images: Images) -> None:
    texts = normalize(pocket.encode_texts([f"a photo of a {name}." for name in NAMES]), dim=-1)
    expected = pocket.logit_scale * few_images[0] @ texts.T
    ours = coop(pocket, 0).logits(few_images[0])
    torch.testing.assert_close(ours, expected, atol=1e-3, rtol=0)


def test_only_the_prompt_is_trained(pocket: Backbone, few_images: Images) -> None:
    learner = coop(pocket, 3)
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == {"soft": (8, 192)}
    assert learner.soft.dtype == torch.float32
    learner.loss(*few_images).backward()
    assert learner.soft.grad is not None
    assert (learner.soft.grad.abs().sum(1) > 0).all()  # every vector matters
    assert all(p.grad is None for p in pocket.clip.parameters())


def test_the_loss_is_cross_entropy(pocket: Backbone, few_images: Images) -> None:
    learner = coop(pocket, 2)
    expected = cross_entropy(learner.logits(few_images[0]), few_images[1])
    assert torch.equal(learner.loss(*few_images), expected)


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


def test_other_classes_keep_words_and_vectors(pocket: Backbone) -> None:
    learner = coop(pocket, 2, seed=7, placeholder="zero")
    learner.place_word("furry")
    other = learner.for_classes(["dog", "cat"])
    assert torch.equal(other.soft, learner.soft)
    assert other.words == ("furry",)
    torch.testing.assert_close(other.text_features()[1], learner.text_features()[0])


def test_the_seed_decides_the_start(pocket: Backbone) -> None:
    assert torch.equal(coop(pocket, 1, seed=3).soft, coop(pocket, 1, seed=3).soft)
    assert not torch.equal(coop(pocket, 1, seed=3).soft, coop(pocket, 1, seed=4).soft)


def test_recipes_are_checked_and_overridden() -> None:
    assert CoOp.recipe(0).override(epochs=5, lr=None) == Recipe(5, 10, 32, 0.002, 4)
    for field, value in [("epochs", 0), ("interval", -1), ("batch", 0), ("m", 0)]:
        with pytest.raises(ConfigError, match=f"{field} is {value}; it must be 1 or more"):
            CoOp.recipe(0).override(**{field: value})
    with pytest.raises(ConfigError, match="lr is 0"):
        CoOp.recipe(0).override(lr=0)


def test_the_registry() -> None:
    assert "coop" in known_learners()
    assert learner_class("coop") is CoOp
    with pytest.raises(ConfigError, match="No learner is called 'coopp'. Did you mean 'coop'"):
        learner_class("coopp")
    with pytest.raises(ConfigError, match="'coop' is registered already"):
        register(type("Other", (CoOp,), {"name": "coop"}))
