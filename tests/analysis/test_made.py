"""The command that makes a run again."""

from __future__ import annotations

import shlex
from dataclasses import replace

from ipl.analysis.made import fit_command
from ipl.lexicon import Pool
from ipl.saving import SavedPrompt

CHOICE = {
    "lambda_": 0.5,
    "preset": "reference",
    "word_embedding": "token",
    "search": "screen",
    "template": "a {cls}; {words}",
}


def _saved() -> SavedPrompt:
    return SavedPrompt(
        learner="coop",
        prompt="[V V] *sand* [V V] {cls}.",
        words=("sand",),
        placeholder="token",
        backbone={"name": "pocket", "weights_sha256": "0"},
        preprocessing={},
        classes=("a", "b"),
        training={
            "data": "my data",
            "epochs": 100,
            "interval": 10,
            "batch": 32,
            "lr": 0.002,
            "m": 2,
            "depth": 1,
            "shots": 16,
            "views": 8,
            "seed": 3,
        },
        results={"words_tried": [{}]},
        selection={"lambda_": 0.1, "preset": "paper", "word_embedding": "text", "search": "exact"},
        ipl_version="0",
    )


def test_defaults_are_not_said() -> None:
    command, unsaid = fit_command(_saved(), Pool.bundled(), "my pictures")
    assert command == "ipl fit 'my pictures' --learner coop --words 1 --seed 3"
    assert unsaid == ()


def test_everything_else_is() -> None:
    saved = _saved()
    training = {**saved.training, "epochs": 7, "lr": 0.1, "shots": 4, "views": "fresh"}
    backbone = {"name": "o/clip", "weights_sha256": "0", "precision": "bf16"}
    saved = replace(
        saved, training=training, backbone=backbone, selection=CHOICE, placeholder="zero"
    )
    command, unsaid = fit_command(saved, None, None)
    said = shlex.split(command)
    for option, value in {
        "--epochs": "7",
        "--lr": "0.1",
        "--shots": "4",
        "--views": "fresh",
        "--backbone": "o/clip",
        "--precision": "bf16",
        "--placeholder": "zero",
        "--lambda": "0.5",
        "--preset": "reference",
        "--word-embedding": "token",
        "--search": "screen",
        "--template": "a {cls}; {words}",
    }.items():
        assert said[said.index(option) + 1] == value
    told = " ".join(unsaid)
    assert "shortlist" in told
    assert "--words-file" in told
    assert "'my data'" in told


def test_auto_and_pools() -> None:
    saved = replace(_saved(), results={"words_tried": [{}, {}]})
    command, _ = fit_command(saved, Pool.bundled().without_names(), "d")
    assert "--words auto" in command
    assert "--no-names" in command
    own = Pool.from_words(("sand",), "the word list mine.txt")
    command, unsaid = fit_command(saved, own, "d", "my words.txt")
    assert "--words-file 'my words.txt'" in command
    assert "--no-names" not in command
    assert unsaid == ()
