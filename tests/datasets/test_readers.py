"""Folders, CSV and JSONL: what is read, what is passed over and noted, what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from ipl.datasets.readers import read_dataset
from ipl.support.errors import DataError
from tests.helpers.split_files import touch


def _found(items: object, root: Path) -> list[tuple[str, int]]:
    return [(str(path.relative_to(root)), label) for path, label in items]  # type: ignore[attr-defined]


# -- folders --------------------------------------------------------------------------------------


def test_a_folder_per_class(tmp_path: Path) -> None:
    litter = ["__MACOSX/a/._1.png", "__MACOSX/x.png", ".DS_Store", "dog/Thumbs.db", ".git/x.png"]
    litter += ["dog/.ipynb_checkpoints/1.png", "dog/__MACOSX/2.png", "tabby_cat/desktop.ini"]
    root = touch(tmp_path / "pets", "dog/2.png", "dog/1.jpg", "tabby_cat/b.PNG", *litter)
    dataset = read_dataset(root)
    assert dataset.name == "pets"
    assert dataset.class_names == ("dog", "tabby cat")
    found = [("dog/1.jpg", 0), ("dog/2.png", 0), ("tabby_cat/b.PNG", 1)]
    assert _found(dataset.train, root) == found
    assert (dataset.test, dataset.findings) == ((), ())


def test_classes_that_are_called_like_parts(tmp_path: Path) -> None:
    """Without folders inside, or beside a class of another name, they are classes."""
    images = touch(tmp_path / "images", "test/1.png", "val/1.png")
    beside = touch(tmp_path / "beside", "test/close/1.png", "exam/1.png")
    for to_test in (False, True):
        assert read_dataset(images, to_test=to_test).class_names == ("test", "val")
        assert read_dataset(beside, to_test=to_test).class_names == ("exam", "test")


def test_test_and_val_are_never_mixed(tmp_path: Path) -> None:
    names = ["train/a/1.png", "train/b/1.png", "valid/a/2.png", "Testing/a/3.png"]
    root = touch(tmp_path, *names)
    for held_out, unused, items in (
        ("test", "val", [("Testing/a/3.png", 0)]),
        ("val", "test", [("valid/a/2.png", 0)]),
    ):
        dataset = read_dataset(root, held_out=held_out)
        assert _found(dataset.test, root) == items
        (finding,) = dataset.findings
        assert (finding.kind, finding.names) == ("unused part", (unused,))
    shutil.rmtree(root / "Testing")
    assert read_dataset(root).test == ()
    touch(root, "val/a/2.png")
    with pytest.raises(DataError, match="val and valid"):
        read_dataset(root)
    shutil.rmtree(root / "val")
    shutil.rmtree(root / "valid")
    with pytest.raises(DataError, match="val"):
        read_dataset(root, held_out="val")


def test_a_class_to_test_on_needs_no_training_images(tmp_path: Path) -> None:
    root = touch(tmp_path, "train/a/1.png", "train/c/1.png", "test/b/1.png", "test/c/1.png")
    with pytest.raises(DataError, match="test/b"):
        read_dataset(root)
    dataset = read_dataset(root, to_test=True)
    assert dataset.class_names == ("a", "b", "c")
    assert [item.label for item in dataset.train] == [0, 2]
    assert [item.label for item in dataset.test] == [1, 2]
    (root / "test/b/1.png").unlink()
    with pytest.raises(DataError, match="images: b"):
        read_dataset(root, to_test=True)


def test_what_is_skipped_or_merged_is_counted_and_named(tmp_path: Path) -> None:
    root = touch(
        tmp_path,
        *("train/a/1.png", "train/b/1.png", "train/b/old/2.png", "train/b/old/3.png"),
        *("train/a/x.txt", "train/beside.png", "test/a/1.png", "test/y.png", "unlabelled/x/1.png"),
    )
    (root / "train/a/gone.png").symlink_to("nowhere.png")
    (root / "train/c").symlink_to("nowhere")
    (root / "train/b/more").symlink_to(root / "train/a")
    os.mkfifo(root / "train/b/pipe.png")
    dataset = read_dataset(root)
    assert _found(dataset.train, root / "train") == [
        ("a/1.png", 0),
        ("b/1.png", 1),
        ("b/old/2.png", 1),
        ("b/old/3.png", 1),
    ]
    names = {finding.kind: finding.names for finding in dataset.findings}
    assert names == {
        "not an image": (str(root / "train/a/x.txt"), str(root / "train/b/pipe.png")),
        "broken link": (str(root / "train/c"), str(root / "train/a/gone.png")),
        "linked folder": (str(root / "train/b/more"),),
        "image beside the class folders": (
            str(root / "train/beside.png"),
            str(root / "test/y.png"),
        ),
        "folder beside train": (str(root / "unlabelled"),),
        "merged sub-folder": (f"{root / 'train/b/old'} (2)",),
    }


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1.png"], "sub-folder"),
        (["a/1.png", "b/note.txt"], "without training images: b"),
        (["a/1.png"], "one class: a"),
        (["a/1.png", "A/1.png"], "'A' and 'a'"),
        (["train/a/1.png", "train/b/1.png", "test/a/x.txt"], "test"),
    ],
)
def test_folders_that_cannot_be(names: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_dataset(touch(tmp_path, *names))


@pytest.mark.parametrize("name", ["none", "x" * 300, "none.csv", "a\0b"])
def test_no_such_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file or folder"):
        read_dataset(tmp_path / name)


# -- tables ---------------------------------------------------------------------------------------


def _csv(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "list.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_table(tmp_path: Path) -> None:
    text = "path,label,split\nx/1.png,dog,Training\n/abs/2.png,tabby_cat,\nx/3.png,dog,TEST\n"
    table = _csv(tmp_path, text + "x/4.png,dog,val\n")
    dataset = read_dataset(table)
    assert dataset.name == "list"
    assert dataset.class_names == ("dog", "tabby cat")
    assert dataset.train == ((tmp_path / "x/1.png", 0), (Path("/abs/2.png"), 1))
    assert dataset.test == ((tmp_path / "x/3.png", 0),)
    assert [finding.names for finding in dataset.findings] == [("val",)]
    assert read_dataset(table, held_out="val").test == ((tmp_path / "x/4.png", 0),)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffpath,label\na b.png,x\nc.png,y\n",
        '"path","label"\n"a b.png","x"\n"c.png","y"\n',
        "label , path\nx, a b.png \ny,c.png\n",
        "id,path,label,size\n1,a b.png,x,5,more\n2,c.png,y\n",
        "\ufeffFilename;Class\r\na b.png;x\r\nc.png;y\r\n",
        "image\tcategory\na b.png\tx\nc.png\ty\n",
        "class,label,image\n0,x,a b.png\n1,y,c.png\n",
        "file|class\na b.png|x\nc.png|y\n",
    ],
    ids=["BOM", "quotes", "blanks", "more columns", "Excel", "tabs", "label before class", "bars"],
)
def test_the_same_table_written_otherwise(text: str, tmp_path: Path) -> None:
    dataset = read_dataset(_csv(tmp_path, text))
    assert dataset.class_names == ("x", "y")
    assert dataset.train == ((tmp_path / "a b.png", 0), (tmp_path / "c.png", 1))


def test_backslashes_separate_folders_unless_a_file_has_one(tmp_path: Path) -> None:
    touch(tmp_path, "odd\\name.png")
    dataset = read_dataset(_csv(tmp_path, "path,label\nx\\y\\1.png,a\nodd\\name.png,b\n"))
    assert dataset.train == ((tmp_path / "x/y/1.png", 0), (tmp_path / "odd\\name.png", 1))


def test_lines_of_json(tmp_path: Path) -> None:
    rows = [
        {"path": "é.png", "label": "dog", "more": [1]},
        {"file_name": "2.png", "category": 7, "split": None},
        {"path": "3.png", "label": "dog", "split": "test", "note": "a\u2028b"},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (tmp_path / "list.jsonl").write_text("\ufeff" + "\n\n".join(lines), encoding="utf-8")
    dataset = read_dataset(tmp_path / "list.jsonl")
    assert dataset.class_names == ("7", "dog")
    assert dataset.train == ((tmp_path / "é.png", 1), (tmp_path / "2.png", 0))
    assert dataset.test == ((tmp_path / "3.png", 1),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("path,label\n", "empty"),
        ("1.png;cat\n2.png;dog\n", "no path in 1.png, cat;"),
        ("file,class,category\n1.png,a,b\n", "class and category"),
        ("path,label\nhttps://x.org/1.png,a\n", "line 2: .* URL"),
        ("path,label\n1.png,a\n2.png\n", "line 3: no label;"),
        ("path,label,split\n1.png,a,dev\n", "line 2: split is 'dev'"),
        ("path,label,split\n1.png,a,\n2.png,b,test\n", "without training images: b"),
        ("path,label\n" + "x" * 200_000 + ",a\n", "list.csv"),
    ],
)
def test_tables_that_cannot_be(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_dataset(_csv(tmp_path, text))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: .*JSON"),
        ("[1]", "line 2: .*object"),
        ('{"path": "a.png", "label": null}', "line 2: no label"),
        ('{"path": "a.png", "label": ["x"]}', "line 2: no label"),
        ("[" * 200_000, "line 2: .*JSON"),
    ],
)
def test_lines_that_cannot_be(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text('{"path": "1.png", "label": "a"}\n' + line)
    with pytest.raises(DataError, match=said):
        read_dataset(tmp_path / "list.jsonl")


def test_tables_that_are_no_text_or_no_file(tmp_path: Path) -> None:
    for encoding in ("utf-16", "latin-1"):
        with pytest.raises(DataError, match="Excel"):
            read_dataset(_csv(tmp_path, "path,label\né.png,a\n", encoding))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="regular file"):
        read_dataset(tmp_path / "pipe.csv")


# -- folders and tables to test on ----------------------------------------------------------------


@pytest.mark.parametrize("part", ["test", "val"])
def test_data_to_test_on_needs_no_training_images(part: str, tmp_path: Path) -> None:
    folder = touch(tmp_path / "new", f"{part}/a/1.png", f"{part}/b/1.png", f"{part}/b/2.png")
    table = _csv(tmp_path, f"path,label,split\n1.png,a,{part}\n2.png,b,{part}\n3.png,b,{part}\n")
    other = {"test": "val", "val": "test"}[part]
    for data in (folder, table):
        dataset = read_dataset(data, held_out=part, to_test=True)
        assert dataset.class_names == ("a", "b")
        assert (dataset.train, [item.label for item in dataset.test]) == ((), [0, 1, 1])
        assert dataset.findings == ()
        with pytest.raises(DataError, match=f"--held-out {part}"):
            read_dataset(data, held_out=other, to_test=True)
        with pytest.raises(DataError, match="train"):
            read_dataset(data)
