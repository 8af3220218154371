"""Lists of images and labels in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from PIL import Image

from ipl.datasets.images import ImageSource, UnreadableImageError, open_image
from ipl.datasets.in_memory import read_data
from ipl.support.errors import DataError


def test_an_image_that_is_none_or_cannot_be_taken_out() -> None:
    def broken() -> Any:
        raise OSError("image file is truncated (3 bytes not processed)")

    for take in (lambda: [1.0], broken):
        with pytest.raises(UnreadableImageError, match=r"pets\[3\]"):
            open_image(ImageSource("pets[3]", take))


def test_images_and_arrays_in_memory() -> None:
    image = Image.new("RGB", (3, 2), "red")
    for x, pixels in (
        ([image, image], (255, 0, 0)),
        ([np.asarray(image), np.asarray(image)], (255, 0, 0)),
        (np.full((2, 4, 4, 3), 7, dtype=np.uint8), (7, 7, 7)),
        (np.full((2, 4, 4), 9, dtype=np.uint8), (9, 9, 9)),
        (np.full((2, 4, 4, 1), 9, dtype=np.uint8), (9, 9, 9)),
    ):
        dataset = read_data(x, ["a", "b"])
        assert open_image(dataset.train[1].path).getpixel((0, 0)) == pixels
    reused = np.zeros((4, 4, 3), dtype=np.uint8)
    dataset = read_data([reused, reused], ["a", "b"])
    reused[:] = 255
    assert open_image(dataset.train[0].path).getpixel((0, 0)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros((2, 4, 4, 3)), "float64"),
        (np.zeros((2, 3, 4, 4), dtype=np.uint8), r"\(3, 4, 4\)"),
        ([1, 2], r"X\[0\] is int"),
        ("a.png", "single str"),
        (["a.png"], "1 image .* 2 labels"),
    ],
)
def test_images_that_cannot_be(x: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_data(x, ["a", "b"])


def test_a_data_frame_is_answered_with_what_to_type() -> None:
    frame = pandas.DataFrame({"id": [1], "File": ["a.png"], "Class": ["x"]})
    for labels in (None, ["x"]):
        with pytest.raises(DataError, match="data frame"):
            read_data(frame, labels)


@pytest.mark.parametrize("data", [iter([]), {"train": ["a.png"]}, [1, 2]])
def test_what_is_not_a_dataset_is_told_what_is(data: Any) -> None:
    with pytest.raises(DataError, match="list of images"):
        read_data(data)
