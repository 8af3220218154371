"""The views of an image in training: its centre crop, a bank of random crops, or fresh crops."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import groupby, repeat, tee

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore, batch_size, encode_pixels, to_device
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.config import FRESH
from ipl.learners.learner import Batch, Learner
from ipl.support.progress import Reporter
from ipl.support.recent_values import RecentValues
from ipl.training.crops import ImageCrops, free_bytes_on

# From the views and the images (batch,) of each batch to bytes (batch, height, width, 3 or 4).
Pixels = Callable[[Iterable[tuple[Tensor, Tensor]]], Iterator[Tensor]]
FreshBatch = tuple[tuple[int, Tensor], Tensor]  # the epoch, the images and their crops
ENCODED_AT_ONCE = 256  # crops


class View:
    """Gives the images of a batch as frozen features, as pixels, or as both."""

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        """The images of each epoch and indices (batch,), as the epoch gets them.

        Those that come later in the order may be prepared meanwhile.
        """
        raise NotImplementedError


class BankedViews(View):
    """A few views of each image; every epoch draws one of each."""

    def __init__(
        self,
        backbone: Backbone,
        labels: Tensor,
        views: int,
        features: Tensor | None = None,  # (views, images, dim)
        pixels: Pixels | None = None,
        seed: int = 1,
    ) -> None:
        self.backbone, self.views, self.seed = backbone, views, seed
        self.labels = labels.to(backbone.device)
        self.features, self.pixels = features, pixels
        self._drawn: tuple[int, Tensor] | None = None

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        now, later = tee((self._views_of(epoch)[indices], indices) for epoch, indices in order)
        every = repeat(None) if self.pixels is None else self.pixels(later)
        for (views, indices), pixels in zip(now, every, strict=False):
            on_device = _move(indices, self.labels.device)
            features = None
            if self.features is not None:
                features = self.features[_move(views, on_device.device), on_device]
            seen = None if pixels is None else to_device(self.backbone, pixels)
            yield Batch(self.labels[on_device], features, seen)

    def _views_of(self, epoch: int) -> Tensor:
        """The view of each image (images,) that an epoch takes."""
        if self._drawn is None or self._drawn[0] != epoch:
            drawn = torch.zeros(len(self.labels), dtype=torch.long)
            if self.views > 1:
                generator = torch.Generator().manual_seed(self.seed * 100_003 + epoch)
                drawn = torch.randint(self.views, drawn.shape, generator=generator)
            self._drawn = epoch, drawn
        return self._drawn[1]


class FreshViews(View):
    """A new random crop of each image in every epoch, encoded each time."""

    def __init__(
        self, backbone: Backbone, labels: Tensor, pixels: Pixels, learner: type[Learner]
    ) -> None:
        self.backbone, self.pixels, self.learner = backbone, pixels, learner
        self.labels = labels.to(backbone.device)

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        """Crops that depend only on the seed, the epoch and the image."""
        now, later = tee(order)
        every = self.pixels((torch.full_like(images, epoch), images) for epoch, images in later)
        for group in _groups(zip(now, every, strict=False)):
            pixels = [to_device(self.backbone, crops) for _, crops in group]
            features: Iterable[Tensor | None] = repeat(None)
            if self.learner.wants_features:
                with torch.no_grad():
                    encoded = normalize(self.backbone.encode_image(torch.cat(pixels)), dim=-1)
                features = encoded.split([len(crops) for crops in pixels])
            for ((_, indices), _), crops, known in zip(group, pixels, features, strict=False):
                labels = self.labels[_move(indices, self.labels.device)]
                yield Batch(labels, known, crops if self.learner.prompts_images else None)


def _groups(batches: Iterable[FreshBatch]) -> Iterator[list[FreshBatch]]:
    """Batches of one epoch whose crops are encoded at once, which a GPU does faster.

    A training that resumes begins with an epoch, and so has the same groups.
    """
    for _, of_epoch in groupby(batches, key=lambda batch: batch[0][0]):
        group: list[FreshBatch] = []
        for batch in of_epoch:
            group.append(batch)
            if sum(len(crops) for _, crops in group) >= ENCODED_AT_ONCE:
                yield group
                group = []
        if group:
            yield group


def make_views(
    views: int | str,
    learner: type[Learner],
    backbone: Backbone,
    shots: LabelledFeatures,
    seed: int,
    reporter: Reporter,
    store: FeatureStore | None = None,
) -> View:
    """The views of the shots: 0 is the centre crop, n a bank of n crops, or "fresh".

    Fits that share a store encode the same crops once, and cut those of image prompts once.
    """
    recent = RecentValues() if store is None else store.views
    paths = tuple(item.path for item in shots.items)
    decoded = ImageCrops(backbone, paths)
    most = recent.most_free(free_bytes_on(backbone.device))
    if views == FRESH:
        decoded = recent.get_or_make(("images", paths), lambda: decoded, most, most)
        return FreshViews(backbone, shots.labels, _from_files(decoded, seed), learner)
    assert isinstance(views, int)
    count, key = max(views, 1), (paths, views, seed)

    def for_each(title: str, make: Callable[[Tensor], Tensor], pixels: Pixels) -> Tensor:
        """What `make` makes of every crop (views, images, ...)."""
        batches = torch.arange(len(paths)).split(batch_size(backbone.device))
        every = (
            (torch.full_like(images, view), images) for view in range(count) for images in batches
        )
        parts = []
        with reporter.task(title, count * len(paths)) as advance:
            for crops in pixels(every):
                parts.append(make(crops))
                advance(len(crops))
        return torch.cat(parts).reshape(count, len(paths), *parts[0].shape[1:])

    def to_bank(crops: Tensor) -> Tensor:
        return crops.to(backbone.device)[..., :3].contiguous()

    pixels = _from_files(decoded, seed if views else None)
    size = 3 * backbone.preprocessing.crop**2 * count * len(paths)
    bank: Tensor | None = recent.get(("crops", *key))
    if bank is None and learner.prompts_images and size <= most:
        bank = recent.get_or_make(
            ("crops", *key), lambda: for_each("Cutting crops", to_bank, pixels), size, most
        )
    if bank is not None:
        pixels = from_bank(bank)
    features = shots.features[None] if learner.wants_features else None
    if learner.wants_features and views > 0:
        features = recent.get_or_make(
            ("features", *key),
            lambda: for_each("Encoding crops", partial(encode_pixels, backbone), pixels),
            4 * backbone.feature_dim * count * len(paths),
            most,
        )
    return BankedViews(
        backbone, shots.labels, count, features, pixels if learner.prompts_images else None, seed
    )


def from_bank(bank: Tensor) -> Pixels:
    """A function that takes crops from a bank (views, images, height, width, 3)."""
    return lambda batches: (
        bank[_move(views, bank.device), _move(images, bank.device)] for views, images in batches
    )


def _from_files(decoded: ImageCrops, seed: int | None) -> Pixels:
    """A function that cuts random crops from images; centre crops without a seed."""

    def stream(view: int, image: int) -> random.Random | None:
        return None if seed is None else random.Random(f"{seed}/{view}/{image}")

    return lambda batches: decoded.crops(
        [
            (image, stream(view, image))
            for view, image in zip(views.tolist(), images.tolist(), strict=True)
        ]
        for views, images in batches
    )


def _move(indices: Tensor, device: torch.device) -> Tensor:
    """Indices on a device, without waiting for the steps that it still has to do."""
    return indices.to(device, non_blocking=True)
