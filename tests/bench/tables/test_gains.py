"""Gains: what layout, choice and words are worth, over datasets and their seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.statistics import Effect
from ipl.bench.tables.gains import Gain, baseline_verdicts, find_gains, gains_table, verdicts
from tests.helpers.records import record
from tests.helpers.result_tables import result_table

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


def by_comparison(gains: Any) -> dict[str, Gain]:
    return {gain.comparison: gain for gain in gains}


def test_every_comparison_of_two_arms(tmp_path: Path) -> None:
    novel = {"plain": 0.5, "empty": 0.6, "random": 0.62, "words": 0.65}
    runs = [
        arm(name, dataset, seed, value + 0.001 * seed)
        for name, value in novel.items()
        for dataset in SIX
        for seed in (1, 2)
    ]
    gains = by_comparison(result_table(tmp_path, *runs).gains)
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


def test_draws_of_random_words_are_averaged_within_a_seed(tmp_path: Path) -> None:
    runs = [arm("random", "dtd", 1, 0.4 + 0.1 * d, random_words=d) for d in (1, 2, 3)]
    (gain,) = result_table(tmp_path, *runs, arm("words", "dtd", 1, 0.7)).gains
    assert gain.effects["novel"].difference == pytest.approx(10)
    assert (gain.effects["novel"].units, gain.effects["novel"].pairs) == (1, 1)
    assert gain.effects["novel"].low is None


def test_what_differs_beyond_the_arms_is_a_footnote(tmp_path: Path) -> None:
    runs = [arm("plain", "dtd", 1, 0.5), arm("empty", "dtd", 1, 0.5), arm("words", "dtd", 1, 0.5)]
    gains = result_table(tmp_path, *runs).gains
    found = by_comparison(gains)
    assert found["words in all"].differences == ()
    assert found["layout"].differences == (
        "T (200 and 100)",
        "m (4 and 2)",
        "how the vectors start",
    )
    table = gains_table(gains, "Base-to-novel")
    assert "The two arms also differ in T (200 and 100)." in table.footnotes
    assert table.footnotes[-1].startswith("From one pair of runs, too few to conclude anything")


def test_rows_are_compared_with_their_own_kind(tmp_path: Path) -> None:
    runs = [record(words=words, shots=shots) for words in (0, "paper") for shots in (4, 16)]
    gains = result_table(tmp_path, *runs, record(learner="maple", words=0)).gains
    assert [(gain.method.label, gain.baseline.label) for gain in gains] == [
        ("CoOp + IPL (shots 4)", "CoOp (shots 4)"),
        ("CoOp + IPL (shots 16)", "CoOp (shots 16)"),
    ]
    assert [gain.learner for gain in gains] == ["CoOp (shots 4)", "CoOp (shots 16)"]


def test_slots_are_compared_with_as_many_words(tmp_path: Path) -> None:
    runs = [arm(name, "dtd", 1, 0.5, words=k) for name in ("empty", "words") for k in (2, 3)]
    gains = result_table(tmp_path, *runs).gains
    assert [(gain.method.runs[0].words, gain.baseline.runs[0].words) for gain in gains] == [
        (2, 2),
        (3, 3),
    ]


def test_across_datasets_a_unit_is_a_prompt(tmp_path: Path) -> None:
    def run(name: str, seed: int, dtd: float) -> dict[str, Any]:
        accuracy = {"imagenet": 0.7, "dtd": dtd, "oxford_pets": 0.5}
        values = ARMS[name]
        return record("imagenet", seed=seed, accuracy=accuracy, protocol="cross-dataset", **values)

    runs = [run("empty", seed, 0.5) for seed in range(1, 7)]
    runs += [run("words", seed, 0.5 + 0.01 * seed) for seed in range(1, 7)]
    (gain,) = result_table(tmp_path / "a", *runs[:3], *runs[6:9]).gains
    effect = gain.effects["accuracy"]
    assert (effect.units, effect.pairs, effect.p) == (3, 3, None)
    assert effect.difference == pytest.approx(1.0)  # the mean of 0.5, 1 and 1.5
    # Six seeds of one source are no evidence on others.
    (gain,) = result_table(tmp_path / "b", *runs).gains
    assert gain.effects["accuracy"].p == pytest.approx(2 / 2**6)
    (sentence,) = verdicts([gain])
    assert sentence.startswith("CoOp, on this one source (imagenet): words are better than empty")


def test_one_dataset_is_named_in_the_verdict(tmp_path: Path) -> None:
    runs = [arm(name, "dtd", seed, 0.5) for name in ("empty", "words") for seed in (1, 2)]
    (sentence,) = verdicts(result_table(tmp_path, *runs).gains)
    assert sentence.startswith("CoOp, on this one dataset (dtd): the words (empty slots → words): ")
    assert sentence.endswith("; all this from 2 pairs of runs, too few to conclude anything.")


def made(tmp_path: Path, **effects: Effect) -> list[Gain]:
    """Returns gains of the arms plain, empty, random and words with these effects on HM."""
    runs = [arm(name, "dtd", 1, 0.5) for name in ARMS]
    gains = []
    for gain in find_gains(result_table(tmp_path, *runs).methods, ["dtd"]):
        effect = effects[gain.comparison.replace(" ", "_")]
        gains.append(
            Gain(
                gain.comparison,
                gain.baseline,
                gain.method,
                {"hm": effect},
                {"hm": effect.p},
                gain.differences,
            )
        )
    return gains


def test_a_verdict_never_flatters(tmp_path: Path) -> None:
    clear = Effect(9.14, 3.2, 14.0, 0.01, 11, 33)
    nothing = Effect(0.4, -1.1, 1.5, 0.6, 11, 33)
    unconfirmed = Effect(2.0, 0.1, 4.0, 0.3, 11, 33)
    worse = Effect(-2.0, -3.0, -1.0, 0.001, 11, 33)
    gains = made(tmp_path, layout=clear, choice=nothing, words_in_all=unconfirmed, everything=worse)
    assert verdicts(gains) == [
        "CoOp: the layout alone raises HM by 9.1 points (+3.2 to +14.0); the chosen words cannot "
        "be told from random ones (+0.4 points of HM, -1.1 to +1.5); words are better than empty "
        "slots by 2.0 points of HM (+0.1 to +4.0), which the corrected test does not confirm (p = "
        "0.30); all together is worse than the plain learner by 2.0 points of HM (-3.0 to -1.0)."
    ]
    single = Effect(5.0, None, None, None, 1, 1, "no interval: one pair of runs")
    few = Effect(5.0, 4.0, 6.0, None, 3, 3, "no test: 3 datasets, at least 6 are needed")
    (sentence,) = verdicts(made(tmp_path, layout=few, choice=few, words_in_all=few, everything=few))
    assert "better" not in sentence
    assert sentence.count("too few") == 1
    (sentence,) = verdicts(
        made(tmp_path, layout=few, choice=single, words_in_all=nothing, everything=clear)
    )
    assert sentence.startswith(
        "CoOp: the layout (plain → empty slots): +5.0 points of HM (+4.0 to +6.0), from 3 pairs of "
        "runs, too few to conclude anything; the choice (random → chosen words): +5.0 points of "
        "HM, from one pair of runs, too few to conclude anything; words cannot be told from empty"
    )
    assert sentence.count("too few") == 2


def test_baselines_are_compared_with_every_learner(tmp_path: Path) -> None:
    runs = [arm(name, d, s, 0.5) for name in ("plain", "words") for d in SIX for s in (1, 2)]
    runs += [record(d, "zero-shot", 0, accuracy={"base": 0.7, "novel": 0.5}) for d in SIX]
    runs += [record(d, "linear-probe", 0, s, {"base": 0.9}) for d in SIX for s in (1, 2)]
    table = result_table(tmp_path, *runs)
    pairs = [(gain.comparison, gain.method.arm) for gain in table.baselines]
    assert pairs == [
        (name, arm) for arm in ("plain", "words") for name in ("zero-shot", "linear-probe")
    ]
    zero_shot, probe = table.baselines[:2]
    assert (zero_shot.effects["hm"].units, zero_shot.effects["hm"].pairs) == (6, 12)
    assert zero_shot.effects["base"].difference == pytest.approx(10)
    assert list(probe.effects) == ["base"]  # it knows no other classes
    assert probe.adjusted["base"] == pytest.approx(4 * 2 / 2**6)  # of four comparisons
    (sentence,) = baseline_verdicts(table.baselines)
    gain = "3.2 points of HM above zero-shot CLIP (+3.2 to +3.2), which the corrected test does"
    assert sentence.startswith(f"CoOp: plain {gain} not confirm (p = 0.06); plain 10.0 points of ")
    assert "with words 10.0 points of base accuracy below a linear probe (-10.0 to -10." in sentence


def test_a_linear_probe_is_compared_with_as_many_shots(tmp_path: Path) -> None:
    def few_shot(learner: str, shots: int, accuracy: float) -> dict[str, Any]:
        return record("dtd", learner, 0, 1, {"dtd": accuracy}, "few-shot", shots=shots)

    runs = [few_shot("coop", n, 0.5) for n in (1, 16)]
    runs += [few_shot("linear-probe", n, 0.4 + 0.02 * n) for n in (1, 16)]
    sentences = baseline_verdicts(result_table(tmp_path, *runs).baselines)
    assert [sentence.partition(";")[0] for sentence in sentences] == [
        f"CoOp (shots {shots}), on this one dataset (dtd): plain against a linear probe: {points} "
        "points of accuracy"
        for shots, points in ((1, "+8.0"), (16, "-22.0"))
    ]


def test_a_linear_probe_of_a_source_is_compared_there(tmp_path: Path) -> None:
    accuracy = {"dtd": 0.5, "eurosat": 0.4}
    runs = [record("dtd", words=0, accuracy=accuracy, protocol="cross-dataset")]
    probe = record("dtd", "linear-probe", 0, 1, {"dtd": 0.7}, "cross-dataset")
    (gain,) = result_table(tmp_path, *runs, probe | {"targets": ["eurosat"]}).baselines
    (sentence,) = baseline_verdicts([gain])
    assert "plain against a linear probe on the source: -20.0 points of accuracy" in sentence


def test_the_one_run_of_zero_shot_is_no_test_of_prompts_of_one_source(tmp_path: Path) -> None:
    runs = [
        record("dtd", seed=seed, accuracy={"dtd": 0.5, "eurosat": 0.4}, protocol="cross-dataset")
        for seed in range(1, 9)
    ]
    baseline = record("dtd", "zero-shot", 0, 1, {"dtd": 0.3, "eurosat": 0.3}, "cross-dataset")
    (gain,) = result_table(tmp_path, *runs, baseline).baselines
    (effect,) = gain.effects.values()
    assert (effect.p, effect.units) == (None, 8)


def test_zero_shot_is_paired_with_runs_on_the_same_images(tmp_path: Path) -> None:
    def tested(record: dict[str, Any], images: str) -> dict[str, Any]:
        return record | {"data": {**(record["data"] or {}), "test_sha256": images * 32}}

    runs = [tested(arm("words", "mine", seed, 0.5), f"{seed:02}") for seed in (1, 2, 3)]
    baseline = record("mine", "zero-shot", 0, accuracy={"base": 0.8, "novel": 0.6})
    table = result_table(tmp_path, *runs, tested(baseline, "01"))
    (gain,) = table.baselines
    assert {effect.pairs for effect in gain.effects.values()} == {1}
    assert "mine has no test part" in " ".join(table.notes)
