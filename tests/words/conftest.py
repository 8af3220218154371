"""What the tests of words share: a tokenizer and what WordNet knows of some words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipl.backbone.loading import load_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return load_tokenizer("pocket")


@pytest.fixture(scope="session")
def wordnet_sample() -> list[tuple[str, str]]:
    """Returns raw words as the corpus spells them, each with what WordNet 3.0 knows of it."""
    text = (Path(__file__).parent / "wordnet_sample.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [(word, known) for word, known in rows]


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

        monkeypatch.setattr("ipl.words.rebuild.synsets", look_up)

    return use
