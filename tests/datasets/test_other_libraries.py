"""Datasets of other libraries, known by what they offer: stand-ins with the same protocol."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from ipl.datasets.dataset import Item
from ipl.datasets.images import ImageSource, UnreadableImageError, open_image
from ipl.datasets.readers import read_dataset
from ipl.support.errors import DataError


class ClassLabel:
    def __init__(self, *names: str) -> None:
        self.names = list(names)


class Value:
    pass


HfImage = type("Image", (), {})  # the library's own name for its feature


class HuggingFace:
    """A table with columns, as `datasets.Dataset` is; counts the rows that are taken out."""

    def __init__(self, labels: list[Any], names: tuple[str, ...] = ("cat", "big_dog")) -> None:
        self.features: dict[str, Any] = {
            "id": Value(),
            "image": HfImage(),
            "label": ClassLabel(*names),
        }
        self.labels, self.taken = labels, list[int]()
        self.info = SimpleNamespace(dataset_name="pets", builder_name="parquet")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, key: int | str) -> Any:
        if key == "label":
            return self.labels
        assert isinstance(key, int), "only the column of labels may be read whole"
        self.taken.append(key)
        return {"id": key, "image": Image.new("L", (4, 2), 10 * key), "label": self.labels[key]}


class Torchvision:
    """A dataset of pairs, as torchvision's are, with whatever fields are given."""

    def __init__(self, folder_of_images: list[Any], **fields: Any) -> None:
        self.folder_of_images = folder_of_images
        self.__dict__.update(fields)

    def __len__(self) -> int:
        return len(self.folder_of_images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.folder_of_images[index], -1


def test_hugging_face_is_read_without_taking_a_image() -> None:
    data = HuggingFace([1, 0, 1])
    dataset = read_dataset(data)
    assert dataset.name == "pets"
    assert dataset.class_names == ("cat", "big dog")
    assert [item.label for item in dataset.train] == [1, 0, 1]
    assert dataset.test == ()
    assert data.taken == []
    image = open_image(dataset.train[2].path)
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (4, 2), (20, 20, 20))
    assert data.taken == [2]
    assert str(dataset.train[2].path) == "pets train[2]"


def test_a_validation_part_is_held_out_only_when_asked_for() -> None:
    data = {"train": HuggingFace([0, 1]), "validation": HuggingFace([1]), "extra": None}
    dataset = read_dataset(data)
    assert dataset.test == ()
    assert dataset.notes[0].startswith("1 val image is not used")
    asked = read_dataset(data, held_out="val")
    assert [item.label for item in asked.test] == [1]
    assert asked.notes == ()


def test_a_test_part_alone_is_read_to_evaluate_on() -> None:
    data = {"test": HuggingFace([1, 0])}
    dataset = read_dataset(data, to_test=True)
    assert (dataset.name, dataset.train) == ("pets", ())
    assert [item.label for item in dataset.test] == [1, 0]
    for asked, missing in (({}, "train"), ({"to_test": True, "held_out": "val"}, "val")):
        with pytest.raises(DataError, match=f"has the parts test; it needs {missing}"):
            read_dataset(data, **asked)  # type: ignore[arg-type]


def _without(column: str, **others: Any) -> HuggingFace:
    data = HuggingFace([0, 1])
    del data.features[column]
    data.features.update(others)
    return data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (_without("image"), "has no Image column among id, label; it needs one .*cast_column"),
        (_without("label", label=Value()), "no ClassLabel column among .*class_encode_column"),
        (_without("id", mask=HfImage()), "2 Image columns .image, mask"),
        (HuggingFace([0, -1]), r"pets train\[1\] has the label -1; allowed are 0 to 1"),
        ({"test": HuggingFace([0, 1])}, "has the parts test; it needs train"),
        (
            {"train": HuggingFace([0, 1]), "test": HuggingFace([0], ("cat", "cow"))},
            "different classes, first: 'big dog'",
        ),
        (iter([]), "list_iterator is not a dataset; give a folder, a table, a list of images"),
        ("", "name of the dataset is empty"),
        ([1, 2], "train is list, which has no list of classes"),
        (Torchvision([1, 2], classes=["a", "b"]), "no list of labels"),
    ],
)
def test_objects_that_cannot_be(data: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_dataset(data)


@pytest.mark.parametrize("field", ["samples", "imgs", "_samples"])
def test_torchvision_by_path_and_label(field: str) -> None:
    rows = [("x/1.png", 1), ("x/2.png", 0)]
    dataset = read_dataset(Torchvision([None, None], classes=["a_b", "c"], **{field: rows}))
    assert dataset.name == "torchvision"
    assert dataset.class_names == ("a b", "c")
    assert dataset.train == (Item(Path("x/1.png"), 1), Item(Path("x/2.png"), 0))


@pytest.mark.parametrize("field", ["_image_files", "_images"])
def test_torchvision_by_files_and_labels(field: str) -> None:
    files = {field: [Path("1.png"), "2.png"], "_labels": (0, 1)}
    dataset = read_dataset(Torchvision([None, None], classes=("a", "b"), **files))
    assert dataset.train == (Item(Path("1.png"), 0), Item(Path("2.png"), 1))


def test_torchvision_in_memory() -> None:
    folder_of_images = [Image.new("RGB", (2, 2), color) for color in ("red", "blue")]
    dataset = read_dataset(Torchvision(folder_of_images, classes=["a", "b"], targets=[1, 0]))
    source = dataset.train[1].path
    assert isinstance(source, ImageSource)
    assert open_image(source).getpixel((0, 0)) == (0, 0, 255)
    assert [item.label for item in dataset.train] == [1, 0]


def test_a_subset_has_some_of_the_items() -> None:
    rows = [(f"{n}.png", n % 2) for n in range(6)]
    whole = Torchvision([None] * 6, classes=["a", "b"], samples=rows)
    some = Torchvision([None] * 2, dataset=whole, indices=[5, 0])
    assert read_dataset(some).train == (Item(Path("5.png"), 1), Item(Path("0.png"), 0))


def test_names_that_are_tuples_are_a_published_list() -> None:
    data = Torchvision([], classes=[("crane", "x"), ("crane",)], samples=[("1.png", 1)])
    dataset = read_dataset(data)
    assert dataset.class_names == ("crane", "crane")
    assert dataset.alike


def test_what_is_no_image_is_named() -> None:
    dataset = read_dataset(Torchvision([[1.0], [2.0]], classes=["a", "b"], targets=[0, 1]))
    with pytest.raises(UnreadableImageError, match=r"train\[0\]: a list, not an image; the"):
        open_image(dataset.train[0].path)


def test_a_image_that_cannot_be_taken_out() -> None:
    def broken() -> Any:
        raise OSError("image file is truncated (3 bytes not processed)")

    with pytest.raises(UnreadableImageError, match=r"pets\[3\]: .*damaged or incomplete"):
        open_image(ImageSource("pets[3]", broken))
