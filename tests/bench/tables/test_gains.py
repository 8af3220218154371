"""Gains: what layout, choice and words are worth, over datasets and their seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from ipl.bench.statistics import SIGN_FLIP, STUDENT, Effect
from ipl.bench.tables.gains import BASELINES, Gain, find_gains, gains_table
from ipl.metrics import harmonic_mean
from tests.helpers.records import record
from tests.helpers.result_tables import result_of

SIX = ("caltech101", "oxford_pets", "oxford_flowers", "dtd", "eurosat", "ucf101")
ARMS: dict[str, dict[str, Any]] = {
    "plain": {"words": 0},
    "empty": {"words": 3, "empty_slots": True},
    "random": {"words": 3, "random_words": 1},
    "words": {"words": 3},
}


def arm(name: str, dataset: str, seed: int, novel: float, **more: Any) -> dict[str, Any]:
    values = {**ARMS[name], **more}
    return record(dataset, seed=seed, accuracy={"base": 0.8, "novel": novel}, **values)


def gains_of(folder: Path, *runs: dict[str, Any]) -> dict[str, Gain]:
    return {gain.comparison: gain for gain in find_gains(result_of(folder, *runs))}


def test_every_comparison_of_two_arms(tmp_path: Path) -> None:
    novel = {"plain": 0.5, "empty": 0.6, "random": 0.62, "words": 0.65}
    runs = [
        arm(name, dataset, seed, value + 0.001 * seed)
        for name, value in novel.items()
        for dataset in SIX
        for seed in (1, 2)
    ]
    gains = gains_of(tmp_path, *runs)
    assert list(gains) == ["layout", "choice", "words in all", "everything"]
    differences = {name: gain.effects["novel"].difference for name, gain in gains.items()}
    assert differences == pytest.approx(
        {"layout": 10, "choice": 3, "words in all": 5, "everything": 15}
    )
    effect = gains["layout"].effects["novel"]
    assert (effect.units, effect.pairs) == (6, 12)
    assert effect.p == pytest.approx(2 / 2**6)
    # Four comparisons with the same p: Holm multiplies it by four.
    assert gains["choice"].adjusted["novel"] == pytest.approx(4 * 2 / 2**6)
    assert gains["layout"].effects["base"].difference == 0
    # Differences in HM are of the HM of each run.
    hms = {
        name: [harmonic_mean(80, 100 * (value + 0.001 * seed)) for seed in (1, 2)]
        for name, value in novel.items()
    }
    difference = mean(hms["words"]) - mean(hms["empty"])
    assert gains["words in all"].effects["hm"].difference == pytest.approx(difference)


def test_what_differs_beyond_the_arms_is_a_footnote(tmp_path: Path) -> None:
    runs = [arm(name, "dtd", 1, 0.5) for name in ("plain", "empty", "words")]
    gains = gains_of(tmp_path, *runs)
    assert gains["words in all"].differences == ()
    differences = ("T (200 and 100)", "m (4 and 2)", "how the vectors start")
    assert gains["layout"].differences == differences
    table = gains_table(result_of(tmp_path, *runs), list(gains.values()), "Worth")
    assert "The two arms also differ in T (200 and 100)." in table.footnotes
    assert table.footnotes[-1].startswith("No test: with 1 dataset")


def across(name: str, seed: int, dtd: float) -> dict[str, Any]:
    accuracy = {"imagenet": 0.7, "dtd": dtd, "oxford_pets": 0.5}
    return record("imagenet", seed=seed, accuracy=accuracy, protocol="cross-dataset", **ARMS[name])


def test_across_datasets_a_unit_is_a_prompt_and_three_of_them_are_no_test(tmp_path: Path) -> None:
    runs = [across("empty", seed, 0.5) for seed in range(1, 7)]
    runs += [across("words", seed, 0.5 + 0.01 * seed) for seed in range(1, 7)]
    result = result_of(tmp_path / "a", *runs[:3], *runs[6:9])
    (gain,) = find_gains(result)
    effect = gain.effects["accuracy"]
    assert (effect.units, effect.pairs, effect.p, effect.interval) == (3, 3, None, STUDENT)
    assert effect.difference == pytest.approx(1.0)  # the mean of 0.5, 1 and 1.5
    (reason,) = gains_table(result, [gain], "Worth").footnotes
    assert reason.startswith("No test: with 3 prompts, p cannot be below 0.25; 6 are needed.")
    assert gain.verdict("accuracy") == "unclear"
    (gain,) = find_gains(result_of(tmp_path / "b", *runs))
    assert gain.effects["accuracy"].p == pytest.approx(2 / 2**6)


@pytest.mark.parametrize(
    ("effect", "adjusted", "verdict"),
    [
        (Effect(9.14, 3.2, 14.0, 0.01, 11, 33, SIGN_FLIP), 0.02, "better"),
        (Effect(9.14, 3.2, 14.0, 0.01, 11, 33, SIGN_FLIP), 0.3, "better?"),
        (Effect(-2.0, -3.0, -1.0, 0.001, 11, 33, SIGN_FLIP), 0.001, "worse"),
        (Effect(0.4, -1.1, 1.5, 0.6, 11, 33, SIGN_FLIP), 0.6, "unclear"),
        (Effect(0.1, -0.5, 0.9, 0.6, 11, 33, SIGN_FLIP), 0.6, "equal"),
        (Effect(5.0, 4.0, 6.0, None, 3, 3, STUDENT, "too few"), None, ""),
        (Effect(5.0, None, None, None, 1, 1, "", "too few"), None, ""),
    ],
)
def test_a_verdict_says_no_more_than_its_test(
    effect: Effect, adjusted: float | None, verdict: str, tmp_path: Path
) -> None:
    runs = [arm(name, d, 1, 0.5) for name in ("empty", "words") for d in ("dtd", "eurosat")]
    (gain,) = find_gains(result_of(tmp_path, *runs))
    assert replace(gain, effects={"hm": effect}, adjusted={"hm": adjusted}).verdict("hm") == verdict


def test_baselines_are_compared_with_every_learner(tmp_path: Path) -> None:
    runs = [arm(name, d, s, 0.5) for name in ("plain", "words") for d in SIX for s in (1, 2)]
    runs += [record(d, "zero-shot", 0, accuracy={"base": 0.7, "novel": 0.5}) for d in SIX]
    runs += [record(d, "linear-probe", 0, s, {"base": 0.9}) for d in SIX for s in (1, 2)]
    gains = {gain.comparison: gain for gain in find_gains(result_of(tmp_path, *runs), BASELINES)}
    assert len(gains) == 4
    zero_shot, probe = gains["plain over zero-shot"], gains["words over linear probe"]
    assert (zero_shot.effects["hm"].units, zero_shot.effects["hm"].pairs) == (6, 12)
    assert zero_shot.effects["base"].difference == pytest.approx(10)
    assert list(probe.effects) == ["base"]  # it knows no other classes
    assert probe.adjusted["base"] == pytest.approx(4 * 2 / 2**6)  # of four comparisons


def test_baselines_have_as_many_shots_and_stay_on_what_they_know(tmp_path: Path) -> None:
    runs = [
        record("dtd", name, 0, 1, {"dtd": value + 0.01 * n}, "few-shot", shots=n)
        for name, value in (("coop", 0.5), ("linear-probe", 0.4))
        for n in (1, 16)
    ]
    gains = find_gains(result_of(tmp_path / "few", *runs), BASELINES)
    assert [gain.method.varied for gain in gains] == [{"shots": 1}, {"shots": 16}]
    runs = [across("plain", 1, 0.5)]
    probe = record("imagenet", "linear-probe", 0, 1, {"imagenet": 0.9}, "cross-dataset")
    probe["targets"] = ["dtd", "oxford_pets"]
    (gain,) = find_gains(result_of(tmp_path / "across", *runs, probe), BASELINES)
    assert gain.effects["accuracy"].difference == pytest.approx(-20)
    assert gain.on_source


def test_zero_shot_is_one_run(tmp_path: Path) -> None:
    runs = [across("words", seed, 0.5) for seed in range(1, 9)]
    accuracy = {"imagenet": 0.3, "dtd": 0.3, "oxford_pets": 0.3}
    baseline = record("imagenet", "zero-shot", 0, 1, accuracy, "cross-dataset")
    (gain,) = find_gains(result_of(tmp_path / "a", *runs, baseline), BASELINES)
    assert (gain.effects["accuracy"].p, gain.effects["accuracy"].units) == (None, 8)

    def tested(record: dict[str, Any], images: str) -> dict[str, Any]:
        return record | {"data": {**(record["data"] or {}), "test_sha256": images * 32}}

    # Without a test part, seeds are tested on other images: only those it shares are paired.
    runs = [tested(arm("words", "mine", seed, 0.5), f"{seed:02}") for seed in (1, 2, 3)]
    baseline = tested(record("mine", "zero-shot", 0), "01")
    (gain,) = find_gains(result_of(tmp_path / "b", *runs, baseline), BASELINES)
    assert {effect.pairs for effect in gain.effects.values()} == {1}
