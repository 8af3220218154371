"""The images of a training, decoded once; threads cut the crops of the next batches from them."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import (
    Source,
    decoding_threads,
    image_warnings_off,
)
from ipl.datasets.images import UnreadableImageError, open_image
from ipl.support.errors import TrainingError
from ipl.support.machine import available_memory

DEFAULT_BYTES = 2 << 30  # of decoded images, if the system does not say how much memory is free
SHARE = 4  # a quarter of what is free may be taken
THREADS = 8  # that cut crops at most; more of them wait for Python's lock and slow each other down
PIXEL_BYTES = 4  # that Pillow keeps for a pixel: red, green, blue and one without meaning

# The image of each crop, and a stream that draws the crop; None stands for the centre.
Crops = Sequence[tuple[int, random.Random | None]]


class ImageCrops:
    """Cuts crops from images, which are read once as long as they fit into memory.

    Images that do not fit are read from their files each time.
    """

    def __init__(self, backbone: Backbone, sources: Sequence[Source]) -> None:
        self.backbone, self.sources = backbone, sources
        self.free_bytes = free_bytes_on(torch.device("cpu"))
        self._images: dict[int, Image.Image] = {}
        self._lock = threading.Lock()
        self._reading = [threading.Lock() for _ in sources]

    def crops(self, batches: Iterable[Crops]) -> Iterator[Tensor]:
        """The bytes (crops, height, width, 4) of each batch; the fourth has no meaning.

        Meanwhile threads cut the next batches, each a whole one: they wait for each other, and the
        one that trains for them, as rarely as possible.
        """
        size, on_gpu = self.backbone.preprocessing.crop, self.backbone.device.type == "cuda"
        waiting: deque[Future[Tensor]] = deque()
        with image_warnings_off(), decoding_threads(THREADS) as threads:
            try:
                for batch in batches:
                    # Allocated here: other threads must not touch the GPU while a step is recorded.
                    shape = (len(batch), size, size, PIXEL_BYTES)
                    pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=on_gpu)
                    waiting.append(threads.submit(self._cut, batch, pixels))
                    if len(waiting) > THREADS:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except UnreadableImageError as error:
                message = f"An image became unreadable during training: {error}"
                raise TrainingError(message) from None

    def _cut(self, batch: Crops, pixels: Tensor) -> Tensor:
        """The crops of a batch, written into `pixels`."""
        cut = self.backbone.preprocessing
        for (index, stream), crop in zip(batch, pixels.numpy(), strict=True):
            image = self._image(index)
            image = cut.centre(image) if stream is None else cut.augment(image, stream)
            # Pillow's four bytes for a pixel are copied as they are: picking three of them takes
            # ten times as long, in which no other thread can go on.
            crop[:] = np.frombuffer(image.tobytes("raw", "RGBX"), np.uint8).reshape(crop.shape)
        return pixels

    def _image(self, index: int) -> Image.Image:
        with self._reading[index]:  # of several threads that need an image, one reads it
            image = self._images.get(index)
            if image is None:
                image = open_image(self.sources[index])
                size = PIXEL_BYTES * image.width * image.height
                with self._lock:
                    if size <= self.free_bytes:
                        self._images[index] = image
                        self.free_bytes -= size
            return image


def free_bytes_on(device: torch.device) -> int:
    """How many bytes of images may be kept on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // SHARE
    return available_memory() // SHARE or DEFAULT_BYTES
