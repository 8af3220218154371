"""What a session has, as HTML: classes, progress, words, loss, gains, probabilities."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ipl.apps.workbench import html_parts as parts
from ipl.apps.workbench.fit_thread import FitThread
from ipl.apps.workbench.image_classes import ClassImages, ImageClasses
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.word_gain import GainInRun
from ipl.display.document import Table
from ipl.display.document import make_table as make
from ipl.display.formatting import listed, number, ordinal, percent, several, signed
from ipl.display.plots import Bar, Series, bars, lines
from ipl.learners.registry import learner_class
from ipl.training.history import EpochRecord
from ipl.words.selection import Selection

THUMBS = 4  # of each class
ALL = 8  # classes that are all shown with images
FIRST = 4  # of more classes that are shown with images
CLASSES = 24  # that a sentence names
TOP = 10  # classes of a ranking that are drawn
OTHERS = "Learnt from other images than those above."
NOT_THOSE = (
    "These images, with these shots and this seed, are not those that the words of this prompt "
    "were chosen from, so gains differ from the table above."
)
WAITING = "Waiting: as many fits as this machine takes are running."


def classes(session: Session) -> str:
    """Returns the classes with their numbers of images and a few of these."""
    image_classes = session.image_classes
    if not image_classes.classes:
        hint = "No images yet. A first look costs one click: the drawn scenes."
        return parts.box(parts.text(hint, "quiet"))
    seen = (
        image_classes.classes
        if len(image_classes.classes) <= ALL
        else image_classes.classes[:FIRST]
    )
    rows = "".join(_class(session, one) for one in seen)
    told = [parts.text(note, "warning") for note in image_classes.notes]
    if rest := image_classes.classes[len(seen) :]:
        names = "".join(f"<li>{_named(one)}</li>" for one in rest)
        told.insert(
            0,
            f"<details><summary>{several(len(rest), 'more class', 'more classes')}</summary>"
            f'<ul class="names">{names}</ul></details>',
        )
    if len(image_classes.classes) == 1:
        told.append(parts.text("One more class, and there is something to tell apart.", "quiet"))
    head = parts.text(_summary(image_classes))
    return parts.box(head, f'<ul class="classes">{rows}</ul>', *told)


def _summary(image_classes: ImageClasses) -> str:
    count = several(len(image_classes.classes), "class", "classes")
    held_out = sum(len(one.test) for one in image_classes.classes)
    told = f"{count} with {several(image_classes.count, 'image')}"
    return told + (f", {held_out:,} of them to test on." if held_out else ".")


def _class(session: Session, one: ClassImages) -> str:
    found = []
    for path in one.train[:THUMBS]:
        uri = session.thumb(path)
        name = path.name if isinstance(path, Path) else str(path)
        if uri is None:
            found.append(f'<span class="broken" title="{escape(name)}">unreadable</span>')
        else:
            found.append(parts.image(uri, f"{one.name}: {name}"))
    return f'<li>{_named(one)}<div class="strip">{"".join(found)}</div></li>'


def _named(one: ClassImages) -> str:
    count = several(len(one.train) + len(one.test), "image")
    return f"<b>{escape(one.name)}</b> <span>{count}</span>"


def status(session: Session) -> str:
    """Returns in a line how the fit is going."""
    fit = session.fit
    earlier = _earlier(session)
    if fit is None:
        told = earlier or "Nothing has been learnt here yet."
        return parts.box(parts.text(told, "quiet"))
    if fit.state == "failed":
        told = session.uploads.as_sent(fit.error)
        return parts.box(
            parts.text(told, "error"), *([parts.text(earlier, "quiet")] if earlier else [])
        )
    if fit.state == "cancelled":
        return parts.box(parts.text(f"Cancelled. {earlier}".strip(), "done"))
    if fit.state == "done":
        return parts.box(parts.text(f"Done in {fit.seconds:.1f} s.", "done"))
    if fit.state == "waiting":
        return parts.box(parts.text(WAITING, "done"))
    now = fit.watcher.progress
    stopping = "Cancelling. " if fit.watcher.cancelled else ""
    title = now.title or "Getting ready"
    count = f": {now.done:,} of {now.total:,}" if now.total else ""
    note = f", {now.note}" if now.note else ""
    share = f' value="{min(now.done, now.total)}" max="{now.total}"' if now.total else ""
    return parts.box(
        parts.text(f"{stopping}{title}{count}{note}", "quiet"),
        f'<progress{share} aria-label="{escape(title)}"></progress>',
    )


def _earlier(session: Session) -> str:
    """Returns a sentence on the prompt in use that the last fit did not make, if there is one."""
    if session.classifier is None:
        return ""
    if session.learnt is not None:
        return "The prompt that was learnt before is still the one in use."
    name = f" {session.bench.opened}" if session.bench.opened else ""
    return f"The saved prompt{name} was opened and is the one in use."


def outcome(session: Session) -> str:
    """Returns the prompt with its words, their gains and the loss, finished or on its way."""
    fit, classifier = session.fit, session.classifier
    if fit is not None and session.learning:
        return _on_its_way(fit)
    if classifier is None:
        return _on_its_way(fit) if fit is not None and fit.watcher.progress.epochs else ""
    results, training = classifier.results_, classifier.training_
    told = _accuracy(results, training)
    notes = [OTHERS] if session.from_others else []
    if session.learnt is not None:
        notes += [session.uploads.as_sent(note) for note in session.learnt.notes]
    epochs = [EpochRecord(**one) for one in training.get("history", {}).get("epochs", ())]
    return parts.box(
        parts.prompt(classifier.prompt_),
        *([parts.text(told)] if told else []),
        *(parts.text(note, "warning") for note in notes),
        words(classifier.selection_),
        parts.beside(_figures(classifier.selection_, epochs, len(epochs))),
    )


def _on_its_way(fit: FitThread) -> str:
    now, classifier = fit.watcher.progress, fit.classifier
    recipe = classifier.recipe
    layout = learner_class(classifier.learner).layout_for(int(classifier.words), recipe.m)
    found = now.selection.words if now.selection is not None else ()
    return parts.box(
        parts.prompt(layout.readable(found)),
        words(now.selection),
        parts.beside(_figures(now.selection, now.epochs, recipe.epochs)),
    )


def _accuracy(results: dict[str, float | None], training: dict[str, object]) -> str:
    train, held_out = results.get("train_accuracy"), results.get("held_out_accuracy")
    if train is None:
        return ""
    told = f"Accuracy: {percent(train)} on {training.get('images', 'the')} training images"
    if held_out is None:
        return f"{told}; no image was left to test on."
    return f"{told}, {percent(held_out)} on {results['held_out_images']} held out."


def words(selection: Selection | None) -> str:
    """Returns the words chosen so far with what each brought."""
    if selection is None or not selection.steps:
        return ""
    rows = [["(none)", "", "", "", number(selection.loss_without_words), ""]]
    for step in selection.steps:
        row = [step.word, signed(step.gain), signed(step.utility), number(step.redundancy)]
        best = ", ".join(ranked.word for ranked in step.runners_up[:3])
        rows.append([*row, number(step.loss), best])
    columns = ("word", "gain", "utility", "redundancy", "loss after", "next best")
    caption = f"The words: gain = utility \N{MINUS SIGN} {selection.lambda_:g} times redundancy"
    return parts.table(make(caption, columns, rows))


def _figures(
    selection: Selection | None, epochs: list[EpochRecord] | tuple[EpochRecord, ...], total: int
) -> list[str]:
    found = []
    if selection is not None and selection.steps:
        shown = [
            Bar(s.word, s.gain, signed(s.gain), 1 if s.gain >= 0 else 2) for s in selection.steps
        ]
        told = ", ".join(f"{step.word} {step.gain:+.3f}" for step in selection.steps)
        found.append(parts.figure("What each word gained", bars(shown, f"Gains: {told}.")))
    if epochs:
        found.append(parts.figure("The loss in training", _curve(epochs, total), _losses(epochs)))
    return found


def _curve(epochs: list[EpochRecord] | tuple[EpochRecord, ...], total: int) -> str:
    points = tuple((float(one.epoch + 1), one.loss) for one in epochs)
    came = [(float(one.epoch + 1), one.word) for one in epochs if one.word is not None]
    first, last = epochs[0].loss, epochs[-1].loss
    told = f"Loss by epoch: {first:.3f} in the first, {last:.3f} in epoch {len(epochs)}."
    return lines(
        [Series("loss", points)],
        told,
        "epoch",
        "loss",
        x_range=(1.0, max(2.0, total)),
        arrivals=came,
    )


def _losses(epochs: list[EpochRecord] | tuple[EpochRecord, ...]) -> Table:
    rows = [[str(one.epoch + 1), number(one.loss), one.word or ""] for one in epochs]
    return make("Loss by epoch", ("epoch", "loss", "word that entered"), rows)


def weighed(found: GainInRun, in_pool: bool) -> str:
    """Returns what a typed word would bring, at each step beside the word chosen there."""
    rows = []
    for one in found.steps:
        typed, chosen = one.typed, one.chosen
        row = [", ".join(one.after) or "(alone)", signed(typed.gain), signed(typed.utility)]
        row += [number(typed.redundancy), number(typed.loss)]
        rows.append([*row, chosen.word if chosen else "", signed(chosen.gain) if chosen else ""])
    word = found.steps[-1].typed.word
    columns = ["after", "gain", "utility", "redundancy", "loss after", "chosen", "its gain here"]
    caption = f"“{word}”: gain = utility \N{MINUS SIGN} {found.lambda_:g} times redundancy"
    if all(one.chosen is None for one in found.steps):
        columns, rows = columns[:5], [row[:5] for row in rows]
    pool = "" if in_pool else " It is not in the pool that the search chooses from."
    return parts.box(
        *([] if found.same else [parts.text(NOT_THOSE, "warning")]),
        parts.text(_sentence(found) + pool),
        parts.table(make(caption, columns, rows)),
    )


def _sentence(found: GainInRun) -> str:
    first, last = found.steps[0], found.steps[-1]
    typed, chosen = last.typed, last.chosen
    own = chosen is not None and chosen.word == typed.word
    if own and found.same:
        return (
            f"“{typed.word}” is the {ordinal(len(last.after) + 1)} word of this prompt: its gain "
            f"is {signed(typed.gain)}."
        )
    way = "lower" if typed.utility >= 0 else "raise"
    told = f"would {way} the loss by {number(abs(typed.utility))}"
    if not last.after:
        return f"“{typed.word}” alone {told}: gain {signed(typed.gain)}."
    told = (
        f"After {listed(last.after)}, “{typed.word}” {told} and repeats "
        f"{'it' if len(last.after) == 1 else 'them'} by {number(typed.redundancy)}: gain "
        f"{signed(typed.gain)}."
    )
    if not found.same:
        return told
    assert first.chosen is not None
    return (
        f"{told} Alone its gain is {signed(first.typed.gain)}; the first word chosen, "
        f"“{first.chosen.word}”, has {signed(first.chosen.gain)}."
    )


def ranking(session: Session) -> str:
    """Returns the last image beside the probabilities of the classes."""
    ranked = session.ranked()
    if not session.names:
        return parts.box(parts.text("There is no prompt yet: learn one first.", "quiet"))
    if ranked is None:
        names = listed(session.names[:CLASSES])
        more = ", and more" if len(session.names) > CLASSES else ""
        return parts.box(parts.text(f"It tells apart {names}{more}.", "quiet"))
    top = ranked.classes[:TOP]
    best, share = top[0]
    shown = [Bar(name, p, percent(p), 1 if name == best else 0) for name, p in top]
    told = ", ".join(f"{name} {100 * p:.1f} %" for name, p in top)
    numbers = make(
        "Probabilities", ("class", "probability"), [[n, percent(p)] for n, p in ranked.classes]
    )
    drawn = parts.figure(f"{best}: {percent(share)}", bars(shown, f"{told}.", 1.0), numbers)
    seen = parts.image(ranked.thumb, ranked.name) if ranked.thumb else ""
    return parts.box(f'<div class="ranked"><div>{seen}</div>{drawn}</div>')
