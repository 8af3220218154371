"""The words that searches chose: which they are, how often each came back, and their overlap.

Words that were drawn at random (arm `random`) or that a person gave are not chosen words and are
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import mean
from typing import Any

from ipl.bench.arms import WORDS_ONLY
from ipl.bench.records import RunRecord
from ipl.bench.run import settings_about_search
from ipl.bench.tables import paper
from ipl.bench.tables.cells import AVERAGE
from ipl.bench.tables.methods import (
    LEARNER_NAMES,
    SETTING_NAMES,
    canonical,
    setting_order,
    setting_text,
)
from ipl.config import CHOSEN
from ipl.display.formatting import percent
from ipl.display.table import Table

PAPER = "the paper's, CLIP ViT-B/16"
MOST_FREQUENT = 10  # words of a dataset that a table shows; CSV and JSON have all
SEEDS, BACKBONES = OVERLAPS = ("seeds", "backbones")
NAMES = ("dataset", "backbone", "settings")


@dataclass(frozen=True)
class WordSearch:
    """The words of a dataset and seed, and the learners whose runs have them.

    Attributes
    ----------
    dataset, backbone : str
        What was searched with; the backbone's name has a hash if it stands for several weights.
    settings : dict
        The settings that decide the choice, of those that differ between runs on one dataset.
    seed : int
        The seed, which drew the shots.
    words : tuple of str
        The words in the order of their choice.
    learners : tuple of str
        The learners with these words, in the paper's order; the search does not depend on the
        learner. `words-only` stands for words that were tested without training.
    """

    dataset: str
    backbone: str
    settings: dict[str, Any]
    seed: int
    words: tuple[str, ...]
    learners: tuple[str, ...] = ()

    @cached_property
    def group(self) -> tuple[str, str, str]:
        """Returns dataset, backbone and settings as texts; searches of several seeds share them."""
        texts = (f"{SETTING_NAMES.get(k, k)} {setting_text(v)}" for k, v in self.settings.items())
        return self.dataset, self.backbone, ", ".join(texts)


@dataclass(frozen=True)
class WordOverlap:
    """The mean Jaccard overlap between two `seeds` or `backbones`; None without pairs.

    All else is the same within a pair. The dataset `average` stands for the mean over datasets.
    """

    dataset: str
    backbone: str
    settings: str
    between: str
    overlap: float | None
    pairs: int


def find_word_searches(runs: Iterable[RunRecord]) -> list[WordSearch]:
    """Returns the searches of all runs that chose words, datasets in the paper's order."""
    chosen = [run for run in runs if run.arm in (CHOSEN, WORDS_ONLY) and run.chosen]
    models = {(run.backbone.get("name"), run.backbone.get("weights_sha256")) for run in chosen}
    weights = Counter(name for name, _ in models)
    values: dict[tuple[str, str], set[str]] = {}
    for run in chosen:
        for key, value in _search_settings(run).items():
            values.setdefault((run.dataset, key), set()).add(canonical(value))
    varied = {key for (_, key), different in values.items() if len(different) > 1}
    found: dict[str, tuple[WordSearch, set[str]]] = {}
    for run in chosen:
        backbone = str(run.backbone.get("name"))
        if weights[backbone] > 1:
            backbone += f" ({str(run.backbone.get('weights_sha256'))[:8]})"
        settings = {key: value for key, value in _search_settings(run).items() if key in varied}
        search = WordSearch(run.dataset, backbone, settings, run.seed, run.chosen)
        found.setdefault(canonical(asdict(search)), (search, set()))[1].add(run.learner)
    order = [*LEARNER_NAMES, *sorted({run.learner for run in chosen} - set(LEARNER_NAMES))]
    searches = [
        replace(search, learners=tuple(sorted(names, key=order.index)))
        for search, names in found.values()
    ]
    datasets = [*paper.ELEVEN, *sorted({run.dataset for run in chosen} - set(paper.ELEVEN))]
    return sorted(
        searches,
        key=lambda search: (
            datasets.index(search.dataset),
            search.backbone,
            [setting_order(value) for value in search.settings.values()],
            search.seed,
            [order.index(learner) for learner in search.learners],
        ),
    )


def _search_settings(run: RunRecord) -> dict[str, Any]:
    """Returns what decides the choice of words beside the dataset, the backbone and the seed."""
    config = run.config()
    names = ["shots", *sorted(settings_about_search()), "precision"]
    classes = "base" if run.rules.parts else "all"
    return {**{name: config.get(name) for name in names}, "classes": classes}


def count_words(searches: Sequence[WordSearch]) -> dict[tuple[str, str], tuple[int, Counter[str]]]:
    """Returns by dataset and backbone how many searches there were, and in how many each word was.

    The first words of a longer search are not a search of their own.
    """
    distinct: dict[str, list[tuple[str, ...]]] = {}  # by all that decides a search but its length
    names = {}
    for search in sorted(searches, key=lambda search: -len(search.words)):
        settings = {key: value for key, value in search.settings.items() if key != "words"}
        key = canonical([search.dataset, search.backbone, settings, search.seed])
        longer = distinct.setdefault(key, [])
        if not any(words[: len(search.words)] == search.words for words in longer):
            longer.append(search.words)
        names[key] = search.group[:2]
    counts = {}
    for group in dict.fromkeys(search.group[:2] for search in searches):
        own = [words for key, lists in distinct.items() if names[key] == group for words in lists]
        counts[group] = len(own), Counter(word for words in own for word in set(words))
    return counts


def jaccard(one: Iterable[str], other: Iterable[str]) -> float:
    """Returns how many words two lists share, as a share of all words in them."""
    a, b = set(one), set(other)
    return len(a & b) / len(a | b)


def find_overlaps(searches: Sequence[WordSearch]) -> list[WordOverlap]:
    """Returns the overlaps of each dataset, backbone and settings, and then their averages."""
    pairs = list(_pairs(searches))
    overlaps = []
    for group in [*dict.fromkeys(search.group for search in searches), (AVERAGE, "", "")]:
        for between in OVERLAPS:
            values: dict[str, list[float]] = {}  # by dataset
            for kind, a, b in pairs:
                if kind == between and group in (a.group, b.group, (AVERAGE, "", "")):
                    values.setdefault(a.dataset, []).append(jaccard(a.words, b.words))
            overlap = mean(map(mean, values.values())) if values else None
            number = sum(map(len, values.values()))
            overlaps.append(WordOverlap(*group, between, overlap, number))
    return overlaps


def _pairs(searches: Sequence[WordSearch]) -> Iterator[tuple[str, WordSearch, WordSearch]]:
    """Yields what two searches differ in, if it is the seed or the backbone alone, and the two."""
    for a, b in combinations(searches, 2):
        if (a.dataset, a.settings) == (b.dataset, b.settings) and set(a.learners) & set(b.learners):
            if a.seed != b.seed and a.backbone == b.backbone:
                yield SEEDS, a, b
            if a.seed == b.seed and a.backbone != b.backbone:
                yield BACKBONES, a, b


# -- how it is shown ------------------------------------------------------------------------------


def words_tables(searches: Sequence[WordSearch]) -> list[Table]:
    """Returns the tables of the words, of how often each came back, and of their overlap."""
    return [_chosen_table(searches), _counts_table(searches), _overlap_table(searches)]


def _table(rows: Sequence[dict[str, str]], caption: str, numbers: Sequence[str]) -> Table:
    """Returns a section for each dataset, without columns of names that tell nothing apart."""
    optional = ("backbone", "settings")
    columns = [
        name
        for name in rows[0]
        if name not in optional or len({row[name] for row in rows if row[name]}) > 1
    ]
    table = Table(columns, title=caption, numbers=numbers)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == dataset]
        table.add_section([row[name] for name in columns] for row in own)
    return table


def _named(group: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(NAMES, group, strict=False))


def _chosen_table(searches: Sequence[WordSearch]) -> Table:
    rows = []
    for dataset in dict.fromkeys(search.dataset for search in searches):
        for search in (search for search in searches if search.dataset == dataset):
            learners = ", ".join(LEARNER_NAMES.get(name, name) for name in search.learners)
            row = {"learners": learners, "seed": str(search.seed), "words": ", ".join(search.words)}
            rows.append(_named(search.group) | row | {"rating": ""})
        if published := _published(dataset):
            row = {"learners": PAPER, "seed": "", "words": ", ".join(published["words"])}
            rows.append(_named((dataset, "", "")) | row | {"rating": f"{published['rating']:g}"})
    backbones = {search.backbone for search in searches}
    caption = "Chosen words" + (f", {backbones.pop()}" if len(backbones) == 1 else "")
    table = _table(rows, caption, ("seed", "rating"))
    if any(row["rating"] for row in rows):
        table.notes.append(
            "rating: the mean of three people's ratings of the paper's words, from 1 to 5; only "
            "those were rated."
        )
    return table


def _published(dataset: str) -> dict[str, Any]:
    """Returns the paper's words for a dataset and their mean rating; nothing if it has none."""
    ratings = {line["dataset"]: float(line["ipl_rating"]) for line in paper.rows("words")}
    if dataset not in ratings:
        return {}
    words = {"words": paper.chosen_words()[dataset], "rating": ratings[dataset]}
    return {"dataset": dataset, "backbone": paper.BACKBONE, **words}


def _counts_table(searches: Sequence[WordSearch]) -> Table:
    rows = []
    for (dataset, backbone), (number, counter) in count_words(searches).items():
        ranked = _ranked(counter)
        words = ", ".join(f"{word} {count}" for word, count in ranked[:MOST_FREQUENT])
        if rest := ranked[MOST_FREQUENT:]:
            words += f", and {len(rest)} more" + (" once" if rest[0][1] == 1 else "")
        names = {"dataset": dataset, "backbone": backbone}
        rows.append(names | {"searches": str(number), "words": words})
    table = _table(rows, "In how many searches each word was chosen", ("searches",))
    table.notes.append(
        "A search that several learners share counts once, and so does one that was cut short "
        "for a smaller k."
    )
    return table


def _ranked(counter: Counter[str]) -> list[tuple[str, int]]:
    """Returns words with their counts, the most frequent first, equally frequent ones by name."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))


def _overlap_table(searches: Sequence[WordSearch]) -> Table:
    overlaps = find_overlaps(searches)
    datasets = len({search.dataset for search in searches})
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in overlaps:
        name = "average over datasets" if one.dataset == AVERAGE else one.dataset
        group = (name, one.backbone, one.settings)
        text = f"{percent(one.overlap, 0)} ({one.pairs})" if one.pairs else "-"
        if one.dataset != AVERAGE or datasets > 1:
            rows.setdefault(group, _named(group))[one.between] = text
    caption = "Mean overlap of the words between two seeds and two backbones (pairs)"
    table = _table(list(rows.values()), caption, OVERLAPS)
    table.notes += overlap_sentences(overlaps)
    table.notes.append("Overlap (Jaccard): the words in both lists, as a share of all in the two.")
    return table


def overlap_sentences(overlaps: Iterable[WordOverlap]) -> list[str]:
    """Returns a sentence on seeds and one on backbones: their overlap, or that there is none."""
    sentences = []
    for average in (overlap for overlap in overlaps if overlap.dataset == AVERAGE):
        between, share = average.between, average.overlap
        if share is None:
            sentences.append(f"There are no two {between} to compare where all else is the same.")
        elif share == 1:
            sentences.append(f"Two {between} always have the same words.")
        else:
            text = percent(share, 0)
            sentences.append(f"On average two {between} have {text} of their words in common.")
    return sentences


def words_to_csv(searches: Sequence[WordSearch]) -> str:
    """Returns a line for each search, list of the paper, word of a dataset and overlap."""
    values = words_to_values(searches)
    rows = [
        {"table": name, **row}
        for name in ("searches", "paper", "counts", "overlaps")
        for row in values[name]
    ]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_csv_text(row.get(key)) for key in columns] for row in rows]
    return Table(columns, cells).to_csv()


def _csv_text(value: Any) -> str:
    return " ".join(value) if isinstance(value, tuple) else "" if value is None else str(value)


def words_to_values(searches: Sequence[WordSearch]) -> dict[str, Any]:
    """Returns everything in the tables as plain values; all words, overlaps from 0 to 1."""
    overlaps = find_overlaps(searches)
    published = map(_published, dict.fromkeys(search.dataset for search in searches))
    return {
        "searches": [asdict(search) | {"settings": search.group[2]} for search in searches],
        "paper": [row for row in published if row],
        "counts": [
            {"dataset": dataset, "backbone": backbone, "word": word, "count": count, "of": number}
            for (dataset, backbone), (number, counter) in count_words(searches).items()
            for word, count in _ranked(counter)
        ],
        "overlaps": [asdict(overlap) for overlap in overlaps],
        "sentences": overlap_sentences(overlaps),
    }
