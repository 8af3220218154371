"""Chosen words: which rows they make, and their overlap."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.bench.records import RunRecord
from ipl.bench.tables.words_table import (
    find_word_searches,
    overlap_table,
    search_rows,
    seed_overlaps,
    words_table,
)
from tests.helpers.records import SENTENCE, record, search

# What a record of the arm `words-only` has.
SEARCH: dict[str, Any] = {"lambda_": 0.2, "preset": "paper", "word_embedding": "text"}
SEARCH |= {"utility": "paper"}
SEARCH |= {"search": "exact", "template": SENTENCE, "pool": "bundled"}


def run(text: str, dataset: str = "oxford_pets", **more: Any) -> RunRecord:
    """A run that chose these words."""
    chosen = text.split()
    made = record(dataset, **{"words": len(chosen), **more})
    found = search((1.0,) * len(chosen)) if chosen else None
    return RunRecord.from_dict(made | {"chosen": chosen, "selection": found})


def test_learners_with_the_same_words_are_one_search() -> None:
    alone = run("furry pet", learner="words-only", **SEARCH)
    runs = [run("furry pet", learner="maple"), run("furry pet"), alone]
    not_chosen = [run("odd word", random_words=1), run("my words", words_given="my, words")]
    (found,) = find_word_searches([*runs, *not_chosen, run("", words=0)])
    assert found.words == ("furry", "pet")
    assert found.learners == ("words-only", "coop", "maple")
    assert found.settings == ""


def test_the_papers_words_stand_below_ours() -> None:
    found = find_word_searches([run("furry pet"), run("sun", dataset="scenes")])
    table = words_table(search_rows(found))
    assert table.rows == (
        ("oxford_pets", "CoOp", "1", "furry, pet", "1.0000, 1.0000", "50.0 → 50.0", ""),
        ("oxford_pets", "paper", "", "furry, veterinary, adopt", "", "", "5"),
        ("scenes", "CoOp", "1", "sun", "1.0000", "50.0 → 50.0", ""),
    )


def test_settings_that_change_the_choice_tell_searches_apart() -> None:
    runs = [run("a b", shots=16), run("a c", shots=2), run("a c", shots=2, seed=2, epochs=9)]
    found = [(one.settings, one.seed) for one in find_word_searches(runs)]
    assert sorted(found) == [("shots 16", 1), ("shots 2", 1), ("shots 2", 2)]
    found = find_word_searches([run("a b", words="paper"), run("a")])
    assert {one.settings for one in found} == {"words 1", "k by training accuracy"}


def test_overlap_is_between_searches_that_differ_in_their_seed_alone() -> None:
    found = find_word_searches(
        [
            *(run(words, seed=n) for n, words in enumerate(("a b c", "c d e", "a b c"), 1)),
            run("x y z", seed=4, backbone="pocket"),
            run("x", dataset="eurosat", seed=1),
            run("x", dataset="eurosat", seed=2),
            run("y", dataset="dtd", seed=1),
        ]
    )
    assert seed_overlaps(found) == {
        "oxford_pets": pytest.approx([1 / 5, 1, 1 / 5]),
        "eurosat": [1.0],
    }
    table = overlap_table(found)
    assert table is not None
    assert table.rows[-1] == (  # of the means of the datasets
        "average",
        "73\N{NO-BREAK SPACE}%",
        "4",
    )
