"""The spread over seeds: accuracies, sentences and stable words, on constructed results."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.datasets.dataset import Dataset, Item
from ipl.metrics import paired_difference
from ipl.training.comparison import LINEAR_PROBE, NO_IMAGES, PROMPT, ZERO_SHOT
from ipl.training.seeds import MethodSpread, SeedSpread, shared_shots

SPREAD = SeedSpread(
    seeds=(1, 2, 7),
    methods=(
        MethodSpread(
            ZERO_SHOT,
            (0.5, 0.5, 0.5),
            (
                paired_difference(30, 0, 100),
                paired_difference(40, 5, 100),
                paired_difference(1, 0, 100),
            ),
        ),
        MethodSpread(LINEAR_PROBE, (0.9, 0.9, 0.9), (paired_difference(0, 20, 100),) * 3),
        MethodSpread(PROMPT, (0.8, 0.85, 0.51)),
    ),
    words=(("sand", "stone"), ("sky", "sand"), ("tower", "sky")),
    shared_shots=0.25,
)


def test_the_verdict_counts_the_seeds_that_are_clear() -> None:
    accuracy, zero_shot, probe = SPREAD.verdict
    assert "72.0\N{NO-BREAK SPACE}% of the held-out images on average" in accuracy
    assert accuracy.endswith("(least 51.0, most 85.0).")
    assert zero_shot == (
        "Compared with zero-shot: +22.0 points on average (least +1.0, most +35.0), clearly better "
        "with 2 and clearly worse with 0 of 3 seeds."
    )
    assert "\N{MINUS SIGN}20.0 points on average" in probe
    assert "clearly better with 0 and clearly worse with 3 of 3 seeds" in probe


def test_a_stable_word_is_one_that_several_seeds_chose() -> None:
    stable = {each.word: each.seeds for each in SPREAD.stable_words}
    assert stable == {"sand": (1, 2), "sky": (2, 7)}
    assert SPREAD.about_words.startswith(
        "Stable words: sand (2 of 3 seeds) and sky (2 of 3 seeds). Two seeds share 25"
    )


@pytest.mark.parametrize(
    ("words", "shared", "told"),
    [
        ((("a",), ("b",)), 0.5, "No word was chosen with more than one seed. Two seeds share"),
        ((("a",), ("a",)), 1.0, "so that the words had to come back."),
        ((), 0.5, ""),  # no search chose them
    ],
)
def test_what_is_said_of_words(
    words: tuple[tuple[str, ...], ...], shared: float, told: str
) -> None:
    sentence = SeedSpread((1, 2), (), words, shared).about_words
    assert told in sentence
    assert bool(sentence) == bool(words)


def test_the_table_has_every_seed_their_mean_and_range() -> None:
    rows = SPREAD.table().to_csv().splitlines()
    assert rows[0] == "seed,zero-shot CLIP,linear probe,this prompt,words"
    assert [row.partition(",")[0] for row in rows[1:]] == ["1", "2", "7", "mean", "least to most"]
    assert rows[-1] == "least to most,50.0 to 50.0,90.0 to 90.0,51.0 to 85.0,"


def test_without_held_out_images_the_words_are_left() -> None:
    spread = SeedSpread((1, 2), (), (("a", "b"), ("b", "c")), 0.5)
    assert spread.verdict == (NO_IMAGES,)
    assert spread.table().to_csv().splitlines() == ["seed,words", '1,"a, b"', '2,"b, c"']


@pytest.mark.parametrize(
    ("counts", "shots", "share"),
    [((8, 8), 4, 0.5), ((100, 4), 4, (0.16 + 4) / 8)],
)
def test_shared_shots(counts: tuple[int, ...], shots: int, share: float) -> None:
    items = [
        Item(Path(f"{label}/{number}.png"), label)
        for label, count in enumerate(counts)
        for number in range(count)
    ]
    names = tuple(f"class {label}" for label in range(len(counts)))
    assert shared_shots(Dataset("few", names, tuple(items), ()), shots) == pytest.approx(share)
