"""What people say of the words: mean ratings per list, agreement, every word beside its gain."""

from __future__ import annotations

from ipl.display.document import Block, Figure, Figures, Paragraph, Section
from ipl.display.document import make_table as make
from ipl.display.formatting import number, several, signed
from ipl.display.plots import Bar, bars
from ipl.explain.ratings.results import Agreement, Difference, RatedList, RunRating
from ipl.explain.ratings.study import CHOSEN

NAMES = {
    "chosen": "chosen words",
    "plain": "nearest words of the learner without words",
    "random": "random words, as frequent",
}
MEANING = (
    "Alpha says whether raters agree: 1 is perfect agreement, 0 what chance would give; from 0.8 "
    "on ratings are usually called reliable, below 0.667 not."
)
SHORT = {"chosen": "", "plain": " (learner without words)", "random": " (random)"}
TONES = {"chosen": 1, "plain": 2, "random": 0}
MOST = 5.0  # the best rating


def people_section(rated: RunRating, gains: dict[str, float]) -> Section:
    """Returns the ratings of a run's words and of the words they are compared with."""
    count = max(one.raters for one in rated.lists)
    lead = (
        f"{several(count, 'person', 'people')} rated from 1 (not at all) to 5 (very) how relevant "
        "words are to images of this task, without being told where a word comes from: from this "
        "prompt, from near the vectors of the learner without words, or from a draw of random "
        "words that are about as frequent."
    )
    agreed = agreement_text(rated.agreement)
    blocks: list[Block] = [
        Paragraph(lead),
        Figures((_means(rated.lists), _words(rated.lists, gains))),
        Paragraph(f"{agreed[0].upper()}{agreed[1:]} {MEANING}"),
    ]
    for one in rated.differences:
        told = difference_text(one)
        blocks.append(Paragraph(f"{told[0].upper()}{told[1:]}"))
    return Section("people", "What people say", tuple(blocks))


def _means(lists: tuple[RatedList, ...]) -> Figure:
    rows = [
        [NAMES[one.method], mean_text(one), rated_text(one), str(one.raters), str(one.ratings)]
        for one in lists
    ]
    shown = [
        Bar(NAMES[one.method], one.mean, number(one.mean, 2), TONES[one.method])
        for one in lists
        if one.mean is not None
    ]
    told = ", ".join(f"{bar.label} {bar.shown}" for bar in shown)
    title = "Mean rating of each list, from 1 to 5"
    columns = ("list", "mean ± deviation over words", "words rated", "raters", "ratings")
    return Figure(title, bars(shown, f"{title}: {told}.", MOST), make(title, columns, rows))


def _words(lists: tuple[RatedList, ...], gains: dict[str, float]) -> Figure:
    every = [(one.method, word) for one in lists for word in one.words]
    shown = [
        Bar(word.word + SHORT[method], word.mean, number(word.mean, 2), TONES[method])
        for method, word in every
        if word.mean is not None
    ]
    rows = []
    for method, word in every:
        mean = "" if word.mean is None else number(word.mean, 2)
        given = ", ".join(str(rating) for rating in word.ratings if rating is not None)
        gain = gains.get(word.word) if method == CHOSEN else None
        rows.append([word.word, NAMES[method], mean, given, "" if gain is None else signed(gain)])
    told = ", ".join(f"{bar.label} {bar.shown}" for bar in shown)
    title = "Mean rating of each word; those of this prompt first"
    columns = ("word", "list", "mean", "ratings", "gain when chosen")
    return Figure(title, bars(shown, f"{title}: {told}.", MOST), make(title, columns, rows))


def rated_text(one: RatedList) -> str:
    """Returns "2 of 3", how many of its words are rated."""
    return f"{one.rated} of {len(one.words)}"


def mean_text(one: RatedList) -> str:
    """Returns "3.67 ± 0.58", the mean and deviation over words."""
    if one.mean is None:
        return ""
    return number(one.mean, 2) + ("" if one.deviation is None else f" ± {one.deviation:.2f}")


def agreement_text(agreement: Agreement) -> str:
    """Returns alpha with what it is of, or why there is none."""
    value = agreement.ordinal.value
    if value is None:
        return f"there is no Krippendorff's alpha: {agreement.ordinal.why}."
    told = f"{several(agreement.raters, 'rater')}, {several(agreement.words, 'word')}"
    return f"Krippendorff's alpha (ordinal) is {number(value, 3)} over {told} rated by two or more."


def difference_text(one: Difference) -> str:
    """Returns how far the chosen words are above others, and how often chance does that."""
    told = f"chosen words less {NAMES[one.method]}: {signed(one.value, 2)}"
    if not one.complete:
        return f"{told} so far; not every word of the two lists is rated yet, so there is no test."
    if one.p is None:
        return f"{told}."
    return (
        f"{told}; of {several(one.ways, 'way')} to deal these words out to two lists, "
        f"{100 * one.p:.0f} % set the means at least as far apart (p = {one.p:.3f})."
    )
