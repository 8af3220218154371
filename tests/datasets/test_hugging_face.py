"""Datasets of the library itself, streamed: what is read of them, held, and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import (
    ClassLabel,
    Features,
    IterableDataset,
    IterableDatasetDict,
    Value,
)
from datasets import Dataset as Table
from datasets import Image as ImageColumn
from PIL import Image

import ipl.datasets.hugging_face as module
from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.hugging_face import is_stream, read_stream
from ipl.datasets.images import open_image
from ipl.datasets.readers import read_dataset
from ipl.inference import predict_stream
from ipl.inference.evaluation import evaluate
from ipl.support.errors import DataError

COLUMNS = Features({"image": ImageColumn(), "label": ClassLabel(names=["cat", "big_dog"])})
FAST: dict[str, Any] = {"words": 0, "views": 0, "epochs": 2, "lr": 0.02, "cache": False}


class Rows:
    """Rows of grey images; counts those that are taken."""

    def __init__(self, labels: list[int]) -> None:
        self.labels, self.taken = labels, 0

    def __call__(self) -> Iterator[dict[str, Any]]:
        for index, label in enumerate(self.labels):
            self.taken += 1
            yield {"image": Image.new("L", (4, 2), index), "label": label}


def stream_of(rows: Callable[[], Iterator[dict[str, Any]]], columns: Any = COLUMNS) -> Any:
    stream = IterableDataset.from_generator(rows, features=columns)
    assert is_stream(stream)
    return stream


def test_it_is_read_until_every_class_has_enough() -> None:
    rows = Rows([0] * 50 + [1] * 50)
    dataset = read_dataset(stream_of(rows), shots=2)
    assert dataset.class_names == ("cat", "big dog")
    assert [item.label for item in dataset.train] == [0] * 4 + [1] * 4
    assert [str(item.path) for item in dataset.train][3:5] == [
        "generator train[3]",
        "generator train[50]",
    ]
    assert rows.taken == 54
    assert open_image(dataset.train[4].path).getpixel((0, 0)) == (50, 50, 50)
    (note,) = dataset.notes
    assert "of its first 54 rows the first 4 images of each class are used" in note


def test_a_short_stream_is_used_whole() -> None:
    (note,) = read_dataset(stream_of(Rows([0, 1, 0])), shots=16).notes
    assert note == "generator train is a stream: all of its 3 rows are used."
    (note,) = read_dataset(stream_of(Rows([0] * 9 + [1])), shots=2).notes
    assert "of its first 10 rows the first 4 images of each class are used" in note


def test_a_rare_class_does_not_make_it_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 20)
    rows = Rows([0] * 100 + [1])
    dataset = read_dataset(stream_of(rows), shots=2)
    assert rows.taken == 20
    assert [item.label for item in dataset.train] == [0] * 4


def test_a_test_part_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEST_IMAGES", 6)
    monkeypatch.setattr("ipl.datasets.other_libraries.TEST_IMAGES", 6)
    rows = Rows([0, 1] * 50)
    parts = {"train": stream_of(Rows([0, 1])), "test": stream_of(rows)}
    dataset = read_dataset(IterableDatasetDict(parts), shots=1)
    assert [item.label for item in dataset.test] == [0, 1] * 3
    assert rows.taken == 6
    assert len(dataset.notes) == 2


def test_a_validation_part_is_held_out_when_asked_for() -> None:
    parts = {"train": stream_of(Rows([0, 1])), "validation": stream_of(Rows([1, 0, 1]))}
    assert read_dataset(parts).test == ()
    asked = read_dataset(parts, held_out="val")
    assert [item.label for item in asked.test] == [1, 0, 1]
    scored, trained = read_stream(parts, "val"), read_stream(parts)
    assert scored is not None
    assert trained is not None
    assert (scored.name, trained.name) == ("generator val", "generator train")
    assert read_stream({"train": [1]}) is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (None, "does not know the types of its columns"),
        (Features({"image": ImageColumn(), "label": Value("int64")}), "no ClassLabel column"),
        (Features({"image": Value("string"), "label": COLUMNS["label"]}), "no Image column"),
    ],
)
def test_columns_that_cannot_be(columns: Any, said: str) -> None:
    stream = IterableDataset.from_generator(Rows([0, 1]), features=columns)
    for use in (read_dataset, read_stream):
        with pytest.raises(DataError, match=said):
            use(stream)


def test_a_label_that_is_no_class() -> None:
    rows = stream_of(Rows([0, -1]))
    with pytest.raises(DataError, match=r"train\[1\] has the label (-1|None); allowed are 0 to 1"):
        read_dataset(rows)


# -- scenes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(scenes: Dataset) -> Dataset:
    """Returns three classes of the scenes."""
    return scenes.only(range(3), "three scenes")


def table_of(items: tuple[Item, ...], names: tuple[str, ...]) -> Any:
    columns = Features({"image": ImageColumn(), "label": ClassLabel(names=list(names))})
    values = {"image": [str(item.path) for item in items], "label": [i.label for i in items]}
    return Table.from_dict(values, features=columns)


@pytest.fixture(scope="module")
def parts(three: Dataset) -> IterableDatasetDict:
    """Returns the same images as a streamed dataset with two parts."""
    return IterableDatasetDict(
        {
            "train": table_of(three.train, three.class_names).to_iterable_dataset(),
            "test": table_of(three.test, three.class_names).to_iterable_dataset(),
        }
    )


@pytest.fixture(scope="module")
def fitted(pocket: Backbone, parts: IterableDatasetDict) -> PromptClassifier:
    return PromptClassifier(pocket, shots=2, **FAST).fit(parts)


def test_a_fit_is_that_of_the_files(
    fitted: PromptClassifier, pocket: Backbone, three: Dataset
) -> None:
    by_files = PromptClassifier(pocket, shots=2, **FAST).fit(three)
    assert fitted.result_.held_out_images == len(three.test)
    assert fitted.result_.comparison == by_files.result_.comparison
    assert fitted.result_.history is not None
    assert by_files.result_.history is not None
    losses = [epoch.loss for epoch in fitted.result_.history.epochs]
    assert losses == [epoch.loss for epoch in by_files.result_.history.epochs]


def test_predictions_are_those_of_the_files(
    fitted: PromptClassifier, three: Dataset, parts: IterableDatasetDict
) -> None:
    table = table_of(three.test, three.class_names).remove_columns("label")
    assert fitted.predict(table) == fitted.predict([str(item.path) for item in three.test])
    frame = fitted.predict_frame(table)
    assert list(frame.index)[:2] == ["dataset[0]", "dataset[1]"]
    assert frame.shape == (len(three.test), 3)
    with pytest.raises(DataError, match=r"images is a stream; predict_stream of ipl\.inference"):
        fitted.predict(parts["test"])
    with pytest.raises(DataError, match="no Image column"):
        fitted.predict(Table.from_dict({"path": ["a.png"]}))


def test_scores_are_those_of_the_files(
    pocket: Backbone, parts: IterableDatasetDict, three: Dataset
) -> None:
    classifier = PromptClassifier(pocket, "maple", shots=2, **FAST).fit(three)
    assert classifier.score(parts) == classifier.score(three)
    streamed, by_files = evaluate(classifier, parts), evaluate(classifier, three)
    assert streamed.images_from == "all images of a stream"
    assert streamed.counts == by_files.counts
    assert streamed.comparison.methods == by_files.comparison.methods
    assert streamed.loss == pytest.approx(by_files.loss, abs=1e-5)
    assert streamed.predictions[1].image == "iterabledataset test[1]"


def test_a_batch_is_held_at_a_time(
    fitted: PromptClassifier, three: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipl.inference.prediction_stream.BATCH", 2)
    taken = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal taken
        while True:
            taken += 1
            yield {"image": str(three.test[taken % 4].path)}

    stream = IterableDataset.from_generator(endless, features=Features({"image": ImageColumn()}))
    first = next(predict_stream(fitted, stream))
    assert taken == 2
    expected = fitted.predict([Path(str(three.test[index].path)) for index in (1, 2)])
    assert [prediction.classes[0][0] for prediction in first] == expected
    assert [prediction.image for prediction in first] == [f"generator[{i}]" for i in (0, 1)]


def test_what_cannot_be_read_is_left_out(fitted: PromptClassifier, three: Dataset) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for item in three.test[:4]:
            yield {"image": str(item.path), "label": item.label}
        yield {"image": {"bytes": b"no image", "path": None}, "label": 0}

    columns = Features({"image": ImageColumn(), "label": ClassLabel(names=three.class_names)})
    stream = stream_of(rows, columns)
    files = [Path(str(item.path)) for item in three.test[:4]]
    names = [three.class_names[item.label] for item in three.test[:4]]
    assert fitted.score(stream) == fitted.score(files, names)
    assert fitted.notes_ == ["1 test image was skipped: generator train[4]: not an image."]
    (last,) = [batch[-1] for batch in predict_stream(fitted, stream)]
    assert (last.classes, last.error) == ((), "not an image")
    with pytest.raises(DataError, match="which this classifier does not have"):
        fitted.score(stream_of(Rows([0, 1])))
