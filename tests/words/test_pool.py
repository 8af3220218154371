"""The pool itself: the frozen words and a user's own list."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import ConfigError, DataError
from ipl.words import pool as pool_module
from ipl.words.pool import Pool, proper_names


def test_bundled_pool_is_sorted_and_has_the_published_size() -> None:
    pool = Pool.bundled()
    assert len(pool) == 8900
    assert list(pool.words) == sorted(set(pool.words))
    assert {"furry", "veterinary", "adopt", "flowering", "touchdown", "fascism"} <= set(pool.words)
    assert pool.sha256 == hashlib.sha256("\n".join(pool.words).encode()).hexdigest()
    assert Pool.bundled() is pool


def test_names_are_a_part_of_the_pool_and_can_be_left_out() -> None:
    pool = Pool.bundled()
    assert len(proper_names()) == 344
    assert all(name in pool for name in proper_names())
    smaller = pool.without_names()
    assert len(smaller) == 8900 - 344
    assert "aaron" in pool
    assert "aaron" not in smaller
    assert smaller.sha256 != pool.sha256


def test_membership_agrees_with_the_tuple() -> None:
    pool = Pool(("cat", "dog", "zoo"), "test")
    for word in ("aaa", "cat", "cow", "dog", "zoo", "zzz", "", 3, None):
        assert (word in pool) == (word in pool.words)


@pytest.mark.parametrize("name", ["pool.txt", "names.txt"])
def test_damaged_package_file_is_an_error(name: str) -> None:
    with pytest.raises(DataError, match=f"{name} is damaged.*reinstall"):
        pool_module._read_bundled(name, "0" * 64)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "empty"),
        (["dog"], "tuple"),
        (("dog", "cat"), "'dog' before 'cat'"),
        (("dog", "dog"), "unique"),
        (("Dog",), "'Dog'.*lower case"),
        (("",), "''"),
        ((" dog",), "blanks"),
    ],
)
def test_bad_words_are_named(words: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Pool(words, "test")


def test_source_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"Pool\.source"):
        Pool(("dog",), "")


def test_a_pool_of_names_alone_leaves_nothing() -> None:
    with pytest.raises(DataError, match="No candidate word is left"):
        Pool(("aaron",), "test").without_names()


def test_clip_keeps_every_word_and_another_tokenizer_its_own(tokenizer: Any) -> None:
    class ShortWords:
        all_special_ids = ()
        asked = 0

        def encode(self, text: str, **_: object) -> list[int]:
            self.asked += 1
            return list(range((len(text) + 3) // 4))  # four letters a token

    pool, own = Pool.bundled(), ShortWords()
    assert pool.for_tokenizer(tokenizer) is pool
    short = pool.for_tokenizer(own)  # type: ignore[arg-type]
    assert short.words == tuple(word for word in pool.words if len(word) <= 4)
    assert short.source != pool.source
    assert pool.for_tokenizer(own) is short  # type: ignore[arg-type]
    assert own.asked == len(pool)  # each word once


def test_own_list_keeps_what_can_be_a_candidate(tmp_path: Path, tokenizer: Any) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(
        "\ufeff# my words\r\n\r\nFurry\r\nfurry\r\ndog  # pets\r\n"
        "x-ray\r\nox\r\nxylem\r\nhot dog\r\n".encode()
    )
    pool, dropped = Pool.from_file(path, tokenizer)
    assert pool.words == ("dog", "furry")
    assert "mine.txt" in pool.source
    assert {item.word: item.reason for item in dropped} == {
        "x-ray": "not made of letters only",
        "ox": "shorter than 3 letters",
        "xylem": "not one token of the backbone's tokenizer",
        "hot dog": "not made of letters only",
    }


def test_saved_pool_is_read_back(tmp_path: Path, tokenizer: Any) -> None:
    pool = Pool(("cat", "dog"), "test")
    pool.save(tmp_path / "words.txt")
    again, dropped = Pool.from_file(tmp_path / "words.txt", tokenizer)
    assert (again.words, again.sha256, dropped) == (pool.words, pool.sha256, ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no words"),
        (b"\n# only a comment\n", "has no words"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "not a text file"),
        (b"dog\0cat\n", "not a text file"),
        ("dog\n".encode("utf-16"), "not a text file"),
        (b"ox\n12\n", "None of the 2 words.*'ox'"),
    ],
)
def test_bad_list_is_one_clear_sentence(
    content: bytes, message: str, tmp_path: Path, tokenizer: Any
) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        Pool.from_file(path, tokenizer)
    assert "\n" not in str(caught.value)


def test_missing_list_and_folder(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(DataError, match="does not exist"):
        Pool.from_file(tmp_path / "nowhere.txt", tokenizer)
    with pytest.raises(DataError, match="folder"):
        Pool.from_file(tmp_path, tokenizer)
