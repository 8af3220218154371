"""The views of an image in training: its centre crop, a bank of random crops, or fresh crops."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import repeat, tee

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import batch_size, encode_pixels, to_device
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.learners.learner import Batch, Learner
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.support.recent_values import RecentValues
from ipl.training.decoded_images import DecodedImages, room_on

# From the views and the images (batch,) of each batch to bytes (batch, height, width, 3 or 4).
Pixels = Callable[[Iterable[tuple[Tensor, Tensor]]], Iterator[Tensor]]


class View:
    """Gives the images of a batch as frozen features, as pixels, or as both."""

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        """Yields the images of each epoch and indices (batch,), as the epoch gets them.

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
        """Yields one view of each image."""
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
        """Returns the view of each image (images,) that an epoch takes."""
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
        self, backbone: Backbone, labels: Tensor, pixels: Pixels, kind: type[Learner]
    ) -> None:
        self.backbone, self.pixels, self.kind = backbone, pixels, kind
        self.labels = labels.to(backbone.device)

    def batches(self, order: Iterable[tuple[int, Tensor]]) -> Generator[Batch, None, None]:
        """Yields crops that depend only on the seed, the epoch and the image."""
        now, later = tee(order)
        every = self.pixels((torch.full_like(images, epoch), images) for epoch, images in later)
        for (_, indices), crops in zip(now, every, strict=False):
            pixels, features = to_device(self.backbone, crops), None
            if self.kind.wants_features:
                with torch.no_grad():
                    features = normalize(self.backbone.encode_image(pixels), dim=-1)
            labels = self.labels[_move(indices, self.labels.device)]
            yield Batch(labels, features, pixels if self.kind.prompts_images else None)


def make_views(
    views: int | str,
    kind: type[Learner],
    backbone: Backbone,
    shots: LabelledFeatures,
    seed: int,
    reporter: Reporter,
    store: FeatureStore | None = None,
) -> View:
    """Returns the views of the shots: 0 is the centre crop, n a bank of n crops, or "fresh".

    Fits that share a store cut the same crops once, and encode them once.
    """
    kept = RecentValues() if store is None else store.kept
    paths = tuple(item.path for item in shots.items)
    decoded = DecodedImages(backbone, paths)
    room = kept.most_room(room_on(backbone.device))

    def from_files(batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[Tensor]:
        for_batches = (
            [
                (image, _stream(seed, view, image) if views else None)
                for view, image in zip(of_batch.tolist(), images.tolist(), strict=True)
            ]
            for of_batch, images in batches
        )
        return decoded.crops(for_batches)

    if views == "fresh":
        decoded = kept.keep(("images", paths), lambda: decoded, room, room)
        return FreshViews(backbone, shots.labels, from_files, kind)
    if not isinstance(views, int) or views < 0:
        raise ConfigError(f"views is {views!r}; it must be a whole number, 0 or more, or 'fresh'.")
    count = max(views, 1)

    def for_each(title: str, make: Callable[[Tensor], Tensor], pixels: Pixels) -> Tensor:
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

    key = (paths, views, seed)
    bank: Tensor | None = kept.get(("crops", *key))
    size = 3 * backbone.preprocessing.crop**2 * count * len(paths)
    encodes = kind.wants_features and views > 0 and kept.get(("features", *key)) is None
    # Crops that have to be cut to be encoded are kept if a later fit prompts images.
    wanted = kind.prompts_images or (encodes and store is not None and store.keeps_crops)
    if bank is None and wanted and size <= room:
        bank = kept.keep(
            ("crops", *key),
            lambda: for_each("Cutting crops", to_bank, from_files),
            size,
            room,
        )
    pixels = from_files if bank is None else from_bank(bank)
    features = shots.features[None] if kind.wants_features else None
    if kind.wants_features and views > 0:
        features = kept.keep(
            ("features", *key),
            lambda: for_each("Encoding crops", partial(encode_pixels, backbone), pixels),
            4 * backbone.feature_dim * count * len(paths),
            room,
        )
    return BankedViews(
        backbone, shots.labels, count, features, pixels if kind.prompts_images else None, seed
    )


def from_bank(bank: Tensor) -> Pixels:
    """Returns a function that takes crops from a bank (views, images, height, width, 3)."""
    return lambda batches: (
        bank[_move(views, bank.device), _move(images, bank.device)] for views, images in batches
    )


def _move(indices: Tensor, device: torch.device) -> Tensor:
    """Returns indices on a device, without waiting for the steps that it still has to do."""
    return indices.to(device, non_blocking=True)


def _stream(seed: int, view: int, image: int) -> random.Random:
    return random.Random(f"{seed}/{view}/{image}")
