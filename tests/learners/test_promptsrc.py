"""PromptSRC: three regularisers, their teachers and the average over epochs.

What enters which layer: test_deep.
"""

from __future__ import annotations

import math
from string import Formatter

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.clip import Backbone
from ipl.backbone.encode_images import encode_files
from ipl.backbone.shots import LabelledFeatures
from ipl.datasets.dataset import Dataset
from ipl.learners.batch import Batch
from ipl.learners.coop import CoOp
from ipl.learners.imagenet_templates import IMAGENET_TEMPLATES
from ipl.learners.maple import MaPLe
from ipl.learners.promptsrc import PromptSRC
from ipl.support.progress import SILENT
from ipl.training import views
from tests.helpers.promptsrc import make

CLEAN = ["cat", "starry night", "pirate ship"]


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
    assert "teacher" not in vars(learner.for_classes(["dog"]))


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
    term = terms_by_hand(learner, batch)
    assert min(term.values()) > 0.001  # none of them vanishes
    assert abs(term["kl"] - term["reversed kl"]) > 0.01  # so that the direction can be told
    expected = term["entropy"] + 25 * term["text"] + 10 * term["image"] + term["kl"]
    assert learner.loss(batch).item() == pytest.approx(expected, abs=5e-4)


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
@pytest.mark.parametrize("room", [views.BANK_BYTES, 0])
def test_the_frozen_features_are_of_the_same_crops(
    pocket: Backbone,
    shots: LabelledFeatures,
    number: int | str,
    room: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views, "BANK_BYTES", room)  # crops kept in memory, or cut again
    source = views.make_views(number, PromptSRC, pocket, shots, 3, SILENT)
    indices, crops = torch.tensor([4, 1, 2]), []
    for epoch in range(3):
        batch = source.batch(epoch, indices)
        assert batch.pixels is not None
        with torch.no_grad():
            frozen = normalize(pocket.encode_image(batch.pixels), dim=-1)
        torch.testing.assert_close(batch.features, frozen, atol=1e-5, rtol=0)
        assert torch.equal(batch.labels, shots.labels[indices])
        crops.append(batch.pixels)
    assert torch.equal(source.batch(0, indices).pixels, crops[0])
    assert torch.equal(crops[0], crops[1]) == (number == 0)


@pytest.mark.parametrize("number", [0, 2, "fresh"])
def test_learners_get_what_they_look_at(
    pocket: Backbone, shots: LabelledFeatures, number: int | str
) -> None:
    for kind, features, pixels in ((PromptSRC, 1, 1), (MaPLe, 0, 1), (CoOp, 1, 0)):
        source = views.make_views(number, kind, pocket, shots, 1, SILENT)
        batch = source.batch(0, torch.tensor([0, 3]))
        assert (batch.features is not None, batch.pixels is not None) == (features, pixels)
