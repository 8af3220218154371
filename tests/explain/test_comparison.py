"""Runs side by side: what they share, what differs, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.display.markdown import as_markdown
from ipl.display.page import as_html
from ipl.explain.comparison import compare_runs, comparison_document, comparison_values
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
    values = json.loads(json.dumps(comparison_values(comparison), allow_nan=False))
    assert values["differ"]["words"] == ["2", "0"]
    hashes = [h for run in comparison.runs for each in run.result.image_hashes for h in each]
    assert hashes
    assert not any(digest in json.dumps(values) or digest in text for digest in hashes)


def test_compared_runs(pocket: Backbone, make_run: MakeRun, six_scenes: Path) -> None:
    runs = [make_run("coop", 2), make_run("coop", 0), make_run("coop", 2, lambda_=0.0)]
    comparison = compare_runs(runs, six_scenes, device="cpu", cache=False)
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


def test_one_run_is_no_comparison(pocket: Backbone, make_run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare_runs([make_run("coop", 0)])
