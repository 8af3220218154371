"""A session as HTML: classes, progress, words, loss, gains, probabilities. Texts are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from ipl.apps.workbench.fit_thread import FitThread
from ipl.apps.workbench.image_classes import ImageClass, ImageClasses
from ipl.apps.workbench.sessions import Session
from ipl.apps.workbench.word_gain import GainInRun
from ipl.display.formatting import listed, number, ordinal, percent, several, signed
from ipl.display.plots import Bar, Series, bars, lines
from ipl.display.table import Table
from ipl.learners.registry import learner_class
from ipl.prompts.layout import prompt_pieces
from ipl.training.comparison import ABOUT_INTERVALS, NO_IMAGES
from ipl.training.history import EpochRecord
from ipl.training.result import FitResult
from ipl.words.selection import Selection, certainty_sentences

MAX_THUMBNAILS = 4  # of each class
MAX_CLASSES = 8  # that all have thumbnails
FEWER_CLASSES = 4  # that have thumbnails if there are more than MAX_CLASSES
MAX_NAMES = 24  # of classes in a sentence
MAX_BARS = 10  # of a ranking
IMAGES_CHANGED = "Learnt from other images than those above."
OTHER_IMAGES = (
    "The words of this prompt were chosen on other images, shots or seed, or in another prompt, so "
    "these gains differ from the table above."
)
TO_COMPARE = "the box on the left trains it without words too"
WAITING = "Waiting for other fits on this machine to finish."


# -- classes ------------------------------------------------------------------------------------


def classes(session: Session) -> str:
    """Returns the classes with their numbers of images and some thumbnails."""
    image_classes = session.image_classes
    every = image_classes.classes
    if not every:
        hint = "No images yet. For a first try with one click, use the drawn scenes."
        return box(paragraph(hint, "quiet"))
    first = every if len(every) <= MAX_CLASSES else every[:FEWER_CLASSES]
    strips = "".join(_class_strip(session, each) for each in first)
    parts = [paragraph(_summary(image_classes)), f'<ul class="classes">{strips}</ul>']
    if others := every[len(first) :]:
        names = "".join(f"<li>{_class_title(each)}</li>" for each in others)
        parts.append(
            f"<details><summary>{several(len(others), 'more class', 'more classes')}</summary>"
            f'<ul class="names">{names}</ul></details>'
        )
    parts += [paragraph(finding.note, "warning") for finding in image_classes.findings]
    if len(every) == 1:
        parts.append(paragraph("Add a second class to have something to distinguish.", "quiet"))
    return box(*parts)


def _summary(image_classes: ImageClasses) -> str:
    count = several(len(image_classes.classes), "class", "classes")
    held_out = sum(len(each.test) for each in image_classes.classes)
    sentence = f"{count} with {several(image_classes.count, 'image')}"
    return sentence + (f", {held_out:,} of them for testing." if held_out else ".")


def _class_strip(session: Session, class_images: ImageClass) -> str:
    thumbnails = []
    for path in class_images.train[:MAX_THUMBNAILS]:
        uri = session.thumbnail(path)
        name = path.name if isinstance(path, Path) else str(path)
        if uri is None:
            thumbnails.append(f'<span class="broken" title="{escape(name)}">unreadable</span>')
        else:
            thumbnails.append(image(uri, f"{class_images.name}: {name}"))
    return f'<li>{_class_title(class_images)}<div class="strip">{"".join(thumbnails)}</div></li>'


def _class_title(class_images: ImageClass) -> str:
    count = several(len(class_images.train) + len(class_images.test), "image")
    return f"<b>{escape(class_images.name)}</b> <span>{count}</span>"


# -- the fit ------------------------------------------------------------------------------------


def status(session: Session) -> str:
    """Returns the state of the fit in one line."""
    fit, earlier = session.fit, _earlier_prompt(session)
    if fit is None:
        return box(paragraph(earlier or "Nothing has been learnt here yet.", "quiet"))
    if fit.state == "failed":
        error = paragraph(session.uploads.with_sent_names(fit.error), "error")
        return box(error, *([paragraph(earlier, "quiet")] if earlier else []))
    if fit.state == "cancelled":
        return box(paragraph(f"Cancelled. {earlier}".strip(), "done"))
    if fit.state == "done":
        return box(paragraph(f"Done in {fit.seconds:.1f} s.", "done"))
    if fit.state == "waiting":
        return box(paragraph(WAITING, "done"))
    progress = fit.watcher.progress
    cancelling = "Cancelling. " if fit.watcher.cancelled else ""
    title = progress.title or "Getting ready"
    count, share = "", ""
    if progress.total:
        count = f": {progress.done:,} of {progress.total:,}"
        share = f' value="{min(progress.done, progress.total)}" max="{progress.total}"'
    note = f", {progress.note}" if progress.note else ""
    return box(
        paragraph(f"{cancelling}{title}{count}{note}", "quiet"),
        f'<progress{share} aria-label="{escape(title)}"></progress>',
    )


def _earlier_prompt(session: Session) -> str:
    """Returns a sentence on the prompt in use that the last fit did not make, if there is one."""
    if session.classifier is None:
        return ""
    if session.origin is not None:
        return "The prompt that was learnt before is still in use."
    name = f" {session.workbench.run_name}" if session.workbench.run_name else ""
    return f"The saved prompt{name} is in use."


def outcome(session: Session) -> str:
    """Returns the prompt with its words, their gains and the loss, finished or in progress."""
    fit, classifier = session.fit, session.classifier
    if fit is not None and session.learning:
        return _unfinished(fit)
    if classifier is None:
        return _unfinished(fit) if fit is not None and fit.watcher.progress.epochs else ""
    result = classifier.result_
    notes = [IMAGES_CHANGED] if session.images_changed else []
    if session.origin is not None:
        notes += [session.uploads.with_sent_names(note) for note in session.origin.warnings]
    epochs = result.history.epochs
    return box(
        prompt_line(classifier.prompt_),
        *_comparison(result),
        *(paragraph(note, "warning") for note in notes),
        words(classifier.selection_),
        side_by_side(_figures(classifier.selection_, epochs, len(epochs))),
        *([paragraph(result.about_losses, "quiet")] if epochs and result.about_losses else []),
    )


def _unfinished(fit: FitThread) -> str:
    progress, classifier = fit.watcher.progress, fit.classifier
    hyperparameters = classifier.config.hyperparameters
    layout = learner_class(classifier.learner).layout_for(int(classifier.words), hyperparameters.m)
    selected = progress.selection.words if progress.selection is not None else ()
    return box(
        prompt_line(layout.readable(selected)),
        words(progress.selection),
        side_by_side(_figures(progress.selection, progress.epochs, hyperparameters.epochs)),
    )


def _comparison(result: FitResult) -> list[str]:
    """Returns the verdict, the prompt beside its baselines, and every class to open."""
    comparison = result.comparison
    train = f"Accuracy on {result.images} training images: {percent(result.train_accuracy)}."
    if comparison is None:
        return [paragraph(f"{train} {NO_IMAGES}")]
    about = f"{ABOUT_INTERVALS} {train} {result.offer_to_compare(TO_COMPARE)}"
    return [
        *(paragraph(sentence, "verdict") for sentence in comparison.verdict),
        *(paragraph(note, "warning") for note in comparison.notes),
        comparison.table().to_html(),
        paragraph(about.strip(), "quiet"),
        f"<details><summary>Every class</summary>{comparison.class_table().to_html()}"
        f"{paragraph(comparison.confusions)}</details>",
    ]


def words(selection: Selection | None) -> str:
    """Returns a table of the words selected so far, with their gains and how sure each is."""
    if selection is None:
        return ""
    sentences = "".join(paragraph(sentence) for sentence in certainty_sentences(selection))
    if not selection.steps:
        return sentences
    rows = [["(none)", "", "", "", number(selection.loss_without_words), ""]]
    for step in selection.steps:
        row = [step.word, signed(step.gain), signed(step.utility), number(step.redundancy)]
        runners_up = ", ".join(ranked.word for ranked in step.runners_up[:3])
        rows.append([*row, number(step.loss), runners_up])
    columns = ("word", "gain", "utility", "redundancy", "loss after", "next best")
    caption = f"The words: gain = utility \N{MINUS SIGN} {selection.lambda_:g} times redundancy"
    return Table(columns, rows, caption=caption).to_html() + sentences


def _figures(
    selection: Selection | None, epochs: Sequence[EpochRecord], total_epochs: int
) -> list[str]:
    figures = []
    if selection is not None and selection.steps:
        steps = selection.steps
        gains = [Bar(s.word, s.gain, signed(s.gain), 1 if s.gain >= 0 else 2) for s in steps]
        description = ", ".join(f"{step.word} {step.gain:+.3f}" for step in steps)
        figures.append(figure("Gain of each word", bars(gains, f"Gains: {description}.")))
    if epochs:
        curve = _loss_curve(epochs, total_epochs)
        figures.append(figure("Loss in training", curve, _loss_table(epochs)))
    return figures


def _loss_curve(epochs: Sequence[EpochRecord], total_epochs: int) -> str:
    points = tuple((float(record.epoch + 1), record.loss) for record in epochs)
    arrivals = [
        (float(record.epoch + 1), record.word) for record in epochs if record.word is not None
    ]
    first, last = epochs[0].loss, epochs[-1].loss
    return lines(
        [Series("loss", points)],
        f"Loss by epoch: {first:.3f} in the first, {last:.3f} in epoch {len(epochs)}.",
        "epoch",
        "loss",
        x_range=(1.0, max(2.0, total_epochs)),
        arrivals=arrivals,
    )


def _loss_table(epochs: Sequence[EpochRecord]) -> Table:
    rows = [[str(record.epoch + 1), number(record.loss), record.word or ""] for record in epochs]
    return Table(("epoch", "loss", "word that entered"), rows, caption="Loss by epoch")


# -- a word of one's own ------------------------------------------------------------------------


def word_gain(result: GainInRun, in_pool: bool) -> str:
    """Returns the gain of a typed word at each step, beside that of the word selected there."""
    rows = []
    for step in result.steps:
        typed, selected = step.typed, step.selected
        row = [", ".join(step.after) or "(alone)", signed(typed.gain), signed(typed.utility)]
        row += [number(typed.redundancy), number(typed.loss)]
        row += [selected.word, signed(selected.gain)] if selected else ["", ""]
        rows.append(row)
    word = result.steps[-1].typed.word
    columns = ["after", "gain", "utility", "redundancy", "loss after", "selected", "its gain here"]
    caption = f"“{word}”: gain = utility \N{MINUS SIGN} {result.lambda_:g} times redundancy"
    if all(step.selected is None for step in result.steps):
        columns, rows = columns[:5], [row[:5] for row in rows]
    pool = "" if in_pool else " It is not in the pool that the search selects from."
    return box(
        *([] if result.same_images else [paragraph(OTHER_IMAGES, "warning")]),
        paragraph(_gain_sentence(result) + pool),
        Table(columns, rows, caption=caption).to_html(),
    )


def _gain_sentence(result: GainInRun) -> str:
    first, last = result.steps[0], result.steps[-1]
    typed, selected = last.typed, last.selected
    if result.same_images and selected is not None and selected.word == typed.word:
        return (
            f"“{typed.word}” is the {ordinal(len(last.after) + 1)} word of this prompt: its gain "
            f"is {signed(typed.gain)}."
        )
    verb = "lower" if typed.utility >= 0 else "raise"
    effect = f"would {verb} the loss by {number(abs(typed.utility))}"
    if not last.after:
        return f"“{typed.word}” alone {effect}: gain {signed(typed.gain)}."
    sentence = (
        f"After {listed(last.after)}, “{typed.word}” {effect} with a redundancy of "
        f"{number(typed.redundancy)}: gain {signed(typed.gain)}."
    )
    if not result.same_images:
        return sentence
    assert first.selected is not None
    return (
        f"{sentence} Alone its gain is {signed(first.typed.gain)}; that of the first word "
        f"selected, “{first.selected.word}”, is {signed(first.selected.gain)}."
    )


# -- classifying --------------------------------------------------------------------------------


def ranking(session: Session) -> str:
    """Returns the last image beside the probabilities of the classes."""
    ranked = session.ranked()
    if not session.names:
        return box(paragraph("There is no prompt yet: learn one first.", "quiet"))
    if ranked is None:
        names = listed(session.names[:MAX_NAMES])
        more = ", and more" if len(session.names) > MAX_NAMES else ""
        return box(paragraph(f"The prompt distinguishes {names}{more}.", "quiet"))
    top = ranked.classes[:MAX_BARS]
    best, probability = top[0]
    top_bars = [Bar(name, p, percent(p), 1 if name == best else 0) for name, p in top]
    description = ", ".join(f"{name} {100 * p:.1f} %" for name, p in top)
    rows = [[name, percent(p)] for name, p in ranked.classes]
    numbers = Table(("class", "probability"), rows, caption="Probabilities")
    drawing = bars(top_bars, f"{description}.", 1.0)
    probabilities = figure(f"{best}: {percent(probability)}", drawing, numbers)
    thumbnail = image(ranked.thumbnail, ranked.name) if ranked.thumbnail else ""
    return box(f'<div class="ranked"><div>{thumbnail}</div>{probabilities}</div>')


# -- elements of HTML ---------------------------------------------------------------------------


def box(*parts: str) -> str:
    """Returns parts in the frame that the style sheet applies to."""
    return f'<div class="ipl">{"".join(parts)}</div>'


def paragraph(text: str, kind: str = "plain") -> str:
    """Returns a paragraph; `kind` is plain, verdict, quiet, done, warning or error."""
    roles = {"error": "alert", "done": "status"}  # a screen reader reads these out by itself
    role = f' role="{roles[kind]}"' if kind in roles else ""
    return f'<p class="{kind}"{role}>{escape(text)}</p>'


def prompt_line(line: str) -> str:
    """Returns a prompt in large type: vectors small, words bold."""
    spans = []
    for piece in prompt_pieces(line):
        space = "" if piece.text[0] in ".,;:!?" else " "
        spans.append(f'{space}<span class="{piece.kind}">{escape(piece.text)}</span>')
    return f'<p class="prompt">{"".join(spans).strip()}</p>'


def figure(title: str, svg: str, numbers: Table | None = None) -> str:
    """Returns a drawing below its title, with its numbers in a table to open."""
    details = ""
    if numbers is not None:
        table = numbers.to_html(hide_caption=True)
        details = f"<details><summary>The numbers</summary>{table}</details>"
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}{details}</figure>"


def side_by_side(figures: Sequence[str]) -> str:
    """Returns drawings side by side if there is room."""
    return f'<div class="beside">{"".join(figures)}</div>' if figures else ""


def image(uri: str, alt: str) -> str:
    """Returns a small image."""
    return f'<img src="{uri}" alt="{escape(alt)}" loading="lazy">'


def code_line(title: str, line: str) -> str:
    """Returns a line of text in a fixed-width font."""
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<pre tabindex="0"><code>{escape(line)}</code></pre></figure>'
    )
