"""The greedy search: at each step, the word with the highest gain joins the words chosen so far.

A step scores every word of the pool in the precision that the device multiplies fastest, scores the
best of them again in fp32, and takes the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.support.cache import Cache, key_of
from ipl.support.errors import ConfigError
from ipl.support.plain_values import from_plain
from ipl.support.progress import SILENT, Reporter
from ipl.words.certainty import certainty, draw_resamples
from ipl.words.gain import Array, Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_length
from ipl.words.selection import RankedWord, Selection, SelectionStep
from ipl.words.template import Template

RANKED = 20  # the best word of a step and the next nineteen
FINALISTS = 64  # words that are scored in fp32 at least
SAFETY = 4.0  # times the largest difference seen: how far half precision may be off
VERSION = 4  # part of the cache's keys; increase it when the same settings give another result


@dataclass(frozen=True)
class SearchSettings:
    """How the words of a prompt are chosen: all but their number and the images."""

    objective: Objective = field(default_factory=Objective)
    template: Template = field(default_factory=Template)
    search: str = "exact"  # or "exhaustive": every word is scored in fp32
    pool: Pool | None = None  # the bundled one

    def candidates(self, backbone: Backbone) -> Pool:
        """The words of the pool that are a single token of the backbone."""
        return (self.pool or Pool.bundled()).for_tokenizer(backbone.tokenizer)

    def check(self, backbone: Backbone, class_names: Sequence[str], k: int) -> None:
        """Raises ConfigError unless the pool has k words and they fit into the template."""
        size = len(self.candidates(backbone))
        if k > size:
            raise ConfigError(f"words is {k}; the pool has {size} words to choose from.")
        check_length(self.template, backbone, class_names, k)

    def choose(
        self,
        backbone: Backbone,
        class_names: Sequence[str],
        images: LabelledFeatures,
        k: int,
        cache: Cache | None = None,
        store: FeatureStore | None = None,
        reporter: Reporter = SILENT,
        stop_at_noise: bool = False,
    ) -> Selection:
        """Chooses k words for labelled images; see `greedy_search`."""
        self.check(backbone, class_names, k)
        scorer = SentenceScorer(
            *(backbone, class_names, images.features, images.labels),
            *(self.template, self.objective, store),
        )
        pool = self.candidates(backbone)
        return greedy_search(scorer, pool, k, self.search, cache, reporter, stop_at_noise)


def greedy_search(
    scorer: SentenceScorer,
    pool: Pool,
    k: int,
    search: str = "exact",
    cache: Cache | None = None,
    reporter: Reporter = SILENT,
    stop_at_noise: bool = False,
) -> Selection:
    """Chooses k words of a pool, one after the other.

    With `stop_at_noise` it stops before the first word that does not earn its place, which may be
    the first. Finished steps are stored in the cache and not computed again.
    """
    saved_steps = SavedSteps(cache, scorer, pool, search)
    selection = saved_steps.read() or _no_words_yet(scorer, pool, search)
    finished = _finished(selection, k, stop_at_noise)
    if finished is not None:
        if k:
            reporter.say("The words are in the cache.")
        reporter.record_event(finished)
        return finished
    if not scorer.backbone.causal:
        reporter.say(
            f"The text tower of {scorer.backbone.name} is not causal: every prompt is encoded in "
            "full, which gives the same words but takes many times longer."
        )
    objective, entropy = scorer.objective, scorer.cross_entropy
    embeddings = None
    resamples = draw_resamples(entropy.labels)
    while finished is None:
        started = time.perf_counter()
        words = selection.words
        without = entropy.image_losses(scorer.prompt(words)[None])[0]  # (images,)
        loss = float(without.mean())

        # Score every word
        chosen = [pool.words.index(word) for word in words]
        redundancy = np.zeros(len(pool))
        if chosen:
            if embeddings is None:
                embeddings = objective.embed_words(scorer.backbone, pool.words)
            redundancy = objective.redundancy(embeddings, chosen).cpu().double().numpy()
        penalty = objective.lambda_ * redundancy
        penalty[chosen] = np.inf
        title = f"Choosing word {len(words) + 1}" + ("" if stop_at_noise else f" of {k}")
        with reporter.task(title, len(pool)) as advance:
            losses, margin = score_words(search, scorer, pool.words, words, penalty, advance)

        # Take the best
        gains = objective.gain(loss - losses.sum(1), redundancy)
        gains[chosen] = np.nan
        checked = int(np.isfinite(gains).sum())
        # The pool is sorted and the sort is stable, so equal gains are in alphabetical order.
        ranking = np.argsort(-gains, kind="stable")[: min(RANKED, checked)]
        best = int(ranking[0])

        # How sure is it?
        best_of_halves = [
            int(np.nanargmin(part + share * penalty))
            for part, share in zip(losses.T, entropy.shares, strict=True)
        ]
        again = [*ranking, *best_of_halves]
        features = torch.cat([*scorer.features(words, [pool.words[i] for i in again])])
        again_losses = torch.cat([without[None], entropy.image_losses(features)])
        penalties = torch.from_numpy(penalty[again])

        step = SelectionStep(
            word=pool.words[best],
            utility=float(loss - losses[best].sum()),
            redundancy=float(redundancy[best]),
            gain=float(gains[best]),
            loss=float(losses[best].sum()),
            accuracy=entropy.accuracy(features[0]),
            runners_up=tuple(RankedWord(pool.words[i], float(gains[i])) for i in ranking[1:]),
            checked=checked,
            margin=margin,
            seconds=time.perf_counter() - started,
            certainty=certainty(resamples, again_losses, penalties, entropy.halves),
        )
        selection = replace(selection, steps=(*selection.steps, step))
        saved_steps.write(selection)
        finished = _finished(selection, k, stop_at_noise)
        reporter.record_event(finished or selection)
    return finished


def score_words(
    search: str,
    scorer: SentenceScorer,
    words: Sequence[str],
    selected: Sequence[str],
    penalty: Array,
    advance: Callable[..., None],
) -> tuple[Array, float]:
    """Scores the words of a step in fp32: all of them, or those that may be the best.

    With "exact", all words are scored in half precision and the best again in fp32, until the worst
    of these is worse than the twentieth best by more than the precisions were seen to differ.
    `penalty` (words,) is lambda * redundancy, inf for words that are already chosen; `advance` gets
    the number of words that were scored.

    Returns the losses (words, 2), a part for each half of the images and NaN if a word was not
    scored in fp32; and the margin by which half precision may have been off, 0 if all words were.
    """
    half = scorer.half
    candidates = np.flatnonzero(np.isfinite(penalty))
    if search == "exhaustive" or half is None or len(candidates) <= FINALISTS:
        return scorer.score(selected, words, advance).cpu().numpy(), 0.0
    rough = scorer.score(selected, words, advance, half).cpu().numpy()
    if not np.isfinite(rough).all():  # half precision has overflowed
        return scorer.score(selected, words).cpu().numpy(), 0.0
    losses, count = np.full_like(rough, np.nan), 0
    costs = rough.sum(1) + penalty
    order = _ascending(costs, candidates)
    # The best words of each half, for the held-out gain
    finalists = [
        _ascending(part + share * penalty, candidates)[:RANKED]
        for part, share in zip(rough.T, scorer.cross_entropy.shares, strict=True)
    ]
    while count < len(order):
        most = max(FINALISTS, 2 * count)
        new = np.unique(np.concatenate([*finalists, order[count:most]]))
        losses[new] = scorer.score(selected, [words[i] for i in new]).cpu().numpy()
        finalists, count = [], min(most, len(order))
        margin = SAFETY * float(np.nanmax(np.abs((losses - rough).sum(1))))
        best = np.sort(losses[order[:count]].sum(1) + penalty[order[:count]])
        if costs[order[count - 1]] > best[RANKED - 1] + margin:
            return losses, margin
    return losses, 0.0


def _ascending(costs: Array, candidates: Array) -> Array:
    """The candidates in the order of their costs."""
    return candidates[np.argsort(costs[candidates], kind="stable")]


def _no_words_yet(scorer: SentenceScorer, pool: Pool, search: str) -> Selection:
    features = scorer.prompt(())
    return Selection(
        steps=(),
        loss_without_words=float(scorer.cross_entropy.image_losses(features[None]).mean()),
        accuracy_without_words=scorer.cross_entropy.accuracy(features),
        template=scorer.template.text,
        **asdict(scorer.objective),
        pool_size=len(pool),
        pool_sha256=pool.sha256,
        search=search,
    )


def _finished(selection: Selection, k: int, stop_at_noise: bool) -> Selection | None:
    """The part of a selection that was asked for; None if it needs more steps."""
    for index, step in enumerate(selection.steps[:k] if stop_at_noise else ()):
        if not step.earns_its_place:
            return replace(selection.first(index), stopped_before=step)
    return selection.first(k) if len(selection.steps) >= k else None


class SavedSteps:
    """The finished steps of a search in the cache, which any number of words can continue."""

    def __init__(
        self, cache: Cache | None, scorer: SentenceScorer, pool: Pool, search: str
    ) -> None:
        self.cache, self.words = cache, {*pool.words}
        self.key = key_of(
            version=VERSION,
            backbone=scorer.backbone.fingerprint,
            images=scorer.cross_entropy.sha256,  # of their features
            labels=scorer.cross_entropy.labels.tolist(),
            classes=list(scorer.class_names),
            template=scorer.template.text,
            pool=pool.sha256,
            objective=asdict(scorer.objective),
            search=search,
        )

    def read(self) -> Selection | None:
        entry = self.cache.get("selections", self.key) if self.cache else None
        if entry is None:
            return None
        try:
            selection = from_plain(Selection, entry.facts["selection"], "selection")
        except (KeyError, ConfigError):  # another version wrote it
            return None
        return selection if {*selection.words} <= self.words else None

    def write(self, selection: Selection) -> None:
        if self.cache is not None:
            self.cache.put("selections", self.key, {}, {"selection": selection.as_dict()})
