"""The report on one learnt prompt, as a document."""

from __future__ import annotations

from collections.abc import Callable

from ipl._version import __version__
from ipl.display.document import Document, Paragraph, Section
from ipl.display.formatting import listed, ordinal, percent, several
from ipl.explain.analysis import Analysis
from ipl.explain.belief_section import belief_section
from ipl.explain.outcomes import PLAIN, PROMPT, ZERO_SHOT, MethodOutcome, Outcomes
from ipl.explain.outcomes_section import outcomes_section
from ipl.explain.provenance_section import made_section
from ipl.explain.random_words import place_among
from ipl.explain.ratings.results import RunRating
from ipl.explain.ratings_section import people_section
from ipl.explain.values import report_values
from ipl.explain.vectors_section import vectors_section
from ipl.explain.words_section import effects_section, words_section
from ipl.metrics import Score
from ipl.prompts.layout import prompt_pieces

__all__ = ["report_document", "report_values"]

FOOT = (
    f"Written by ipl {__version__}. The words lower the loss of one backbone on a few images; "
    "they are no explanation of a single decision. What each part means and how it is computed: "
    "docs/report.md in ipl's repository."
)


def report_document(analysis: Analysis, ratings: RunRating | None = None) -> Document:
    """Returns the whole report, with what people say of the words if they were asked."""
    saved = analysis.subject.saved
    sections = [words_section(analysis)]
    if analysis.effects:
        sections.append(effects_section(analysis))
    if analysis.chance is not None or analysis.stability is not None:
        sections.append(belief_section(analysis))
    if ratings is not None:
        sections.append(people_section(ratings, {word.word: word.gain for word in analysis.words}))
    if analysis.outcomes is not None:
        sections.append(outcomes_section(analysis))
    sections.append(vectors_section(analysis))
    sections.append(made_section(analysis))
    if analysis.missing:
        told = tuple(
            Paragraph(f"{m.part[0].upper()}{m.part[1:]}: {m.why}") for m in analysis.missing
        )
        sections.append(Section("missing", "What this report does not have", told))
    name = analysis.subject.folder.resolve().name
    return Document(
        title=f"What “{name}” has learnt",
        subtitle=f"{saved.learner} on {saved.backbone['name']}, {saved.training.get('data')}",
        prompt=prompt_pieces(saved.prompt),
        lead=tuple(_lead(analysis)),
        warnings=analysis.notes,
        sections=tuple(sections),
        foot=FOOT,
    )


def _lead(analysis: Analysis) -> list[str]:
    """Returns what a reader in a hurry should know."""
    words, found = analysis.subject.words, analysis.outcomes
    told = "[V] is a trained vector that no one can read; the class name stands at the end."
    if words:
        quoted = listed([f"“{word}”" for word in words])
        told = f"{several(len(words), 'word')}: {quoted}. {told}"
    lead = [told]
    if found is not None:
        lead += _accuracies(found)
    else:
        then = analysis.subject.saved.results.get("held_out_accuracy")
        if isinstance(then, float):
            lead.append(f"When it was trained, its held-out accuracy was {percent(then)}.")
    if (chance := analysis.chance) is not None and chance.draws:
        draws = chance.draws
        before = place_among(chance.chosen.test_loss, [d.test_loss for d in draws])
        trained = place_among(chance.chosen.prompt.loss, [d.prompt.loss for d in draws])
        lead.append(
            f"Beside {len(draws)} draws of random words these have {ordinal(before)} place of "
            f"{len(draws) + 1} by loss on held-out images before training, and "
            f"{ordinal(trained)} in the finished prompt."
        )
    return lead


def _accuracies(found: Outcomes) -> list[str]:
    """Returns how often it is right on classes it was trained on, and on others."""
    after, frozen, plain = (found.of(name) for name in (PROMPT, ZERO_SHOT, PLAIN))
    assert after is not None
    assert frozen is not None

    def told(where: str, of: Callable[[MethodOutcome], Score]) -> str:
        change = 100 * (of(after).accuracy - of(frozen).accuracy)
        than = f"{abs(change):.1f} points {'more' if change > 0 else 'fewer'} than"
        line = (
            f"On {where} it is right for {percent(of(after).accuracy)}, {than if change else 'as'} "
            f"the same CLIP without it ({percent(of(frozen).accuracy)})"
        )
        if plain is not None:
            line += f"; the learner without words for {percent(of(plain).accuracy)}"
        return line + "."

    lead = [told(several(found.images, "held-out image"), lambda method: method.test)]
    if found.novel_classes:
        where = (
            f"{several(found.novel_images, 'image')} of "
            f"{several(len(found.novel_classes), 'class', 'classes')} it was not trained on"
        )
        lead.append(told(where, lambda method: method.novel or method.test))
    return lead
