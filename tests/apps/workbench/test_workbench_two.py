"""Two browsers at once do not disturb each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.workbench import MOST_SESSIONS, Workbench
from ipl.support.errors import DataError
from ipl.training.loop import _OneThread
from tests.helpers.workbench import learnt

FIRST = WorkbenchSettings("coop", words=2, shots=3, epochs=60, seed=1)
SECOND = WorkbenchSettings("kgcoop", words=1, shots=2, epochs=60, seed=7)
Dropped = Callable[..., list[Path]]


def found(session: Session) -> tuple[list[str], dict[str, torch.Tensor], list[float]]:
    assert session.classifier is not None
    learner = session.classifier.learner_
    vectors = {name: value.detach().clone() for name, value in learner.named_parameters()}
    assert session.selection is not None
    return session.classifier.words_, vectors, [step.gain for step in session.selection.steps]


def with_images(bench: Workbench, key: str, dropped: Dropped, *names: str) -> Session:
    session = bench.open(key)
    for name in names:
        session.add_class(name, dropped(name))
    return session


def test_two_fits_at_once_give_what_each_gives_alone(
    bench: Workbench, dropped: Dropped, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = with_images(bench, "one", dropped, "beach", "castle")
    two = with_images(bench, "two", dropped, "forest", "lake", "volcano")
    learnt(one, FIRST)
    learnt(two, SECOND)
    alone = found(one), found(two)
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
    together = found(one), found(two)
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


def test_each_has_its_own_images_and_prompt(bench: Workbench, dropped: Dropped) -> None:
    one = with_images(bench, "one", dropped, "beach", "castle")
    two = with_images(bench, "two", dropped, "forest")
    learnt(one)
    assert bench.session("one") is one
    assert two.image_classes.names == ("forest",)
    assert two.classifier is None
    bench.close("two")
    assert one.download().is_file()
    with pytest.raises(DataError, match="reload it"):
        bench.session("two")


def test_a_file_that_two_sent_stays_until_both_have_gone(
    bench: Workbench, dropped: Dropped
) -> None:
    file = bench.inbox / "hash" / "0.png"
    file.parent.mkdir()
    file.write_bytes(dropped("beach", 1)[0].read_bytes())
    for key in ("one", "two"):
        bench.open(key).add_class("beach", [file])
    bench.close("one")
    assert file.exists()
    bench.close("two")
    assert not file.exists()


def test_files_elsewhere_are_never_removed(bench: Workbench, dropped: Dropped) -> None:
    files = dropped("beach")
    bench.open("one").add_class("beach", files)
    bench.close("one")
    assert all(file.exists() for file in files)


def test_there_is_an_end_to_sessions(bench: Workbench) -> None:
    first, second = bench.open("first"), bench.open("second")
    bench.session("first")  # used after the other
    for number in range(MOST_SESSIONS - 1):
        bench.open(str(number))
    assert bench.session("first") is first
    assert second.fit is None
    with pytest.raises(DataError):
        bench.session("second")


def test_opening_anew_forgets_what_was(bench: Workbench, dropped: Dropped) -> None:
    with_images(bench, "one", dropped, "beach")
    assert bench.open("one").image_classes.names == ()
