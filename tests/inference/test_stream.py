"""A stream of predictions takes one batch of images at a time and keeps their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ipl import Backbone, Dataset, Pool, PromptClassifier
from ipl.inference import predict_stream
from ipl.inference.image_encoder import ImageEncoder
from ipl.support.errors import ConfigError
from tests.helpers.scenes import open_scene


@pytest.fixture(scope="module")
def classifier(pocket: Backbone, scenes: Dataset) -> PromptClassifier:
    """Returns a prompt for three classes."""
    options: dict[str, Any] = {"views": 0, "epochs": 1, "interval": 1, "shots": 1, "cache": False}
    pool = Pool.from_words(("blue", "furry"), "test")
    return PromptClassifier(pocket, "coop", 1, pool=pool, **options).fit(
        scenes.only([0, 4, 17], "three")
    )


def test_batches_are_taken_as_they_are_asked_for(
    classifier: PromptClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipl.inference.stream.BATCH", 2)
    (tmp_path / "bad.png").write_bytes(b"not an image")
    open_scene("beach", 1).save(tmp_path / "good.png")
    images = [open_scene("castle", 1), tmp_path / "bad.png", tmp_path / "good.png"]
    taken: list[Any] = []

    def sources() -> Iterator[Path | Image.Image]:
        for image in images:
            taken.append(image)
            yield image

    counts: list[int] = []
    stream = predict_stream(classifier, sources(), 2, advance=counts.append)
    first = next(stream)
    assert len(taken) == 2
    assert [each.image for each in first] == ["image", str(tmp_path / "bad.png")]
    assert first[1].error == "not an image"
    assert first[1].as_dict() == {"image": str(tmp_path / "bad.png"), "error": "not an image"}
    (second,) = next(stream)
    assert list(stream) == []
    assert counts == [2, 1]
    expected = classifier.predict_proba([tmp_path / "good.png"])[0]
    assert [p for _, p in second.classes] == pytest.approx(
        sorted(expected, reverse=True)[:2], abs=1e-6
    )
    assert second.classes[0][0] == classifier.classes_[expected.argmax()]


@pytest.mark.parametrize("on_cpu", [True, False])
def test_a_batch_is_divided_among_threads_and_put_together_again(
    classifier: PromptClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cpu: bool
) -> None:
    monkeypatch.setattr("ipl.inference.stream.PART", 3)
    encoder = ImageEncoder(classifier)
    encoder.workers, encoder.on_cpu = 3, on_cpu
    monkeypatch.setattr("ipl.inference.stream.ImageEncoder", lambda _: encoder)
    (tmp_path / "bad.png").write_bytes(b"not an image")
    good = [open_scene("castle", index) for index in range(10)]
    (batch,) = predict_stream(classifier, [*good, tmp_path / "bad.png"])
    assert batch[-1].error == "not an image"
    expected = classifier.predict_proba(good)
    for prediction, row in zip(batch, expected, strict=False):
        assert dict(prediction.classes) == pytest.approx(
            dict(zip(classifier.classes_, row, strict=True)), abs=1e-5
        )


def test_the_threshold_leaves_classes_out(classifier: PromptClassifier) -> None:
    ((prediction,),) = predict_stream(classifier, [open_scene("lake", 1)], threshold=1.0)
    assert prediction.classes == ()


@pytest.mark.parametrize(
    "options", [{"top": 0}, {"top": -1}, {"threshold": 50}, {"threshold": float("nan")}]
)
def test_what_is_not_allowed_is_named(
    classifier: PromptClassifier, options: dict[str, Any]
) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ConfigError, match=f"{name} is {value}; it must be"):
        next(predict_stream(classifier, [open_scene("lake", 1)], **options))
