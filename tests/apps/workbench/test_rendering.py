"""The HTML of a session: escaped, with its numbers, and right at every stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ipl import PromptClassifier
from ipl.apps.workbench import rendering
from ipl.apps.workbench.fit_thread import FitQueue, FitWatcher, WorkbenchSettings
from ipl.apps.workbench.sessions import Session, Workbench
from tests.helpers.page_check import Page
from tests.helpers.workbench import LONG, learn, wait_for

Dropped = Callable[..., list[Path]]


def text_of(html: str) -> str:
    return " ".join(" ".join(Page(html).text).split())


def test_names_and_files_are_escaped(
    workbench: Workbench, dropped: Dropped, tmp_path: Path
) -> None:
    session = workbench.open("someone")
    file = tmp_path / "<i>.png"
    file.write_bytes(dropped("beach", 1)[0].read_bytes())
    session.add_class("<b>bold</b> & {{more}}", [file, *dropped("castle", 1)])
    session.image_classes.classes[0].train[1].write_bytes(b"no image any more")  # type: ignore[union-attr]
    html = rendering.classes(session)
    page = Page(html)
    assert "<b>bold" in "".join(page.text)
    assert [image["alt"] for image in page.of("img")] == ["<b>bold</b> & {{more}}: _i_.png"]
    assert html.count(">unreadable<") == 1
    assert "Add a second class" in html


def test_every_stage_of_a_fit_is_shown(session: Session) -> None:
    session.workbench.queue = FitQueue(1)
    session.workbench.queue.wait(FitWatcher())
    fit = session.learn(LONG)
    assert "Waiting for other fits" in rendering.status(session)
    assert "[V V] _ [V V] class name ." in text_of(rendering.outcome(session))
    session.workbench.queue.release()
    wait_for(lambda: len(fit.watcher.progress.epochs) > 2, fit)
    page = Page(rendering.status(session))
    assert page.of("progress")[0]["max"] == "500"
    assert "Training: " in "".join(page.text)
    html = rendering.outcome(session)
    word = fit.watcher.progress.selection.words[0]  # type: ignore[union-attr]
    assert f'<span class="word">{word}</span>' in html
    assert [drawing["role"] for drawing in Page(html).of("svg")] == ["img", "img"]
    assert f">{word}</text>" in html  # where it entered, on the axis of the losses
    session.cancel()
    assert "Cancelling. Training: " in rendering.status(session)
    fit.join(30)
    assert "Cancelled." in rendering.status(session)


def test_a_prompt_stands_beside_its_baselines(session: Session) -> None:
    learn(session, WorkbenchSettings("coop", words=1, shots=2, epochs=2, seed=1, compare=True))
    assert session.classifier is not None
    comparison = session.classifier.result_.comparison
    assert comparison is not None
    assert "Done in" in rendering.status(session)
    text = text_of(rendering.outcome(session))
    assert all(sentence in text for sentence in comparison.verdict)
    for method in comparison.methods:
        assert method.title in text
    assert "the same without words" in text
    assert rendering.TO_COMPARE not in text
    learn(session, WorkbenchSettings("coop", words=1, shots=9, epochs=2, seed=1))
    text = text_of(rendering.outcome(session))
    assert "fewer than 9 training images" in text  # the warning of the fit
    assert rendering.NO_IMAGES in text


def test_what_the_prompt_in_use_was_learnt_from_is_said(
    fitted_session: Session, dropped: Dropped
) -> None:
    before = rendering.outcome(fitted_session)
    fit = fitted_session.learn(LONG)
    wait_for(lambda: fit.watcher.progress.epochs, fit)
    fitted_session.cancel()
    fit.join(30)
    assert "was learnt before is still in use" in rendering.status(fitted_session)
    assert rendering.outcome(fitted_session) == before
    workbench = Workbench(
        fitted_session.workbench.backbone, fitted_session.classifier, run_name="runs/<first>"
    )
    other = workbench.open("someone")
    assert "The saved prompt runs/&lt;first&gt; is in use." in rendering.status(other)
    for session in (fitted_session, other):
        assert rendering.IMAGES_CHANGED not in rendering.outcome(session)
        session.add_class("lake", dropped("lake", 3))
        assert rendering.IMAGES_CHANGED in rendering.outcome(session)
    workbench.end()


def test_the_gain_of_a_typed_word_is_a_sentence(
    session: Session, trained: PromptClassifier, dropped: Dropped
) -> None:
    alone = rendering.word_gain(session.score_word("sand", 3, 1), True)
    assert "“sand” alone would" in alone
    assert "selected" not in alone
    session.classifier = trained
    first, second = session.selection.words  # type: ignore[union-attr]
    own = text_of(rendering.word_gain(session.score_word(second, 3, 1), True))
    assert f"“{second}” is the 2nd word of this prompt: its gain is" in own
    other = text_of(rendering.word_gain(session.score_word("sunny", 3, 1), False))
    assert f"After {first} and {second}, “sunny” would" in other
    assert f"that of the first word selected, “{first}”, is" in other
    assert "It is not in the pool" in other
    session.add_class("lake", dropped("lake", 3))
    elsewhere = rendering.word_gain(session.score_word(second, 3, 1), True)
    assert rendering.OTHER_IMAGES in elsewhere
    assert f"After {first}, “{second}” would" in elsewhere
