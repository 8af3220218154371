"""Limits on what a client may send, and the refusal of what is beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from PIL import Image

from ipl.support.errors import ConfigError

MAX_PIXELS = Image.MAX_IMAGE_PIXELS or 2**26  # above this Pillow warns of decompression bombs
PIXEL_BYTES = 16  # that a pixel takes at most while it is decoded (measured: WebP)
WORKING_BYTES = 64 << 20  # for decoding, beside the image and its file
MAX_BATCH = 64  # images in one pass of the image tower


@dataclass(frozen=True)
class Limits:
    """Bounds on one request and on all requests together.

    Parameters
    ----------
    max_bytes
        Size of a request's body.
    max_pixels
        Pixels of an image as it is decoded, checked before that. A JPEG of more than 25,000,000
        pixels is decoded at a reduced size.
    max_classes
        Names in the class list of a request.
    max_text
        Characters of a class name.
    concurrency
        Requests that are read or answered at a time; further ones are answered with status 503.
    upload_seconds
        Time from the first byte of a request to its last.
    answer_seconds
        Time from there to the answer.
    decode_seconds
        Time to decode an image; the process that takes longer is killed.
    batch
        Images that the model classifies together.
    wait_ms
        Milliseconds that the first image of a batch waits for others.
    class_lists
        Class lists whose text features stay in memory, the latest used ones.

    Raises
    ------
    ConfigError
        If a value is out of its range; the message names the field, the value and the range.
    """

    max_bytes: int = 10_000_000
    max_pixels: int = 25_000_000
    max_classes: int = 256
    max_text: int = 100
    concurrency: int = 128
    upload_seconds: float = 10.0
    answer_seconds: float = 30.0
    decode_seconds: float = 5.0
    batch: int = 32
    wait_ms: float = 5.0
    class_lists: int = 16

    def __post_init__(self) -> None:
        lowest = {"max_classes": 2, "wait_ms": 0, "upload_seconds": 0.1, "answer_seconds": 0.1}
        lowest["decode_seconds"] = 0.1
        highest = {"max_pixels": MAX_PIXELS, "batch": MAX_BATCH}
        for field in fields(self):
            value, low = getattr(self, field.name), lowest.get(field.name, 1)
            high = highest.get(field.name)
            if not (low <= value < float("inf") and (high is None or value <= high)):
                allowed = f"{low} to {high}" if high else f"{low} or more"
                raise ConfigError(f"{field.name} is {value}; it must be {allowed}.")

    @property
    def decode_bytes(self) -> int:
        """Returns the memory that decoding one image may take."""
        return PIXEL_BYTES * self.max_pixels + 2 * self.max_bytes + WORKING_BYTES


class Refusal(Exception):
    """A request that is not answered as asked: a status and one sentence for the client."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence

    @property
    def headers(self) -> dict[str, str]:
        """Returns the headers that go with the status."""
        return {"Retry-After": "1"} if self.status == 503 else {}


class Gate:
    """Limits how many requests are handled at a time. One event loop uses it, without a lock."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.inside = capacity, 0
        self.refused = 0  # so far, because it was full

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Counts a request in and out; raises Refusal if the gate is full."""
        if self.inside >= self.capacity:
            self.refused += 1
            raise Refusal(
                503, f"{self.capacity} requests are being answered; try again in a second."
            )
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
