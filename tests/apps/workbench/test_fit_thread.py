"""A fit in its thread: its settings, what it reports, how it waits, ends and is cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ipl import PromptClassifier
from ipl.apps.workbench import rendering
from ipl.apps.workbench.fit_thread import (
    BUG_MESSAGE,
    FitQueue,
    FitWatcher,
    WorkbenchSettings,
    default_epochs,
)
from ipl.apps.workbench.sessions import Session, Workbench
from ipl.config import FitConfig
from ipl.support.errors import ConfigError, IplError
from ipl.training.history import EpochRecord
from tests.helpers.workbench import LONG, QUICK, learn, wait_for, with_images

FIRST = WorkbenchSettings("coop", words=2, shots=3, epochs=60, seed=1)
SECOND = WorkbenchSettings("kgcoop", words=1, shots=2, epochs=60, seed=7)
Dropped = Callable[..., list[Path]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("coop", 7, 16, 50, 1), "words is 7; it must be a whole number from 0 to 6"),
        (("coop", 2, None, 50, 1), "shots is None; it must be a whole number from 1 to 100"),
        (("coop", 2, 16, 2.5, 1), "epochs is 2.5"),
        (("coop", 2, 16, 50, -1), "seed is -1"),
        (("coop", 3, 16, 2, 1), "epochs is 2; 3 words need 3 epochs or more"),
        (("cop", 2, 16, 50, 1), "No learner is called 'cop'. Did you mean"),
    ],
)
def test_settings_out_of_range_are_named(values: tuple[object, ...], message: str) -> None:
    with pytest.raises(IplError, match=message):
        WorkbenchSettings.from_form(*values)


def test_the_form_starts_with_the_defaults_of_ipl_fit() -> None:
    settings, config = WorkbenchSettings(), FitConfig()
    assert (settings.learner, settings.words) == (config.learner, config.words)
    assert (settings.shots, settings.seed) == (config.shots, config.seed)
    assert settings.epochs == config.hyperparameters.epochs
    assert default_epochs(settings.learner, settings.words) == config.hyperparameters.epochs


def test_a_training_that_starts_again_shows_its_own_epochs() -> None:
    watcher = FitWatcher()
    for epoch in (0, 1, 2, 0, 1):
        watcher.record_event(EpochRecord(epoch, 0.1, 5.0 - epoch, None))
    assert [record.epoch for record in watcher.progress.epochs] == [0, 1]


def test_a_cancelled_fit_ends_and_another_can_follow(session: Session) -> None:
    session.workbench.queue = FitQueue(1)
    fit = session.learn(LONG)
    with pytest.raises(ConfigError, match="cancel that first"):
        session.learn(QUICK)
    wait_for(lambda: fit.watcher.progress.epochs, fit)
    waiting = session.workbench.open("another")
    waiting.image_classes = session.image_classes
    other = waiting.learn(QUICK)
    assert other.state == "waiting"
    for each in (waiting, session):
        each.cancel()
    fit.join(30)
    other.join(30)
    assert fit.state == other.state == "cancelled"
    assert 0 < len(fit.watcher.progress.epochs) < LONG.epochs
    assert session.classifier is None
    progress = learn(session).watcher.progress
    assert session.classifier is not None
    assert progress.selection is not None
    assert list(progress.selection.words) == session.classifier.words_
    assert [record.word for record in progress.epochs if record.word] == session.classifier.words_
    assert len(progress.epochs) == QUICK.epochs


def test_a_fit_that_fails_names_the_reason(session: Session) -> None:
    for file in (session.folder / "images").rglob("*.png"):
        file.write_bytes(b"no image any more")
    fit = session.learn(QUICK)
    fit.join(30)
    assert fit.state == "failed"
    assert "Class 'beach' has no readable training image" in fit.error
    html = rendering.status(session)  # with the names that the files were sent under
    assert "were skipped: 1.png: not an image" in html
    assert str(session.folder) not in html
    session.remove_class("beach")  # the error was about other images
    assert "no readable" not in rendering.status(session)


def test_the_traceback_of_a_bug_goes_to_the_terminal(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*values: object, compare: bool) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(PromptClassifier, "fit", broken)
    fit = session.learn(QUICK)
    fit.join(30)
    assert (fit.state, fit.error) == ("failed", BUG_MESSAGE)
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


def result_of(session: Session) -> tuple[list[str], dict[str, torch.Tensor], list[float]]:
    assert session.classifier is not None
    learner = session.classifier.learner_
    vectors = {name: value.detach().clone() for name, value in learner.named_parameters()}
    assert session.selection is not None
    return session.classifier.words_, vectors, [step.gain for step in session.selection.steps]


def test_two_fits_at_once_give_what_each_gives_alone(
    workbench: Workbench, dropped: Dropped, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = with_images(workbench, "one", dropped, "beach", "castle")
    two = with_images(workbench, "two", dropped, "forest", "lake", "volcano")
    learn(one, FIRST)
    learn(two, SECOND)
    alone = result_of(one), result_of(two)
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "empty"))  # nothing may come from there
    threads = torch.get_num_threads()
    fits = one.learn(FIRST), two.learn(SECOND)
    overlapped = False
    while not any(fit.ended for fit in fits):
        overlapped |= all(fit.watcher.progress.epochs for fit in fits)
        time.sleep(0.005)
    for fit in fits:
        fit.join(60)
        assert fit.state == "done", fit.error
    assert overlapped
    together = result_of(one), result_of(two)
    for (words, vectors, gains), (same_words, same_vectors, same_gains) in zip(
        alone, together, strict=True
    ):
        assert same_words == words
        assert same_gains == gains
        assert all(torch.equal(same_vectors[name], value) for name, value in vectors.items())
    assert torch.get_num_threads() == threads
