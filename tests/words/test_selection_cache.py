"""What a search keeps on disk: asked again, it runs no tower; asked otherwise, it is not reused."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from ipl.backbone import prefix_cache as prefix
from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.loading import load_backbone
from ipl.support.cache import Cache
from ipl.support.plain_values import from_plain
from ipl.support.progress import Reporter
from ipl.words.greedy import greedy_search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection
from ipl.words.selection_cache import SelectionCache, word_embeddings
from ipl.words.template import Template

NAMES = ["cat", "starry night", "pirate ship"]
POOL = Pool.from_words(Pool.bundled().words[::200], "test")
Images = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def scorer(pocket: Backbone, few_images: Images) -> SentenceScorer:
    return SentenceScorer(pocket, NAMES, *few_images)


def no_tower(patch: pytest.MonkeyPatch) -> None:
    """Makes every way through the text tower fail."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the tower was run")

    patch.setattr(prefix.CandidatePass, "__init__", fail)
    patch.setattr(prefix.PrefixCache, "__init__", fail)
    patch.setattr(Backbone, "encode_text", fail)


def told(selection: Selection) -> list[tuple[Any, ...]]:
    """Returns what must not depend on where a search was taken up, up to rounding."""
    return [
        (
            step.word,
            *(round(value, 9) for value in (step.gain, step.utility, step.redundancy, step.loss)),
            *((other.word, round(other.gain, 9)) for other in step.runners_up),
            step.checked,
        )
        for step in selection.steps
    ]


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_a_second_call_runs_no_tower(
    scorer: SentenceScorer, cache: Cache, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = greedy_search(scorer, POOL, 3, search=mode, cache=cache)
    assert cache.usage()["selections"][0] == cache.usage()["words"][0] == 1
    no_tower(monkeypatch)
    assert greedy_search(scorer, POOL, 3, search=mode, cache=cache) == first
    for k in (0, 1, 2):
        fewer = greedy_search(scorer, POOL, k, search=mode, cache=cache)
        assert fewer == first.first(k)
        assert len(fewer.words) == k
    with pytest.raises(AssertionError, match="the tower was run"):
        greedy_search(scorer, POOL, 4, search=mode, cache=cache)


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_more_words_continue_and_equal_a_fresh_run(
    pocket: Backbone,
    few_images: Images,
    cache: Cache,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask(k: int, cache: Cache | None) -> Selection:
        scorer = SentenceScorer(pocket, NAMES, *few_images)
        return greedy_search(scorer, POOL, k, Objective(0.3), mode, cache)

    fresh = ask(3, None)
    ask(1, cache)
    asked: list[int] = []
    plain = SentenceScorer.losses_without
    monkeypatch.setattr(
        SentenceScorer,
        "losses_without",
        lambda self, words: (asked.append(len(words)), plain(self, words))[1],
    )
    more = ask(3, cache)
    assert told(more) == told(fresh)
    assert asked == [1, 2]
    assert ask(3, cache) == more
    assert ask(2, cache) == more.first(2)
    assert cache.usage()["selections"][0] == 1


def other_weights(pocket: Backbone) -> Backbone:
    clip = copy.deepcopy(pocket.model)
    clip.text_model.final_layer_norm.bias[0] += 1e-3
    return ClipBackbone("pocket", clip, pocket.tokenizer, pocket.preprocessing)


Question = dict[str, Any]
CHANGES: dict[str, Callable[[Question], Question]] = {
    "a class name": lambda q: {**q, "names": ["cat", "starry night", "pirate ships"]},
    "the order of classes": lambda q: {**q, "names": NAMES[::-1]},
    "the order of labels": lambda q: {**q, "labels": q["labels"].roll(1)},
    "one label": lambda q: {**q, "labels": torch.cat([q["labels"][:-1], q["labels"][:1]])},
    "the last bit of an image": lambda q: {**q, "images": q["images"] * (1 + 2**-22)},
    "one image fewer": lambda q: {**q, "images": q["images"][1:], "labels": q["labels"][1:]},
    "the template": lambda q: {**q, "template": Template("a {cls}, showcasing: {words}")},
    "lambda": lambda q: {**q, "objective": Objective(0.2)},
    "the preset": lambda q: {**q, "objective": Objective(0.1, "reference")},
    "the embedding": lambda q: {**q, "objective": Objective(0.1, "paper", "token")},
    "the pool": lambda q: {**q, "pool": Pool.from_words(POOL.words[1:], "test")},
    "the mode": lambda q: {**q, "search": "exhaustive"},
    "the weights": lambda q: {**q, "backbone": other_weights(q["backbone"])},
    "the precision": lambda q: {**q, "backbone": load_backbone("pocket", "cpu", "bf16")},
}


def key(question: Question) -> str:
    parts = ("backbone", "names", "images", "labels", "template")
    scorer = SentenceScorer(*(question[part] for part in parts))
    rest = (question[part] for part in ("pool", "objective", "search"))
    return SelectionCache(None, scorer, *rest).key


def test_every_part_of_a_question_matters(pocket: Backbone, few_images: Images) -> None:
    question = dict(zip(("images", "labels"), few_images, strict=True))
    question |= {"backbone": pocket, "names": NAMES, "pool": POOL}
    question |= {"template": Template(), "objective": Objective(), "search": "exact"}
    keys = {"nothing": key(question)}
    for name, change in CHANGES.items():
        keys[name] = key(change(question))
    assert len(set(keys.values())) == len(keys), "two questions have one key"
    again = {**question, "images": question["images"].clone(), "names": tuple(NAMES)}
    again["pool"] = Pool.from_words(POOL.words, "the same words from elsewhere")
    assert key(again) == keys["nothing"]


def test_other_questions_get_other_answers(
    pocket: Backbone, few_images: Images, cache: Cache
) -> None:
    """Not only the keys: with one cache for all, each answer is that of a run without a cache."""
    images, labels = few_images
    for names, y, objective in (
        (NAMES, labels, Objective(0.5)),
        (NAMES[::-1], labels, Objective(0.5)),
        (NAMES, labels.flip(0), Objective(0.5)),
        (NAMES, labels, Objective(0.5, "reference", "token")),
    ):
        scorer = SentenceScorer(pocket, names, images, y)
        assert told(greedy_search(scorer, POOL, 2, objective, cache=cache)) == told(
            greedy_search(scorer, POOL, 2, objective)
        )
    assert cache.usage()["selections"][0] == 4
    assert cache.usage()["words"][0] == 1  # token rows are looked up, never kept


def test_word_embeddings_are_kept_by_weights_and_pool(
    scorer: SentenceScorer, cache: Cache, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = word_embeddings(cache, scorer.backbone, POOL, Objective())
    smaller = Pool.from_words(POOL.words[:-1], "test")
    torch.testing.assert_close(
        word_embeddings(cache, scorer.backbone, smaller, Objective()), found[:-1], atol=1e-6, rtol=0
    )
    assert cache.usage()["words"][0] == 2
    no_tower(monkeypatch)
    assert torch.equal(
        word_embeddings(cache, scorer.backbone, POOL, Objective(0.7, "reference")), found
    )


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["selections", "words"])
@pytest.mark.parametrize("how", ["cut", "empty"])
def test_a_damaged_entry_is_computed_anew(
    scorer: SentenceScorer, tmp_path: Path, kind: str, how: str
) -> None:
    said = io.StringIO()
    cache = Cache(tmp_path / "cache", Reporter(console=Console(file=said, width=500)))
    first = greedy_search(scorer, POOL, 2, cache=cache)
    (path,) = (entry.path for entry in cache.entries(kind))
    data = path.read_bytes()
    damaged = data[:-9] if how == "cut" else b""
    path.write_bytes(damaged)
    k = 3 if kind == "words" else 2  # else nobody would ask for the embeddings
    assert told(greedy_search(scorer, POOL, k, cache=cache).first(2)) == told(first)
    assert f"warning: The cache entry {path} is damaged" in said.getvalue()
    assert path.exists()
    assert path.read_bytes() != damaged


@pytest.mark.parametrize("facts", [{}, {"selection": {}}, {"selection": []}, {"selection": None}])
def test_an_entry_that_tells_other_things_is_computed_anew(
    scorer: SentenceScorer, cache: Cache, facts: dict[str, Any]
) -> None:
    place = SelectionCache(cache, scorer, POOL, Objective(), "exact")
    cache.put("selections", place.key, {}, facts)
    first = greedy_search(scorer, POOL, 1, cache=cache)
    assert told(first) == told(greedy_search(scorer, POOL, 1))
    assert place.read() is not None


def test_what_another_process_kept_meanwhile_is_not_shortened(
    scorer: SentenceScorer, cache: Cache
) -> None:
    place = SelectionCache(cache, scorer, POOL, Objective(), "exact")
    long = greedy_search(scorer, POOL, 3, cache=cache)
    assert place.read() == long
    place.write(long.first(1))
    assert place.read() == long
    longer = replace(long, steps=(*long.steps, long.steps[-1]))
    place.write(longer)
    assert place.read() == longer


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_ctrl_c_keeps_the_steps_that_were_done(
    scorer: SentenceScorer, cache: Cache, mode: str, pocket: Backbone, few_images: Images
) -> None:
    features = SentenceScorer.features

    def interrupted(self: SentenceScorer, selected: Sequence[str], *rest: object) -> object:
        if len(selected) == 1:
            raise KeyboardInterrupt
        return features(self, selected, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SentenceScorer, "features", interrupted)
        with pytest.raises(KeyboardInterrupt):
            greedy_search(scorer, POOL, 2, search=mode, cache=cache)
    with pytest.MonkeyPatch.context() as patch:
        no_tower(patch)
        first = greedy_search(scorer, POOL, 1, search=mode, cache=cache)
    # The scorer that was interrupted, or another, goes on from there.
    fresh = greedy_search(SentenceScorer(pocket, NAMES, *few_images), POOL, 2, search=mode)
    assert told(greedy_search(scorer, POOL, 2, search=mode, cache=cache)) == told(fresh)
    assert told(first) == told(fresh.first(1))


ASK = """
import torch
from ipl.backbone.loading import load_backbone
from ipl.support.cache import Cache
from ipl.words.pool import Pool
from ipl.words.greedy import greedy_search
from ipl.words.scorer import SentenceScorer
images = torch.nn.functional.normalize(torch.linspace(-1, 1, 6 * 512).sin().view(6, 512), dim=-1)
scorer = SentenceScorer(load_backbone("pocket", "cpu"), ["cat", "ox"], images, torch.arange(6) % 2)
pool = Pool.from_words(Pool.bundled().words[::200], "test")
print("ready", flush=True), input()
print(json.dumps(greedy_search(scorer, pool, 3, cache=Cache()).as_dict()))
"""


@pytest.mark.slow
def test_two_processes_that_ask_at_once_agree(
    pocket: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "both"))
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", "import json" + ASK]
    with subprocess.Popen(command, text=True, **pipes) as other:  # type: ignore[call-overload]
        here: dict[str, Any] = {}
        exec(ASK.split("print")[0], here)  # the very same question
        assert other.stdout.readline() == "ready\n", other.stderr.read()
        other.stdin.write("\n")
        other.stdin.flush()
        ours = greedy_search(here["scorer"], here["pool"], 2, cache=Cache())
        out, error = other.communicate(timeout=120)
    assert other.returncode == 0, error
    theirs = from_plain(Selection, json.loads(out))
    assert told(theirs.first(2)) == told(ours)
    (listed,) = Cache().entries("selections")
    assert listed.facts["words"] == list(theirs.words)
    assert not list((tmp_path / "both").rglob(".*"))  # no temporary file
