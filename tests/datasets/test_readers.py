"""Folders, CSV and JSONL: what is read, what is passed over and noted, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ipl.datasets.readers import read_dataset, read_folder
from ipl.support.errors import DataError


def _touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return root


def _found(items: object, root: Path) -> list[tuple[str, int]]:
    return [(str(path.relative_to(root)), label) for path, label in items]  # type: ignore[attr-defined]


# -- folders --------------------------------------------------------------------------------------


def test_a_folder_per_class(tmp_path: Path) -> None:
    root = _touch(tmp_path / "pets", "dog/2.png", "dog/1.jpg", "tabby_cat/b.PNG", ".git/x.png")
    dataset = read_dataset(root)
    assert dataset.name == "pets"
    assert dataset.class_names == ("dog", "tabby cat")
    assert _found(dataset.train, root) == [
        ("dog/1.jpg", 0),
        ("dog/2.png", 0),
        ("tabby_cat/b.PNG", 1),
    ]
    assert dataset.test == ()
    assert dataset.notes == ()


@pytest.mark.parametrize("part", ["test", "Testing"])
def test_train_and_test_folders(part: str, tmp_path: Path) -> None:
    root = _touch(tmp_path, "train/a/1.png", "train/b/1.png", f"{part}/b/2.png")
    dataset = read_folder(root)
    assert dataset.class_names == ("a", "b")
    assert _found(dataset.train, root) == [("train/a/1.png", 0), ("train/b/1.png", 1)]
    assert _found(dataset.test, root) == [(f"{part}/b/2.png", 1)]
    assert dataset.notes == ()


def test_validation_images_are_held_out_only_when_asked_for(tmp_path: Path) -> None:
    root = _touch(tmp_path, "train/a/1.png", "train/b/1.png", "valid/b/2.png")
    dataset = read_dataset(root)
    assert dataset.test == ()
    (note,) = dataset.notes
    assert note.startswith("1 val image is not used: the training images that are not drawn are")
    assert "--held-out val" in note
    asked = read_dataset(root, held_out="val")
    assert _found(asked.test, root) == [("valid/b/2.png", 1)]
    assert asked.notes == ()


def test_test_and_val_are_never_mixed(tmp_path: Path) -> None:
    names = ["train/a/1.png", "train/b/1.png", "val/a/2.png", "test/a/3.png", "test/b/4.png"]
    root = _touch(tmp_path, *names)
    dataset = read_folder(root)
    assert _found(dataset.test, root) == [("test/a/3.png", 0), ("test/b/4.png", 1)]
    assert dataset.notes[0].startswith("1 val image is not used: the test images are held out")
    asked = read_folder(root, held_out="val")
    assert _found(asked.test, root) == [("val/a/2.png", 0)]
    assert asked.notes == ("2 test images are not used.",)


def test_validation_images_that_do_not_exist(tmp_path: Path) -> None:
    root = _touch(tmp_path, "train/a/1.png", "train/b/1.png", "test/a/3.png")
    with pytest.raises(DataError, match="no validation images"):
        read_folder(root, held_out="val")


def test_two_folders_of_one_part(tmp_path: Path) -> None:
    root = _touch(tmp_path, "train/a/1.png", "train/b/1.png", "val/a/2.png", "valid/a/2.png")
    with pytest.raises(DataError, match="two folders of val images, val and valid"):
        read_folder(root)


def test_a_test_class_without_training_is_refused(tmp_path: Path) -> None:
    root = _touch(tmp_path, "train/a/1.png", "train/b/1.png", "test/c/1.png")
    with pytest.raises(DataError, match="test/c is not a class folder"):
        read_folder(root)


def test_a_class_to_test_on_needs_no_training_images(tmp_path: Path) -> None:
    root = _touch(tmp_path, "train/a/1.png", "train/c/1.png", "test/b/1.png", "test/c/1.png")
    dataset = read_dataset(root, to_test=True)
    assert dataset.class_names == ("a", "b", "c")
    assert [item.label for item in dataset.train] == [0, 2]
    assert [item.label for item in dataset.test] == [1, 2]
    assert dataset.findings == ()
    (root / "test/b/1.png").unlink()
    with pytest.raises(DataError, match="class folder .*test/b contains no image"):
        read_dataset(root, to_test=True)


def test_messages_name_data_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _touch(tmp_path, "ev/new/a/1.png", "ev/new/b/1.png")
    monkeypatch.chdir(tmp_path)
    dataset = read_dataset(Path("ev/new"))
    assert (dataset.name, dataset.display_name) == ("new", "ev/new")
    assert dataset.only([0, 1], "half").display_name == "ev/new"
    shutil.rmtree("ev/new/b")
    with pytest.raises(DataError, match="^ev/new has only one class"):
        read_dataset("ev/new")


def test_other_files_are_named_and_counted(tmp_path: Path) -> None:
    others = [f"a/{number}.txt" for number in range(5)]
    root = _touch(tmp_path, "a/1.png", "b/1.png", "b/.DS_Store", "b/Thumbs.db", *others)
    (note,) = read_folder(root).notes
    assert note.startswith("5 files are not images")
    assert all(str(root / name) in note for name in others[:3])
    assert str(root / others[3]) not in note
    with pytest.raises(DataError, match=r"0\.txt is not an image .5 such"):
        read_folder(root, strict=True)


def test_what_macos_and_windows_leave_behind_is_ignored(tmp_path: Path) -> None:
    litter = ["__MACOSX/a/._1.png", "__MACOSX/x.png", ".DS_Store", "a/Thumbs.db", "a/desktop.ini"]
    litter.append("a/.ipynb_checkpoints/1-checkpoint.png")
    root = _touch(tmp_path, "a/1.png", "b/1.png", "b/__MACOSX/2.png", *litter)
    dataset = read_folder(root, strict=True)
    assert dataset.class_names == ("a", "b")
    assert _found(dataset.train, root) == [("a/1.png", 0), ("b/1.png", 1)]
    assert dataset.notes == ()


def test_what_is_skipped_or_merged_is_counted_and_named(tmp_path: Path) -> None:
    root = _touch(tmp_path, "a/1.png", "b/1.png", "b/old/2.png", "b/old/3.png", "beside.png")
    (root / "a" / "gone.png").symlink_to("nowhere.png")
    (root / "c").symlink_to("nowhere")
    (root / "b" / "more").symlink_to(root / "a")
    dataset = read_folder(root)
    assert _found(dataset.train, root) == [
        ("a/1.png", 0),
        ("b/1.png", 1),
        ("b/old/2.png", 1),
        ("b/old/3.png", 1),
    ]
    names = {finding.kind: finding.names for finding in dataset.findings}
    assert names == {
        "broken link": (str(root / "c"), str(root / "a/gone.png")),
        "linked folder": (str(root / "b/more"),),
        "image beside the class folders": (str(root / "beside.png"),),
        "merged sub-folder": (f"{root / 'b/old'} (2)",),
    }
    assert dataset.notes[0].startswith("2 links lead nowhere and were skipped: ")


def test_folders_and_images_beside_train_are_named(tmp_path: Path) -> None:
    names = ["train/a/1.png", "train/b/1.png", "test/a/2.png", "unlabelled/x/1.png", "x.png"]
    root = _touch(tmp_path, *names, "test/y.png")
    names_of = {finding.kind: finding.names for finding in read_folder(root).findings}
    assert names_of == {
        "folder beside train": (str(root / "unlabelled"),),
        "image beside the class folders": (str(root / "x.png"), str(root / "test/y.png")),
    }


def test_a_class_folder_may_be_a_link(tmp_path: Path) -> None:
    root = _touch(tmp_path, "data/a/1.png", "elsewhere/1.png") / "data"
    (root / "b").symlink_to("../elsewhere")
    assert _found(read_folder(root).train, root) == [("a/1.png", 0), ("b/1.png", 1)]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1.png"], "no sub-folders"),
        (["a/1.png", "b/note.txt"], "class folder .*/b contains no image"),
        (["a/1.png"], "only one class"),
        (["a/1.png", "A/1.png"], "same name"),
        (["a/1.png", "__/1.png"], "empty name"),
    ],
)
def test_folders_that_cannot_be(names: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_dataset(_touch(tmp_path, *names))


@pytest.mark.parametrize("name", ["none", "x" * 300, "none.csv", "a\0b"])
def test_no_such_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file or folder"):
        read_dataset(tmp_path / name)


def test_a_slip_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError, match=r"No such .* Did you mean '.*images'\?"):
        read_dataset(tmp_path / "imags")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("saved/state.json", "is a dataset of Hugging Face.* datasets.load_from_disk"),
        ("saved/train.parquet", "is a dataset of Hugging Face.* datasets.load_dataset"),
    ],
)
def test_a_dataset_that_hugging_face_saved(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "saved/train").mkdir(parents=True)
    (tmp_path / name).write_bytes(b"")
    path = tmp_path / (name if name.endswith("parquet") else "saved")
    with pytest.raises(DataError, match=says):
        read_dataset(path)


# -- tables ---------------------------------------------------------------------------------------


def _csv(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "list.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_table(tmp_path: Path) -> None:
    text = "path,label,split\nx/1.png,dog,train\n/abs/2.png,tabby_cat,\nx/3.png,dog,test\n"
    dataset = read_dataset(_csv(tmp_path, text + "x/4.png,dog,val\n"))
    assert dataset.name == "list"
    assert dataset.class_names == ("dog", "tabby cat")
    assert dataset.train == ((tmp_path / "x/1.png", 0), (Path("/abs/2.png"), 1))
    assert dataset.test == ((tmp_path / "x/3.png", 0),)
    assert dataset.notes[0].startswith("1 val image is not used")


def test_rows_of_validation_images(tmp_path: Path) -> None:
    text = "path,label,split\n1.png,a,Train\n2.png,b,training\n3.png,a,TEST\n4.png,b,Valid\n"
    table = _csv(tmp_path, text)
    assert [item.path.name for item in read_dataset(table).test] == ["3.png"]
    asked = read_dataset(table, held_out="val")
    assert [item.path.name for item in asked.test] == ["4.png"]
    assert asked.notes == ("1 test image is not used.",)


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
    ids=[
        *("BOM", "quotes", "blanks", "other columns", "Excel", "tabs"),
        *("label before class", "bars"),
    ],
)
def test_the_same_table_written_otherwise(text: str, tmp_path: Path) -> None:
    dataset = read_dataset(_csv(tmp_path, text))
    assert dataset.class_names == ("x", "y")
    assert dataset.train == ((tmp_path / "a b.png", 0), (tmp_path / "c.png", 1))


def test_backslashes_separate_folders_unless_a_file_has_one(tmp_path: Path) -> None:
    _touch(tmp_path, "odd\\name.png")
    dataset = read_dataset(_csv(tmp_path, "path,label\nx\\y\\1.png,a\nodd\\name.png,b\n"))
    assert dataset.train == ((tmp_path / "x/y/1.png", 0), (tmp_path / "odd\\name.png", 1))


def test_commas_and_line_ends_inside_quotes_belong_to_the_name(tmp_path: Path) -> None:
    dataset = read_dataset(_csv(tmp_path, 'path,label\n"a, b\n.png",x\nc\u2028d.png,y\n'))
    assert [item.path.name for item in dataset.train] == ["a, b\n.png", "c\u2028d.png"]


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
        ("", "has no columns; the first line must name one of them path and one label"),
        ("path,label\n", "is empty"),
        ("1.png;cat\n2.png;dog\n", "has the columns 1.png, cat;"),
        ("file,class,category\n1.png,a,b\n", "could be the label, class and category"),
        ("file,image,label\n1.png,a,b\n", "could be the path, file and image"),
        ("path,label\nhttps://x.org/1.png,a\n", "line 2: https://x.org/1.png is a URL"),
        ("path,label\n1.png,a\n2.png\n", "line 3: no label"),
        ("path,label\n1.png,a\n,b\n", "line 3: no path"),
        ("path,label,split\n1.png,a,dev\n", "line 2: split is 'dev'"),
        ("path,label,split\n1.png,a,\n2.png,b,test\n", "class 'b' has no training row"),
        ("path,label\n1.png,a\n2.png,a\n", "only one class"),
        ("path,label\n" + "x" * 200_000 + ",a\n", "list.csv"),
    ],
)
def test_tables_that_cannot_be(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_dataset(_csv(tmp_path, text))


def test_a_single_class_is_read_to_evaluate_on(tmp_path: Path) -> None:
    folder = _touch(tmp_path / "new", "a/1.png")
    table = _csv(tmp_path, "path,label\n1.png,a\n2.png,a\n")
    for data, images in ((folder, 1), (table, 2)):
        dataset = read_dataset(data, to_test=True)
        assert (dataset.class_names, len(dataset.train)) == (("a",), images)
        assert [finding.stops_fit for finding in dataset.findings] == [True]
    with pytest.raises(DataError, match="class folder .*/b contains no image"):  # as for a fit
        read_dataset(_touch(folder, "b/note.txt"), to_test=True)


@pytest.mark.parametrize("part", ["test", "val"])
def test_data_to_test_on_needs_no_training_images(part: str, tmp_path: Path) -> None:
    folder = _touch(tmp_path / "new", f"{part}/a/1.png", f"{part}/b/1.png", f"{part}/b/2.png")
    table = _csv(tmp_path, f"path,label,split\n1.png,a,{part}\n2.png,b,{part}\n3.png,b,{part}\n")
    other = {"test": "val", "val": "test"}[part]
    for data in (folder, table):
        dataset = read_dataset(data, held_out=part, to_test=True)
        assert dataset.class_names == ("a", "b")
        assert (dataset.train, [item.label for item in dataset.test]) == ((), [0, 1, 1])
        assert dataset.findings == ()
        with pytest.raises(DataError, match=f"no .*{other}.*; --held-out {part} uses its {part}"):
            read_dataset(data, held_out=other, to_test=True)
    with pytest.raises(DataError, match=rf"new has {part}, but no folder train with class folders"):
        read_dataset(folder)
    with pytest.raises(DataError, match="class 'a' has no training row"):
        read_dataset(table)


def test_classes_that_are_called_like_parts(tmp_path: Path) -> None:
    """Without folders inside, or beside a class of another name, they are classes."""
    images = _touch(tmp_path / "images", "test/1.png", "val/1.png")
    beside = _touch(tmp_path / "beside", "test/close/1.png", "exam/1.png")
    for to_test in (False, True):
        assert read_dataset(images, to_test=to_test).class_names == ("test", "val")
        assert read_dataset(beside, to_test=to_test).class_names == ("exam", "test")


def test_a_table_in_another_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-16", "latin-1"):
        with pytest.raises(DataError, match=r"list\.csv cannot be read as UTF-8 .*Excel"):
            read_dataset(_csv(tmp_path, "path,label\né.png,a\n", encoding))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not valid JSON"),
        ("[1]", "line 2: not an object"),
        ("{}", "line 2: no path"),
        ('{"path": "a.png", "label": null}', "line 2: no label"),
        ('{"path": "a\\u0000.png", "label": "cat"}', "line 2: path has a null character"),
        ('{"path": "a.png", "label": ["x"]}', "line 2: .*label"),
        ('{"path": {"x": 1}, "label": "x"}', "line 2: .*path"),
        ("[" * 200_000, "line 2: not valid JSON"),
    ],
)
def test_lines_that_cannot_be(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text('{"path": "1.png", "label": "a"}\n' + line)
    with pytest.raises(DataError, match=said):
        read_dataset(tmp_path / "list.jsonl")
