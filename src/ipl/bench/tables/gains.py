"""What layout, words and their choice are worth, and what a learner has over its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from ipl.bench.arms import LINEAR_PROBE, ZERO_SHOT
from ipl.bench.records import RunRecord
from ipl.bench.run import canonical
from ipl.bench.statistics import LEVEL, Effect, holm, measure_effect
from ipl.bench.tables.methods import SETTING_NAMES, MethodRow, setting_text
from ipl.bench.tables.results import Cell, Result
from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM
from ipl.display.formatting import signed
from ipl.display.table import Table

# What a difference between two arms is the worth of.
COMPARISONS = {
    "layout": (PLAIN, EMPTY),
    "choice": (RANDOM, CHOSEN),
    "words in all": (EMPTY, CHOSEN),
    "everything": (PLAIN, CHOSEN),
    "given words": (EMPTY, GIVEN),
}
# What the arms of a learner must beat.
BASELINES = {
    f"{arm} over {name}": (baseline, arm)
    for baseline, name in ((ZERO_SHOT, "zero-shot"), (LINEAR_PROBE, "linear probe"))
    for arm in (PLAIN, GIVEN, CHOSEN)
}
NOT_PAIRED = ("backbone", "weights", "shots")  # rows that differ in one are not compared
SLOT_SETTINGS = frozenset({"words_given", "empty_slots", "random_words"})  # they say the arm


@dataclass(frozen=True)
class Gain:
    """The difference between two rows, in percentage points, by measure."""

    comparison: str  # a key of `COMPARISONS` or of `BASELINES`
    baseline: MethodRow
    method: MethodRow
    effects: dict[str, Effect]  # of HM, of the HM of each run
    adjusted: dict[str, float | None]  # p by Holm over all comparisons with the same measure
    differences: tuple[str, ...] = ()  # between the two beyond their arms, a few words each
    on_source: bool = False  # whether it is measured on the source, as no target can be

    def verdict(self, measure: str) -> str:
        """What the interval and the tests of a measure allow to say; perhaps nothing."""
        effect = self.effects[measure]
        if effect.low is None:
            return ""
        if not effect.is_clear:
            return "equal" if effect.is_close else "unclear"
        adjusted = self.adjusted[measure]
        if adjusted is None:
            return ""
        return ("better" if effect.difference > 0 else "worse") + "?" * (adjusted > LEVEL)


def find_gains(
    result: Result, comparisons: Mapping[str, tuple[str, str]] = COMPARISONS
) -> list[Gain]:
    """Every comparison between two rows of a result, with p corrected over all of them."""
    gains = [
        gain
        for name, arms in comparisons.items()
        for method in result.methods
        for baseline in result.methods
        if (baseline.arm, method.arm) == arms
        and baseline.learner in (method.learner, baseline.arm)
        and (gain := _gain(result, name, baseline, method)) is not None
    ]
    labels = [method.learner_label for method in result.methods]
    gains.sort(key=lambda gain: labels.index(gain.method.learner_label))
    for measure in result.protocol.measures:
        family = [gain for gain in gains if measure in gain.effects]
        ps = holm([gain.effects[measure].p for gain in family])
        for gain, p in zip(family, ps, strict=True):
            gain.adjusted[measure] = p
    return gains


def _gain(result: Result, comparison: str, baseline: MethodRow, method: MethodRow) -> Gain | None:
    differing = differing_settings(baseline, method)
    if differing is None:
        return None
    before, after = result.row(baseline), result.row(method)
    paired = {name: _pairs(before[name], after[name]) for name in result.datasets}
    # A probe does not know the classes of a target.
    datasets = [name for name in result.averaged if paired[name]] or [
        name for name in result.datasets if paired[name]
    ]
    if not datasets:
        return None
    effects = {}
    for measure in next(iter(paired[datasets[0]].values()))[0]:
        units = [
            {seed: new[measure] - old[measure] for seed, (old, new) in paired[name].items()}
            for name in datasets
        ]
        if result.source is None:
            effects[measure] = measure_effect([list(unit.values()) for unit in units])
        else:  # one prompt is tested on all targets
            seeds = set.intersection(*map(set, units))
            if not seeds:
                return None
            prompts = [[mean(unit[seed] for unit in units)] for seed in sorted(seeds)]
            effect = measure_effect(prompts, "prompts")
            if baseline.arm == ZERO_SHOT:  # its one run is part of every difference
                effect = replace(effect, p=None, reason="zero-shot is a single run")
            effects[measure] = effect
    on_source = datasets == [result.source]
    return Gain(comparison, baseline, method, effects, {}, tuple(differing), on_source)


def _pairs(before: Cell, after: Cell) -> dict[int, tuple[Mapping[str, float], Mapping[str, float]]]:
    """The measures of both rows by seed; the one run of zero-shot is in all of them.

    Data without a test part is tested on what the shots leave: zero-shot is then compared only with
    seeds that were tested on the same images.
    """
    if before.method.arm == ZERO_SHOT and before.by_seed:
        only = next(iter(before.by_seed))
        tested = _images(before.runs[only][0])
        return {
            seed: (before.by_seed[only], after.by_seed[seed])
            for seed, runs in after.runs.items()
            if len({tested, _images(runs[0])} - {None}) < 2
        }
    return {
        seed: (before.by_seed[seed], after.by_seed[seed])
        for seed in before.by_seed
        if seed in after.by_seed
    }


def _images(run: RunRecord) -> str | None:
    return run.data.get("test_sha256")


def differing_settings(baseline: MethodRow, method: MethodRow) -> list[str] | None:
    """How two rows differ beyond their arms; None if they should not be compared."""
    datasets = {run.dataset for run in baseline.runs} & {run.dataset for run in method.runs}
    if not datasets:
        return None
    dataset = min(datasets)
    before, after = _config(baseline, dataset), _config(method, dataset)
    ignored = set(SLOT_SETTINGS)
    if baseline.arm in (PLAIN, LINEAR_PROBE):
        ignored.add("words")
    shared = [key for key in before if key in after and key not in ignored]
    differing = [key for key in shared if canonical(before[key]) != canonical(after[key])]
    for key in differing:
        # Rows that a setting tells apart on both sides are compared only where it agrees.
        told_apart = key in baseline.varied and key in method.varied
        if told_apart or key in NOT_PAIRED or key == "words":
            return None
    texts = [
        f"{SETTING_NAMES.get(key, key)} ({setting_text(before[key])} and "
        f"{setting_text(after[key])})"
        for key in differing
    ]
    if baseline.arm == PLAIN:
        texts.append("how the vectors start")
    return texts


def _config(method: MethodRow, dataset: str) -> dict[str, Any]:
    """The settings of a row's runs on a dataset; a run that failed may not know all."""
    runs = [run for run in method.runs if run.dataset == dataset]
    return max(runs, key=lambda run: run.done).config()


# -- how it is shown ----------------------------------------------------------------------------


def gains_table(result: Result, gains: Sequence[Gain], title: str) -> Table:
    """The comparisons of every learner's arms, or of its arms with baselines."""
    columns = ["learner", "worth of", "arms", "measure", "difference", "95 % interval"]
    columns += ["n", "p", "p (Holm)", "verdict"]
    table = Table(
        columns,
        title=f"{title}, {result.title[0].lower()}{result.title[1:]}",
        caption="Mean difference between two arms in percentage points",
        numbers=columns[4:-1],
    )
    last_learner = ""
    for gain in gains:
        notes = [f"The two arms also differ in {text}." for text in gain.differences]
        notes += ["On the source: it does not know the classes of targets."] * gain.on_source
        learner = gain.method.learner_label
        names = [learner if learner != last_learner else "", gain.comparison]
        arms = f"{gain.baseline.arm} → {gain.method.arm}"
        names.append(arms + table.footnote_mark(notes))
        last_learner = learner
        rows = []
        for measure, effect in gain.effects.items():
            limits = []
            if effect.reason:
                limits = [f"No test: {effect.reason}. Interval: {effect.interval or 'none'}."]
            row = [*names, result.protocol.measures[measure], signed(effect.difference, 2)]
            row.append(_interval(effect) + table.footnote_mark(limits))
            row += [f"{effect.units} ({effect.pairs})", p_text(effect.p)]
            rows.append([*row, p_text(gain.adjusted[measure]), gain.verdict(measure)])
            names = ["", "", ""]
        table.add_section(rows)
    unit = "datasets" if result.source is None else "prompts, one for each seed"
    table.notes.append(
        f"n: {unit} (pairs of runs). p: sign-flip test over them; Holm: corrected for all "
        "comparisons of the table. equal: the interval is within 1 point of 0; unclear: it "
        "contains 0; ?: not confirmed by Holm's p."
    )
    if "hm" in result.protocol.measures:
        table.notes.append("A difference in HM is that of the HM of each run, averaged.")
    return table


def _interval(effect: Effect) -> str:
    if effect.low is None or effect.high is None:
        return "-"
    return f"{signed(effect.low, 2)} to {signed(effect.high, 2)}"


def p_text(p: float | None) -> str:
    return "-" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
