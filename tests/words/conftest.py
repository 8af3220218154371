"""What the tests of words share: a tokenizer and a small NLTK corpus."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

# (word, kind of pointer, word pointed at): WordNet's "@" is a kind of, "@i" an individual one of.
NOUNS = [
    ("entity", None, None),
    ("dog", "@", "entity"),
    ("city", "@", "entity"),
    ("paris", "@i", "city"),
    ("jersey", "@i", "city"),
    ("jersey", "@", "entity"),
]
WORDNET_FILES = ["cntlist.rev", "index.sense"] + [
    f"{kind}.{part}" for part in ("adj", "adv", "noun", "verb") for kind in ("index", "data")
]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    with resources.as_file(resources.files("ipl") / "backbone" / "pocket") as folder:
        return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def wordnet_sample() -> list[tuple[str, str]]:
    """Returns raw words as the corpus spells them, each with what WordNet 3.0 knows of it."""
    text = (Path(__file__).parent / "wordnet_sample.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [(word, known) for word, known in rows]


@pytest.fixture
def nltk_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty folder that NLTK takes all its data from, with no corpus loaded yet."""
    import nltk
    from nltk.corpus.reader import WordListCorpusReader, WordNetCorpusReader
    from nltk.corpus.util import LazyCorpusLoader

    folder = tmp_path / "nltk_data"
    (folder / "corpora").mkdir(parents=True)
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    # NLTK's own loaders turn into the corpus they have once found, whatever the path is now.
    monkeypatch.setattr(
        nltk.corpus, "wordnet", LazyCorpusLoader("wordnet", WordNetCorpusReader, object())
    )
    monkeypatch.setattr(
        nltk.corpus, "words", LazyCorpusLoader("words", WordListCorpusReader, r"(?!README|\.).*")
    )
    return folder


@pytest.fixture
def mini_wordnet(nltk_folder: Path) -> Path:
    """Returns the folder of a WordNet with six nouns, one verb and one irregular form."""
    folder = nltk_folder / "corpora" / "wordnet"
    folder.mkdir()
    for name in WORDNET_FILES:
        (folder / name).write_text("")
    for part in ("adj", "adv", "noun"):
        (folder / f"{part}.exc").write_text("")
    (folder / "verb.exc").write_text("ran run\n")
    (folder / "lexnames").write_text("00\tadj.all\t3\n01\tnoun.Tops\t1\n02\tverb.motion\t2\n")
    _write_part(folder, "noun", "n", "01", NOUNS)
    _write_part(folder, "verb", "v", "02", [("run", None, None)])
    return folder


def _write_part(folder: Path, part: str, letter: str, lexname: str, entries: list[Any]) -> None:
    # Lines of one length, so that a synset's name (its byte offset) is known before it is written.
    width = 100
    offsets: dict[str, list[int]] = {}
    for place, (word, _, _) in enumerate(entries):
        offsets.setdefault(word, []).append(place * width)
    lines = []
    for place, (word, kind, target) in enumerate(entries):
        pointer = f"001 {kind} {offsets[target][0]:08d} n 0000" if kind else "000"
        line = f"{place * width:08d} {lexname} {letter} 01 {word} 0 {pointer} "
        line += "01 + 01 00 | it" if letter == "v" else "| it"
        lines.append(line.ljust(width - 1))
    (folder / f"data.{part}").write_text("".join(line + "\n" for line in lines))
    (folder / f"index.{part}").write_text(
        "".join(
            f"{word} {letter} {len(at)} 0 {len(at)} 0 {' '.join(f'{o:08d}' for o in at)}\n"
            for word, at in sorted(offsets.items())
        )
    )


@pytest.fixture
def synsets(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Returns a switch that makes a table of word -> synset|name|none the whole of WordNet."""

    class Synset:
        def __init__(self, individual: bool) -> None:
            self.individual = individual

        def instance_hypernyms(self) -> list[str]:
            return ["individual"] if self.individual else []

    def use(table: dict[str, str]) -> None:
        def look_up(word: str) -> list[Synset]:
            known = table.get(word, "none")
            return [] if known == "none" else [Synset(known == "name")]

        monkeypatch.setattr("ipl.words.filters.synsets_of", look_up)

    return use
