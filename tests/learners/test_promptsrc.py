"""PromptSRC: its prompts, its three regularisers, and the average over epochs."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import replace
from string import Formatter

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import encode_files
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Dataset
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.learners.maple import MaPLe
from ipl.learners.promptsrc import IMAGENET_TEMPLATES, PromptSRC
from ipl.support.progress import SILENT
from ipl.training import decoded_images, loop, views
from ipl.training.loop import Average, train

NAMES = ["cat", "starry_night", "pirate ship"]
WORDS = ["furry", "blue"]
CLEAN = ["cat", "starry night", "pirate ship"]


def make(backbone: Backbone, words: int = 0, depth: int = 9, seed: int = 1) -> PromptSRC:
    """Returns the learner with its first words in place."""
    layout = PromptSRC.layout_for(words, PromptSRC.hyperparameters(words).m)
    learner = PromptSRC(backbone, layout, NAMES, seed, depth=depth)
    for word in WORDS[:words]:
        learner.place_word(word)
    return learner


# -- the prompt ----------------------------------------------------------------------------------


def test_layouts(pocket: Backbone) -> None:
    assert PromptSRC.layout_for(0, 4).readable() == "[V V V V] {cls}."
    assert torch.equal(make(pocket).soft, pocket.embed(pocket.tokenize("a photo of a")))
    layout = PromptSRC.layout_for(2, 4)
    assert layout.readable() == "[V V V V] *_* [V V V V] *_* [V V V V] {cls}."
    assert [group.std for group in layout.groups] == [0.01, 0.01, 0.02]


@pytest.mark.parametrize("words", [0, 2])
def test_what_is_trained(pocket: Backbone, words: int) -> None:
    learner = make(pocket, words)  # text: six layers, image: eight
    assert {name: tuple(p.shape) for name, p in learner.named_parameters()} == {
        "soft": (4 * (words + 1), 192),
        "deep": (5, 4, 192),
        "image": (8, 4, 256),
    }
    for vectors in (learner.deep, learner.image):
        assert vectors.dtype == torch.float32
        assert vectors.std().item() == pytest.approx(0.02, rel=0.05)
        assert vectors.mean().item() == pytest.approx(0, abs=0.002)


def test_the_sides_are_independent(pocket: Backbone, batch: Batch) -> None:
    learner = make(pocket, 2)
    assert batch.pixels is not None
    text, image = [learner.soft, learner.deep], [learner.image]
    for features, own, others in (
        (learner.text_features(), text, image),
        (learner.image_features(batch.pixels), image, text),
    ):
        weights = torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
        total = (features * weights).sum()
        gradients = torch.autograd.grad(total, own + others, allow_unused=True)
        for gradient in gradients[: len(own)]:
            assert (gradient.abs().sum(-1) > 0).all()  # every vector
        assert gradients[len(own) :] == (None,) * len(others)


# -- teachers ------------------------------------------------------------------------------------


def test_sixty_templates() -> None:
    assert len(IMAGENET_TEMPLATES) == len(set(IMAGENET_TEMPLATES)) == 60
    for template in IMAGENET_TEMPLATES:
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
        assert fields == [""], template
        assert template == template.strip()
        assert template.endswith(".")


def test_the_text_teacher_is_the_normalised_mean_of_unnormalised_features(
    pocket: Backbone,
) -> None:
    teacher = make(pocket).teacher
    normed_first = []
    for row, name in zip(teacher, CLEAN, strict=True):
        features = torch.cat([pocket.encode_texts([t.format(name)]) for t in IMAGENET_TEMPLATES])
        mean = features.sum(0) / 60
        torch.testing.assert_close(row, mean / mean.norm(), atol=1e-5, rtol=0)
        normed_first.append(normalize(normalize(features, dim=-1).mean(0), dim=0))
    assert (teacher - torch.stack(normed_first)).abs().max() > 1e-4  # the order can be told
    assert not teacher.requires_grad


def test_the_teacher_is_asked_once_and_is_no_part_of_the_state(
    pocket: Backbone, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(pocket)
    learner.loss(batch)
    monkeypatch.setattr(Backbone, "encode_texts", None)  # a second time would fail
    learner.loss(batch)
    assert set(learner.state_dict()) == {"soft", "deep", "image"}
    assert "teacher" not in vars(learner.rebuilt(class_names=["dog"]))


# -- the loss ------------------------------------------------------------------------------------


def terms_by_hand(learner: PromptSRC, batch: Batch) -> dict[str, float]:
    """Returns the four terms and some that would be wrong, in plain Python and double precision."""
    assert batch.pixels is not None
    backbone, labels = learner.backbone, batch.labels.tolist()
    with torch.no_grad():
        texts = learner.text_features().double()
        images = learner.image_features(batch.pixels).double()
        frozen_images = normalize(backbone.encode_image(batch.pixels).double(), dim=-1)
        rows = [[t.format(name) for t in IMAGENET_TEMPLATES] for name in CLEAN]
        means = [backbone.encode_texts(row).double().mean(0) for row in rows]
    frozen_texts = normalize(torch.stack(means), dim=-1)

    def log_probabilities(u: Tensor, y: Tensor) -> list[list[float]]:
        table = (backbone.logit_scale * u @ y.T).tolist()
        return [[s - math.log(sum(map(math.exp, line))) for s in line] for line in table]

    ours = log_probabilities(images, texts)
    zero_shot = log_probabilities(frozen_images, frozen_texts)

    def divergence(p: list[list[float]], q: list[list[float]]) -> float:
        pairs = [(a, b) for x, y in zip(p, q, strict=True) for a, b in zip(x, y, strict=True)]
        return sum(math.exp(a) * (a - b) for a, b in pairs)

    entries = len(labels) * len(CLEAN)
    return {
        "entropy": -sum(line[label] for line, label in zip(ours, labels, strict=True)) / len(ours),
        "text": (texts - frozen_texts).abs().sum().item() / texts.numel(),
        "image": (images - frozen_images).abs().sum().item() / images.numel(),
        "kl": divergence(zero_shot, ours) / entries,
        "reversed kl": divergence(ours, zero_shot) / entries,
    }


@pytest.mark.parametrize("words", [0, 2])
def test_the_loss_by_hand(pocket: Backbone, batch: Batch, words: int) -> None:
    learner = make(pocket, words)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():  # away from the frozen towers
        for vectors in learner.parameters():
            vectors += 0.5 * torch.randn(vectors.shape, generator=generator)
    term, tolerance = terms_by_hand(learner, batch), 5e-4
    assert min(term.values()) > 2 * tolerance  # none of them vanishes
    # So that the direction can be told.
    assert abs(term["kl"] - term["reversed kl"]) > 10 * tolerance
    expected = term["entropy"] + 25 * term["text"] + 10 * term["image"] + term["kl"]
    assert learner.loss(batch).item() == pytest.approx(expected, abs=tolerance)


def test_gradients_of_each_term(pocket: Backbone, batch: Batch) -> None:
    """The frozen side is fixed: gradients are those of the prompted features alone."""
    learner = make(pocket, 1)
    assert batch.pixels is not None
    assert batch.features is not None
    parameters = list(learner.parameters())
    ours = torch.autograd.grad(learner.loss(batch), parameters)
    texts, images = learner.text_features(), learner.image_features(batch.pixels)
    logits = pocket.logit_scale * images @ texts.T
    prompted, zero_shot = logits.softmax(-1), pocket.logits(batch.features, learner.teacher)
    fixed = zero_shot.softmax(-1).detach()
    by_hand = (
        -prompted[torch.arange(4), batch.labels].log().mean()
        + 25 * (texts - learner.teacher).abs().mean()
        + 10 * (images - batch.features).abs().mean()
        + (fixed * (fixed.log() - prompted.log())).sum() / (4 * 3)
    )
    for one, other in zip(ours, torch.autograd.grad(by_hand, parameters), strict=True):
        assert one.abs().sum() > 0
        torch.testing.assert_close(one, other, atol=2e-3, rtol=2e-3)


# -- the same crops ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shots(pocket: Backbone, scenes: Dataset) -> LabelledFeatures:
    items = tuple(scenes.train[:5])
    return LabelledFeatures(items, encode_files(pocket, [item.path for item in items]).features, ())


@pytest.mark.parametrize("number", [0, 2, "fresh"])
@pytest.mark.parametrize("room", [1 << 30, 3])
def test_the_frozen_features_are_of_the_same_crops(
    pocket: Backbone,
    shots: LabelledFeatures,
    number: int | str,
    room: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # kept in memory, or read again
    monkeypatch.setattr(decoded_images, "available_memory", lambda: 4 * room)
    source = views.make_views(number, PromptSRC, pocket, shots, 3, SILENT)
    indices, crops = torch.tensor([4, 1, 2]), []
    for epoch in range(3):
        batch = next(source.batches([(epoch, indices)]))
        assert batch.pixels is not None
        with torch.no_grad():
            frozen = normalize(pocket.encode_image(batch.pixels), dim=-1)
        torch.testing.assert_close(batch.features, frozen, atol=1e-5, rtol=0)
        assert torch.equal(batch.labels, shots.labels[indices])
        crops.append(batch.pixels)
    assert torch.equal(next(source.batches([(0, indices)])).pixels, crops[0])
    assert torch.equal(crops[0], crops[1]) == (number == 0)


@pytest.mark.parametrize("number", [0, 2, "fresh"])
def test_learners_get_what_they_look_at(
    pocket: Backbone, shots: LabelledFeatures, number: int | str
) -> None:
    for kind, features, pixels in ((PromptSRC, 1, 1), (MaPLe, 0, 1), (CoOp, 1, 0)):
        source = views.make_views(number, kind, pocket, shots, 1, SILENT)
        batch = next(source.batches([(0, torch.tensor([0, 3]))]))
        assert (batch.features is not None, batch.pixels is not None) == (features, pixels)


# -- the average over epochs -----------------------------------------------------------------------


class Still(views.View):
    """The same few images in every epoch; keeps a copy of the vectors as an epoch begins."""

    def __init__(self, learner: Learner, batch: Batch) -> None:
        self.learner, self.seen = learner, batch
        self.begins: dict[int, dict[str, Tensor]] = {}

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        picked = (self.seen.labels, self.seen.features, self.seen.pixels)
        for epoch, indices in order:
            self.begins.setdefault(epoch, copied(self.learner))
            yield Batch(*(None if part is None else part[indices] for part in picked))


def copied(learner: Learner) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in learner.named_parameters()}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives PromptSRC a loss that costs no tower: the average is not about the loss."""

    def loss(self: PromptSRC, batch: Batch) -> Tensor:
        assert batch.features is not None
        return sum((p.square() * 5 - p * batch.features.sum()).sum() for p in self.parameters())

    monkeypatch.setattr(PromptSRC, "loss", loss)


def run(
    backbone: Backbone, batch: Batch, hyperparameters: Hyperparameters, words: int = 0
) -> tuple[PromptSRC, list[dict[str, Tensor]]]:
    """Returns the learner after training and its vectors at the end of each epoch.

    The last epoch's are those of a second training, without an average.
    """
    layout = PromptSRC.layout_for(words, 4)
    learner, twin = (PromptSRC(backbone, layout, NAMES, depth=2) for _ in range(2))
    source = Still(learner, batch)
    train(learner, source, 4, WORDS[:words], hyperparameters)
    train(twin, Still(twin, batch), 4, WORDS[:words], replace(hyperparameters, average_mean=None))
    ends = [source.begins[epoch] for epoch in range(1, hyperparameters.epochs)]
    return learner, [*ends, copied(twin)]


@pytest.mark.parametrize(
    ("protocol", "mean", "std"), [("base-to-novel", 15, 1), ("cross-dataset", 6, 10)]
)
@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.usefixtures("quick")
def test_the_average_by_hand(
    pocket: Backbone, batch: Batch, protocol: str, mean: int, std: int, words: int
) -> None:
    hyperparameters = PromptSRC.hyperparameters(words, protocol).override(lr=0.05)
    before = {name: value.clone() for name, value in pocket.model.state_dict().items()}
    learner, ends = run(pocket, batch, hyperparameters, words)
    assert len(ends) == 20
    density = [math.exp(-((e - mean) ** 2) / (2 * std**2)) for e in range(1, 21)]
    weights = [value / sum(density) for value in density]
    for name, value in learner.named_parameters():
        together = torch.stack([end[name] for end in ends]).double()
        expected = torch.einsum("e,e...->...", torch.tensor(weights).double(), together)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value.detach().double(), expected, atol=1e-6, rtol=1e-5)
        assert (value - ends[-1][name]).abs().max() > 1e-4  # not the last epoch
        assert (value - ends[14][name]).abs().max() > 1e-5  # nor epoch 15 alone
    assert learner.words == tuple(WORDS[:words])
    for name, value in pocket.model.state_dict().items():  # prompts only
        assert torch.equal(value, before[name]), name


@pytest.mark.usefixtures("quick")
def test_without_a_mean_the_last_epoch_is_kept(pocket: Backbone, batch: Batch) -> None:
    hyperparameters = Hyperparameters(epochs=3, interval=1, batch=4, lr=0.05, m=4)
    learner, ends = run(pocket, batch, hyperparameters)
    for name, value in learner.named_parameters():
        assert torch.equal(value, ends[-1][name])


@pytest.mark.parametrize("epochs", [1, 2, 3])
@pytest.mark.usefixtures("quick")
def test_few_epochs_far_from_the_mean(pocket: Backbone, batch: Batch, epochs: int) -> None:
    hyperparameters = PromptSRC.hyperparameters(0).override(epochs=epochs, lr=0.05)
    learner, ends = run(pocket, batch, hyperparameters)
    for name, value in learner.named_parameters():
        assert value.isfinite().all()
        # N(3; 15, 1) is e^12.5 times N(2; 15, 1): the last epoch but for a few millionths
        torch.testing.assert_close(value.detach(), ends[-1][name], atol=1e-5, rtol=0)


@pytest.mark.parametrize("epochs", [1, 2, 3, 20, 200])
@pytest.mark.parametrize(("mean", "std"), [(15.0, 1.0), (6.0, 10.0), (1000.0, 0.5), (0.0, 0.01)])
def test_weights_are_normalised_whatever_the_epochs(
    pocket: Backbone, epochs: int, mean: float, std: float
) -> None:
    hyperparameters = Hyperparameters(epochs, 1, 4, 0.1, 4, average_mean=mean, average_std=std)
    weights = Average(make(pocket, depth=1), hyperparameters).weights
    assert len(weights) == epochs
    assert math.fsum(weights) == pytest.approx(1)
    assert min(weights) >= 0
    for e in range(1, epochs):
        quotient = math.exp(
            max(-700, min(700, ((e - mean) ** 2 - (e + 1 - mean) ** 2) / 2 / std**2))
        )
        if min(weights[e - 1 : e + 1]) > 1e-300:
            assert weights[e] / weights[e - 1] == pytest.approx(quotient, rel=1e-6)


def test_the_average_is_taken_in_fp32(pocket: Backbone) -> None:
    """Vectors that live in half precision are summed in full."""
    learner = make(pocket, depth=1).bfloat16()
    hyperparameters = Hyperparameters(2, 1, 4, 0.1, 4, average_mean=1.5, average_std=1.0)
    average = Average(learner, hyperparameters)
    values = [learner.soft.detach().clone(), 1.01 * learner.soft.detach().clone()]
    for epoch, value in enumerate(values):
        with torch.no_grad():
            learner.soft.copy_(value)
        average.add(epoch)
    assert average.sums["soft"].dtype == torch.float32
    expected = (values[0].float() + values[1].float()) / 2
    torch.testing.assert_close(average.sums["soft"], expected, atol=0, rtol=1e-6)


def test_only_a_recipe_that_asks_pays(pocket: Backbone) -> None:
    average = loop.Average(make(pocket, depth=1), CoOp.hyperparameters(0))
    average.add(0)
    assert not average.sums


def test_the_templates_are_as_published_slips_included() -> None:
    assert len(IMAGENET_TEMPLATES) == len(set(IMAGENET_TEMPLATES)) == 60
    assert {"a origami {}.", "a embroidered {}."} <= set(IMAGENET_TEMPLATES)
    assert not any(template.startswith("an ") for template in IMAGENET_TEMPLATES)
