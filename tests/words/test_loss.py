"""The cross-entropy against torch and against its definition in more digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.words import loss
from ipl.words.loss import CrossEntropy

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


@pytest.mark.parametrize(("classes", "images", "scale"), TASKS)
def test_losses_are_torchs(classes: int, images: int, scale: float) -> None:
    ce, features = random_task(classes, images, scale), random_texts(9, classes)
    texts = normalize(features.double(), dim=-1)
    expected = [cross_entropy(scale * ce.images @ text.T, ce.labels) for text in texts]
    torch.testing.assert_close(ce.losses(features), torch.stack(expected), atol=1e-11, rtol=1e-12)
    true = precisely(ce, texts)
    np.testing.assert_allclose(ce.losses(features), true.astype(float), atol=1e-11, rtol=1e-12)


def test_losses_come_in_parts_and_any_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    ce, features = random_task(), random_texts(50, 5)
    whole = ce.losses(features)
    monkeypatch.setattr(loss, "BYTES_AT_ONCE", {"cpu": 24 * 5 * 12 * 7})  # seven candidates
    torch.testing.assert_close(ce.losses(features), whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(ce.losses(features, torch.float32), whole, atol=1e-4, rtol=0)
    half = ce.losses(features.half())
    assert half.dtype == torch.float64
    torch.testing.assert_close(half, whole, atol=0.2, rtol=0)
