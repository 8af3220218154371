"""What the service takes from a client, and how it says no."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from PIL import Image

from ipl.support.errors import ConfigError

MOST_PIXELS = Image.MAX_IMAGE_PIXELS or 2**26  # beyond this Pillow itself speaks of a bomb
MOST_IN_A_BATCH = 64  # images that one pass of the image tower takes


@dataclass(frozen=True)
class Limits:
    """Bounds on one request and on all of them together."""

    max_bytes: int = 10_000_000  # of a request's body
    max_pixels: int = 25_000_000  # of an image
    max_classes: int = 256  # in a request's own class list
    max_text: int = 100  # characters of a class name
    concurrency: int = 128  # requests that are read or answered at a time
    upload_seconds: float = 10.0  # from the first byte of a request to its last
    answer_seconds: float = 30.0  # from there to the answer
    batch: int = 32  # images that the model looks at together
    wait_ms: float = 5.0  # that an image waits for others
    class_lists: int = 16  # whose text features are kept

    def __post_init__(self) -> None:
        most = {"max_pixels": MOST_PIXELS, "batch": MOST_IN_A_BATCH}
        least = {"max_classes": 2, "wait_ms": 0, "upload_seconds": 0.1, "answer_seconds": 0.1}
        for field in fields(self):
            value, low = getattr(self, field.name), least.get(field.name, 1)
            high = most.get(field.name)
            if not (low <= value < float("inf") and (high is None or value <= high)):
                allowed = f"{low} to {high}" if high else f"{low} or more"
                raise ConfigError(f"{field.name} is {value}; it must be {allowed}.")


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
    """Lets so many requests in at a time; for one event loop, so that no lock is needed."""

    def __init__(self, most: int) -> None:
        self.most, self.inside = most, 0

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Counts a request in and out; raises Refusal if the house is full."""
        if self.inside >= self.most:
            raise Refusal(503, f"{self.most} requests are being answered; try again in a second.")
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
