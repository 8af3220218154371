"""What a fit reports can be read while it goes, and it stops when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.apps.workbench import rendering as shown
from ipl.apps.workbench.fit_thread import BUG, FitQueue
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.watcher import Cancelled, FitWatcher
from ipl.apps.workbench.workbench import Workbench
from ipl.backbone.clip import Backbone
from ipl.support.errors import ConfigError
from ipl.training.history import EpochRecord
from tests.helpers.workbench import QUICK, learnt, wait_for

LONG = WorkbenchSettings("coop", words=1, shots=3, epochs=500, seed=1)


def test_a_watcher_knows_the_work_at_hand() -> None:
    watcher = FitWatcher()
    with watcher.task("Counting", 3) as advance:
        advance()
        advance(2, "soon")
        now = watcher.progress
        assert (now.title, now.done, now.total, now.note) == ("Counting", 3, 3, "soon")
    with watcher.task("Resting", None):
        assert (watcher.progress.title, watcher.progress.done) == ("Resting", 0)
    before = watcher.progress.number
    watcher.say("a line")
    watcher.warn("take care")
    assert watcher.progress.said == "a line"
    assert watcher.warned == ["take care"]
    assert watcher.progress.number > before


def test_a_training_that_starts_again_shows_its_own_epochs() -> None:
    watcher = FitWatcher()
    for epoch in (0, 1, 2, 0, 1):
        watcher.tell(EpochRecord(epoch, 0.1, 5.0 - epoch, None))
    assert [one.epoch for one in watcher.progress.epochs] == [0, 1]


def test_a_cancelled_watcher_raises_at_the_next_report() -> None:
    watcher = FitWatcher()
    with watcher.task("Counting", 3) as advance:
        watcher.cancel()
        with pytest.raises(Cancelled):
            advance()
        with pytest.raises(Cancelled):
            watcher.tell("news")
    with pytest.raises(Cancelled), watcher.task("More", 1):
        raise AssertionError("the work went on")


def test_words_and_epochs_can_be_seen_before_the_end(session: Session) -> None:
    fit = learnt(session)
    now = fit.watcher.progress
    assert now.selection is not None
    assert now.selection.words == tuple(session.classifier.words_)  # type: ignore[union-attr]
    assert len(now.epochs) == QUICK.epochs
    assert [one.word for one in now.epochs if one.word] == list(now.selection.words)


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
    learnt(session)
    assert session.classifier is not None


def test_one_that_waits_for_its_turn_can_be_cancelled(
    pocket: Backbone, dropped: Callable[..., list[Path]]
) -> None:
    bench = Workbench(pocket, at_once=1)
    bench.turns.wait(FitWatcher())  # somebody else's fit
    session = bench.open("someone")
    for name in ("beach", "castle"):
        session.add_class(name, dropped(name))
    fit = session.learn(QUICK)
    assert fit.state == "waiting"
    session.cancel()
    fit.join(10)
    assert fit.state == "cancelled"
    bench.end()


def test_turns_are_given_back(session: Session) -> None:
    session.bench.turns = FitQueue(1)
    learnt(session)
    learnt(session)


def test_what_cannot_be_learnt_is_said(session: Session) -> None:
    for file in (session.folder / "images").rglob("*.png"):
        file.write_bytes(b"no image any more")
    fit = session.learn(QUICK)
    fit.join(30)
    assert fit.state == "failed"
    assert "Class 'beach' has no readable training image" in fit.error
    told = shown.status(session)  # under the names that the files were sent under
    assert "were skipped: 1.png: not an image" in told
    assert str(session.folder) not in told


def test_a_bug_is_told_and_its_traceback_goes_to_the_terminal(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*values: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("ipl.classifier.learn", broken)
    fit = session.learn(QUICK)
    fit.join(30)
    assert (fit.state, fit.error) == ("failed", BUG)
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


def test_a_closed_session_leaves_no_fit_and_no_images(session: Session) -> None:
    fit = session.learn(LONG)
    assert session.folder.exists()
    session.bench.close("someone")
    assert fit.ended
    assert not session.folder.exists()
    assert not [t for t in threading.enumerate() if t.name == "ipl-fit"]
