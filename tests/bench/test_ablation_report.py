"""Ablations as tables and plots."""

from __future__ import annotations

import csv
import json
import re
from io import BytesIO, StringIO
from pathlib import Path

import pytest
from PIL import Image
from recorded import record_of, write_records

from ipl.bench import ablation_plot as plots
from ipl.bench.ablation import Ablation, sum_up
from ipl.bench.ablation_plot import plot_ablation
from ipl.bench.ablation_tables import ablation_csv, ablation_sheet, ablation_values
from ipl.bench.recipe import plan_runs, read_recipe
from ipl.bench.records import read_records
from ipl.display.table import as_markdown
from ipl.support.errors import ConfigError


def make(tmp_path: Path, name: str, **settings: object) -> Ablation:
    tmp_path.mkdir(exist_ok=True)
    chosen = {"datasets": "eurosat,oxford_pets", "seeds": "1,2", "backbone": "pocket", **settings}
    planned = plan_runs(read_recipe(f"ablations/{name}").override(chosen), tmp_path, tmp_path)
    records = [
        record_of(run, {"base": 0.6 + 0.05 * run.seed, "novel": 0.3 + 0.01 * place})
        for place, (_, runs) in enumerate(planned.levels)
        for run in runs
    ]
    folder = write_records(tmp_path / "out", *records[:-1])  # the last run is missing
    return sum_up(name, planned, read_records([folder])[0])


def test_the_table(tmp_path: Path) -> None:
    sheet = ablation_sheet(make(tmp_path, "interval"))
    assert sheet.columns == ["dataset", "method", "t", "base", "novel", "HM", "seeds"]
    assert [len(section) for section in sheet.sections] == [7, 7, 7]
    assert sheet.sections[2][0] == [
        *("average", "CoOp + IPL", "5"),
        *("67.50 ± 3.54", "30.00 ± 0.00", "41.54 ± 0.67", "2"),
    ]
    assert sheet.sections[0][-1][-1] == "1 [1]"
    assert sheet.footnotes[0] == "1 of 2 seeds (not run: seed 2)"
    assert "pocket, 16 shots" in sheet.caption
    assert "| eurosat |" in as_markdown([sheet])


def test_the_papers_penalty_is_named_with_its_setting(tmp_path: Path) -> None:
    # No words are in the records: they are the same.
    seen, same, note = ablation_sheet(make(tmp_path, "penalty")).notes
    assert "PocketCLIP (pocket) was itself trained" in seen
    assert same == "Every level chose the same words: it makes no difference here."
    assert "CLIP ViT-B/16, CoOp + IPL, eleven datasets" in note
    assert "without the penalty novel 66.85, HM 73.45; with 0.1" in note
    assert ablation_sheet(make(tmp_path / "t", "interval", backbone="other")).notes == []


def test_for_programs(tmp_path: Path) -> None:
    ablation = make(tmp_path, "penalty")
    rows = list(csv.DictReader(StringIO(ablation_csv(ablation))))
    assert len(rows) == 18
    assert [row["penalty"] for row in rows if row["dataset"] == "average"][:2] == ["0", "0.1"]
    assert float(rows[0]["base"]) == pytest.approx(67.5)
    values = json.loads(json.dumps(ablation_values(ablation), allow_nan=False))
    assert values["ablation"] == "penalty"
    assert values["rows"][0]["numbers"]["novel"]["mean"] == pytest.approx(30)


@pytest.mark.parametrize(
    ("name", "ticks"),
    [
        ("penalty", ["0", "0.1", "0.5"]),
        ("template", ["focusing", "showcasing", "emphasis"]),
        ("pool", ["bundled", "no-names"]),
    ],
)
def test_the_plot(name: str, ticks: list[str], tmp_path: Path) -> None:
    ablation = make(tmp_path, name, words="0,1", learners="coop,kgcoop")
    files = plot_ablation(ablation)
    assert set(files) == {"svg", "png"}
    image = Image.open(BytesIO(files["png"]))
    assert image.width > 1500
    texts = re.findall(r"<!-- (.*?) -->", files["svg"].decode())
    assert {*ticks, "accuracy in %", ablation.axis} <= set(texts)
    assert texts.count("CoOp + IPL") == 1  # the legend
    assert {"base classes", "novel classes", "harmonic mean"} <= set(texts)


def test_one_method_needs_no_legend(tmp_path: Path) -> None:
    ablation = make(tmp_path, "interval")
    svg = plot_ablation(ablation)["svg"]
    texts = re.findall(r"<!-- (.*?) -->", svg.decode())
    assert plot_ablation(ablation)["svg"] == svg  # the same numbers, the same file
    assert "CoOp + IPL" not in texts
    title = "CoOp + IPL, average of 2 datasets, pocket, 16 shots: "
    assert title + "mean and standard deviation of 1 to 2 seeds" in texts


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ipl\[plots\]', or leave it out"):
        plots.check_matplotlib()
