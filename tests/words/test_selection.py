"""The search against plain loops over whole prompts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone import prefix_cache as prefix
from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.words.greedy import greedy_search
from ipl.words.modes import MODES, Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer, check_room
from ipl.words.template import Template

NAMES = ["cat", "starry night", "pirate ship"]
POOL = Pool.from_words(
    ("adopt", "blue", "furry", "heather", "phone", "pile", "social", "visit", "reaction", "title"),
    "test",
)
FIVE = POOL.words[:5]
Images = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture
def scorer(pocket: Backbone, few_images: Images) -> CandidateScorer:
    return CandidateScorer(pocket, NAMES, *few_images)


def plain_loss(backbone: Backbone, images: Images, prompts: list[str]) -> float:
    """Returns the cross-entropy of whole prompts, one per class, by the library's own functions."""
    texts = normalize(backbone.encode_texts(prompts), dim=-1)
    return cross_entropy(backbone.logit_scale * images[0] @ texts.T, images[1]).item()


def prompts(words: list[str]) -> list[str]:
    return [f"a photo of a {name}, with emphasis on: {', '.join(words)}" for name in NAMES]


@pytest.mark.parametrize("selected", [[], ["furry"], ["furry", "blue"]])
def test_losses_are_those_of_a_plain_loop(
    pocket: Backbone, few_images: Images, scorer: CandidateScorer, selected: list[str]
) -> None:
    ours = scorer.score(selected, POOL.words)
    loop = [plain_loss(pocket, few_images, prompts([*selected, word])) for word in POOL.words]
    torch.testing.assert_close(ours, torch.tensor(loop).double(), atol=1e-4, rtol=0)


def test_the_loss_of_no_words_is_the_plain_prompts(
    pocket: Backbone, few_images: Images, scorer: CandidateScorer
) -> None:
    plain = plain_loss(pocket, few_images, [f"a photo of a {name}" for name in NAMES])
    assert scorer.loss([]) == pytest.approx(plain, abs=1e-4)
    several = plain_loss(pocket, few_images, prompts(["furry", "blue"]))
    assert scorer.loss(["furry", "blue"]) == pytest.approx(several, abs=1e-4)


@pytest.mark.parametrize("preset", ["paper", "reference"])
@pytest.mark.parametrize("embedding", ["text", "token"])
def test_the_words_are_those_of_a_plain_greedy_loop(
    pocket: Backbone, few_images: Images, scorer: CandidateScorer, preset: str, embedding: str
) -> None:
    objective = Objective(0.3, preset, embedding)
    if embedding == "text":
        e = normalize(pocket.encode_texts(list(POOL.words)), dim=-1)
    else:
        e = normalize(pocket.embed([pocket.tokenize(w)[0] for w in POOL.words]), dim=-1)
    chosen: list[int] = []
    loss = plain_loss(pocket, few_images, [f"a photo of a {name}" for name in NAMES])
    steps = []
    for _ in range(3):
        best = None
        for i, word in enumerate(POOL.words):
            if i in chosen:
                continue
            after = plain_loss(
                pocket, few_images, prompts([POOL.words[j] for j in chosen] + [word])
            )
            cosines = [float(e[i] @ e[j]) for j in chosen] or [0.0]
            repeated = sum(cosines) if preset == "paper" else sum(cosines) / len(cosines)
            gain = loss - after - 0.3 * repeated
            if best is None or gain > best[0]:
                best = (gain, i, after, repeated)
        assert best is not None
        steps.append(best)
        chosen.append(best[1])
        loss = best[2]
    found = greedy_search(scorer, POOL, 3, objective)
    assert found.words == tuple(POOL.words[i] for i in chosen)
    for step, (gain, _, after, repeated) in zip(found.steps, steps, strict=True):
        assert step.gain == pytest.approx(gain, abs=2e-4)
        assert step.loss == pytest.approx(after, abs=1e-4)
        assert step.redundancy == pytest.approx(repeated, abs=1e-4)
        assert step.gain == pytest.approx(step.utility - 0.3 * step.redundancy, abs=1e-6)


def test_the_objective_is_the_sum_of_the_steps_gains(
    pocket: Backbone, few_images: Images, scorer: CandidateScorer
) -> None:
    """Utility and redundancy of the set, computed at once, telescope into the increments."""
    found = greedy_search(scorer, POOL, 3, Objective(0.2))
    words = list(found.words)
    e = normalize(pocket.encode_texts(words), dim=-1)
    pairs = sum(float(e[i] @ e[j]) for i, j in itertools.combinations(range(3), 2))
    utility = scorer.loss([]) - plain_loss(pocket, few_images, prompts(words))
    assert sum(step.gain for step in found.steps) == pytest.approx(utility - 0.2 * pairs, abs=5e-4)


def test_the_first_word_is_the_best_single_word(scorer: CandidateScorer) -> None:
    found = greedy_search(scorer, POOL, 1)
    losses = {word: scorer.loss([word]) for word in POOL.words}
    assert found.words[0] == min(losses, key=losses.__getitem__)
    ranked = [found.words[0], *(r.word for r in found.steps[0].runners_up)]
    assert ranked == sorted(losses, key=losses.__getitem__)


def test_a_large_lambda_changes_the_choice(scorer: CandidateScorer) -> None:
    free = greedy_search(scorer, POOL, 3, Objective(0.0))
    strict = greedy_search(scorer, POOL, 3, Objective(50.0))
    assert free.words[0] == strict.words[0]
    assert free.words != strict.words
    assert sum(s.redundancy for s in strict.steps) < sum(s.redundancy for s in free.steps)


def test_no_word_is_chosen_twice_and_the_whole_pool_can_be(scorer: CandidateScorer) -> None:
    found = greedy_search(scorer, POOL, len(POOL))
    assert sorted(found.words) == list(POOL.words)
    assert [step.scored for step in found.steps] == list(range(len(POOL), 0, -1))
    assert found.steps[-1].runners_up == ()


def test_k_must_fit_the_pool_and_the_positions(pocket: Backbone, few_images: Images) -> None:
    scorer = CandidateScorer(pocket, NAMES, *few_images)
    with pytest.raises(ConfigError, match="words is 11; the pool has 10 words"):
        greedy_search(scorer, POOL, 11)
    many = Pool.from_words(Pool.bundled().words[:60], "test")
    with pytest.raises(ConfigError, match="40 words need 93 tokens .* 77 positions"):
        greedy_search(scorer, many, 40)


def test_the_room_is_counted_exactly(pocket: Backbone, few_images: Images) -> None:
    """The largest k that check_room allows is the largest whose sentence fits."""
    scorer = CandidateScorer(pocket, NAMES, *few_images)
    fits = [k for k in range(1, 60) if _fits(scorer, k)]
    whole = max(len(pocket.tokenize(t)) for t in prompts(["blue"] * max(fits))) + 2
    assert whole <= 77 < whole + 2


def _fits(scorer: CandidateScorer, k: int) -> bool:
    try:
        check_room(scorer.template, scorer.backbone, scorer.class_names, k)
    except ConfigError:
        return False
    return True


def test_candidates_must_be_one_token(scorer: CandidateScorer) -> None:
    with pytest.raises(ConfigError, match=r"'pirate ship' is \d tokens"):
        scorer.score([], ["pirate ship"])


def test_a_template_with_text_after_the_words(pocket: Backbone, few_images: Images) -> None:
    template = Template("a {cls} showcasing: {words}.")
    scorer = CandidateScorer(pocket, NAMES, *few_images, template)
    ours = scorer.score(["blue"], ["furry"])
    loop = plain_loss(pocket, few_images, [f"a {n} showcasing: blue, furry." for n in NAMES])
    assert ours.item() == pytest.approx(loop, abs=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "a photo",
        "a {cls}",
        "{words}",
        "{words} of a {cls}",
        "{cls} {cls} {words}",
        "{cls} {words} {x}",
        "{cls} un{words}",
        "{cls} {words}ish",
    ],
)
def test_what_is_no_template(text: str) -> None:
    with pytest.raises(ConfigError, match="template is"):
        Template(text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"lambda_": -0.1}, "lambda is -0.1"),
        ({"lambda_": float("nan")}, "lambda is nan"),
        ({"preset": "mine"}, "preset is 'mine'; allowed are paper, reference"),
        ({"word_embedding": "x"}, "word_embedding is 'x'; allowed are text, token"),
    ],
)
def test_what_is_no_objective(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Objective(**arguments)  # type: ignore[arg-type]


def test_what_is_no_search() -> None:
    with pytest.raises(ConfigError, match="search is 'exakt'.*exact"):
        Search("exakt")
    with pytest.raises(ConfigError, match="shortlist is 19; it must be 20 or more"):
        Search("screen", shortlist=19)
    with pytest.raises(ConfigError, match="recall is measured for search 'screen'"):
        Search("lazy", recall=True)


@pytest.mark.parametrize(
    "search",
    [*map(Search, MODES), Search("screen", recall=True)],
    ids=lambda s: f"{s.mode} {s.recall}",
)
def test_progress_ends_at_the_size_of_the_pool(scorer: CandidateScorer, search: Search) -> None:
    done: list[int] = []

    class Counting(Reporter):
        @contextmanager
        def task(self, title: str, total: int) -> Iterator[Callable[..., None]]:
            assert total == len(POOL)
            done.append(0)

            def advance(steps: int = 1, note: str = "") -> None:
                done[-1] += steps

            yield advance

    greedy_search(scorer, POOL, 2, search=search, reporter=Counting(quiet=True))
    assert done == [len(POOL)] * 2


def test_too_little_memory_is_said_in_the_numbers_given(
    pocket: Backbone, few_images: Images
) -> None:
    with pytest.raises(ConfigError, match="memory is 2e-05 GiB; 3 prompts need at least 0.00012"):
        CandidateScorer(pocket, NAMES, *few_images, memory=2e-5).score([], FIVE)
    CandidateScorer(pocket, NAMES, *few_images, memory=1.3e-4).score([], FIVE)


def test_a_scorer_survives_words_that_do_not_fit(scorer: CandidateScorer) -> None:
    """Growth that fails half way, or is interrupted, leaves nothing half grown behind."""
    before = scorer.score(["blue"], FIVE)
    with pytest.raises(Exception, match="does not fit the 77 positions"):
        scorer.score(["blue"] * 40, FIVE)
    for selected in (["blue"], [], ["blue", "furry"], ["furry"]):
        expected = CandidateScorer(
            scorer.backbone, NAMES, scorer.cross_entropy.images.float(), scorer.cross_entropy.labels
        ).score(selected, FIVE)
        torch.testing.assert_close(scorer.score(selected, FIVE), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(scorer.score(["blue"], FIVE), before, atol=1e-4, rtol=0)


def test_other_shots_reuse_candidate_features(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a store, a second seed runs the tower only where its words differ."""
    runs: list[int] = []
    run = prefix._CandidatePass.features
    monkeypatch.setattr(
        prefix._CandidatePass,
        "features",
        lambda self, ids: (runs.append(len(ids)), run(self, ids))[1],
    )
    store = FeatureStore(pocket)
    first = CandidateScorer(pocket, NAMES, *few_images, store=store)
    other = CandidateScorer(pocket, NAMES, few_images[0], few_images[1].flip(0), store=store)
    a, b = first.score([], POOL.words), other.score([], POOL.words)
    assert runs == [len(POOL)]
    assert not np.allclose(a, b)
    torch.testing.assert_close(
        b,
        CandidateScorer(pocket, NAMES, few_images[0], few_images[1].flip(0)).score([], POOL.words),
    )
    other.score(["blue"], POOL.words)
    assert sum(runs) == 3 * len(POOL)


def test_a_small_store_forgets(pocket: Backbone, few_images: Images) -> None:
    store = FeatureStore(pocket, text_bytes=len(NAMES) * len(POOL) * 512 * 4)
    scorer = CandidateScorer(pocket, NAMES, *few_images, store=store)
    for selected in ([], ["blue"], []):
        expected = CandidateScorer(pocket, NAMES, *few_images).score(selected, POOL.words)
        assert torch.equal(scorer.score(selected, POOL.words), expected)
    assert len(store._texts) == 1
