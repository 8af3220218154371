"""The saved form: three files that read back as they were, and every way they can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.config import FitConfig
from ipl.saving.format import read_run, write_run
from ipl.saving.run_folder import check_target, find_run
from ipl.support.errors import IplError, SavedRunError
from ipl.support.files import replace_folder
from ipl.training.comparison import Comparison, Method
from tests.helpers.saved_runs import make_result


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns the folder of a saved prompt."""
    write_run(tmp_path / "run", make_result())
    return tmp_path / "run"


def test_round_trip(run: Path) -> None:
    assert sorted(path.name for path in run.iterdir()) == [
        "README.md",
        "config.json",
        "prompt.safetensors",
    ]
    back = read_run(run)
    assert back == make_result()  # all but the tensors
    assert back.tensors.keys() == {"soft"}
    assert torch.equal(back.tensors["soft"], make_result().tensors["soft"])
    assert back.layout.soft_count == 4
    assert back.layout.slots == 1


def test_a_view_of_a_tensor_is_saved(tmp_path: Path) -> None:
    view = torch.arange(12.0).reshape(3, 4).T.requires_grad_()
    write_run(tmp_path / "run", make_result(tensors={"soft": view}))
    assert torch.equal(read_run(tmp_path / "run").tensors["soft"], view.detach())


def test_a_prompt_without_words(tmp_path: Path) -> None:
    config = FitConfig(words=0)
    plain = make_result(config=config, prompt="[V V V V] {cls}.", words=(), selection=None)
    write_run(tmp_path / "run", plain)
    assert read_run(tmp_path / "run") == plain


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
    for place, value, says in (
        ("name", "magic", "results.comparison has the method 'magic'"),
        ("correct", [9, 0], "contradict each other"),
        ("correct", [1, 0, 0], "contradict each other"),
        ("gained", -1, "results.comparison.methods[0].gained is -1"),
    ):
        damaged = json.loads(json.dumps(config))
        damaged["results"]["comparison"]["methods"][0][place] = value
        path.write_text(json.dumps(damaged), encoding="utf-8")
        with pytest.raises(SavedRunError, match="is damaged") as caught:
            read_run(tmp_path / "run")
        assert says in str(caught.value)


# -- where a run may be saved ---------------------------------------------------------------------


def test_new_and_empty_targets_are_fine(tmp_path: Path) -> None:
    check_target(tmp_path / "new")
    check_target(tmp_path / "deep" / "new")
    (tmp_path / "empty").mkdir()
    check_target(tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]  # looking makes nothing


def test_a_saved_run_needs_overwrite(run: Path) -> None:
    with pytest.raises(SavedRunError, match="already contains a saved run"):
        write_run(run, make_result(config=FitConfig(learner="kgcoop")))
    assert read_run(run).config.learner == "coop"
    write_run(run, make_result(config=FitConfig(learner="kgcoop")), overwrite=True)
    assert read_run(run).config.learner == "kgcoop"


def test_a_run_that_appears_while_another_is_written_stays(run: Path) -> None:
    """Whoever put it there: the rename itself refuses to replace it."""
    target = run.with_name("other")

    def write() -> None:
        with replace_folder(target) as work:
            (work / "config.json").write_text("{}")
            run.rename(target)

    with pytest.raises(IplError, match="not empty"):
        write()
    assert read_run(target).config.learner == "coop"
    with pytest.raises(SavedRunError, match="already contains a saved run"):
        write_run(target, make_result(config=FitConfig(learner="kgcoop")))
    assert [path.name for path in run.parent.iterdir()] == ["other"]


@pytest.mark.faults
def test_a_run_between_two_renames_is_found(run: Path) -> None:
    """As --overwrite leaves it if it is killed there: the run that is read is the new one."""
    write_run(run.with_name("new"), make_result(config=FitConfig(learner="kgcoop")))
    run.rename(run.with_name(".run.old"))
    run.with_name("new").rename(run.with_name(".run.new"))
    assert find_run(run) == run
    assert read_run(run).config.learner == "kgcoop"
    assert [path.name for path in run.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("overwrite", [True, False])
def test_other_things_are_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text("mine")
    with pytest.raises(SavedRunError, match="is a file"):
        check_target(tmp_path / "file", overwrite)
    with pytest.raises(SavedRunError, match="contains other files"):
        check_target(tmp_path / "folder", overwrite)


def test_a_name_longer_than_the_system_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IplError, match="x{300}"):
        check_target(tmp_path / ("x" * 300))


# -- what is wrong with a saved run ---------------------------------------------------------------


def _rewrite(run: Path, **changes: Any) -> None:
    config = json.loads((run / "config.json").read_text())
    config.update(changes)
    (run / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value is not ...})
    )


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
    ("place", "value", "says"),
    [
        ("format", "else", "does not describe an ipl prompt."),
        ("format_version", 1, "has format version 1; this ipl reads version 2."),
        ("learner", "else", "was trained with the learner 'else', which is not installed"),
        ("config", 5, "config is 5; it must be an object."),
        ("config.views", "frsh", "views is 'frsh'; it must be a whole number from 0"),
        ("config.colour", "red", "'colour' is not a setting."),
        ("config.interval", 200, "words (k = 1) times interval"),
        ("words", "stone", 'words is "stone"; it must be a list.'),
        ("words", ["water"], "the words differ from those in the prompt."),
        ("prompt", "[V V] *stone* {cls} {cls}", "names the class once"),
        ("classes.1", None, "classes[1] is null; it must be a text."),
        ("classes.1", "\ud800", "classes[1] is "),
        ("alike", 1, "alike is 1; it must be true or false."),
        ("backbone.weights_sha256", ..., "backbone.weights_sha256 is missing; it must be a text."),
        ("preprocessing.mean", [0.5], "preprocessing.mean is [0.5]; it must be a list"),
        ("training", [], "training is []; it must be an object."),
        ("training.lr", "fast", 'training.lr is "fast"; it must be a number.'),
        ("training.epochs", 0, "epochs is 0; it must be 1 or more."),
        ("training.average_mean", "late", 'average_mean is "late"; it must be a number or null.'),
        ("training.history.epochs.0.loss", True, "epochs[0].loss is true; it must be a number."),
        ("training.image_hashes", ["ab", "cd"], "has 2 images of 2 classes; the prompt was"),
        ("results.train_accuracy", 75, "train_accuracy is 75; it must be a number from 0 to 1."),
        ("results.words_tried.0.words", -1, "words_tried[0].words is -1; it must be a whole num"),
        ("selection", None, "selection has 0 steps for 1 words; each word has one."),
        ("selection.steps.0.gain", float("nan"), "steps[0].gain is NaN; it must be a number."),
        ("selection.pool_size", 10**30, "selection.pool_size is 1000"),
        ("ipl_version", ..., "ipl_version is missing; it must be a text."),
    ],
)
def test_a_value_that_cannot_be_is_named(place: str, value: Any, says: str, run: Path) -> None:
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
    assert told.startswith(str(run))
    assert says in told
    assert told.endswith(".")
    assert "\n" not in told


@pytest.mark.parametrize("settings", [{"words_given": "stone"}, {"words": 1, "random_words": 1}])
def test_words_that_no_search_chose_have_no_steps(settings: dict[str, Any], tmp_path: Path) -> None:
    saved = make_result(config=FitConfig(**settings), selection=None)
    write_run(tmp_path / "run", saved)
    assert read_run(tmp_path / "run") == saved
    _rewrite(tmp_path / "run", config=FitConfig(words=1).as_dict())
    with pytest.raises(SavedRunError, match="selection has 0 steps for 1 words"):
        read_run(tmp_path / "run")


def test_unknown_fields_are_no_harm(run: Path) -> None:
    _rewrite(run, later="x")
    assert read_run(run) == make_result()


@pytest.mark.faults
def test_damage_anywhere_in_either_file_is_said(run: Path) -> None:
    for name in ("config.json", "prompt.safetensors"):
        data = (run / name).read_bytes()
        for length in {*range(0, len(data) - 2, max(1, len(data) // 10)), len(data) - 2}:
            (run / name).write_bytes(data[:length])
            with pytest.raises(SavedRunError, match="is damaged|is not valid JSON") as caught:
                read_run(run)
            assert str(run / name) in str(caught.value)
        (run / name).write_bytes(data)
    assert read_run(run) == make_result()


@pytest.mark.faults
def test_deep_and_binary_configs_are_not_valid_json(run: Path) -> None:
    for content in (b"[" * 200_000, b"\xff\xfe\x00", b"\x00"):
        (run / "config.json").write_bytes(content)
        with pytest.raises(SavedRunError, match="config.json is not valid JSON"):
            read_run(run)
