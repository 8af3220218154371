"""The views of an image in training: its centre crop, a bank of random crops, or fresh crops."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Protocol

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
from ipl.training.decoded_images import DecodedImages, decoded_images, room_on


class View(Protocol):
    """Gives the images of a batch as frozen features, as pixels, or as both."""

    def batch(self, epoch: int, indices: Tensor) -> Batch:
        """Returns the images at these indices, as an epoch gets them."""
        ...


Pixels = Callable[[Tensor, Tensor], Tensor]  # views and images (batch,) to bytes (batch, h, w, 3)


class BankedViews:
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

    def batch(self, epoch: int, indices: Tensor) -> Batch:
        """Returns one view of each image."""
        views = self._views_of(epoch)[indices]
        on_device = _move(indices, self.labels.device)
        features = pixels = None
        if self.features is not None:
            features = self.features[_move(views, on_device.device), on_device]
        if self.pixels is not None:
            pixels = to_device(self.backbone, self.pixels(views, indices))
        return Batch(self.labels[on_device], features, pixels)

    def _views_of(self, epoch: int) -> Tensor:
        """Returns the view of each image (images,) that an epoch takes."""
        if self._drawn is None or self._drawn[0] != epoch:
            drawn = torch.zeros(len(self.labels), dtype=torch.long)
            if self.views > 1:
                generator = torch.Generator().manual_seed(self.seed * 100_003 + epoch)
                drawn = torch.randint(self.views, drawn.shape, generator=generator)
            self._drawn = epoch, drawn
        return self._drawn[1]


class FreshViews:
    """A new random crop of each image in every epoch, encoded each time."""

    def __init__(
        self,
        backbone: Backbone,
        labels: Tensor,
        images: DecodedImages,
        kind: type[Learner],
        seed: int,
    ) -> None:
        self.backbone, self.images, self.kind, self.seed = backbone, images, kind, seed
        self.labels = labels.to(backbone.device)

    def batch(self, epoch: int, indices: Tensor) -> Batch:
        """Returns crops that depend only on the seed, the epoch and the image."""
        chosen = indices.tolist()
        streams = [_stream(self.seed, epoch, image) for image in chosen]
        pixels = to_device(self.backbone, self.images.crops(chosen, streams))
        features = None
        if self.kind.wants_features:
            with torch.no_grad():
                features = normalize(self.backbone.encode_image(pixels), dim=-1)
        labels = self.labels[_move(indices, self.labels.device)]
        return Batch(labels, features, pixels if self.kind.prompts_images else None)


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
    decoded = decoded_images(backbone, paths, random_crops=views != 0)
    room = kept.most_room(room_on(backbone.device))
    if views == "fresh":
        images = kept.keep(("images", paths), lambda: decoded, room, room)
        return FreshViews(backbone, shots.labels, images, kind, seed)
    if not isinstance(views, int) or views < 0:
        raise ConfigError(f"views is {views!r}; it must be a whole number, 0 or more, or 'fresh'.")
    count = max(views, 1)

    def from_files(chosen: Tensor, images: Tensor) -> Tensor:
        pairs = list(zip(chosen.tolist(), images.tolist(), strict=True))
        streams = [_stream(seed, *pair) if views else None for pair in pairs]
        return decoded.crops(images.tolist(), streams)

    def for_each(title: str, make: Callable[[Tensor], Tensor], pixels: Pixels) -> Tensor:
        parts = []
        with reporter.task(title, count * len(paths)) as advance:
            for view in range(count):
                for images in torch.arange(len(paths)).split(batch_size(backbone.device)):
                    parts.append(make(pixels(torch.full_like(images, view), images)))
                    advance(len(images))
        return torch.cat(parts).reshape(count, len(paths), *parts[0].shape[1:])

    key = (paths, views, seed)
    bank: Tensor | None = kept.get(("crops", *key))
    size = 3 * backbone.preprocessing.crop**2 * count * len(paths)
    encodes = kind.wants_features and views > 0 and kept.get(("features", *key)) is None
    # Crops that have to be cut to be encoded are kept if a later fit prompts images.
    wanted = kind.prompts_images or (encodes and store is not None and store.keeps_crops)
    if bank is None and wanted and size <= room:
        bank = kept.keep(
            ("crops", *key),
            lambda: for_each("Cutting crops", lambda crops: crops.to(backbone.device), from_files),
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
    return lambda views, images: bank[_move(views, bank.device), _move(images, bank.device)]


def _move(indices: Tensor, device: torch.device) -> Tensor:
    """Returns indices on a device, without waiting for the steps that it still has to do."""
    return indices.to(device, non_blocking=True)


def _stream(seed: int, view: int, image: int) -> random.Random:
    return random.Random(f"{seed}/{view}/{image}")
