"""The spread over seeds: accuracies, sentences and stable words, on constructed results."""

from __future__ import annotations

from ipl.metrics import paired_difference
from ipl.training.comparison import LINEAR_PROBE, NO_IMAGES, PROMPT, ZERO_SHOT
from ipl.training.seeds import MethodSpread, SeedSpread

CHANGES = ((30, 0), (40, 5), (1, 0))  # images gained and lost with each seed
SPREAD = SeedSpread(
    seeds=(1, 2, 7),
    methods=(
        MethodSpread(ZERO_SHOT, (0.5,) * 3, tuple(paired_difference(*c, 100) for c in CHANGES)),
        MethodSpread(LINEAR_PROBE, (0.9,) * 3, (paired_difference(0, 20, 100),) * 3),
        MethodSpread(PROMPT, (0.8, 0.85, 0.51)),
    ),
    words=(("sand", "stone"), ("sky", "sand"), ("tower", "sky")),
    recommendations=("Recommendation: a linear probe.", *["Recommendation: zero-shot."] * 2),
)


def test_the_verdict_counts_the_seeds_that_are_clear() -> None:
    accuracy, zero_shot, probe, recommended = SPREAD.verdict
    assert "72.0\N{NO-BREAK SPACE}% of the held-out images on average" in accuracy
    assert accuracy.endswith("(least 51.0, most 85.0).")
    assert zero_shot == (
        "Compared with zero-shot: +22.0 points on average (least +1.0, most +35.0), clearly better "
        "with 2 and clearly worse with 0 of 3 seeds."
    )
    assert "\N{MINUS SIGN}20.0 points on average" in probe
    assert "clearly better with 0 and clearly worse with 3 of 3 seeds" in probe
    assert recommended == "Recommendation with 2 of 3 seeds: zero-shot."


def test_a_stable_word_is_one_that_several_seeds_chose() -> None:
    assert SPREAD.stable_words == {"sand": (1, 2), "sky": (2, 7)}
    assert SPREAD.about_words == "Stable words: sand (2 of 3 seeds) and sky (2 of 3 seeds)."


def test_words_that_no_seeds_share_or_no_search_chose() -> None:
    assert "No word" in SeedSpread((1, 2), (), (("a",), ("b",))).about_words
    assert SeedSpread((1, 2), (), ()).about_words == ""


def test_the_table_has_every_seed_their_mean_and_range() -> None:
    rows = SPREAD.table().to_csv().splitlines()
    assert rows[0] == "seed,zero-shot CLIP,linear probe,this prompt,words"
    assert [row.partition(",")[0] for row in rows[1:]] == ["1", "2", "7", "mean", "least to most"]
    assert rows[-1] == "least to most,50.0 to 50.0,90.0 to 90.0,51.0 to 85.0,"


def test_without_held_out_images_the_words_are_left() -> None:
    spread = SeedSpread((1, 2), (), (("a", "b"), ("b", "c")))
    assert spread.verdict == (NO_IMAGES,)
    assert spread.table().to_csv().splitlines() == ["seed,words", '1,"a, b"', '2,"b, c"']
