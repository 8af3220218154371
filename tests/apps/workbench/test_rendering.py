"""The HTML of a session: escaped, with its numbers, and right at every stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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


def test_an_empty_workbench_says_what_to_do(workbench: Workbench) -> None:
    session = workbench.open("someone")
    assert "No images yet" in rendering.classes(session)
    assert "Nothing has been learnt" in rendering.status(session)
    assert "There is no prompt yet" in rendering.ranking(session)
    assert rendering.outcome(session) == ""


def test_names_and_files_are_escaped(
    workbench: Workbench, dropped: Dropped, tmp_path: Path
) -> None:
    session = workbench.open("someone")
    file = tmp_path / "<i>.png"
    file.write_bytes(dropped("beach", 1)[0].read_bytes())
    session.add_class("<b>bold</b> & {{more}}", [file])
    html = rendering.classes(session)
    page = Page(html)
    assert "<b>bold" in "".join(page.text)
    assert [image["alt"] for image in page.of("img")] == ["<b>bold</b> & {{more}}: _i_.png"]
    assert "Add a second class" in html


def test_images_that_cannot_be_opened_are_marked(session: Session) -> None:
    first = session.image_classes.classes[0].train[0]
    assert isinstance(first, Path)
    first.write_bytes(b"no image any more")
    html = rendering.classes(session)
    assert html.count(">unreadable<") == 1
    assert html.count("<img") == 7


def test_many_classes_are_listed_in_short(session: Session, scenes_folder: Path) -> None:
    session.use_folder(str(scenes_folder))
    html = rendering.classes(session)
    assert html.count("<img") == rendering.FEWER_CLASSES * rendering.MAX_THUMBNAILS
    assert "<summary>16 more classes</summary>" in html
    assert html.count("<b>") == 20


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
    session.cancel()
    assert "Cancelling. Training: " in rendering.status(session)
    fit.join(30)
    assert "Cancelled." in rendering.status(session)
    learn(session)
    assert "Done in" in rendering.status(session)
    assert "Accuracy on " in text_of(rendering.outcome(session))


def test_warnings_of_a_fit_are_shown(session: Session) -> None:
    learn(session, WorkbenchSettings("coop", words=2, shots=9, epochs=6, seed=1))
    text = text_of(rendering.outcome(session))
    assert "2 classes have fewer than 9 training images" in text
    assert "Held-out accuracy: not measured, because no readable image was left" in text


def test_a_prompt_stands_beside_its_baselines(session: Session) -> None:
    learn(session, WorkbenchSettings("coop", words=1, shots=2, epochs=2, seed=1, compare=True))
    assert session.classifier is not None
    comparison = session.classifier.result_.comparison
    assert comparison is not None
    html = rendering.outcome(session)
    text = text_of(html)
    assert all(sentence in text for sentence in comparison.verdict)
    for method in comparison.methods:
        assert method.title in text
    assert "the same without words" in text
    assert "Every class" in text
    assert "the box on the left" not in text
    learn(session, WorkbenchSettings("coop", words=1, shots=2, epochs=2, seed=1))
    text = text_of(rendering.outcome(session))
    assert "the box on the left trains it without words too, in about " in text


def test_an_error_about_other_images_is_forgotten(session: Session) -> None:
    for file in (session.folder / "images").rglob("*.png"):
        file.write_bytes(b"no image any more")
    fit = session.learn(LONG)
    fit.join(30)
    assert fit.state == "failed"
    assert "no readable training image" in rendering.status(session)
    session.remove_class("beach")
    assert "Nothing has been learnt here yet." in rendering.status(session)


def test_after_a_cancelled_fit_the_earlier_prompt_is_still_in_use(fitted_session: Session) -> None:
    before = rendering.outcome(fitted_session)
    fit = fitted_session.learn(LONG)
    wait_for(lambda: fit.watcher.progress.epochs, fit)
    fitted_session.cancel()
    fit.join(30)
    message = "Cancelled. The prompt that was learnt before is still in use."
    assert message in rendering.status(fitted_session)
    assert rendering.outcome(fitted_session) == before


def test_a_prompt_of_other_images_is_marked(fitted_session: Session, dropped: Dropped) -> None:
    before = fitted_session.image_classes
    assert rendering.IMAGES_CHANGED not in rendering.outcome(fitted_session)
    fitted_session.add_class("lake", dropped("lake", 3))
    assert rendering.IMAGES_CHANGED in rendering.outcome(fitted_session)
    fitted_session.image_classes = before
    assert rendering.IMAGES_CHANGED not in rendering.outcome(fitted_session)


def test_a_saved_prompt_is_named(fitted_session: Session, dropped: Dropped) -> None:
    workbench = Workbench(
        fitted_session.workbench.backbone, fitted_session.classifier, run_name="runs/<first>"
    )
    other = workbench.open("someone")
    assert "The saved prompt runs/&lt;first&gt; is in use." in rendering.status(other)
    assert rendering.IMAGES_CHANGED not in rendering.outcome(other)
    other.add_class("lake", dropped("lake", 3))
    assert rendering.IMAGES_CHANGED in rendering.outcome(other)
    workbench.end()


def test_the_gain_of_a_typed_word_is_a_sentence(
    session: Session, trained: PromptClassifier
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
    assert "with a redundancy of" in other
    assert f"that of the first word selected, “{first}”, is" in other
    assert "It is not in the pool" in other


def test_a_word_scored_on_other_images_has_no_recorded_gain(
    fitted_session: Session, dropped: Dropped
) -> None:
    word = fitted_session.classifier.words_[1]  # type: ignore[union-attr]
    assert fitted_session.score_word(word, 3, 1).same_images
    assert not fitted_session.score_word(word, 1, 1).same_images  # other shots are other images
    fitted_session.add_class("lake", dropped("lake", 3))
    result = fitted_session.score_word(word, 3, 1)
    assert not result.same_images
    html = rendering.word_gain(result, True)
    assert rendering.OTHER_IMAGES in html
    assert "word of this prompt: its gain" not in html
    assert f"After {result.steps[-1].after[0]}, “{word}” would" in html


def test_it_says_how_sure_each_word_is_and_where_the_search_stopped(
    trained: PromptClassifier,
) -> None:
    selection = trained.selection_
    assert selection is not None
    first, second = selection.steps
    text = text_of(rendering.words(selection))
    assert first.how_sure in text
    assert second.how_sure in text
    stopped = replace(selection, steps=(first,), stopped_before=second)
    text = text_of(rendering.words(stopped))
    assert f"The search stopped before {second.word!r}: {second.how_sure}" in text
    nothing = text_of(rendering.words(replace(selection, steps=(), stopped_before=first)))
    assert nothing == f"The search stopped before {first.word!r}: {first.how_sure}"
    old = replace(selection, steps=tuple(replace(s, certainty=None) for s in selection.steps))
    assert "resamples" not in rendering.words(old)
    assert rendering.words(None) == ""
