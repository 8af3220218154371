"""Settings of several runs: what is the same is the same in all that it is said of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ipl.explain.compared_settings import compare_settings
from ipl.saving.format import read_run
from ipl.training.result import FitResult

ABOUT_WORDS = ("interval", "placeholder", "lambda", "preset", "template", "search", "pool size")
MakeRun = Callable[..., Path]


def _with_interval(result: FitResult, interval: int) -> FitResult:
    return replace(result, hyperparameters=replace(result.hyperparameters, interval=interval))


def test_settings_about_words_are_compared_among_runs_with_slots(make_run: MakeRun) -> None:
    two, none = read_run(make_run("coop", 2)), read_run(make_run("coop", 0))
    other = read_run(make_run("coop", 2, lambda_=0.0))
    plain = _with_interval(none, 10)  # which is of no meaning
    settings = compare_settings([two, plain, other])
    differ, same = dict(settings.differ), dict(settings.same)
    assert differ["words"] == ("2", "0", "2")
    assert differ["lambda"] == ("0.1", "", "0.0")
    assert same["learner"] == "coop"
    assert not {*ABOUT_WORDS} & same.keys()
    assert {*ABOUT_WORDS} - dict(settings.same_with_slots).keys() == {"lambda"}
    assert dict(settings.same_with_slots)["interval"] == "1"


def test_what_only_one_run_has_is_not_the_same_in_all(make_run: MakeRun) -> None:
    two, none = read_run(make_run("coop", 2)), read_run(make_run("coop", 0))
    settings = compare_settings([two, none])
    assert not {*ABOUT_WORDS} & (dict(settings.same) | dict(settings.differ)).keys()
    assert settings.same_with_slots == ()
    both = compare_settings([two, _with_interval(two, 2)])
    assert dict(both.differ) == {"interval": ("1", "2")}
    assert {*ABOUT_WORDS} - dict(both.same).keys() == {"interval"}
    assert compare_settings([none, _with_interval(none, 10)]).differ == ()
