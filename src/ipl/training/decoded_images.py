"""The images of a training, decoded once; each epoch cuts its crops from them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ipl.backbone import bicubic
from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import Source, decoding_threads, image_warnings_off, open_source
from ipl.backbone.preprocessing import draw_crop
from ipl.datasets.images import UnreadableImageError
from ipl.support.errors import TrainingError

KEPT_BYTES = 2 << 30  # of decoded images in memory
GPU_SHARE = 4  # on a GPU, a quarter of what is free


class DecodedImages:
    """Cuts crops from images, which are read once and kept as long as they fit into memory.

    Images that do not fit are read from their files each time.

    Parameters
    ----------
    backbone : Backbone
        Its preprocessing says how crops are cut.
    sources : sequence of Path, ImageSource or PIL.Image.Image
        The images, which have been readable before.
    """

    def __init__(self, backbone: Backbone, sources: Sequence[Source]) -> None:
        self.backbone, self.sources, self.room = backbone, sources, KEPT_BYTES
        self._kept: dict[int, Any] = {}
        self._threads = decoding_threads()
        self._lock = threading.Lock()

    def crops(self, chosen: Sequence[int], streams: Sequence[random.Random | None]) -> Tensor:
        """Returns the bytes (crops, height, width, 3) of chosen images.

        A stream draws a random crop; None stands for the centre.
        """
        return self._cut(self.read(chosen), streams)

    def read(self, chosen: Sequence[int]) -> list[Any]:
        """Returns chosen images, those that are not kept from their files."""
        missing = list(dict.fromkeys(index for index in chosen if index not in self._kept))
        read = self._read_all(missing) if missing else {}
        images = [read[index] if index in read else self._kept[index] for index in chosen]
        with self._lock:  # several trainings may share the images
            for index, image in read.items():
                width, height = self._size(image)
                if index not in self._kept and 3 * width * height <= self.room:
                    self._kept[index] = image
                    self.room -= 3 * width * height
        return images

    def _read_all(self, indices: Sequence[int]) -> dict[int, Any]:
        with image_warnings_off():
            try:
                return dict(zip(indices, self._threads.map(self._read, indices), strict=True))
            except UnreadableImageError as error:
                message = f"An image became unreadable during training: {error}"
                raise TrainingError(message) from None

    def _read(self, index: int) -> Any:
        return open_source(self.sources[index])

    def _size(self, image: Any) -> tuple[int, int]:
        width, height = image.size
        return width, height

    def _cut(self, images: Sequence[Any], streams: Sequence[random.Random | None]) -> Tensor:
        crops = list(self._threads.map(self.backbone.preprocessing.crop_of, images, streams))
        return torch.from_numpy(np.stack(crops))


class ImagesOnGpu(DecodedImages):
    """The same with images on an NVIDIA GPU, where random crops are cut, byte for byte the same."""

    def __init__(self, backbone: Backbone, sources: Sequence[Source]) -> None:
        super().__init__(backbone, sources)
        self.room = room_on(backbone.device)

    def _read(self, index: int) -> Any:
        return torch.from_numpy(np.asarray(super()._read(index))).to(self.backbone.device)

    def _size(self, image: Any) -> tuple[int, int]:
        return image.shape[1], image.shape[0]

    def _cut(self, images: Sequence[Any], streams: Sequence[random.Random | None]) -> Tensor:
        drawn = [
            draw_crop(self._size(image), stream)
            for image, stream in zip(images, streams, strict=True)
            if stream is not None
        ]
        stream = torch.cuda.current_stream(self.backbone.device)
        for image in images:  # one that is not kept must outlive the work on a training's stream
            image.record_stream(stream)
        boxes, flips = zip(*drawn, strict=True)
        return bicubic.cut(images, boxes, flips, self.backbone.preprocessing.crop)


def room_on(device: torch.device) -> int:
    """Returns how many bytes of images may be kept on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // GPU_SHARE
    return KEPT_BYTES


def decoded_images(
    backbone: Backbone, sources: Sequence[Source], random_crops: bool
) -> DecodedImages:
    """Returns the images where their crops are cut fastest: on the GPU, if it can do that."""
    bicubic_resize = backbone.preprocessing.resample == Image.Resampling.BICUBIC
    on_gpu = random_crops and bicubic_resize and bicubic.can_cut_on(backbone.device)
    return (ImagesOnGpu if on_gpu else DecodedImages)(backbone, sources)
