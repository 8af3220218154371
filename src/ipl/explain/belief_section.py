"""Whether to believe the words: random words beside them, and other draws of the shots."""

from __future__ import annotations

from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.document import make_table as make
from ipl.display.formatting import listed, number, ordinal, percent, several
from ipl.display.plots import Bar, Strip, bars, strips
from ipl.explain.analysis import Analysis
from ipl.explain.random_words import Chance, place_among
from ipl.explain.stability import Stability


def belief_section(analysis: Analysis) -> Section:
    """Returns where the words stand among random ones, and whether they come back."""
    blocks: list[Block] = []
    if analysis.chance is not None:
        blocks += _chance(analysis.chance)
    if analysis.stability is not None:
        blocks += _stability(analysis.stability, analysis.subject.words)
    return Section("belief", "Whether to believe it", tuple(blocks))


def _chance(chance: Chance) -> list[Block]:
    heading = Heading("Random words in their places")
    if not chance.draws:
        return [heading, Paragraph("The pool is too small to draw random words from.")]
    count = len(chance.draws)
    chosen = chance.chosen
    in_sentence = place_among(chosen.shots_loss, [d.shots_loss for d in chance.draws])
    on_test = place_among(chosen.test_loss, [d.test_loss for d in chance.draws])
    in_prompt = place_among(chosen.prompt.loss, [d.prompt.loss for d in chance.draws])
    better = sum(d.prompt.accuracy > chosen.prompt.accuracy for d in chance.draws)
    blocks: list[Block] = [
        heading,
        Paragraph(
            f"{several(count, 'time')}, every word was replaced by a random word of the pool that "
            f"is about as frequent (told by: {chance.frequency}). By chance alone the chosen words "
            f"would be at any of {count + 1} places with equal probability. Random draws are grey "
            "dots, the chosen words the large dot in colour."
        ),
        Paragraph(
            f"In the sentence that chose them, nothing trained, the chosen words have "
            f"{ordinal(in_sentence)} place of {count + 1} by loss on the training images, which "
            f"they were chosen for, and {ordinal(on_test)} on the held-out images, which is the "
            f"fair question. In the finished prompt, whose vectors were trained around them, they "
            f"have {ordinal(in_prompt)} place by loss; {better} of {count} random draws have a "
            f"higher accuracy than {percent(chosen.prompt.accuracy)}."
        ),
        _strips(chance),
    ]
    columns = ("word", "place by loss", "mean accuracy of random words", "best of them")
    rows = []
    for word, scores in zip(chosen.words, chance.singles, strict=True):
        place = place_among(chosen.prompt.loss, [one.loss for one in scores])
        mean = sum(one.accuracy for one in scores) / len(scores)
        best = max(one.accuracy for one in scores)
        rows.append([word, f"{place} of {count + 1}", percent(mean), percent(best)])
    blocks.append(make("Each word alone replaced, in the finished prompt", columns, rows))
    return blocks


def _strips(chance: Chance) -> Block:
    chosen, draws = chance.chosen, chance.draws
    sentence = [
        Strip("training images", tuple(d.shots_loss for d in draws), chosen.shots_loss),
        Strip("held-out images", tuple(d.test_loss for d in draws), chosen.test_loss),
    ]
    losses = [Strip("held-out images", tuple(d.prompt.loss for d in draws), chosen.prompt.loss)]
    shares = tuple(100 * d.prompt.accuracy for d in draws)
    accuracy = [Strip("held-out images", shares, 100 * chosen.prompt.accuracy)]
    rows = [
        [
            ", ".join(d.words) + (" (chosen)" if d is chosen else ""),
            number(d.shots_loss),
            number(d.test_loss),
            number(d.prompt.loss),
            percent(d.prompt.accuracy),
        ]
        for d in (chosen, *draws)
    ]
    columns = ("words", "sentence, training", "sentence, held out", "prompt, loss", "accuracy")
    numbers = make("The chosen words and every random draw", columns, rows)
    drawn = (
        ("Loss in the sentence that chose them", sentence, "cross-entropy (lower is better)"),
        ("Loss in the finished prompt", losses, "cross-entropy (lower is better)"),
        ("Accuracy of the finished prompt", accuracy, "accuracy in % (higher is better)"),
    )
    figures = []
    for title, groups, name in drawn:
        told = "; ".join(
            f"{g.label}: chosen {g.marked:.3f}, random {min(g.values):.3f} to {max(g.values):.3f}"
            for g in groups
        )
        alt = f"{title}: random words as grey dots, the chosen ones in colour. {told}."
        figures.append(Figure(title, strips(groups, alt, name), None))
    return Figures(tuple(figures), numbers)


def _stability(stability: Stability, words: tuple[str, ...]) -> list[Block]:
    count = len(stability.resamples)
    back = [f"“{word}” in {stability.times(word)}" for word in words]
    near = [f"“{word}” in {times}" for word, times in stability.near]
    shown = [
        Bar(word, times, f"{times} of {count}", 1 if word in words else 0)
        for word, times in stability.counts[:10]
    ]
    told = ", ".join(f"{word} {times} of {count}" for word, times in stability.counts[:10])
    rows = [[word, str(times), "yes" if word in words else ""] for word, times in stability.counts]
    draws = [[str(one.seed), ", ".join(one.words)] for one in stability.resamples]
    return [
        Heading("Do the words come back?"),
        Paragraph(
            f"The search was done again {several(count, 'time')}: {stability.how}. How many of "
            f"these {several(count, 'draw')} chose a word of this prompt again: {listed(back)}. In "
            f"how many it was at least among the best twenty of a step: {listed(near)}."
        ),
        Figure(
            "How often a word was chosen; words of this prompt in colour",
            bars(shown, f"How often each word was chosen: {told}."),
            make("Every word that was chosen", ("word", "times", "in this prompt"), rows),
        ),
        make("The words of each draw", ("seed", "words"), draws),
    ]
