"""What README shows in Python runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ipl_scenes import draw

README = Path(__file__).parents[1] / "README.md"


def test_the_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
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
    assert list(values["found"].words) == classifier.words_[:3]
    assert len(classifier.words_) == 3
    assert classifier.classes_ == ["castle", "lake"]
    assert values["other"].classes_ == ["cat", "dog", "fox"]
    assert classifier.predict(["photo.jpg"])[0] in ("castle", "lake")
    assert (tmp_path / "my-prompt" / "README.md").is_file()
