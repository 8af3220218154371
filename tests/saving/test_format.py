"""The saved form: three files that read back as they were, and every way they can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.config import FitConfig
from ipl.saving.format import read_run, write_run
from ipl.saving.run_folder import CONFIG, TENSORS, check_target
from ipl.support.errors import SavedRunError
from ipl.training.comparison import Comparison, Method
from tests.helpers.saved_runs import make_result


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns the folder of a saved prompt."""
    write_run(tmp_path / "run", make_result())
    return tmp_path / "run"


def test_round_trip(run: Path) -> None:
    assert {path.name for path in run.iterdir()} == {"README.md", CONFIG, TENSORS}
    back = read_run(run)
    assert back == make_result()  # all but the tensors
    assert back.tensors.keys() == {"soft"}
    assert torch.equal(back.tensors["soft"], make_result().tensors["soft"])


def test_a_view_of_a_tensor_is_saved(tmp_path: Path) -> None:
    view = torch.arange(12.0).reshape(3, 4).T.requires_grad_()
    write_run(tmp_path / "run", make_result(tensors={"soft": view}))
    assert torch.equal(read_run(tmp_path / "run").tensors["soft"], view.detach())


def test_a_comparison_is_kept_and_checked(tmp_path: Path) -> None:
    methods = (
        Method("zero-shot", "a photo", (1, 0), 4, 1),
        Method("prompt", "[V V]", (1, 3)),
    )
    comparison = Comparison(("beach", "starry night"), (4, 4), methods, (), ("A note.",))
    write_run(tmp_path / "run", make_result(comparison=comparison))
    assert read_run(tmp_path / "run").comparison == comparison
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for place, value in (("name", "magic"), ("correct", [9, 0]), ("gained", -1)):
        damaged = json.loads(json.dumps(config))
        damaged["results"]["comparison"]["methods"][0][place] = value
        path.write_text(json.dumps(damaged), encoding="utf-8")
        with pytest.raises(SavedRunError, match="comparison"):
            read_run(tmp_path / "run")


def test_a_saved_run_needs_overwrite(run: Path) -> None:
    with pytest.raises(SavedRunError, match="already contains a saved run"):
        write_run(run, make_result(config=FitConfig(learner="coop")))
    assert read_run(run).config.learner == "kgcoop"
    write_run(run, make_result(config=FitConfig(learner="coop")), overwrite=True)
    assert read_run(run).config.learner == "coop"


@pytest.mark.parametrize("overwrite", [True, False])
def test_other_things_are_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text("mine")
    with pytest.raises(SavedRunError, match="is a file"):
        check_target(tmp_path / "file", overwrite)
    with pytest.raises(SavedRunError, match="contains other files"):
        check_target(tmp_path / "folder", overwrite)


def test_no_folder_and_no_files(tmp_path: Path, run: Path) -> None:
    with pytest.raises(SavedRunError, match="no such folder"):
        read_run(tmp_path / "none")
    with pytest.raises(SavedRunError):
        read_run(tmp_path / ("x" * 300))
    (run / "prompt.safetensors").unlink()
    with pytest.raises(SavedRunError, match=r"prompt\.safetensors is missing"):
        read_run(run)
    (run / "config.json").unlink()
    with pytest.raises(SavedRunError, match=r"config\.json is missing"):
        read_run(run)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("format", "else"),
        ("format_version", 1),
        ("learner", "else"),
        ("config.colour", "red"),
        ("config.interval", 200),
        ("words", ["water"]),
        ("prompt", "[V V] *stone* {cls} {cls}"),
        ("classes.1", "\ud800"),
        ("backbone.weights_sha256", ...),
        ("preprocessing.mean", [0.5]),
        ("training.epochs", 0),
        ("training.image_hashes", ["ab", "cd"]),
        ("results.train_accuracy", 75),
        ("selection", None),
        ("selection.steps.0.gain", float("nan")),
        ("selection.pool_size", 10**30),
    ],
)
def test_a_value_that_cannot_be_is_named(place: str, value: Any, run: Path) -> None:
    inside = config = json.loads((run / "config.json").read_text())
    *parents, last = place.split(".")
    for name in parents:
        inside = inside[int(name) if name.isdigit() else name]
    if value is ...:
        del inside[last]
    else:
        inside[int(last) if last.isdigit() else last] = value
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(SavedRunError) as caught:
        read_run(run)
    told = str(caught.value)
    field = {"config.interval": "words", "format": "prompt", "training.image_hashes": "images"}
    assert told.startswith(str(run))
    assert field.get(place, (parents[-1] if last.isdigit() else last).replace("_", " ")) in (
        told.replace("_", " ")
    )
    assert "\n" not in told


@pytest.mark.parametrize("settings", [{"words_given": "stone"}, {"words": 1, "random_words": 1}])
def test_words_that_no_search_chose_have_no_steps(settings: dict[str, Any], tmp_path: Path) -> None:
    saved = make_result(config=FitConfig(**settings), selection=None)
    write_run(tmp_path / "run", saved)
    assert read_run(tmp_path / "run") == saved
    file = tmp_path / "run" / CONFIG
    config = json.loads(file.read_text()) | {"config": FitConfig(words=1).as_dict()}
    file.write_text(json.dumps(config))
    with pytest.raises(SavedRunError, match="selection has 0 steps for 1 words"):
        read_run(tmp_path / "run")
