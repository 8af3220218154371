"""CoOp, plain and with words, what every learner shares, and the registry."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch, Learner
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError
from ipl.training.loop import train
from ipl.training.views import View

NAMES = ["cat", "starry night", "pirate ship"]
WORDS = ["furry", "blue"]
FIVE = ("cocoop", "coop", "kgcoop", "maple", "promptsrc")
EVERY = pytest.mark.parametrize("name", FIVE)
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


@pytest.fixture
def batch(pocket: Backbone) -> Batch:
    """Returns three images with everything a learner may look at."""
    pixels = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = normalize(pocket.encode_image(pixels), dim=-1)
    return Batch(torch.tensor([1, 2, 0]), features, pixels)


# -- CoOp ----------------------------------------------------------------------------------------


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


# -- what every learner shares -------------------------------------------------------------------


@EVERY
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


@EVERY
def test_the_seed_decides_the_start(pocket: Backbone, name: str) -> None:
    first, again, other = (make(pocket, name, 1, seed=seed).state_dict() for seed in (3, 3, 4))
    for key, value in first.items():
        assert torch.equal(value, again[key])
        assert not torch.equal(value, other[key])


@EVERY
def test_a_global_seed_has_no_say(pocket: Backbone, name: str) -> None:
    torch.manual_seed(0)
    first = make(pocket, name, 1).state_dict()
    torch.manual_seed(1)
    again = make(pocket, name, 1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)


class Still(View):
    """The same images in every epoch."""

    def __init__(self, batch: Batch) -> None:
        self.seen = batch

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        picked = (self.seen.labels, self.seen.features, self.seen.pixels)
        for _, indices in order:
            yield Batch(*(None if part is None else part[indices] for part in picked))


@EVERY
@pytest.mark.parametrize("words", [0, 2])
def test_training_moves_every_prompt_tensor_and_no_other(
    pocket: Backbone, batch: Batch, name: str, words: int
) -> None:
    learner = make(pocket, name, words)
    for word in WORDS[:words]:
        learner.place_word(word)
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    frozen = {key: value.clone() for key, value in pocket.model.state_dict().items()}
    tokens, rows = pocket._token_embeddings.clone(), learner.prompts.embeddings.clone()
    hyperparameters = learner.hyperparameters(words).override(epochs=2, interval=1, batch=3, lr=0.1)
    train(learner, Still(batch), 3, [], hyperparameters)
    assert set(before) == {key for key, _ in learner.named_parameters()}  # no buffers
    for key, value in learner.state_dict().items():
        assert value.isfinite().all()
        assert not torch.equal(value, before[key]), key
    for key, value in pocket.model.state_dict().items():
        assert torch.equal(value, frozen[key]), key
    assert all(p.grad is None and not p.requires_grad for p in pocket.model.parameters())
    assert torch.equal(pocket._token_embeddings, tokens)
    assert torch.equal(learner.prompts.embeddings, rows)


@EVERY
@pytest.mark.parametrize("words", [0, 2])
def test_other_classes_keep_words_and_vectors(
    pocket: Backbone, batch: Batch, name: str, words: int
) -> None:
    options = {"placeholder": "zero", "class_template": "{} texture."}
    learner = make(pocket, name, words, seed=7, **options)
    for word in WORDS[: words // 2]:  # a slot stays empty
        learner.place_word(word)
    other = learner.rebuilt(class_names=["dog", "cat"])
    assert type(other) is type(learner)
    assert other.words == learner.words
    assert other.prompts.class_names == ("dog", "cat")
    assert (other.placeholder, other.class_template) == ("zero", "{} texture.")
    for key, value in learner.state_dict().items():
        assert torch.equal(other.state_dict()[key], value)
        assert other.state_dict()[key].data_ptr() != value.data_ptr()  # a copy
    with torch.no_grad():
        images = [one.image_features(batch.pixels) for one in (other, learner)]
        assert torch.equal(*images)
        logits = [one.logits(images[0]) for one in (other, learner)]
    torch.testing.assert_close(logits[0][:, 1], logits[1][:, 0], atol=2e-3, rtol=0)


@EVERY
@pytest.mark.parametrize("words", [0, 2])
def test_a_state_makes_another_learner_the_same(
    pocket: Backbone, batch: Batch, name: str, words: int
) -> None:
    learner, other = (make(pocket, name, words, seed=seed) for seed in (1, 2))
    other.load_state_dict({key: value.clone() for key, value in learner.state_dict().items()})
    with torch.no_grad():
        assert torch.equal(other.loss(batch), learner.loss(batch))


@EVERY
def test_a_learner_looks_only_at_what_it_says(pocket: Backbone, batch: Batch, name: str) -> None:
    learner = make(pocket, name, 1)
    narrow = Batch(
        batch.labels,
        batch.features if learner.wants_features else None,
        batch.pixels if learner.prompts_images else None,
    )
    with torch.no_grad():
        assert torch.equal(learner.loss(narrow), learner.loss(batch))
        images = learner.image_features(batch.pixels)
    assert torch.equal(images, batch.features) != learner.prompts_images


@EVERY
def test_no_images_have_no_logits(pocket: Backbone, name: str) -> None:
    assert make(pocket, name, 1).logits(pocket.no_features()).shape == (0, 3)
