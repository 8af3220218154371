"""Chosen words: which rows they make, how often each came back, and their overlap."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest

from ipl.bench.records import RunRecord
from ipl.bench.tables.words_table import (
    WordOverlap,
    WordSearch,
    count_words,
    find_overlaps,
    find_word_searches,
    words_tables,
    words_to_csv,
)
from tests.helpers.records import BUNDLED, SENTENCE, record

FIVE = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")
# What a record of the arm `words-only` has.
SEARCH: dict[str, Any] = {
    "lambda_": 0.2,
    "preset": "paper",
    "word_embedding": "text",
    "search": "exact",
}
SEARCH |= {"template": SENTENCE, "pool": dict(BUNDLED)}


def run(text: str, dataset: str = "oxford_pets", **more: Any) -> RunRecord:
    """Returns a run that chose these words."""
    chosen = text.split()
    made = record(dataset, **{"words": len(chosen), **more})
    return RunRecord.from_dict(made | {"chosen": chosen})


def searches(*runs: RunRecord) -> list[WordSearch]:
    return find_word_searches(runs)


def overlap(found: list[WordSearch], between: str, dataset: str = "average") -> WordOverlap:
    (one,) = [o for o in find_overlaps(found) if (o.dataset, o.between) == (dataset, between)]
    return one


def test_learners_with_the_same_words_are_one_search() -> None:
    alone = run("furry pet", learner="words-only", **SEARCH)
    found = searches(*(run("furry pet", learner=name) for name in FIVE), alone)
    learners = ("words-only", *FIVE)
    assert found == [
        WordSearch("oxford_pets", found[0].backbone, {}, 1, ("furry", "pet"), learners)
    ]


def test_words_that_were_not_chosen_are_left_out() -> None:
    runs = [
        run("furry pet"),
        run("odd word", random_words=1),
        run("my words", words_given="my, words"),
        run("", words=0),
        RunRecord.from_dict(record(seed=2, words=2, error="Out of memory.")),
    ]
    assert [one.words for one in searches(*runs)] == [("furry", "pet")]
    assert searches(*runs[1:]) == []


def test_the_papers_words_stand_below_ours() -> None:
    rows = words_tables(searches(run("furry pet"), run("sun", dataset="scenes")))[0].rows
    assert rows == (
        ("oxford_pets", "CoOp", "1", "furry, pet", ""),
        ("oxford_pets", "the paper's, CLIP ViT-B/16", "", "furry, veterinary, adopt", "5"),
        ("scenes", "CoOp", "1", "sun", ""),
    )


def test_overlap_between_seeds_is_averaged_over_datasets() -> None:
    found = searches(
        run("a b c", seed=1),
        run("c d e", seed=2),
        run("a b c", seed=3),
        run("x", dataset="eurosat", seed=1),
        run("x", dataset="eurosat", seed=2),
        run("y", dataset="dtd", seed=1),
    )
    pets = overlap(found, "seeds", "oxford_pets")
    assert (pets.overlap, pets.pairs) == (pytest.approx((1 / 5 + 1 + 1 / 5) / 3), 3)
    assert overlap(found, "seeds", "eurosat").overlap == 1
    assert overlap(found, "seeds", "dtd").overlap is None
    mean = overlap(found, "seeds")
    assert (mean.overlap, mean.pairs) == (pytest.approx((7 / 15 + 1) / 2), 4)
    table = words_tables(found)[2]
    assert table.rows[-1] == ("average over datasets", "73\N{NO-BREAK SPACE}% (4)", "-")


def test_overlap_between_backbones_needs_the_same_seed_and_settings() -> None:
    found = searches(
        run("a b", seed=1, backbone="pocket"),
        run("b c", seed=1),
        run("a b", seed=2, backbone="pocket"),
        run("a b", seed=3),
        run("a b", seed=2, lambda_=0.7),
    )
    shared = overlap(found, "backbones")
    assert (shared.overlap, shared.pairs) == (pytest.approx(1 / 3), 1)
    # The pair is in the rows of both backbones.
    both = [o.backbone for o in find_overlaps(found) if o.between == "backbones" and o.pairs]
    assert both == ["openai/clip-vit-base-patch16", "pocket", ""]


def test_weights_with_the_same_name_are_different_backbones() -> None:
    other = record(words=1) | {"chosen": ["b"]}
    other["backbone"] = {"name": "pocket", "weights_sha256": "cd" * 32, "precision": "fp32"}
    found = searches(run("a", backbone="pocket"), RunRecord.from_dict(other))
    assert [one.backbone for one in found] == ["pocket (abababab)", "pocket (cdcdcdcd)"]
    assert overlap(found, "backbones").overlap == 0


def test_settings_that_change_the_choice_tell_searches_apart() -> None:
    runs = [run("a b", shots=16), run("a c", shots=2), run("a c", shots=2, seed=2, epochs=9)]
    found = searches(*runs)
    assert [(one.settings, one.seed) for one in found] == [
        ({"shots": 2}, 1),
        ({"shots": 2}, 2),
        ({"shots": 16}, 1),
    ]
    everywhere = run("a b", dataset="eurosat", protocol="few-shot", accuracy={"eurosat": 0.5})
    half = run("a b", dataset="eurosat", lambda_=0.1)
    assert {one.group[2] for one in searches(everywhere, half)} == {"classes all", "classes base"}


def test_a_word_counts_once_for_each_search() -> None:
    found = searches(
        *(run("a b", seed=seed, learner=name) for seed in (1, 2) for name in FIVE),
        run("a c", seed=3),
        run("b", dataset="eurosat"),
    )
    backbone = found[0].backbone
    assert count_words(found) == {
        ("oxford_pets", backbone): (3, {"a": 3, "b": 2, "c": 1}),
        ("eurosat", backbone): (1, {"b": 1}),
    }


def test_the_beginning_of_a_longer_search_is_not_counted_again() -> None:
    found = searches(
        run("a"), run("a b"), run("a b c"), run("a b", words="paper"), run("z", seed=2)
    )
    assert list(count_words(found).values()) == [(2, {"a": 1, "b": 1, "c": 1, "z": 1})]


def test_csv_has_all_tables() -> None:
    found = searches(run("a b"), run("b c", seed=2))
    lines = list(csv.DictReader(StringIO(words_to_csv(found))))
    kinds = [line["table"] for line in lines]
    assert kinds == ["searches"] * 2 + ["paper"] + ["counts"] * 3 + ["overlaps"] * 4
    assert (lines[1]["seed"], lines[1]["words"], lines[1]["learners"]) == ("2", "b c", "coop")
    assert (lines[2]["words"], lines[2]["rating"]) == ("furry veterinary adopt", "5.0")
    assert (lines[3]["word"], lines[3]["count"], lines[3]["of"]) == ("b", "2", "2")
    assert (lines[6]["between"], lines[6]["pairs"]) == ("seeds", "1")
    assert float(lines[6]["overlap"]) == pytest.approx(1 / 3)
    assert lines[-1]["overlap"] == ""
