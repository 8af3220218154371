"""Chosen words: which rows they make, their overlap, and the tokens nearest to vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ipl.backbone.backbone import Backbone
from ipl.bench.records import RunRecord
from ipl.bench.tables.words_table import (
    PROMPTS,
    TENSORS,
    find_word_searches,
    overlap_table,
    search_rows,
    seed_overlaps,
    token_rows,
    words_table,
)
from tests.helpers.records import record, search


def run(text: str, dataset: str = "oxford_pets", **more: Any) -> RunRecord:
    """A run that chose these words."""
    chosen = text.split()
    made = record(dataset, **{"words": len(chosen), **more})
    found = search((1.0,) * len(chosen)) if chosen else None
    return RunRecord.from_dict(made | {"chosen": chosen, "selection": found})


def test_learners_with_the_same_words_are_one_search() -> None:
    alone = run("furry pet", learner="words-only")
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


# -- nearest tokens --------------------------------------------------------------------------------


def test_nearest_of_the_whole_vocabulary(pocket: Backbone) -> None:
    generator = torch.Generator().manual_seed(0)
    ids = pocket.tokenize("furry")
    vectors = pocket.embed(ids) + 1e-4
    vectors = torch.cat([vectors, torch.randn(2, vectors.shape[1], generator=generator)])
    found = [first for (first,) in pocket.nearest_tokens(vectors)]
    assert found[0] == "furry"
    for vector, token in zip(vectors, found, strict=True):
        distances = [
            float((pocket.embed([i])[0] - vector).norm())
            for i in range(0, len(pocket.tokenizer), 97)
        ]
        (own,) = pocket.tokenizer.convert_tokens_to_ids([f"{token}</w>"])
        own_distance = float((pocket.embed([own])[0] - vector).norm())
        assert own_distance <= min(distances) + 1e-5 or token not in pocket.tokenizer.get_vocab()


def test_the_table_reads_the_prompts_that_were_kept(tmp_path: Path, pocket: Backbone) -> None:
    plain = RunRecord.from_dict(record(words=0, backbone="pocket"))
    across = [  # one prompt, tested in both ways
        RunRecord.from_dict(
            record("scenes", words=0, accuracy=accuracy, protocol=protocol, backbone="pocket")
        )
        for protocol, accuracy in (
            ("cross-dataset", {"scenes": 0.5, "dtd": 0.5}),
            ("domain", {"scenes": 0.5, "pacs/sketch": 0.5}),
        )
    ]
    runs = [plain, *across]
    assert token_rows(tmp_path, runs) == []
    for training, text in ((plain.id, "furry cat"), (across[0].training, "sunny beach")):
        folder = tmp_path / PROMPTS / training
        folder.mkdir(parents=True)
        save_file({"soft": pocket.embed(pocket.tokenize(text)).clone()}, folder / TENSORS)
    table = words_table(token_rows(tmp_path, runs))
    assert [row[1:4] for row in table.rows] == [
        ("CoOp, tokens nearest to its vectors", "1", "furry, cat"),
        ("paper, tokens nearest to its vectors", "", "tosc, enjoyment"),
        ("CoOp, tokens nearest to its vectors", "1", "sunny, beach"),
    ]
