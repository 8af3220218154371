"""Cross-entropy and its tangents: no bound may ever lie above the loss it bounds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.words import loss
from ipl.words.loss import CrossEntropy, Tangents
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer

NAMES = ["cat", "starry night", "pirate ship", "ox"]
DIM = 24
Wide = np.longdouble
# One class, one image, more classes than images and the reverse; scales that flatten the softmax,
# that CLIP has, and that leave a single class.
TASKS = [
    (1, 1, 100.0),
    (2, 1, 1000.0),
    (5, 12, 1.0),
    (5, 12, 100.0),
    (100, 2, 1000.0),
    (3, 200, 100.0),
]


def random_task(
    classes: int = 5, images: int = 12, scale: float = 100.0, seed: int = 0, dim: int = DIM
) -> CrossEntropy:
    """Returns the loss of random images; labels need not cover the classes."""
    generator = torch.Generator().manual_seed(seed)
    features = normalize(torch.randn(images, dim, generator=generator), dim=-1)
    labels = torch.randint(classes, (images,), generator=generator)
    return CrossEntropy(features, labels, classes, scale)


def random_texts(count: int, classes: int, seed: int = 1, dim: int = DIM) -> Tensor:
    return torch.randn(count, classes, dim, generator=torch.Generator().manual_seed(seed))


def precisely(ce: CrossEntropy, unit: Tensor) -> np.ndarray:
    """Returns the losses of texts (candidates, classes, dim) by the definition, in long double."""
    texts, images = unit.numpy().astype(Wide), ce.images.numpy().astype(Wide)
    logits = Wide(ce.logit_scale) * np.einsum("ncd,id->nic", texts, images)
    top = logits.max(2, keepdims=True)
    total = np.log(np.exp(logits - top).sum(2)) + top[..., 0]
    return (total - logits[:, np.arange(len(images)), ce.labels.numpy()]).mean(1)


def assert_below(
    ce: CrossEntropy, tangents: Tangents, features: Tensor, point: str = ""
) -> np.ndarray:
    """Fails if a bound exceeds its loss, in our arithmetic or in truth; returns the distances."""
    bounds, losses = tangents.bounds(features).numpy(), ce.losses(features).numpy()
    assert np.isfinite(bounds).all(), point
    assert (bounds <= losses).all(), point  # no tolerance: this is what pruning compares
    true = precisely(ce, ce.unit(features))
    assert (bounds <= true).all(), point
    assert np.abs(losses - true).max() <= tangents.slack / 2, point  # a loss is off by less
    return losses - bounds


@pytest.mark.parametrize(("classes", "images", "scale"), TASKS)
def test_losses_are_torchs(classes: int, images: int, scale: float) -> None:
    ce, features = random_task(classes, images, scale), random_texts(9, classes)
    texts = normalize(features.double(), dim=-1)
    expected = [cross_entropy(scale * ce.images @ text.T, ce.labels) for text in texts]
    torch.testing.assert_close(ce.losses(features), torch.stack(expected), atol=1e-11, rtol=1e-12)
    true = precisely(ce, ce.unit(features))
    np.testing.assert_allclose(ce.losses(features), true.astype(float), atol=1e-11, rtol=1e-12)


def test_losses_come_in_parts_and_any_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    ce, features = random_task(), random_texts(50, 5)
    whole = ce.losses(features)
    tangents = Tangents(ce)
    tangents.add(ce.unit(features).mean(0))
    bounds = tangents.bounds(features)
    monkeypatch.setattr(loss, "BYTES_AT_ONCE", 24 * 5 * 12 * 7)  # seven candidates at once
    torch.testing.assert_close(ce.losses(features), whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(tangents.bounds(features), bounds, atol=1e-12, rtol=0)
    half = ce.losses(features.half())
    assert half.dtype == torch.float64
    torch.testing.assert_close(half, whole, atol=0.2, rtol=0)


@pytest.mark.parametrize("length", [0.0, 0.3, 1.0, 20.0])
def test_the_slope_is_autograds(length: float) -> None:
    ce = random_task()
    texts = (length * ce.unit(random_texts(1, 5))[0]).requires_grad_()
    value = cross_entropy(ce.logit_scale * ce.images @ texts.T, ce.labels)
    (expected,) = torch.autograd.grad(value, texts)
    offset, slope = ce.tangent(texts.detach())
    torch.testing.assert_close(slope, expected, atol=1e-11, rtol=0)
    touching = offset + (slope * texts.detach()).sum()
    torch.testing.assert_close(touching, value.detach(), atol=1e-10, rtol=0)


POINTS: dict[str, Callable[[Tensor], Tensor]] = {
    "the very same texts": lambda texts: texts[0],
    "the mean": lambda texts: texts.mean(0),
    "zero": lambda texts: torch.zeros_like(texts[0]),
    "the opposite": lambda texts: -texts[0],
    "one text for all": lambda texts: texts[0, :1].expand(texts.shape[1:]),
    "another order of classes": lambda texts: texts[0].flip(0),
    "nearby": lambda texts: texts[0] + 1e-9 * texts[1],
    "far away": lambda texts: 100 * texts[0],  # a search never goes beyond length one
    "far away, the opposite": lambda texts: -100 * texts[0],
}


@pytest.mark.parametrize(("classes", "images", "scale"), TASKS)
def test_no_bound_exceeds_its_loss(classes: int, images: int, scale: float) -> None:
    ce, features = random_task(classes, images, scale), random_texts(40, classes)
    # The point's own texts, its neighbours, texts all alike, and texts that match their images.
    near = features[:1] + 10.0 ** -torch.arange(1, 8)[:, None, None] * features[1:8]
    alike = features[:5, :1].expand(-1, classes, -1)
    right = torch.zeros(classes, DIM).index_add_(0, ce.labels, ce.images.float()) + 1e-3
    features = torch.cat([features, near, alike, right[None], -right[None]])
    for name, point in POINTS.items():
        tangents = Tangents(ce)
        tangents.add(point(ce.unit(features)))
        distances = assert_below(ce, tangents, features, name)
        if name == "the very same texts":  # where it touches, only the slack is given away
            assert distances[0] <= 2 * tangents.slack


@pytest.mark.parametrize("dim", [2, 24, 768])
def test_images_and_texts_that_are_all_the_same(dim: int) -> None:
    """Every image, every class alike: the loss is log(classes), and so is its bound."""
    ce = CrossEntropy(torch.eye(dim)[:1].expand(6, -1), torch.arange(6) % 3, 3, 100.0)
    features = torch.eye(dim)[:2, None].expand(-1, 3, -1)
    tangents = Tangents(ce)
    for point in (features[0], features[1], torch.zeros(3, dim)):
        tangents.add(point.double())
    distances = assert_below(ce, tangents, features)
    np.testing.assert_allclose(ce.losses(features), np.log(3), atol=1e-12)
    assert (distances <= 2 * tangents.slack).all()


def test_a_loss_of_nothing_is_bounded() -> None:
    """Perfectly separated images: the loss is far below rounding, and may come out below 0."""
    images = torch.eye(4).repeat(8, 1)
    ce = CrossEntropy(images, torch.arange(32) % 4, 4, 1000.0)
    features = torch.eye(4)[None] + 1e-4 * random_texts(60, 4, dim=4)
    tangents = Tangents(ce)
    tangents.add(ce.unit(features).mean(0))
    assert_below(ce, tangents, features)
    assert ce.losses(features).abs().max() < 1e-10


@pytest.mark.parametrize("selected", [[], ["furry", "blue"]])
def test_every_word_of_a_pool_lies_above_every_tangent(
    pocket: Backbone, selected: list[str]
) -> None:
    texts = normalize(pocket.encode_texts([f"an image of a {name}" for name in NAMES]), dim=-1)
    labels = torch.arange(20) % len(NAMES)
    noise = 0.3 * torch.randn(20, texts.shape[1], generator=torch.Generator().manual_seed(3))
    images = normalize(texts[labels] + texts.mean(0) + noise, dim=-1)
    scorer = SentenceScorer(pocket, NAMES, images, labels)
    words = Pool.bundled().words[::12]
    features = torch.cat(list(scorer.features(selected, words)))
    ce = scorer.cross_entropy
    unit, best = ce.unit(features), ce.losses(features).argsort()
    tangents, distances = Tangents(ce), []
    for point in (unit.mean(0), unit[best[0]], unit[best[:64]].mean(0), unit[best[-1]]):
        tangents.add(point)
        distances.append(assert_below(ce, tangents, features))
    for before, after in pairwise(distances):
        assert (after <= before + 1e-11).all()  # more tangents never loosen a bound
        assert after.sum() < before.sum()
    for word, point in ((best[0], 1), (best[-1], 3)):
        assert distances[point][word] <= 2 * tangents.slack


def test_bounds_from_a_later_tangent_on() -> None:
    ce, features = random_task(), random_texts(30, 5)
    unit, both, later = ce.unit(features), Tangents(ce), Tangents(ce)
    both.add(unit.mean(0))
    first = both.bounds(features)
    both.add(unit[3])
    later.add(unit[3])
    assert (len(both), len(later)) == (2, 1)
    torch.testing.assert_close(both.bounds(features, 1), later.bounds(features))
    best = torch.maximum(first, later.bounds(features))
    torch.testing.assert_close(both.bounds(features), best, atol=1e-12, rtol=0)


def test_the_slack_is_far_below_what_tells_words_apart() -> None:
    """At the size of a real task: 100 classes of 16 images, 512 dimensions."""
    tangents = Tangents(random_task(100, 1600, 100.0, dim=512))
    assert 0 < tangents.slack < 1e-7
