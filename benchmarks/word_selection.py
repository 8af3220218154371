"""Compares where words are scored: in a sentence, in the prompt, or on unseen classes.

    for s in sentence prompt unseen; do
      ipl bench --datasets caltech101,oxford_pets,oxford_flowers,dtd,eurosat,pacs/photo \
        --learners coop --arms empty,random,words --words 3,auto --seeds 1,2,3,4,5 --views 0 \
        --select-in $s --out out/$s
    done
    python benchmarks/word_selection.py out/sentence out/prompt out/unseen

For each place and number of words: base, novel and HM of the arm `words`; its difference in HM to
the same layout with empty slots and with random words, with a 95 % interval over datasets and then
seeds; how much HM the finished prompt loses when random words replace its own; and how many words
two seeds share. The last two stand beside the same numbers of the arm `random`, whose words mean
nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean

from ipl.bench.records import RunRecord, read_records
from ipl.bench.statistics import Effect, measure_effect
from ipl.bench.tables.words_table import jaccard
from ipl.metrics import harmonic_mean

Key = tuple[str, int]  # dataset and seed


def hm(accuracy: dict[str, float]) -> float:
    """Returns the harmonic mean of base and novel accuracy, in percent."""
    return 100 * harmonic_mean(accuracy["base"], accuracy["novel"])


def paired(ones: dict[Key, list[float]], others: dict[Key, list[float]]) -> Effect | None:
    """Returns the mean difference of two arms over datasets; draws of a seed are averaged."""
    by_dataset: dict[str, list[float]] = defaultdict(list)
    for key in sorted(set(ones) & set(others)):
        by_dataset[key[0]].append(mean(ones[key]) - mean(others[key]))
    return measure_effect(list(by_dataset.values())) if by_dataset else None


def effect_text(effect: Effect | None) -> str:
    """Returns a difference with its interval."""
    if effect is None:
        return "-"
    if effect.low is None or effect.high is None:
        return f"{effect.difference:+.1f}"
    return f"{effect.difference:+.1f} ({effect.low:+.1f} to {effect.high:+.1f})"


def collect(
    runs: Sequence[RunRecord], value: Callable[[RunRecord], float | None]
) -> dict[Key, list[float]]:
    """Returns the values of runs by dataset and seed."""
    values: dict[Key, list[float]] = defaultdict(list)
    for run in runs:
        if (number := value(run)) is not None:
            values[run.dataset, run.seed].append(number)
    return values


def lost(run: RunRecord) -> float | None:
    """Returns how much HM the finished prompt loses with random words; None without words."""
    return hm(run.accuracy) - hm(run.replaced) if run.replaced else None


def overlap(runs: Sequence[RunRecord]) -> str:
    """Returns the mean share of words that two seeds of a dataset have in common."""
    by_dataset: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for run in runs:
        by_dataset[run.dataset].append(run.chosen)
    shares = []
    for words in by_dataset.values():
        pairs = [jaccard(a, b) for a, b in combinations(words, 2) if a or b]
        if pairs:
            shares.append(mean(pairs))
    return f"{100 * mean(shares):.0f} %" if shares else "-"


def row(place: str, words: int | str, runs: Sequence[RunRecord]) -> str:
    """Returns the row of a place and a number of words."""
    arms = {arm: [run for run in runs if run.arm == arm] for arm in ("words", "random", "empty")}
    chosen = arms["words"]
    scores = {arm: collect(of_arm, lambda run: hm(run.accuracy)) for arm, of_arm in arms.items()}

    def average(values: dict[Key, list[float]]) -> str:
        datasets = {dataset for dataset, _ in values}
        means = [mean(mean(v) for (d, _), v in values.items() if d == each) for each in datasets]
        return f"{mean(means):.1f}"

    own, random_words = collect(chosen, lost), collect(arms["random"], lost)
    zero = {key: [0.0] for key in own}
    none = {key: [0.0] for key in random_words}
    cells = [
        place,
        str(words),
        f"{mean(len(run.chosen) for run in chosen):.1f}",
        average(collect(chosen, lambda run: 100 * run.accuracy["base"])),
        average(collect(chosen, lambda run: 100 * run.accuracy["novel"])),
        average(scores["words"]),
        effect_text(paired(scores["words"], scores["empty"])),
        effect_text(paired(scores["words"], scores["random"])),
        effect_text(paired(own, zero)),
        effect_text(paired(random_words, none)),
        overlap(chosen),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    runs: dict[tuple[str, int | str], list[RunRecord]] = defaultdict(list)
    for record in read_records(options.folders)[0]:
        if record.error is None:
            place = record.settings.get("select_in", "sentence")
            if record.arm == "empty" and record.words != "auto":
                place = "any"  # nothing is searched
            runs[place, record.words].append(record)
    print(
        "| scored in | k | words taken | base | novel | HM | against empty slots "
        "| against random words | lost with other words | the same, random words | same words |"
    )
    print("|---" * 11 + "|")
    for place in ("sentence", "prompt", "unseen"):
        for words in sorted({words for at, words in runs if at == place}, key=str):
            print(row(place, words, [*runs[place, words], *runs.get(("any", words), [])]))


if __name__ == "__main__":
    main()
