"""What README and the pages beside it show in Python runs as it stands there; README is short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ipl_scenes import draw

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [ROOT / "docs" / "words.md", ROOT / "README.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    first, second = (re.search(r"```python\n(.*?)```", text, re.DOTALL)[1] for text in texts)
    for folder in ("images", "more-images"):
        for name in ("castle", "lake"):
            (tmp_path / folder / name).mkdir(parents=True)
            for index in range(4):
                draw(name, index).save(tmp_path / folder / name / f"{index}.png")
    draw("castle", 9).save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {}
    exec(first + second, values)  # the text of our own file
    classifier = values["classifier"]
    assert list(values["selection"].words) == classifier.words_[:3]
    assert len(classifier.words_) == 3
    assert classifier.classes_ == ["castle", "lake"]
    assert values["other"].classes_ == ["cat", "dog", "fox"]
    assert classifier.predict(["photo.jpg"])[0] in ("castle", "lake")
    assert (tmp_path / "my-prompt" / "README.md").is_file()


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 1200


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]))
def test_files_that_are_named_exist(page: Path) -> None:
    for name in re.findall(r"`((?:src|tests|benchmarks)/[\w./-]+\.\w+)`", page.read_text("utf-8")):
        assert (ROOT / name).exists(), name
