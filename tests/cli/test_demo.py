"""`ipl demo`, shortened."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipl.classifier import PromptClassifier
from ipl.datasets.scenes import CLASSES

Call = Callable[..., Any]


def test_what_is_printed_is_saved_and_can_be_typed(ipl: Call, home: Path) -> None:
    done = ipl("demo", "--quick", "--device", "cpu", "--out", "my demo")
    assert done.code == 0, done.err
    report = json.loads(Path("my demo/results.json").read_text())
    classifier = PromptClassifier.from_pretrained("my demo/run", device="cpu")
    assert classifier.classes_ == list(CLASSES[:10])
    assert classifier.prompt_ == report["fit"]["prompt"]
    assert classifier.prompt_ in done.out
    assert report["new_classes"]["images"] == 40
    assert report["mistakes"]
    assert all(mistake["predicted"] in done.out for mistake in report["mistakes"])
    # What it says to type next can be typed: a folder with a blank is quoted.
    (advice,) = [line for line in done.out.splitlines() if " predict " in line]
    words = shlex.split(advice)
    told = ipl(*words[words.index("predict") :], "--json", "--device", "cpu", "--quiet").json
    assert {c["name"] for c in told["predictions"][0]["classes"]} == {"castle", "skyline"}
    again = ipl("demo", "--quick", "--device", "cpu", "--out", "my demo", "--json", "--quiet")
    assert again.json["new_classes"] == report["new_classes"]


@pytest.mark.parametrize("name", ["run/thesis.txt", "cat/1.jpg"])
def test_a_folder_of_somebody_is_refused_at_once(name: str, ipl: Call, home: Path) -> None:
    path = home / "ipl-demo" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    message = ipl("demo", "--quiet", "--device", "cpu").error
    assert path.parent.name in message
    assert path.read_text() == "mine"
    assert not (home / "ipl-demo" / "scenes").exists()  # nothing was unpacked for nothing


def test_ctrl_c_says_what_was_kept(ipl: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ipl.classifier.PromptClassifier.fit", interrupt)
    result = ipl("demo", "--quick", "--quiet", "--device", "cpu")
    assert result.code == 130
    assert "ipl-demo" in result.err
