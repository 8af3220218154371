"""What the tests of training share: which images are opened for crops."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.datasets.images import open_image


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Returns the images that are opened for crops, one entry for each time."""
    images: list[object] = []

    def open_and_note(source: Any) -> Any:
        images.append(source)
        return open_image(source)

    monkeypatch.setattr("ipl.training.crops.open_image", open_and_note)
    return images
