"""The pool: the frozen words, a user's own list, random words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import ConfigError, DataError
from ipl.words.lexicon import zipf
from ipl.words.pool import EQUALLY_FREQUENT, Pool, proper_names

# SHA-256 of the words in sorted order, joined by "\n" (none at the end), as UTF-8.
POOL_SHA256 = "e6e7eca82d7524785183747045879ac2ef9e9c969b625ffef77a1bdbb8c22638"


def test_the_bundled_pool_is_the_published_one() -> None:
    pool = Pool.bundled()
    assert len(pool) == 8900
    assert pool.sha256 == POOL_SHA256
    assert {"furry", "veterinary", "adopt", "flowering", "touchdown", "fascism"} <= set(pool.words)


def test_names_can_be_left_out() -> None:
    pool = Pool.bundled()
    smaller = pool.part("no-names")
    assert (len(proper_names()), len(smaller)) == (344, 8900 - 344)
    assert "aaron" in pool
    assert "aaron" not in smaller
    with pytest.raises(DataError, match="No candidate word is left"):
        Pool(("aaron",), "test").part("no-names")


def test_visible_words_are_things_and_colours_but_no_class_names() -> None:
    pool = Pool.bundled()
    visible = pool.part("visible", ["Annual crop land", "Sea / Lake"])
    seen = ["fur", "sand", "blue", "circle", "horse", "grass", "beach", "dogs"]
    unseen = ["gender", "speeding", "stolen", "felt", "aaron", "quickly", "tuesday", "crop", "lake"]
    assert [word for word in [*seen, *unseen] if word in visible] == seen
    assert "lake" in pool.part("visible")
    assert pool.part("all") is pool


@pytest.mark.parametrize(
    "words",
    [(), None, ["dog"], (1, 2), ("dog", "cat"), ("dog", "dog"), ("Dog",), ("",), (" dog",)],
)
def test_bad_words_are_refused(words: Any) -> None:
    with pytest.raises(ConfigError, match=r"Pool\.words"):
        Pool(words, "test")


def test_clip_keeps_every_word_and_another_tokenizer_its_own(tokenizer: Any) -> None:
    class ShortWords:
        all_special_ids = ()

        def encode(self, text: str, **_: object) -> list[int]:
            return list(range((len(text) + 3) // 4))  # four letters a token

    pool = Pool.bundled()
    assert pool.for_tokenizer(tokenizer) is pool
    short = pool.for_tokenizer(ShortWords())  # type: ignore[arg-type]
    assert short.words == tuple(word for word in pool.words if len(word) <= 4)


# -- a user's own list -----------------------------------------------------------------------------


def test_own_list_keeps_what_can_be_a_candidate(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(
        "\ufeff# my words\r\n\r\nFurry\r\nfurry\r\ndog  # pets\r\n"
        "x-ray\r\nox\r\nxylem\r\nhot dog\r\n".encode()
    )
    pool, dropped = Pool.from_file(path, tokenizer)
    assert pool.words == ("dog", "furry")
    assert set(dropped) == {"x-ray", "ox", "xylem", "hot dog"}


@pytest.mark.parametrize(
    "content", [b"", b"\n# only a comment\n", b"\x89PNG\r\n\x1a\n\xff\xfe", b"ox\n12\n", None]
)
def test_a_bad_list_is_named(content: bytes | None, tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "mine.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"mine\.txt"):
        Pool.from_file(path, tokenizer)
    with pytest.raises(DataError, match="is a folder"):
        Pool.from_file(tmp_path, tokenizer)


# -- random words ----------------------------------------------------------------------------------


def test_random_words_are_about_as_frequent_as_the_given_ones() -> None:
    pool, words, stream = Pool.bundled(), ("people", "furry"), random.Random(1)
    distances = sorted(abs(zipf(word) - zipf("furry")) for word in pool.words)
    draws = [pool.draw(words, stream) for _ in range(20)]
    for drawn in draws:
        assert not set(drawn) & set(words)
        assert len(set(drawn)) == 2
        assert abs(zipf(drawn[1]) - zipf("furry")) <= distances[EQUALLY_FREQUENT + 2]
    assert len(set(draws)) > 10
    assert pool.draw(words, random.Random(1)) == draws[0]


def test_a_pool_too_small_for_random_words_is_named() -> None:
    pool = Pool.from_words(("sand", "stone"), "two")
    with pytest.raises(ConfigError, match="The pool has 2 words"):
        pool.draw(("sand", "stone"), random.Random(0))
