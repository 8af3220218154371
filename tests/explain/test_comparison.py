"""Runs side by side: what they share, what differs, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.display.formatting import percent
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.comparison import (
    accuracy_notes,
    accuracy_table,
    compare_runs,
    comparison_document,
    comparison_values,
)
from ipl.prompts.layout import prompt_pieces
from ipl.support.errors import ConfigError
from tests.helpers.page_check import check_page

MakeRun = Callable[..., Path]


def test_a_comparison_page(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("coop", 2), make_run("coop", 0)], device="cpu")
    document = comparison_document(comparison)
    text = "".join(check_page(as_html(document)).text)
    for run in comparison.runs:
        assert run.name in text
        for piece in prompt_pieces(run.result.prompt):
            assert piece.text in text
    assert "Settings that differ" in text
    assert "The runs differ in: words" in text
    assert "## Accuracy" in as_markdown(document)
    assert "drawn as one" not in text
    twice = comparison_document(compare_runs([make_run("coop", 2)] * 2, device="cpu"))
    text = "".join(check_page(as_html(twice)).text)
    assert "are the same prompt." in text
    assert "are the same and drawn as one." in text
    assert "(1) and 1 more" not in text  # one curve needs no legend
    values = json.loads(json.dumps(comparison_values(comparison), allow_nan=False))
    assert values["differ"]["words"] == ["2", "0"]
    hashes = [h for run in comparison.runs for each in run.result.image_hashes for h in each]
    assert hashes
    assert not any(digest in json.dumps(values) or digest in text for digest in hashes)


def test_compared_runs(pocket: Backbone, make_run: MakeRun, six_scenes: Path) -> None:
    runs = [make_run("coop", 2), make_run("coop", 0), make_run("coop", 2, lambda_=0.0)]
    comparison = compare_runs(runs, six_scenes, device="cpu", cache=False)
    differ = dict(comparison.differ)
    assert differ["words"] == ("2", "0", "2")
    assert differ["lambda"] == ("0.1", "", "0.0")
    assert dict(comparison.same)["learner"] == "coop"
    for run in comparison.runs:
        assert run.test is not None
        assert run.accuracy() == pytest.approx(run.result.results["held_out_accuracy"])
    for word, places in comparison.shared:
        assert [bool(p) for p in places] == [word in run.result.words for run in comparison.runs]
    first = comparison.runs[0].result.words[0]  # lambda has no say in the first word
    assert (first, (1, 0, 1)) in comparison.shared
    assert comparison.runs[0].name != comparison.runs[2].name
    order = [(-sum(map(bool, p)), min(filter(None, p)), word) for word, p in comparison.shared]
    assert order == sorted(order)


def test_accuracies_stand_beside_what_they_must_beat(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    four = scenes.only(range(4), "four scenes")
    drawn = {"class_template": "a drawing of a {}.", "epochs": 1, "views": 0, "cache": False}
    for name, data in (("drawing", four), ("not tested", replace(four, test=()))):
        PromptClassifier(pocket, words=0, shots=4, batch=8, **drawn).fit(data).save_pretrained(
            tmp_path / name
        )
    runs = [make_run("coop", 2), tmp_path / "drawing", tmp_path / "not tested"]
    saved = compare_runs(runs, device="cpu", cache=False)
    table = accuracy_table(saved)
    assert table.columns[1:] == (
        "accuracy",
        "95 % interval",
        "zero-shot",
        "linear probe",
        "images",
    )
    for run, row in zip(saved.runs[:2], table.rows, strict=False):
        counts = run.result.comparison
        assert counts is not None
        low, high = counts.interval(counts.prompt)
        beaten = [counts.accuracy(counts.methods[n]) for n in (0, 1)]
        assert row[1:] == (
            percent(counts.accuracy(counts.prompt)),
            f"{100 * low:.1f} to {100 * high:.1f}",
            *map(percent, beaten),
            "16",
        )
    assert table.rows[2] == ("not tested", "-", "-", "-", "-", "0")
    assert accuracy_notes(saved)[0].startswith("As saved when each was trained")
    now = compare_runs(runs[:2], six_scenes, device="cpu", cache=False)
    assert [(*row[:4], row[5]) for row in table.rows[:2]] == [*accuracy_table(now).rows]
    low, high = comparison_values(now)["runs"][0]["interval"]
    assert 0 <= low < high <= 1
    assert comparison_values(saved)["runs"][2]["interval"] is None


def test_other_classes_cannot_be_compared(
    pocket: Backbone, make_run: MakeRun, scenes: Dataset, six_scenes: Path, tmp_path: Path
) -> None:
    hyperparameters = {"epochs": 1, "views": 0, "cache": False, "batch": 8}
    few = scenes.only(range(2), "two scenes")
    PromptClassifier(pocket, words=0, shots=2, **hyperparameters).fit(few).save_pretrained(
        tmp_path / "two"
    )
    runs = [make_run("coop", 0), tmp_path / "two", tmp_path / "two"]
    comparison = compare_runs(runs, six_scenes, device="cpu", cache=False)
    assert [run.images for run in comparison.runs] == [16, 8, 8]
    assert not comparison.same_classes
    assert not comparison.same_images
    settings = dict(comparison.differ) | dict(comparison.same)
    assert "interval" not in settings  # it means nothing without words
    two = tmp_path / "two"
    assert f"{two} (2) and {two} (3) are the same prompt." in comparison.notes
    text = as_markdown(comparison_document(comparison))
    assert "accuracies over different classes cannot be compared" in text
    assert accuracy_notes(comparison)[1] in text
    assert "4 classes, 16 images" in as_html(comparison_document(comparison))
    alike = compare_runs([runs[0], make_run("coop", 2)], six_scenes, device="cpu", cache=False)
    assert alike.same_classes
    assert alike.same_images
    assert "cannot be compared" not in as_markdown(comparison_document(alike))


def test_one_run_is_no_comparison(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare_runs([make_run("coop", 0)])
