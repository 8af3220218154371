"""Each word of a prompt: what it brought when it was chosen, and what it means."""

from __future__ import annotations

from dataclasses import dataclass

from ipl.words.selection import RankedWord, Selection
from ipl.words.senses import Sense, sense_of

BEST = 20  # how many words of a step are kept in a run


@dataclass(frozen=True)
class WordFacts:
    """One word at its step: gain = utility - lambda * redundancy."""

    word: str
    gain: float
    utility: float  # how much it lowered the cross-entropy
    redundancy: float  # how much it repeats the words before it
    loss: float  # with the words up to this one
    best: tuple[RankedWord, ...]  # the best twenty of the step, this word among them
    place: int  # among them; 1 is the best
    lead: float | None  # its gain less that of the best other word
    earlier: tuple[int | None, ...]  # its place at each step before, None below the best twenty
    certified: bool
    sense: Sense


def word_facts(selection: Selection) -> tuple[WordFacts, ...]:
    """Returns the facts of each chosen word, from the trace that the run carries."""
    ranked = [_ranked(selection, number) for number in range(len(selection.steps))]
    facts = []
    for number, step in enumerate(selection.steps):
        names = [other.word for other in ranked[number]]
        others = [other.gain for other in ranked[number] if other.word != step.word]
        facts.append(
            WordFacts(
                word=step.word,
                gain=step.gain,
                utility=step.utility,
                redundancy=step.redundancy,
                loss=step.loss,
                best=ranked[number],
                place=names.index(step.word) + 1,
                lead=step.gain - max(others) if others else None,
                earlier=tuple(_place(before, step.word) for before in ranked[:number]),
                certified=step.certified,
                sense=sense_of(step.word),
            )
        )
    return tuple(facts)


def _ranked(selection: Selection, number: int) -> tuple[RankedWord, ...]:
    step = selection.steps[number]
    every = [RankedWord(step.word, step.gain), *step.runners_up]
    return tuple(sorted(every, key=lambda ranked: -ranked.gain)[:BEST])


def _place(ranked: tuple[RankedWord, ...], word: str) -> int | None:
    names = [other.word for other in ranked]
    return names.index(word) + 1 if word in names else None
