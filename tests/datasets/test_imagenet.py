"""ImageNet's folders and variants."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.dataset import Item
from ipl.support.errors import DataError
from tests.helpers.split_files import imagenet, touch

V2 = "imagenetv2/imagenetv2-matched-frequency-format-val"


def test_imagenet_is_read_in_sorted_order(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / "imagenet/images/train", "n01/.hidden.JPEG", "n01/notes.txt", "README.txt")
    dataset = read_benchmark("imagenet", root)
    images = root / "imagenet/images"
    assert dataset.class_names == (
        "tench",
        "missile",
        "missile",
    )  # the published list says it twice
    assert dataset.train == tuple(
        Item(images / f"train/{wnid}/{file}.JPEG", label)
        for label, wnid in enumerate(["n01", "n02", "n03"])
        for file in "ab"
    )
    assert [(i.path.name, i.label) for i in dataset.test] == [("c.JPEG", n) for n in range(3)]


def test_imagenet_without_names_for_a_folder(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / "imagenet/images/train", "n09/a.JPEG")
    with pytest.raises(DataError, match=r"train/n09 has no name in classnames\.txt"):
        read_benchmark("imagenet", root)


def test_imagenet_whose_parts_differ(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    (root / "imagenet/images/val/n02").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"val has no folder n02, which is a class of .*train"):
        read_benchmark("imagenet", root)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("n01\n", "line 1: 'n01' has no name"),
        ("n01 a\n\nn01 b\n", "line 3: n01 is listed twice"),
    ],
)
def test_broken_class_names(text: str, said: str, tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    (root / "imagenet/classnames.txt").write_text(text)
    with pytest.raises(DataError, match=said):
        read_benchmark("imagenet", root)


# -- variants -------------------------------------------------------------------------------------


def test_v2_has_numbered_folders_in_the_order_of_imagenet(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / V2, "0/x.jpeg", "1/x.jpeg", "2/x.jpeg")
    dataset = read_benchmark("imagenetv2", root)
    assert dataset.class_names == ("tench", "missile", "missile")
    assert dataset.train == ()
    assert dataset.test == tuple(Item(root / V2 / f"{n}/x.jpeg", n) for n in range(3))


def test_numbered_folders_count_as_numbers(tmp_path: Path) -> None:
    wnids = [f"n{number:02d}" for number in range(12)]
    touch(tmp_path / "imagenet", "classnames.txt")
    (tmp_path / "imagenet/classnames.txt").write_text("".join(f"{w} c{w}\n" for w in wnids[::-1]))
    touch(tmp_path / V2, *(f"{n}/x.jpeg" for n in range(12)))
    dataset = read_benchmark("imagenetv2", tmp_path)
    assert dataset.test[11] == Item(tmp_path / V2 / "11/x.jpeg", 11)
    assert dataset.class_names[11] == "cn11"


@pytest.mark.parametrize(
    ("folders", "said"),
    [(["0", "2"], "no folder 1"), (["0", "1", "2", "3"], "format-val/3 is not a class of")],
)
def test_v2_with_other_folders(folders: list[str], said: str, tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / V2, *(f"{name}/x.jpeg" for name in folders))
    with pytest.raises(DataError, match=said):
        read_benchmark("imagenetv2", root)


def test_sketch_has_the_classes_of_imagenet(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / "imagenet-sketch/images", "n01/x.JPEG", "n03/x.JPEG")
    with pytest.raises(DataError, match=r"no folder n02, which is a class of classnames\.txt"):
        read_benchmark("imagenet_sketch", root)
    touch(root / "imagenet-sketch/images", "n02/x.JPEG")
    assert len(read_benchmark("imagenet_sketch", root).test) == 3
    touch(root / "imagenet-sketch/images", "n04/x.JPEG")
    with pytest.raises(DataError, match="n04 has no name"):
        read_benchmark("imagenet_sketch", root)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("imagenet_a", "imagenet-adversarial/imagenet-a"),
        ("imagenet_r", "imagenet-rendition/imagenet-r"),
    ],
)
def test_a_and_r_are_over_their_own_classes(name: str, folder: str, tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / folder, "README.txt", "n03/b.jpg", "n03/a.jpg", "n01/a.jpg")
    dataset = read_benchmark(name, root)
    assert dataset.class_names == ("tench", "missile")
    names = [(i.path.relative_to(root / folder).as_posix(), i.label) for i in dataset.test]
    assert names == [("n01/a.jpg", 0), ("n03/a.jpg", 1), ("n03/b.jpg", 1)]
    assert dataset.train == ()


def test_class_names_beside_the_variant(tmp_path: Path) -> None:
    touch(tmp_path / "imagenet-rendition", "imagenet-r/n01/a.jpg", "imagenet-r/n02/a.jpg")
    with pytest.raises(DataError, match=r"No file classnames\.txt in .*imagenet or .*rendition: "):
        read_benchmark("imagenet_r", tmp_path)
    own = tmp_path / "imagenet-rendition/classnames.txt"
    own.write_text("n01 tench\nn02 torpedo\nn03 missile\n")
    assert read_benchmark("imagenet_r", tmp_path).class_names == ("tench", "torpedo")
    imagenet(tmp_path)
    message = r"rendition/classnames.txt differs from .*imagenet/classnames.txt at n02: 'torpedo'"
    with pytest.raises(DataError, match=message):
        read_benchmark("imagenet_r", tmp_path)
