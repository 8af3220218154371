"""Every field of config.json is checked for what it holds, and says what it may hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.saving.format import read_run
from ipl.saving.schema import FIELDS, OrNull
from ipl.support.errors import SavedRunError

VERSION_1 = Path(__file__).parent / "version-1"
Edit = Callable[[str, Any], Path]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """Returns a maker of a saved run with one value changed, or taken out if it is `...`."""
    run = Path(shutil.copytree(VERSION_1, tmp_path / "run"))

    def change(place: str, value: Any) -> Path:
        config = json.loads((run / "config.json").read_text())
        inside, (*parents, last) = config, place.split(".")
        for name in parents:
            inside = inside[int(name)] if name.isdigit() else inside[name]
        if value is ...:
            del inside[last]
        else:
            inside[int(last) if last.isdigit() else last] = value
        (run / "config.json").write_text(json.dumps(config))
        return run

    return change


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("format_version", True, "format_version is true; it must be a whole number from 1."),
        ("format_version", "1", 'format_version is "1"; it must be a whole number from 1.'),
        ("format_version", 1.0, "format_version is 1.0; it must be a whole number from 1."),
        ("learner", 5, "learner is 5; it must be a text."),
        ("words", "dark", 'words is "dark"; it must be a list.'),
        ("classes.1", None, "classes[1] is null; it must be a text."),
        ("alike", 1, "alike is 1; it must be true or false."),
        ("backbone.precision", 32, "backbone.precision is 32; it must be a text."),
        ("preprocessing", {}, "preprocessing.resize is missing; it must be a whole number from 1."),
        ("preprocessing.std", ..., "preprocessing.std is missing; it must be a list of three num"),
        ("preprocessing.mean", [0.5], "preprocessing.mean is [0.5]; it must be a list of three nu"),
        ("preprocessing.crop", "64", 'preprocessing.crop is "64"; it must be a whole number from'),
        ("training", {}, "training.data is missing; it must be a text."),
        ("training", [], "training is []; it must be an object."),
        ("training.classes", "beach", 'training.classes is "beach"; it must be a list.'),
        ("training.classes", [1], "training.classes[0] is 1; it must be a text."),
        ("training.views", "new", 'training.views is "new"; it must be a whole number from 0, or'),
        ("training.epochs", 1.5, "training.epochs is 1.5; it must be a whole number from 1."),
        ("training.depth", None, "training.depth is null; it must be a whole number from 1."),
        ("training.lr", "fast", 'training.lr is "fast"; it must be a number.'),
        ("training.class_template", 5, "training.class_template is 5; it must be a text."),
        ("training.history", 5, "training.history is 5; it must be an object."),
        ("training.history", {}, "training.history.epochs is missing; it must be a list."),
        ("training.history.epochs.0", 1, "training.history.epochs[0] is 1; it must be an object."),
        ("training.history.epochs.3.loss", True, "training.history.epochs[3].loss is true; it mu"),
        ("training.history.epochs.3.word", 1, "[3].word is 1; it must be a text or null."),
        ("results", {}, "results.train_accuracy is missing; it must be a number from 0 to 1."),
        ("results.train_accuracy", "high", 'results.train_accuracy is "high"; it must be a numbe'),
        ("results.train_accuracy", 75, "results.train_accuracy is 75; it must be a number from 0"),
        ("results.held_out_accuracy", "x", "is \"x\"; it must be a number from 0 to 1 or null."),
        ("results.words_tried", 2, "results.words_tried is 2; it must be a list."),
        ("results.words_tried.0", {}, "results.words_tried[0].words is missing; it must be a who"),
        ("selection", {}, "selection.steps is missing; it must be a list."),
        ("selection", 7, "selection is 7; it must be an object or null."),
        ("selection", None, "selection has 0 steps for 2 words; each word has one."),
        ("selection.steps", [], "selection has 0 steps for 2 words; each word has one."),
        ("selection.steps.1", "wall", 'selection.steps[1] is "wall"; it must be an object.'),
        ("selection.steps.1.gain", None, "selection.steps[1].gain is null; it must be a number."),
        ("selection.steps.0.gain", float("nan"), "steps[0].gain is NaN; it must be a number."),
        ("selection.steps.0.runners_up.1", ["x"], 'is ["x"]; it must be a pair of a word and a n'),
        ("selection.steps.0.certified", "yes", 'certified is "yes"; it must be true or false.'),
        ("selection.lambda_", "0.1", 'selection.lambda_ is "0.1"; it must be a number.'),
        ("selection.pool_size", -1, "selection.pool_size is -1; it must be a whole number from 0."),
        ("selection.loss_without_words", [2], "selection.loss_without_words is [2]; it must be a"),
        ("selection.diminishing_returns", 1, "diminishing_returns is 1; it must be an object."),
        ("ipl_version", None, "ipl_version is null; it must be a text."),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind(place: str, value: Any, says: str, edit: Edit) -> None:
    run = edit(place, value)
    with pytest.raises(SavedRunError) as caught:
        read_run(run)
    told = str(caught.value)
    assert told.startswith(f"{run / 'config.json'} is damaged: ")
    assert says in told
    assert told.endswith(".")
    assert "\n" not in told


def test_a_long_value_is_cut(edit: Edit) -> None:
    run = edit("training.history", ["x" * 1000] * 1000)
    with pytest.raises(SavedRunError, match=r'history is \["x{50,60}\.\.\.; it must be an object'):
        read_run(run)


def _needed(value: Any, shape: Any) -> Any:
    """Returns plain values without those that may be missing."""
    shape = shape.shape if isinstance(shape, OrNull) else shape
    if isinstance(shape, list):
        return [_needed(item, shape[0]) for item in value]
    if isinstance(shape, dict):
        return {key: _needed(value[key], kind) for key, kind in shape.items() if key[-1] != "?"}
    return value


def test_what_some_versions_did_not_write_may_be_missing(edit: Edit, pocket: Backbone) -> None:
    config = json.loads((VERSION_1 / "config.json").read_text())
    for name in FIELDS.keys() - {"alike?", "config?"}:
        run = edit(name, _needed(config[name], FIELDS[name]))
    kept = read_run(run)
    assert (kept.history, kept.hyperparameters.depth, kept.trained_classes) == (
        None,
        1,
        kept.classes,
    )
    assert kept.selection is not None
    assert kept.selection.steps[0].certified
    loaded = PromptClassifier.from_pretrained(run, pocket, any_backbone=True)
    assert loaded.words_ == ["dark", "wall"]


def test_what_a_later_version_adds_is_passed_over(edit: Edit, pocket: Backbone) -> None:
    before = PromptClassifier.from_pretrained(VERSION_1, pocket, any_backbone=True)
    for place in ("later", "training.later", "selection.later", "selection.steps.0.later"):
        run = edit(place, 5)
    loaded = PromptClassifier.from_pretrained(run, pocket, any_backbone=True)
    assert loaded.selection_ == before.selection_
