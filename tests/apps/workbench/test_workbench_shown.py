"""What the page draws: escaped, with its numbers, and telling at every stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ipl.apps.workbench import rendering as shown
from ipl.apps.workbench.fit_thread import FitQueue
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.watcher import FitWatcher
from ipl.apps.workbench.workbench import Workbench
from ipl.display.plots import Series, lines
from tests.helpers.page_check import Page
from tests.helpers.workbench import QUICK, learnt, wait_for

Dropped = Callable[..., list[Path]]


def words_of(text: str) -> str:
    return " ".join(" ".join(Page(text).text).split())


def test_an_empty_bench_says_what_to_do(bench: Workbench) -> None:
    session = bench.open("someone")
    assert "No images yet" in shown.classes(session)
    assert "Nothing has been learnt" in shown.status(session)
    assert "There is no prompt yet" in shown.ranking(session)
    assert shown.outcome(session) == ""


def test_names_and_files_are_escaped(bench: Workbench, dropped: Dropped, tmp_path: Path) -> None:
    session = bench.open("someone")
    file = tmp_path / "<i>.png"
    file.write_bytes(dropped("beach", 1)[0].read_bytes())
    session.add_class("<b>bold</b> & {{more}}", [file])
    found = shown.classes(session)
    page = Page(found)
    assert "<b>bold" in "".join(page.text)
    assert [image["alt"] for image in page.of("img")] == ["<b>bold</b> & {{more}}: _i_.png"]
    assert "One more class" in found


def test_images_that_cannot_be_opened_are_marked(session: Session) -> None:
    first = session.image_classes.classes[0].train[0]
    assert isinstance(first, Path)
    first.write_bytes(b"no image any more")
    found = shown.classes(session)
    assert found.count(">unreadable<") == 1
    assert found.count("<img") == 7


def test_a_fit_is_told_at_every_stage(session: Session) -> None:
    session.bench.turns = FitQueue(1)
    session.bench.turns.wait(FitWatcher())
    fit = session.learn(WorkbenchSettings("coop", words=1, shots=3, epochs=500, seed=1))
    assert "Waiting: as many fits as this machine takes" in shown.status(session)
    assert "[V V] _ [V V] class name ." in words_of(shown.outcome(session))
    session.bench.turns.end()
    wait_for(lambda: len(fit.watcher.progress.epochs) > 2, fit)
    page = Page(shown.status(session))
    assert page.of("progress")[0]["max"] == "500"
    assert "Training: " in "".join(page.text)
    going = shown.outcome(session)
    word = fit.watcher.progress.selection.words[0]  # type: ignore[union-attr]
    assert f'<span class="word">{word}</span>' in going
    assert [drawing["role"] for drawing in Page(going).of("svg")] == ["img", "img"]
    session.cancel()
    assert "Cancelling. Training: " in shown.status(session)
    fit.join(30)
    assert "Cancelled." in shown.status(session)
    learnt(session)
    assert "Done in" in shown.status(session)
    assert "Accuracy: " in words_of(shown.outcome(session))


def test_notes_of_a_fit_are_shown(session: Session) -> None:
    learnt(session, WorkbenchSettings("coop", words=2, shots=9, epochs=6, seed=1))
    told = words_of(shown.outcome(session))
    assert "2 class(es) have fewer than 9 training images" in told
    assert "no image was left to test on" in told


def test_a_typed_word_is_told_in_a_sentence(session: Session) -> None:
    alone = shown.weighed(session.weigh("sand", 3, 1), True)
    assert "“sand” alone would" in alone
    assert "chosen" not in alone
    learnt(session, QUICK)
    first, second = session.selection.words  # type: ignore[union-attr]
    own = words_of(shown.weighed(session.weigh(second, 3, 1), True))
    assert f"“{second}” is the 2nd word of this prompt: its gain is" in own
    other = words_of(shown.weighed(session.weigh("sunny", 3, 1), False))
    assert f"After {first} and {second}, “sunny” would" in other
    assert "and repeats them by" in other
    assert f"the first word chosen, “{first}”, has" in other
    assert "It is not in the pool" in other


def test_arrivals_are_marked_on_the_axis() -> None:
    points = tuple((float(x), 3.0 - x) for x in range(3))
    plain = lines([Series("loss", points)], "A loss.", "epoch", "loss")
    marked = lines(
        [Series("loss", points)], "A loss.", "epoch", "loss", arrivals=[(0.0, "a<b"), (1.0, "wall")]
    )
    assert plain.count('class="guide"') == 0
    assert marked.count('class="guide"') == 2
    assert ">a&lt;b</text>" in marked
    assert ">wall</text>" in marked
