"""What layout, words and their choice are worth, and what a learner has over its baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ipl.bench.arms import LINEAR_PROBE, ZERO_SHOT
from ipl.bench.protocols.registry import all_measures
from ipl.bench.statistics import Effect, holm, measure_effect
from ipl.bench.tables.cells import SeedResult, finished_runs
from ipl.bench.tables.methods import (
    SETTING_NAMES,
    SLOT_SETTINGS,
    Method,
    canonical,
    learner_name,
    setting_text,
)
from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM
from ipl.display.table import Table

# What a difference between two arms is the worth of.
COMPARISONS = {
    "layout": (PLAIN, EMPTY),
    "choice": (RANDOM, CHOSEN),
    "words in all": (EMPTY, CHOSEN),
    "everything": (PLAIN, CHOSEN),
    "given words": (EMPTY, GIVEN),
}
# What a learner must beat, and the arms that claim to.
BASELINES = {ZERO_SHOT: "zero-shot CLIP", LINEAR_PROBE: "a linear probe"}
CLAIMS = {PLAIN: "plain", GIVEN: "with given words", CHOSEN: "with words"}
NOT_PAIRED = ("backbone", "weights", "shots")  # rows that differ in one are not compared
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Gain:
    """The difference between two arms, in percentage points, by measure.

    Attributes
    ----------
    comparison : str
        A key of `COMPARISONS` or of `BASELINES`.
    baseline, method : Method
        The rows before and after.
    effects : dict of str to Effect
        The differences by measure.
    adjusted : dict of str to float or None
        p after Holm's correction over all comparisons of the table with the same measure.
    differences : tuple of str
        How the two differ beyond their arms, a few words each.
    datasets : tuple of str
        The datasets with pairs of runs.
    """

    comparison: str
    baseline: Method
    method: Method
    effects: dict[str, Effect]
    adjusted: dict[str, float | None]
    differences: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """Returns the one source or dataset that the effects hold for; empty if it is not one."""
        run = self.method.runs[0]
        if run.rules.has_source:
            return f"on this one source ({run.dataset})"
        return f"on this one dataset ({self.datasets[0]})" if len(self.datasets) == 1 else ""

    @property
    def learner(self) -> str:
        """Returns the learner, with the settings that tell its rows from others."""
        name = learner_name(self.method.learner)
        _, _, varied = self.method.label.partition(" (")
        return f"{name} ({varied}" if varied else name


def find_gains(methods: Sequence[Method], datasets: Sequence[str]) -> list[Gain]:
    """Returns every comparison between two arms of a learner, with p corrected over all of them."""
    found = [
        _gain(comparison, baseline, method, datasets)
        for method in methods
        for baseline in methods
        for comparison, arms in COMPARISONS.items()
        if baseline.learner == method.learner and arms == (baseline.arm, method.arm)
    ]
    gains = [gain for gain in found if gain is not None]
    learners = list(dict.fromkeys(gain.learner for gain in gains))
    order = list(COMPARISONS)
    gains.sort(key=lambda gain: (learners.index(gain.learner), order.index(gain.comparison)))
    return _corrected(gains)


def find_baseline_gains(
    methods: Sequence[Method], datasets: Sequence[str], source: str | None
) -> list[Gain]:
    """Returns what the arms of each learner have over zero-shot and over a linear probe.

    A probe that does not know the classes of any target is compared on the source.
    """
    gains = []
    for method in methods:
        for baseline in methods:
            if method.arm in CLAIMS and baseline.arm in BASELINES:
                gain = _gain(baseline.arm, baseline, method, datasets)
                if gain is None and source is not None:
                    gain = _gain(baseline.arm, baseline, method, [source])
                if gain is not None:
                    gains.append(gain)
    return _corrected(gains)


def _corrected(gains: Sequence[Gain]) -> list[Gain]:
    adjusted: list[dict[str, float | None]] = [{} for _ in gains]
    for measure in dict.fromkeys(measure for gain in gains for measure in gain.effects):
        ps = [gain.effects[measure].p if measure in gain.effects else None for gain in gains]
        for values, p in zip(adjusted, holm(ps), strict=True):
            values[measure] = p
    return [
        replace(gain, adjusted={m: values[m] for m in gain.effects})
        for gain, values in zip(gains, adjusted, strict=True)
    ]


def _gain(
    comparison: str, baseline: Method, method: Method, datasets: Sequence[str]
) -> Gain | None:
    differing = _differing_settings(baseline, method)
    if differing is None:
        return None
    values: dict[str, list[list[float]]] = {}  # by measure, for each dataset, for each seed
    paired = []
    for dataset in datasets:
        before, after = finished_runs(baseline, dataset), finished_runs(method, dataset)
        if baseline.arm == ZERO_SHOT and before:  # one run, for all seeds that have its images
            only = before[min(before)]
            before = {seed: only for seed, one in after.items() if _same_images(only, one)}
        if seeds := sorted(before.keys() & after.keys()):
            paired.append(dataset)
            for measure in before[seeds[0]].values:
                values.setdefault(measure, []).append(
                    [after[seed].values[measure] - before[seed].values[measure] for seed in seeds]
                )
    if not values:
        return None
    effects = {}
    for measure, units in values.items():
        if method.runs[0].rules.has_source:  # one prompt is tested on all targets
            prompts = [[sum(seed) / len(seed)] for seed in zip(*units, strict=False)]
            effect = measure_effect(prompts, "prompts")
            if baseline.arm == ZERO_SHOT:  # its one run is part of every difference
                effect = replace(effect, p=None, reason="no test: zero-shot is a single run")
            effects[measure] = effect
        else:
            effects[measure] = measure_effect(units)
    return Gain(comparison, baseline, method, effects, {}, tuple(differing), tuple(paired))


def _same_images(one: SeedResult, other: SeedResult) -> bool:
    """Returns whether two runs were tested on the same images, as far as is recorded.

    Data without a test part is tested on what the shots leave, which differs between seeds.
    """
    hashes = {result.runs[0].data.get("test_sha256") for result in (one, other)}
    return len(hashes - {None}) < 2


def _differing_settings(baseline: Method, method: Method) -> list[str] | None:
    """Returns how two rows differ beyond their arms; None if they should not be compared."""
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
    if baseline.arm == PLAIN and after.get("init") == before.get("init") == "published":
        texts.append("how the vectors start")
    return texts


def _config(method: Method, dataset: str) -> dict[str, Any]:
    """Returns the settings of a row's runs on a dataset; a run that failed may not know all."""
    runs = [run for run in method.runs if run.dataset == dataset]
    return next((run for run in runs if run.done), runs[0]).config()


# -- how it is shown ----------------------------------------------------------------------------


def gains_table(gains: Sequence[Gain], protocol: str) -> Table:
    """Returns the comparisons of every learner; `protocol` is its title in the heading."""
    columns = ["learner", "worth of", "arms", "measure", "difference", "95 % interval"]
    columns += ["n", "p", "p (Holm)"]
    table = Table(
        columns,
        title=f"What the words are worth, {protocol[0].lower()}{protocol[1:]}",
        caption="Mean difference between two arms in percentage points",
        numbers=columns[4:],
    )
    last_learner = ""
    for gain in gains:
        notes = [f"The two arms also differ in {text}." for text in gain.differences]
        arms = f"{gain.baseline.arm} → {gain.method.arm}{table.footnote_mark(notes)}"
        names = [gain.learner if gain.learner != last_learner else "", gain.comparison, arms]
        last_learner = gain.learner
        rows = []
        for measure, effect in gain.effects.items():
            few = _too_few(effect)
            reason = [f"{few[0].upper()}{few[1:]}; {effect.reason}."] if few else []
            rows.append(
                [
                    *names,
                    all_measures()[measure],
                    signed(effect.difference, 2),
                    _interval_text(effect) + table.footnote_mark(reason),
                    f"{effect.units} ({effect.pairs})",
                    _p_text(effect.p),
                    _p_text(gain.adjusted[measure]),
                ]
            )
            names = ["", "", ""]
        table.add_section(rows)
    table.notes += verdicts(gains)
    table.notes += _how_computed(gains)
    return table


def _how_computed(gains: Sequence[Gain]) -> list[str]:
    """Returns what the columns of the table are."""
    few = "from a few of them it is narrower than it should be"
    holm_note = "Holm: corrected for all comparisons of the table with the same measure."
    if gains and gains[0].method.runs[0].rules.has_source:
        return [
            "n: prompts, one for each seed, each averaged over its targets (pairs of runs). "
            f"Interval: bootstrap over prompts; {few}. p: exact two-sided sign-flip over prompts; "
            f"{holm_note} All prompts are of one source and tested on the same images, and "
            "say nothing about others."
        ]
    notes = [
        f"n: datasets (pairs of runs). Interval: bootstrap over datasets, then seeds; {few}. "
        f"p: exact two-sided sign-flip over datasets; {holm_note}"
    ]
    if any("hm" in gain.effects and len(gain.datasets) > 1 for gain in gains):
        notes.append(
            "A difference in HM is the mean of the datasets' differences; the average above has "
            "the HM of the averaged accuracies, whose differences are others."
        )
    return notes


def _interval_text(effect: Effect) -> str:
    if effect.low is None or effect.high is None:
        return "-"
    return f"{signed(effect.low, 2)} to {signed(effect.high, 2)}"


def _p_text(p: float | None) -> str:
    return "-" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def verdicts(gains: Sequence[Gain]) -> list[str]:
    """Returns a sentence for each learner: what layout, choice and words are worth."""
    return _sentences(gains, _clause)


def baseline_verdicts(gains: Sequence[Gain]) -> list[str]:
    """Returns a sentence for each learner: how it does against zero-shot and a linear probe."""
    return _sentences(gains, _baseline_clause)


def _sentences(gains: Sequence[Gain], clause: Callable[[Gain], str]) -> list[str]:
    groups: dict[str, list[Gain]] = {}
    for gain in gains:
        groups.setdefault(gain.learner, []).append(gain)
    return [
        _sentence(learner, own, [clause(gain) for gain in own]) for learner, own in groups.items()
    ]


def _sentence(subject: str, gains: Sequence[Gain], clauses: list[str]) -> str:
    """Returns a sentence of a clause on each comparison, which says how far they carry."""
    scopes = [gain.scope for gain in gains]
    if len(set(scopes)) == 1:
        subject += f", {scopes[0]}" if scopes[0] else ""
    else:
        clauses = [_with(*pair) for pair in zip(clauses, scopes, strict=True)]
    few = [_too_few(list(gain.effects.values())[-1]) for gain in gains]
    if len(set(few)) > 1:
        clauses = [_with(*pair) for pair in zip(clauses, few, strict=True)]
    elif few[0]:
        clauses.append(f"all this {few[0]}")
    return f"{subject}: {'; '.join(clauses)}."


def _with(clause: str, limit: str) -> str:
    return f"{clause}, {limit}" if limit else clause


def _too_few(effect: Effect) -> str:
    """Returns that a few runs, even with an interval, are not the last word; empty with a test."""
    if effect.p is not None:
        return ""
    pairs = "one pair" if effect.pairs == 1 else f"{effect.pairs} pairs"
    return f"from {pairs} of runs, too few to conclude anything"


SUBJECTS = {
    "layout": "the layout (plain → empty slots)",
    "choice": "the choice (random → chosen words)",
    "words in all": "the words (empty slots → words)",
    "everything": "all together (plain → words)",
    "given words": "the given words (empty slots → given)",
}
# For each comparison: what is said of a gain, of a loss, and of neither.
CLAUSES = {
    "layout": (
        "the layout alone raises {measure} by {points}",
        "the layout alone lowers {measure} by {points}",
        "the layout alone makes no measurable difference",
    ),
    "choice": (
        "the chosen words are better than random ones by {size}",
        "the chosen words are worse than random ones by {size}",
        "the chosen words cannot be told from random ones",
    ),
    "words in all": (
        "words are better than empty slots by {size}",
        "words are worse than empty slots by {size}",
        "words cannot be told from empty slots",
    ),
    "everything": (
        "all together is better than the plain learner by {size}",
        "all together is worse than the plain learner by {size}",
        "all together cannot be told from the plain learner",
    ),
    "given words": (
        "the given words are better than empty slots by {size}",
        "the given words are worse than empty slots by {size}",
        "the given words cannot be told from empty slots",
    ),
}


def _clause(gain: Gain) -> str:
    """Returns what a comparison says about the measure that counts, the last one."""
    measure, effect = list(gain.effects.items())[-1]
    heading = all_measures()[measure]
    if effect.p is None:  # a few runs are described, not judged
        return f"{SUBJECTS[gain.comparison]}: {_difference_text(effect, heading)}"
    points = f"{abs(effect.difference):.1f} points"
    texts = {"measure": heading, "points": points, "size": f"{points} of {heading}"}
    clauses = [clause.format(**texts) for clause in CLAUSES[gain.comparison]]
    return _judged(gain, measure, heading, clauses)


def _baseline_clause(gain: Gain) -> str:
    """Returns how an arm does against a baseline by the last measure that both have."""
    measure, effect = list(gain.effects.items())[-1]
    run = gain.method.runs[0]
    heading = f"{measure} accuracy" if measure in run.rules.parts else all_measures()[measure]
    arm, baseline = CLAIMS[gain.method.arm], BASELINES[gain.comparison]
    if run.rules.has_source and gain.datasets == (run.dataset,):
        baseline += " on the source"
    if effect.p is None:
        return f"{arm} against {baseline}: {_difference_text(effect, heading)}"
    size = f"{abs(effect.difference):.1f} points of {heading}"
    texts = [f"{arm} {size} above {baseline}", f"{arm} {size} below {baseline}"]
    return _judged(gain, measure, heading, [*texts, f"{arm} cannot be told from {baseline}"])


def _difference_text(effect: Effect, heading: str) -> str:
    text = f"{signed(effect.difference, 1)} points of {heading}"
    if effect.low is None or effect.high is None:
        return text
    return f"{text} ({signed(effect.low, 1)} to {signed(effect.high, 1)})"


def _judged(gain: Gain, measure: str, heading: str, clauses: Sequence[str]) -> str:
    """Returns the clause on a gain, a loss or neither that a test allows, with its interval."""
    effect, adjusted = gain.effects[measure], gain.adjusted[measure]
    assert effect.low is not None  # there is a test, so there is an interval
    assert effect.high is not None
    better, worse, neither = clauses
    interval = f"{signed(effect.low, 1)} to {signed(effect.high, 1)}"
    if effect.low <= 0 <= effect.high:
        return f"{neither} ({signed(effect.difference, 1)} points of {heading}, {interval})"
    text = f"{better if effect.low > 0 else worse} ({interval})"
    if adjusted is not None and adjusted >= SIGNIFICANT:
        text += f", which the corrected test does not confirm (p = {adjusted:.2f})"
    return text


def signed(value: float, digits: int) -> str:
    """Returns a number with its sign; what rounds to 0 is +0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def gain_values(gain: Gain) -> dict[str, Any]:
    """Returns a comparison as plain values."""
    return {
        "learner": gain.learner,
        "comparison": gain.comparison,
        "from": gain.baseline.label,
        "to": gain.method.label,
        "differs": list(gain.differences),
        "measures": {
            measure: {**asdict(effect), "p_holm": gain.adjusted[measure]}
            for measure, effect in gain.effects.items()
        },
    }
