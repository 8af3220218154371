"""Whether the same words are chosen again when the training images are drawn anew."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.display.document import Paragraph, Section
from ipl.display.formatting import listed, several
from ipl.display.table import Table
from ipl.explain.inputs import LoadedRun, ReportData
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import search_settings
from ipl.training.schedule import SEARCHED


@dataclass(frozen=True)
class Stability:
    """The words of other draws of the training images."""

    draws: tuple[tuple[str, ...], ...]  # the words of each
    again: dict[str, int]  # each word of the prompt: draws that chose it
    near: dict[str, int]  # draws with it among the best twenty of a step


def stability_section(data: ReportData) -> Section | None:
    """Whether the words of a prompt were chosen again."""
    run, images, times = data.run, data.images, data.resamples
    if images is None or images.shots is None or not times or not run.words:
        return None
    if run.selection is None or run.pool is None:
        return None
    stability = resample_words(run, images.shots, times, data.reporter)
    again = listed([f"“{word}” in {count}" for word, count in stability.again.items()])
    near = listed([f"“{word}” in {count}" for word, count in stability.near.items()])
    counts = Counter(word for words in stability.draws for word in words)
    rows = [(word, str(n), "yes" if word in run.words else "") for word, n in counts.most_common()]
    draws = several(times, "draw")
    blocks = (
        Paragraph(
            f"The search was done again {several(times, 'time')}, each with as many training "
            "images of each class, drawn anew with replacement. How many draws chose a word of "
            f"this prompt again: {again}. In how many it was at least among the best twenty of a "
            f"step: {near}."
        ),
        Table(("word", "draws", "in this prompt"), rows, caption=f"The words of {draws}"),
    )
    summary = f"How many of {draws} of the training images chose a word again: {again}."
    values = {"stability": stability}
    return Section("stability", "Do the words come back?", blocks, summary, values)


def resample_words(
    run: LoadedRun,
    shots: LabelledFeatures,
    times: int,
    reporter: Reporter = SILENT,
) -> Stability:
    """The search repeated on draws of the training images, with the seeds that follow."""
    search, seed = search_settings(run.result.config, run.pool), run.result.config.seed
    draws, near = list[tuple[str, ...]](), Counter[str]()
    with reporter.task("Choosing words for other draws", times) as advance:
        for other_seed in range(seed + 1, seed + times + 1):
            drawn = draw_with_replacement(shots.at_most(SEARCHED, other_seed), other_seed)
            found = search.choose(
                *(run.learner.backbone, run.classes, drawn, len(run.words)),
                cache=run.store.cache,
                store=run.store,
            )
            draws.append(found.words)
            near.update({*found.words, *(r.word for s in found.steps for r in s.runners_up)})
            advance()
    again = {word: sum(word in words for words in draws) for word in run.words}
    return Stability(tuple(draws), again, {word: near[word] for word in run.words})


def draw_with_replacement(shots: LabelledFeatures, seed: int) -> LabelledFeatures:
    """As many images of each class, drawn from these with replacement."""
    stream, by_class = random.Random(seed), dict[int, list[int]]()
    for index, item in enumerate(shots.items):
        by_class.setdefault(item.label, []).append(index)
    return shots.rows([i for rows in by_class.values() for i in stream.choices(rows, k=len(rows))])
