"""Plans: plain values in, checked; the runs that they mean out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.plan import Plan
from ipl.bench.run import Run
from ipl.support.errors import ConfigError, IplError

SMALL = {"protocol": "base-to-novel", "datasets": "dtd"}


def plan(**values: Any) -> Plan:
    return Plan.from_values({**SMALL, **values})


def only(**values: Any) -> Run:
    (run,) = plan(**{"seeds": 1, "arms": "words", **values}).runs()
    return run


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"protocol": "novel"}, "protocol is 'novel'; it must be one of base-to-novel"),
        ({"learner": "coop"}, "'learner' is not a setting of a plan. Did you mean 'learners'"),
        ({"learners": "kooop"}, "No learner is called 'kooop'"),
        ({"words": "0,few"}, "words is 'few'"),
        ({"epochs": 1.5}, "epochs is 1.5; it must be a whole number"),
        ({"source": "dtd"}, "source is 'dtd'; in base-to-novel"),
        ({"protocol": "domain", "source": "dtd"}, "datasets contains 'dtd', which is the source"),
        ({"arms": "wrods"}, "arms contains 'wrods'; allowed are zero-shot, linear-probe"),
        ({"arms": "random", "words": "paper"}, "the arm random needs a number"),
        ({"arms": "given"}, "The arm given has no words for dtd; give them with --given FILE"),
        ({"given": "two words"}, "words_given is 'two words'; it must be single words"),
        ({"draws": 0}, "draws is 0; it must be a whole number from 1 to 1,000."),
        ({"words": 3, "epochs": 2}, "more than epochs (T = 2)"),
    ],
)
def test_a_bad_value_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(IplError) as caught:
        plan(**values).runs()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_id_is_stable_and_tells_settings_apart(tmp_path: Path) -> None:
    run = only(words=3, learners="maple")
    assert run.id.startswith("dtd-maple-3w-seed1-")
    assert run.id == only(words=3, learners="maple").id
    others = [
        only(words=3, learners="maple", **more)
        for more in ({"shots": 8}, {"lr": 0.1}, {"lambda": 0.2}, {"backbone": "a/b"}, {"views": 1})
    ]
    assert len({run.id, *(other.id for other in others)}) == 6


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ({"words": 0}, {"epochs": 200, "m": 4}),
        ({"words": 0, "datasets": "imagenet"}, {"epochs": 50}),
        ({"words": 2, "datasets": "imagenet"}, {"epochs": 100}),
        ({"words": 0, "datasets": "imagenet", "epochs": 9}, {"epochs": 9}),
        ({"learners": "maple", "words": 0}, {"epochs": 5, "lr": 0.0035, "depth": 9}),
        ({"learners": "promptsrc", "words": 0}, {"average_mean": 15}),
        ({"learners": "kgcoop"}, {"class_template": "a photo of a {}, a type of texture."}),
        ({"protocol": "domain"}, {"epochs": 50}),
        ({"protocol": "domain", "learners": "maple"}, {"epochs": 2, "lr": 0.0026, "depth": 3}),
        ({"protocol": "cross-dataset", "learners": "promptsrc"}, {"average_mean": 6}),
        ({"protocol": "few-shot", "shots": 4}, {"epochs": 100}),
        ({"protocol": "few-shot", "shots": 4, "datasets": "imagenet"}, {"epochs": 50}),
        ({"protocol": "few-shot", "learners": "promptsrc", "shots": 1}, {"epochs": 50}),
    ],
)
def test_published_numbers(values: dict[str, Any], settings: dict[str, Any]) -> None:
    run = only(**{"words": 0, **values})
    assert {name: run.settings[name] for name in settings} == settings


def test_an_option_may_stand_for_its_setting() -> None:
    visible = only(pool="visible")
    assert visible == only(pool_part="visible")
    varied = plan(vary=("pool", ("visible", "all")), seeds=1, arms="words")
    assert varied.runs() == (visible, only())


# -- arms -----------------------------------------------------------------------------------------


def test_the_order_of_targets_is_no_other_run() -> None:
    across = {"protocol": "cross-dataset", "words": 0}
    runs = [only(**across, datasets=names) for names in ("dtd,sun397", "sun397,dtd")]
    assert (runs[0].dataset, runs[0].targets) == ("imagenet", ("dtd", "sun397"))
    assert runs[0].id == runs[1].id


def test_arms_without_a_learner_are_run_once_for_all_learners() -> None:
    made = plan(
        arms="zero-shot,linear-probe,words-only,plain",
        learners="coop,kgcoop",
        seeds="1,2",
        words="1,2",
    )
    counts = Counter((run.learner, run.words) for run in made.runs())
    assert counts == {
        ("zero-shot", 0): 1,
        ("linear-probe", 0): 2,  # seeds
        ("words-only", 1): 2,
        ("words-only", 2): 2,
        ("coop", 0): 2,
        ("kgcoop", 0): 2,
    }


def test_no_slots_are_the_plain_learner_and_no_other_arm() -> None:
    runs = plan(arms="plain,empty,words", words="0,1", seeds=1).runs()
    assert [run.arm for run in runs] == ["plain", "empty", "words"]
    with pytest.raises(ConfigError, match="words is 0; the arm empty needs 1 or more"):
        plan(arms="plain,empty,words", words=0, seeds=1).runs()


def test_arms_have_ids_and_titles_of_their_own() -> None:
    arms = "linear-probe,words-only,plain,empty,random,given,words"
    runs = plan(arms=arms, words=2, seeds=1, draws=2, given="sand").runs()
    assert len({run.id for run in runs}) == len(runs) == 9
    assert [run.id.rpartition("-seed")[0].removeprefix("dtd-") for run in runs] == [
        "linear-probe-0w",
        "words-only-2w",
        "coop-0w",
        "coop-2w-empty",
        "coop-1w-empty",
        "coop-2w-random1",
        "coop-2w-random2",
        "coop-1w-given",
        "coop-2w",
    ]
    for run in runs:
        assert bool(run.pool) == (run.arm in ("words-only", "random", "words"))
    # settings that an arm does not depend on make no other run
    searched = plan(arms=arms, words=2, seeds=1, draws=2, given="sand", search="exhaustive").runs()
    same = [run.arm for run, other in zip(runs, searched, strict=True) if run.id == other.id]
    assert same == ["linear-probe", "plain", "empty", "empty", "given"]


def test_the_defaults_are_the_papers_whatever_a_fit_has() -> None:
    (run,) = plan(arms="words", seeds=1).runs()
    assert (run.learner, run.words, run.shots) == ("coop", 3, 16)
    assert (run.settings["utility"], run.settings["lambda_"]) == ("paper", 0.1)
    (other,) = plan(arms="words", seeds=1, utility="calibrated").runs()
    assert (other.settings["utility"], other.settings["lambda_"]) == ("calibrated", 0)
