"""A fit in its thread: its settings, what it reports, how it waits, ends and is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ipl import Backbone, PromptClassifier
from ipl.apps.workbench import rendering
from ipl.apps.workbench.fit_thread import (
    BUG_MESSAGE,
    FitCancelled,
    FitQueue,
    FitWatcher,
    WorkbenchSettings,
    default_epochs,
)
from ipl.apps.workbench.sessions import Session, Workbench
from ipl.config import FitConfig
from ipl.support.errors import ConfigError, IplError
from ipl.training.history import EpochRecord
from ipl.training.loop import _OneThread
from tests.helpers.workbench import LONG, QUICK, learn, wait_for, with_images

FIRST = WorkbenchSettings("coop", words=2, shots=3, epochs=60, seed=1)
SECOND = WorkbenchSettings("kgcoop", words=1, shots=2, epochs=60, seed=7)
Dropped = Callable[..., list[Path]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("coop", 7, 16, 50, 1), "words is 7; it must be a whole number from 0 to 6"),
        (("coop", 2, None, 50, 1), "shots is None; it must be a whole number from 1 to 100"),
        (("coop", 2, 16, 0, 1), "epochs is 0"),
        (("coop", 2, 16, 2.5, 1), "epochs is 2.5"),
        (("coop", 2, 16, 50, -1), "seed is -1"),
        (("coop", 3, 16, 2, 1), "epochs is 2; 3 words need 3 epochs or more"),
        (("cop", 2, 16, 50, 1), "No learner is called 'cop'. Did you mean"),
    ],
)
def test_settings_out_of_range_are_named(values: tuple[object, ...], message: str) -> None:
    with pytest.raises(IplError, match=message):
        WorkbenchSettings.from_form(*values)


def test_the_form_starts_with_the_defaults_of_ipl_fit(pocket: Backbone) -> None:
    settings, config = WorkbenchSettings(), FitConfig()
    assert (settings.learner, settings.words) == (config.learner, config.words)
    assert (settings.shots, settings.seed) == (config.shots, config.seed)
    assert settings.epochs == config.hyperparameters.epochs
    assert default_epochs(settings.learner, settings.words) == config.hyperparameters.epochs
    workbench = Workbench(pocket)
    assert workbench.views == config.views
    workbench.end()


def test_a_watcher_knows_the_current_task() -> None:
    watcher = FitWatcher()
    with watcher.task("Counting", 3) as advance:
        advance()
        advance(2, "soon")
        progress = watcher.progress
        assert (progress.title, progress.done, progress.total, progress.note) == (
            "Counting",
            3,
            3,
            "soon",
        )
    with watcher.task("Resting", None):
        assert (watcher.progress.title, watcher.progress.done) == ("Resting", 0)
    before = watcher.progress.changes
    watcher.say("a line")
    watcher.warn("take care")
    assert watcher.progress.message == "a line"
    assert watcher.warnings == ["take care"]
    assert watcher.progress.changes > before


def test_a_training_that_starts_again_shows_its_own_epochs() -> None:
    watcher = FitWatcher()
    for epoch in (0, 1, 2, 0, 1):
        watcher.record_event(EpochRecord(epoch, 0.1, 5.0 - epoch, None))
    assert [record.epoch for record in watcher.progress.epochs] == [0, 1]


def test_a_cancelled_watcher_raises_at_the_next_report() -> None:
    watcher = FitWatcher()
    with watcher.task("Counting", 3) as advance:
        watcher.cancel()
        with pytest.raises(FitCancelled):
            advance()
        with pytest.raises(FitCancelled):
            watcher.record_event("news")
    with pytest.raises(FitCancelled), watcher.task("More", 1):
        raise AssertionError("the work went on")


def test_words_and_epochs_can_be_seen_before_the_end(session: Session) -> None:
    fit = learn(session)
    progress = fit.watcher.progress
    assert progress.selection is not None
    assert progress.selection.words == tuple(session.classifier.words_)  # type: ignore[union-attr]
    assert len(progress.epochs) == QUICK.epochs
    assert [record.word for record in progress.epochs if record.word] == list(
        progress.selection.words
    )


def test_a_cancelled_fit_ends_and_another_can_follow(session: Session) -> None:
    fit = session.learn(LONG)
    with pytest.raises(ConfigError, match="A prompt is being learnt; cancel that first"):
        session.learn(QUICK)
    wait_for(lambda: fit.watcher.progress.epochs, fit)
    session.cancel()
    fit.join(30)
    assert fit.state == "cancelled"
    assert 0 < len(fit.watcher.progress.epochs) < LONG.epochs
    assert session.classifier is None
    learn(session)
    assert session.classifier is not None


def test_a_waiting_fit_can_be_cancelled(
    pocket: Backbone, dropped: Callable[..., list[Path]]
) -> None:
    workbench = Workbench(pocket, max_fits=1)
    workbench.queue.wait(FitWatcher())  # another fit
    session = workbench.open("someone")
    for name in ("beach", "castle"):
        session.add_class(name, dropped(name))
    fit = session.learn(QUICK)
    assert fit.state == "waiting"
    session.cancel()
    fit.join(10)
    assert fit.state == "cancelled"
    workbench.end()


def test_a_fit_releases_its_turn(session: Session) -> None:
    session.workbench.queue = FitQueue(1)
    learn(session)
    learn(session)


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


def test_threads_come_back_whoever_trains_last() -> None:
    counts = []
    one_thread, inside, leave = _OneThread(), threading.Event(), threading.Event()
    usual = torch.get_num_threads()
    torch.set_num_threads(3)

    def other() -> None:  # begins in the midst of the first, and so with its single thread
        with one_thread():
            inside.set()
            leave.wait(10)
        counts.append(torch.get_num_threads())

    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            second = threading.Thread(target=other)
            second.start()
            assert inside.wait(10)
        counts.append(torch.get_num_threads())
        leave.set()
        second.join()
        fresh = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        fresh.start()
        fresh.join()
        assert counts == [3, 3, 3]
    finally:
        torch.set_num_threads(usual)
