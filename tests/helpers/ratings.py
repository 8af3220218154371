"""A small study without any training: two runs that share a task, and one of another task."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from PIL import Image

from ipl.explain.ratings.raters import Answer, Rater
from ipl.explain.ratings.study import RatingImages, RatingTask, StudiedRun, Study, write_study

SCENES = {"a1": "sand", "b2": "cold", "c3": "green", "d4": "paper", "e5": "music", "f6": "glass"}
PETS = {"a7": "furry", "b8": "metal", "c9": "wall"}
LISTS = (
    (0, {"chosen": ("green", "sand"), "plain": ("cold", "sand"), "random": ("paper", "music")}),
    (0, {"chosen": ("cold",), "plain": ("glass",), "random": ("paper",)}),
    (1, {"chosen": ("furry",), "plain": ("metal",), "random": ("wall",)}),
)


def small_study() -> Study:
    """Returns the study: nine words, nine lists; "sand" is in two lists of the first run."""
    shown = tuple(RatingImages(f"{number:016x}.jpg", f"class {number % 2}") for number in range(4))
    tasks = (
        RatingTask(("beach", "forest"), shown[:2], SCENES),
        RatingTask(tuple(f"pet <{number}>" for number in range(50)), shown[2:], PETS),
    )
    runs = tuple(
        StudiedRun(f"run-{number}", f"{number:064x}", "[V] {cls}.", task, lists, "trained", "zipf")
        for number, (task, lists) in enumerate(LISTS, start=1)
    )
    return Study("seed", "2026-01-01T00:00:00+00:00", tasks, runs)


def write_small_study(folder: Path) -> Study:
    """Returns the small study, written to a folder with its images."""
    study = small_study()
    file = BytesIO()
    Image.new("RGB", (60, 40), "teal").save(file, "JPEG")
    names = [shown.file for task in study.tasks for shown in task.pictures]
    write_study(folder, study, dict.fromkeys(names, file.getvalue()))
    return study


def rater(name: str, ratings: Mapping[str, int]) -> Rater:
    """Returns a person with these ratings of words."""
    items = {word: item for item, word in (SCENES | PETS).items()}
    time = "2026-01-02T03:04:05.678+00:00"
    return Rater(name, {items[word]: Answer(value, time) for word, value in ratings.items()})
