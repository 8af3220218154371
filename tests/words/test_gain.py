"""The objective and the loss: what is allowed, the definition in more digits."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.words import gain as module
from ipl.words.gain import CrossEntropy

DIM = 24
# One class, one image, more classes than images and the reverse; scales that flatten the softmax,
# that CLIP has, and that leave a single class.
TASKS = [(1, 1, 100.0), (2, 1, 1000.0), (5, 12, 1.0), (5, 12, 100.0), (100, 2, 1000.0)]


def random_loss(
    classes: int = 5, images: int = 12, scale: float = 100.0, utility: str = "paper"
) -> CrossEntropy:
    generator = torch.Generator().manual_seed(0)
    features = normalize(torch.randn(images, DIM, generator=generator), dim=-1)
    labels = torch.randint(classes, (images,), generator=generator)  # not of every class
    return CrossEntropy(features, labels, classes, scale, utility)


def random_texts(count: int, classes: int) -> Tensor:
    return torch.randn(count, classes, DIM, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("classes", "images", "scale"), TASKS)
def test_losses_are_torchs(classes: int, images: int, scale: float) -> None:
    loss, features = random_loss(classes, images, scale), random_texts(9, classes)
    texts = normalize(features.double(), dim=-1)
    expected = [cross_entropy(scale * loss.images @ text.T, loss.labels) for text in texts]
    found = loss.losses(features).sum(1)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-11, rtol=1e-12)
    torch.testing.assert_close(loss.image_losses(features).mean(1), found, atol=1e-11, rtol=0)


def near_texts(classes: int, images: Tensor, labels: Tensor, spread: float) -> Tensor:
    """Texts (9, classes, dim) near the images of their classes."""
    own = torch.zeros(classes, DIM).index_add(0, labels, images.float())
    return own + spread * random_texts(9, classes)


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5, 2.0, 20.0])
@pytest.mark.parametrize(("classes", "images"), [(1, 1), (2, 1), (5, 12), (40, 30)])
def test_the_calibrated_loss_is_scipys_minimum(classes: int, images: int, spread: float) -> None:
    loss = random_loss(classes, images, 70.0, "calibrated")
    features = near_texts(classes, loss.images, loss.labels, spread)
    found = loss.losses(features).sum(1)
    by_half = loss.losses(features)
    for row, text in enumerate(normalize(features.double(), dim=-1)):
        cosines = loss.images @ text.T

        def at(scale: float, cosines: Tensor = cosines) -> float:
            return cross_entropy(scale * cosines, loss.labels).item()

        least = minimize_scalar(at, bounds=(1, 200), method="bounded", options={"xatol": 1e-6})
        assert found[row] == pytest.approx(min(least.fun, at(1), at(200)), abs=1e-5)
    torch.testing.assert_close(loss.image_losses(features).mean(1), found, atol=1e-9, rtol=0)
    torch.testing.assert_close(loss.losses(features, torch.float32), by_half, atol=1e-5, rtol=0)


def test_among_words_that_classify_every_image_the_papers_loss_decides() -> None:
    images = torch.eye(DIM)[:4]
    texts = torch.stack([images + noise * torch.ones(4, DIM) for noise in (1.4, 1.0, 1.2)])
    paper, calibrated = (
        CrossEntropy(images, torch.arange(4), 4, 70.0, utility).losses(texts).sum(1)
        for utility in ("paper", "calibrated")
    )
    assert (calibrated < 1e-5).all()
    assert calibrated.argsort().tolist() == paper.argsort().tolist() == [1, 2, 0]


def test_halves_are_stratified_and_their_parts_add_up() -> None:
    loss = random_loss(3, 17)
    counts = torch.zeros(3, 2).index_put_((loss.labels, loss.halves), torch.ones(17), True)
    assert (counts[:, 0] - counts[:, 1]).abs().max() <= 1
    features = random_texts(4, 3)
    by_image = loss.image_losses(features)
    for half in (0, 1):
        expected = by_image[:, loss.halves == half].sum(1) / 17
        torch.testing.assert_close(loss.losses(features)[:, half], expected)
    accuracy = (normalize(features[0].double(), dim=-1) @ loss.images.T).argmax(0) == loss.labels
    assert loss.accuracy(features[0]) == pytest.approx(accuracy.double().mean().item())


def test_losses_come_in_parts_and_any_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    loss, features = random_loss(), random_texts(50, 5)
    whole = loss.losses(features)
    seven = module.LOGIT_COPIES * 8 * 5 * 12 * 7  # bytes of as many candidates
    monkeypatch.setattr(module, "LOGIT_BYTES", {"cpu": seven})
    torch.testing.assert_close(loss.losses(features), whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(loss.losses(features, torch.float32), whole, atol=1e-4, rtol=0)
    torch.testing.assert_close(loss.losses(features.half()), whole, atol=0.2, rtol=0)
