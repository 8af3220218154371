"""What docs/recipes.md shows runs as it stands there, from the first block to the last."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from PIL import ExifTags, Image

from ipl import PromptClassifier
from ipl.datasets.scenes import CLASSES
from ipl.support import hub
from tests.helpers.scenes import draw_folder, open_scene
from tests.helpers.tutorials import load_backbones_once, run_command

RECIPES = Path(__file__).parents[1] / "docs" / "recipes.md"
# A fit as it is shown takes a minute; these words and epochs take seconds.
QUICK = "--words 2 --views 0 --epochs 4 --interval 2 --device cpu --words-file words.txt"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a working folder with what the page takes for granted, and a hub that is a folder."""
    draw_folder(tmp_path / "images", {"castle": 4, "lake": 4})
    lying = open_scene("castle", 9).crop((0, 8, 96, 88)).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # it has to be turned by a quarter, as a phone's
    lying.save(tmp_path / "photo.jpg", exif=exif)
    (tmp_path / "words.txt").write_text("stone\nwater\nwall\ndark\n")
    away = tmp_path / "away"

    def upload(*, repo_id: str, folder_path: Path, **_: Any) -> None:
        shutil.copytree(folder_path, away / repo_id, dirs_exist_ok=True)

    load_backbones_once(monkeypatch)
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "create_repo", lambda name, **_: f"https://hub/{name}")
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(away / name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_recipes(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RECIPES.read_text(encoding="utf-8")
    values: dict[str, Any] = {}
    for kind, block in re.findall(r"```(bash|python)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            exec(block, values)  # the text of our own file
        else:
            for line in block.splitlines():
                quick = f" {QUICK}" if line.startswith("ipl fit") else ""
                run_command(line + quick, monkeypatch)
    classifier = PromptClassifier.from_pretrained("my-prompt", device="cpu")
    (ours,) = classifier.predict_proba(["photo.jpg"])
    # ONNX, with the page's own way of preparing an image; the matrix, with two kinds of features
    for found in ("probabilities", "ours", "theirs"):
        assert list(values[found][0]) == pytest.approx(list(ours), abs=1e-3), found
    with Image.open("photo.jpg") as lying:
        lying.getexif().clear()
        (turned,) = classifier.predict_proba([lying])
    assert turned != pytest.approx(ours, abs=1e-2)  # so that the page has to turn it
    # the pipeline of transformers: the prompt alone
    alone = classifier.learner_.log_probabilities(classifier.encode(["photo.jpg"])).exp()
    scores = {one["label"]: one["score"] for one in values["answer"]}
    expected = pytest.approx(alone[0].tolist(), abs=1e-3)
    assert [scores[name] for name in classifier.classes_] == expected
    assert values["more"].classes_ == ["castle", "lake", "harbour"]
    assert not set(values["more"].classes_[2:]) & set(CLASSES)  # whoever tries it on the scenes
    assert values["same"].prompt_ == classifier.prompt_
    assert set(values["search"].best_estimator_.classes_) == {"castle", "lake"}
    assert len((place / "rows.jsonl").read_text().splitlines()) == 8
    assert classifier.prompt_ in capsys.readouterr().out
