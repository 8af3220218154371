"""What version 0.1.0 wrote: run ids stay, records and recipes load, its grids resume."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ipl.bench.records
import ipl.bench.run
from ipl.bench.engines.engine import FinishedRun, Queue, ReportProgress
from ipl.bench.grid import run_grid
from ipl.bench.plan import Plan
from ipl.bench.planned_runs import plan_runs
from ipl.bench.recipe import read_recipe
from ipl.bench.records import read_record, read_records
from ipl.bench.run import RECORDED_IN_0_1_0, Run, expand
from ipl.bench.tables.result_table import build_tables, display_tables
from ipl.display.table import tables_to_markdown

FOLDER = Path(__file__).parent / "version-0.1.0"
# The plans of the records in that folder.
RECORDED_PLANS: tuple[dict[str, Any], ...] = (
    {
        "protocol": "base-to-novel",
        "datasets": "scenes",
        "learners": "zero-shot,coop",
        "words": "0,2",
        "seeds": 1,
        "epochs": 4,
        "interval": 2,
        "shots": 4,
        "views": 2,
    },
    *(
        {
            "protocol": protocol,
            "source": "pacs/photo",
            "datasets": "pacs/sketch",
            "arms": "words",
            "words": 1,
            "seeds": 1,
            "epochs": 2,
            "interval": 1,
            "shots": 2,
            "views": 0,
        }
        for protocol in ("cross-dataset", "domain")
    ),
)
# Plans and the ids of their runs as version 0.1.0 computed them; what it called auto is paper now.
PLANS: list[tuple[dict[str, Any], list[str]]] = [
    # defaults
    (
        {"protocol": "base-to-novel", "datasets": "dtd", "seeds": 1, "words": "0,paper"},
        ["dtd-coop-0w-seed1-88a18544", "dtd-coop-auto-seed1-b2280aa2"],
    ),
    # every learner
    (
        {
            "protocol": "base-to-novel",
            "datasets": "dtd",
            "seeds": 1,
            "learners": "zero-shot,coop,cocoop,kgcoop,maple,promptsrc",
            "words": "0,2",
        },
        [
            "dtd-zero-shot-0w-seed1-65c5c375",
            "dtd-coop-0w-seed1-88a18544",
            "dtd-coop-2w-seed1-d4b0c51f",
            "dtd-cocoop-0w-seed1-6ba896ff",
            "dtd-cocoop-2w-seed1-70ba77f3",
            "dtd-kgcoop-0w-seed1-0a1140ee",
            "dtd-kgcoop-2w-seed1-919f5f8f",
            "dtd-maple-0w-seed1-ddd07a74",
            "dtd-maple-2w-seed1-93dc9a43",
            "dtd-promptsrc-0w-seed1-1927b290",
            "dtd-promptsrc-2w-seed1-86196c99",
        ],
    ),
    # imagenet
    (
        {"protocol": "base-to-novel", "datasets": "imagenet,eurosat", "seeds": "1,2", "words": "0"},
        [
            "imagenet-coop-0w-seed1-e9768eb9",
            "imagenet-coop-0w-seed2-23ae90dc",
            "eurosat-coop-0w-seed1-c66fc00a",
            "eurosat-coop-0w-seed2-1573ae1c",
        ],
    ),
    # epochs given
    (
        {
            "protocol": "base-to-novel",
            "datasets": "imagenet",
            "seeds": 1,
            "words": "0,1",
            "epochs": 9,
            "interval": 3,
            "views": 0,
            "batch": "8",
            "lr": 1,
            "m": 3,
        },
        ["imagenet-coop-0w-seed1-5bb92910", "imagenet-coop-1w-seed1-7c5b73b7"],
    ),
    # words
    (
        {
            "protocol": "base-to-novel",
            "datasets": "dtd",
            "seeds": 1,
            "arms": "words",
            "words": "3",
            "lambda": 0,
            "preset": "reference",
            "word_embedding": "token",
            "template": "a {cls} showcasing: {words}",
            "search": "screen",
            "shortlist": 200,
            "placeholder": "zero",
            "no_names": True,
        },
        ["dtd-coop-3w-seed1-86e78a81"],
    ),
    # screen
    (
        {
            "protocol": "base-to-novel",
            "datasets": "dtd",
            "seeds": 1,
            "arms": "words",
            "words": "1",
            "search": "screen",
            "views": "fresh",
        },
        ["dtd-coop-1w-seed1-3467783f"],
    ),
    # own words
    (
        {
            "protocol": "base-to-novel",
            "datasets": "dtd",
            "seeds": 1,
            "words": "0,1",
            "words_file": "WORDS_FILE",
        },
        ["dtd-coop-0w-seed1-88a18544", "dtd-coop-1w-seed1-d4529ee7"],
    ),
    # deep
    (
        {
            "protocol": "base-to-novel",
            "datasets": "dtd",
            "seeds": 1,
            "learners": "maple",
            "words": "0,paper",
            "depth": 2,
            "precision": "bf16",
            "backbone": "openai/clip-vit-base-patch16",
            "shots": 4,
        },
        ["dtd-maple-0w-seed1-d911ca0d", "dtd-maple-auto-seed1-c4ca8a40"],
    ),
    # cross-dataset
    (
        {
            "protocol": "cross-dataset",
            "datasets": "dtd,caltech101",
            "learners": "zero-shot,coop,maple",
            "words": "0,paper",
            "seeds": 3,
        },
        [
            "imagenet-zero-shot-0w-seed3-870a1ceb",
            "imagenet-coop-0w-seed3-712af9a7",
            "imagenet-coop-auto-seed3-85614a2e",
            "imagenet-maple-0w-seed3-d3ebe3ef",
            "imagenet-maple-auto-seed3-9bbe3bdb",
        ],
    ),
    # domain
    (
        {
            "protocol": "domain",
            "source": "pacs/photo",
            "datasets": ["pacs/sketch"],
            "learners": "zero-shot,promptsrc",
            "words": [0, 1],
            "seeds": [2],
            "epochs": 4,
            "interval": 2,
        },
        [
            "pacs-photo-zero-shot-0w-seed2-814596ad",
            "pacs-photo-promptsrc-0w-seed2-c4e579bd",
            "pacs-photo-promptsrc-1w-seed2-cb7de7be",
        ],
    ),
]
RECIPE_IDS = [
    "eurosat-zero-shot-0w-seed1-b5accaef",
    "eurosat-maple-0w-seed1-fdeccb4b",
    "eurosat-maple-auto-seed1-c7a9088c",
    "oxford_pets-zero-shot-0w-seed1-7177263a",
    "oxford_pets-maple-3w-seed1-57b38240",
    "eurosat-maple-auto-seed1-4193ceea",
    "oxford_pets-maple-3w-seed1-c7c22214",
]


def recorded_runs() -> list[Run]:
    return [run for plan in RECORDED_PLANS for run in expand(Plan.from_values(plan))]


@pytest.mark.parametrize(("values", "ids"), PLANS)
def test_ids_stay(values: dict[str, Any], ids: list[str], tmp_path: Path) -> None:
    if "words_file" in values:
        path = tmp_path / "words.txt"
        path.write_text("sand\nwater\nstone\n")
        values = {**values, "words_file": str(path)}
    assert [run.id for run in expand(Plan.from_values(values))] == ids


def test_a_recipe_still_means_the_same_runs(tmp_path: Path) -> None:
    text = (FOLDER / "recipe.yaml").read_text(encoding="utf-8").replace("auto", "paper")
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    recipe = read_recipe(str(tmp_path / "recipe.yaml"))
    assert recipe.title == "Every setting of a recipe of version 0.1.0"
    runs = plan_runs(recipe, tmp_path, tmp_path).runs
    assert [run.id for run in runs] == RECIPE_IDS


def test_records_load_and_become_tables() -> None:
    records, notes = read_records([FOLDER])
    assert notes == []
    kinds = {(record.protocol, record.learner, record.words) for record in records}
    assert kinds == {
        ("base-to-novel", "zero-shot", 0),
        ("base-to-novel", "coop", 0),
        ("base-to-novel", "coop", 2),
        ("cross-dataset", "coop", 1),
        ("domain", "coop", 1),
    }
    tables = build_tables(records)
    assert [table.protocol for table in tables] == ["base-to-novel", "cross-dataset", "domain"]
    text = tables_to_markdown(display_tables(tables))
    for record in records:
        for accuracy in record.accuracy.values():
            assert f"{100 * accuracy:.2f}" in text
    (gain,) = tables[0].gains
    assert (gain.method.label, gain.baseline.label) == ("CoOp + IPL", "CoOp")


def test_what_a_record_says_of_its_run_is_what_a_run_says() -> None:
    for run in recorded_runs():
        path = FOLDER / "records" / f"{run.id}.json"
        values = json.loads(path.read_text())
        assert list(values["settings"].items()) == list(run.settings.items())
        for name in ("protocol", "dataset", "targets", "learner", "words", "seed", "shots"):
            assert values[name] == run.as_values()[name]


class _Idle:
    """An engine that does no run."""

    def __init__(self) -> None:
        self.waiting = 0

    def work(self, queue: Queue, report: ReportProgress) -> Iterator[FinishedRun]:
        self.waiting = len(queue)
        return iter(())


def test_a_grid_resumes(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "records", tmp_path / "records")
    runs, engine = recorded_runs(), _Idle()
    result = run_grid(runs, tmp_path, engine)
    assert sorted(result.before) == sorted(run.id for run in runs)
    assert engine.waiting == 0
    (tmp_path / "records" / f"{runs[0].id}.json").unlink()
    assert len(run_grid(runs, tmp_path, engine).before) == len(runs) - 1
    assert engine.waiting == 1


def test_a_setting_that_was_added_later_is_recorded_where_it_is_not_at_its_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"protocol": "base-to-novel", "datasets": "dtd", "words": 0, "seeds": 1}
    (before,) = expand(Plan.from_values(values))
    # As if `strict` were an option of training that 0.1.0 did not have.
    recorded = (*ipl.bench.run._recorded_fields(), "strict")
    monkeypatch.setattr(ipl.bench.run, "_recorded_fields", lambda: recorded)
    assert "strict" not in RECORDED_IN_0_1_0
    (same,) = expand(Plan.from_values(values))
    assert (same.id, same.settings) == (before.id, before.settings)
    plan = Plan.from_values(values)
    object.__setattr__(plan.config, "strict", True)
    (other,) = expand(plan)
    assert other.settings == {**before.settings, "strict": True}
    assert other.id != before.id


def test_a_record_without_a_later_setting_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipl.bench.records, "added_settings", lambda: {"init": "noise"})
    record = read_record(next((FOLDER / "records").glob("scenes-coop-2w*.json")))
    assert record is not None
    assert record.config()["init"] == "noise"
