"""The words that searches chose: which they are, their gains, and their overlap.

Words that were drawn at random (arm `random`) or that a person gave are not chosen words and are
left out. Beside them stand the tokens nearest to the vectors of learners without words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from safetensors.torch import load_file

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.bench import paper_numbers as paper
from ipl.bench.arms import WORDS_ONLY
from ipl.bench.records import RunRecord
from ipl.bench.run import settings_about_search, varying
from ipl.bench.tables.methods import learner_name, learner_order, varied_text
from ipl.config import CHOSEN, PLAIN
from ipl.display.formatting import percent
from ipl.display.table import Table
from ipl.saving.run_folder import TENSORS
from ipl.words.selection import Selection

PROMPTS = "prompts"  # in a bench's folder: what `ipl bench --save-prompts` keeps
SHOTS = "accuracy on the shots, %"  # without and with the words


@dataclass(frozen=True)
class WordSearch:
    """The words of a dataset and seed, and the learners whose runs have them."""

    dataset: str
    backbone: str
    settings: str  # that decide the choice, of those that differ between runs on one dataset
    seed: int
    words: tuple[str, ...]
    selection: Selection | None = field(default=None, compare=False, repr=False)
    learners: tuple[str, ...] = ()  # `words-only` stands for a sentence without training


def find_word_searches(runs: Iterable[RunRecord]) -> list[WordSearch]:
    """The searches of all runs that chose words, datasets in the paper's order."""
    chosen = [run for run in runs if run.arm in (CHOSEN, WORDS_ONLY) and run.chosen]
    by_dataset: dict[str, list[dict[str, Any]]] = {}
    for run in chosen:
        by_dataset.setdefault(run.dataset, []).append(_search_settings(run))
    varied = {name for settings in by_dataset.values() for name in varying(settings)}
    found: dict[WordSearch, set[str]] = {}
    for run in chosen:
        own = {key: value for key, value in _search_settings(run).items() if key in varied}
        names = (run.dataset, str(run.backbone.get("name")), varied_text(own))
        search = WordSearch(*names, run.seed, run.chosen, run.selection)
        found.setdefault(search, set()).add(run.learner)
    order = learner_order(chosen)
    datasets = [*paper.ELEVEN, *sorted({run.dataset for run in chosen} - set(paper.ELEVEN))]
    searches = [
        replace(search, learners=tuple(sorted(names, key=order.index)))
        for search, names in found.items()
    ]
    return sorted(
        searches,
        key=lambda one: (datasets.index(one.dataset), one.backbone, one.settings, one.seed),
    )


def _search_settings(run: RunRecord) -> dict[str, Any]:
    """What decides the choice of words beside the dataset, the backbone and the seed."""
    config = run.config()
    names = ["shots", *sorted(settings_about_search()), "precision"]
    classes = "base" if run.rules.parts else "all"
    return {**{name: config.get(name) for name in names}, "classes": classes}


def seed_overlaps(searches: Sequence[WordSearch]) -> dict[str, list[float]]:
    """By dataset, the overlap (Jaccard) of each two searches that differ in their seed alone."""
    found: dict[str, list[float]] = {}
    for a, b in combinations(searches, 2):
        same = (a.dataset, a.backbone, a.settings) == (b.dataset, b.backbone, b.settings)
        if same and a.seed != b.seed and {*a.learners} & {*b.learners}:
            one, other = set(a.words), set(b.words)
            found.setdefault(a.dataset, []).append(len(one & other) / len(one | other))
    return found


# -- rows -----------------------------------------------------------------------------------------


def search_rows(searches: Sequence[WordSearch]) -> list[dict[str, Any]]:
    """A row for each search, and for the paper's words of each dataset."""
    rows: list[dict[str, Any]] = []
    for search in searches:
        steps = search.selection.steps if search.selection else ()
        row = {
            "dataset": search.dataset,
            "backbone": search.backbone,
            "settings": search.settings,
            "seed": search.seed,
            "words": " ".join(search.words),
            "gains": " ".join(f"{step.gain:.4f}" for step in steps),
            "learners": " ".join(search.learners),
            "rating": None,
        }
        if search.selection and steps:
            row["accuracy_before"] = 100 * search.selection.accuracy_without_words
            row["accuracy_after"] = 100 * steps[-1].accuracy
        rows.append(row)
    return [*rows, *_paper_rows(rows, "ipl")]


def token_rows(folder: Path, runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """A row for each prompt without words that `ipl bench --save-prompts` has kept in a folder."""
    backbones: dict[str, Backbone] = {}
    rows: list[dict[str, Any]] = []
    for training, run in {run.training: run for run in runs}.items():
        path = folder / PROMPTS / training / TENSORS
        if run.arm == PLAIN and path.is_file():
            name = str(run.backbone["name"])
            backbones[name] = backbones.get(name) or load_backbone(name, "cpu")
            nearest = backbones[name].nearest_tokens(load_file(path)["soft"])
            tokens = " ".join(first for (first,) in nearest)
            row = {"dataset": run.dataset, "learners": run.learner, "seed": run.seed}
            rows.append({**row, "backbone": name, "words": tokens, "rating": None})
    return [{**row, "nearest": True} for row in (*rows, *_paper_rows(rows, "coop"))]


def _paper_rows(rows: Sequence[Mapping[str, Any]], whose: str) -> Iterator[dict[str, Any]]:
    """The paper's words of each dataset of these rows."""
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        if rated := paper.rated_words(dataset, whose):
            row = {"dataset": dataset, "backbone": paper.BACKBONE, "learners": "paper"}
            yield {**row, "words": rated[0], "rating": rated[1]}


# -- tables ---------------------------------------------------------------------------------------


def words_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows of searches, and of nearest tokens, by dataset."""
    backbones = {row["backbone"] for row in rows if row["learners"] != "paper"}
    columns = ["dataset", "learners", "seed", "words", "gains", SHOTS, "rating"]
    if len(backbones) > 1:
        columns.insert(1, "backbone")
    if any(row.get("settings") for row in rows):
        columns.insert(-5, "settings")
    title = "Chosen words" + (f", {backbones.pop()}" if len(backbones) == 1 else "")
    table = Table(columns, title=title, numbers=("seed", "rating"))
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        section = []
        for row in (row for row in rows if row["dataset"] == dataset):
            learners = ", ".join(map(learner_name, row["learners"].split()))
            if row.get("nearest"):
                learners += ", tokens nearest to its vectors"
            texts = {**row, "learners": learners, "words": ", ".join(row["words"].split())}
            texts["gains"] = ", ".join(row.get("gains", "").split())
            if "accuracy_after" in row:
                texts[SHOTS] = f"{row['accuracy_before']:.1f} → {row['accuracy_after']:.1f}"
            texts["rating"] = "" if row["rating"] is None else f"{row['rating']:g}"
            section.append([str(texts.get(column, "")) for column in columns])
        table.add_section(section)
    if any(row.get("nearest") for row in rows):
        table.notes.append(
            "tokens nearest to its vectors: no search chose them. They are those of the whole "
            "vocabulary nearest to the vectors of the plain learner (in the paper, CoOp)."
        )
    if any(row["rating"] for row in rows):
        table.notes.append(
            "paper: its words, with CLIP ViT-B/16. rating: the mean of three people's ratings, "
            "from 1 to 5; only the paper's words were rated."
        )
    return table


def overlap_table(searches: Sequence[WordSearch]) -> Table | None:
    """The overlap of the words of two seeds; None if no two searches differ in their seed alone."""
    found = seed_overlaps(searches)
    if not found:
        return None
    means = {name: mean(own) for name, own in found.items()}
    table = Table(
        ["dataset", "overlap", "pairs"],
        [[name, percent(value, 0), str(len(found[name]))] for name, value in means.items()],
        title="Mean overlap of the words between two seeds",
        numbers=("overlap", "pairs"),
    )
    pairs = sum(map(len, found.values()))
    table.add_section([[paper.AVERAGE, percent(mean(means.values()), 0), str(pairs)]])
    table.notes.append("Overlap (Jaccard): the words in both lists, as a share of all in the two.")
    return table
