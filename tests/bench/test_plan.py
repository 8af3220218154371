"""Plans: plain values in, checked; the runs that they mean out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.arms import DEFAULT_ARMS
from ipl.bench.plan import Plan
from ipl.bench.run import Run, expand, titles_of
from ipl.learners.coop import CoOp
from ipl.support.errors import ConfigError, IplError

SMALL = {"protocol": "base-to-novel", "datasets": "dtd"}


def plan(**values: Any) -> Plan:
    return Plan.from_values({**SMALL, **values})


def only(**values: Any) -> Run:
    (run,) = expand(plan(**{"seeds": 1, "arms": "words", **values}))
    return run


def test_lists_are_lists_texts_or_single_values() -> None:
    assert plan(words="0, 3,auto", seeds=[2, 1, 2], learners=["coop"]).words == (0, 3, "auto")
    assert plan(seeds="2,1,2").seeds == (2, 1)
    assert plan(words=3).words == (3,)
    assert (plan().shots, plan(shots="1,4").shots) == ((16,), (1, 4))
    assert plan().seeds == (1, 2, 3)


def test_values_come_back() -> None:
    original = plan(epochs=7, lr=1, views="fresh", **{"lambda": 0.5})
    config = original.config
    assert (config.lr, config.lambda_, config.views) == (1.0, 0.5, "fresh")
    assert Plan.from_values(original.as_values()) == original
    assert Plan("base-to-novel", ("dtd",)) == plan()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"protocol": "novel"}, "protocol is 'novel'; it must be one of base-to-novel"),
        ({"learner": "coop"}, "'learner' is not a setting of a plan. Did you mean 'learners'"),
        ({"learners": "kooop"}, "No learner is called 'kooop'"),
        ({"learners": []}, "learners is empty"),
        ({"learners": {"a": 1}}, "learners is {'a': 1}; it must be a list"),
        ({"words": "0,few"}, "words is 'few'"),
        ({"words": [True]}, "words is True"),
        ({"seeds": 2**32}, "seed is 4294967296"),
        ({"datasets": [3]}, "datasets contains 3; its entries must be names"),
        ({"protocol": ["domain"]}, "protocol is ['domain']; it must be text"),
        ({"shots": 0}, "shots is 0"),
        ({"epochs": 1.5}, "epochs is 1.5; it must be a whole number"),
        ({"source": "dtd"}, "source is 'dtd'; in base-to-novel"),
        ({"protocol": "domain", "source": "dtd"}, "datasets contains 'dtd', which is the source"),
        ({"arms": "wrods"}, "arms contains 'wrods'; allowed are zero-shot, linear-probe"),
        ({"arms": "random", "words": "paper"}, "the arm random needs a number"),
        ({"arms": "words-only", "words": "auto"}, "the arm words-only needs a number"),
        ({"arms": "given"}, "The arm given has no words for dtd; give them with --given FILE"),
        ({"given": "two words"}, "words_given is 'two words'; it must be single words"),
        ({"given": 3}, "given is 3; it must be words with commas between them."),
        ({"draws": 0}, "draws is 0; it must be a whole number from 1 to 1,000."),
        ({"draws": "9" * 9999}, "draws is '999"),
        ({"words": 3, "epochs": 2}, "more than epochs (T = 2)"),
        ({"words": 1, "words_file": "/no/such"}, "The word list /no/such cannot be read"),
    ],
)
def test_a_bad_value_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(IplError) as caught:
        expand(plan(**values))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_id_is_stable_and_tells_settings_apart(tmp_path: Path) -> None:
    run = only(words=3, learners="maple")
    assert run.id.startswith("dtd-maple-3w-seed1-")
    assert run.id == Run.from_dict(run.as_dict()).id == only(words=3, learners="maple").id
    others = [
        only(words=3, learners="maple", **more)
        for more in ({"shots": 8}, {"lr": 0.1}, {"lambda": 0.2}, {"backbone": "a/b"}, {"views": 1})
    ]
    assert len({run.id, *(other.id for other in others)}) == 6


def test_a_list_of_words_counts_by_its_content(tmp_path: Path) -> None:
    first, copy, other = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    first.write_text("sand\nwater\n")
    copy.write_text("sand\nwater\n")
    other.write_text("sand\n")
    ids = [only(words=1, words_file=str(path)).id for path in (first, copy, other)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ({"learners": "coop", "words": 0}, {"epochs": 200, "m": 4}),
        ({"learners": "coop", "words": 0, "datasets": "imagenet"}, {"epochs": 50}),
        ({"learners": "coop", "words": 2, "datasets": "imagenet"}, {"epochs": 100}),
        ({"learners": "coop", "words": 0, "datasets": "imagenet", "epochs": 9}, {"epochs": 9}),
        ({"learners": "maple", "words": 0}, {"epochs": 5, "lr": 0.0035, "depth": 9}),
        ({"learners": "promptsrc", "words": 0}, {"average_mean": 15}),
        ({"learners": "kgcoop"}, {"class_template": "a photo of a {}, a type of texture."}),
    ],
)
def test_published_numbers(values: dict[str, Any], settings: dict[str, Any]) -> None:
    run = only(**{"words": 0, **values})
    assert {name: run.settings[name] for name in settings} == settings


@pytest.mark.parametrize("protocol", ["cross-dataset", "domain"])
def test_transfer_trains_with_the_numbers_of_transfer(protocol: str) -> None:
    for learner, numbers in {
        "coop": {"epochs": 50},
        "maple": {"epochs": 2, "lr": 0.0026, "depth": 3},
        "promptsrc": {"average_mean": 6, "average_std": 10},
    }.items():
        run = only(protocol=protocol, words=0, learners=learner)
        assert (run.dataset, run.targets) == ("imagenet", ("dtd",))
        assert {name: run.settings[name] for name in numbers} == numbers
    both = [only(protocol=protocol, words=0, datasets=d).id for d in ("dtd,sun397", "sun397,dtd")]
    assert both[0] == both[1]  # the order of targets is no other run


# -- arms -----------------------------------------------------------------------------------------


def test_the_arms_of_a_plan_that_names_none() -> None:
    assert plan().arms == DEFAULT_ARMS == ("zero-shot", "plain", "empty", "random", "words")
    runs = expand(plan(seeds="1,2"))
    counts = Counter((run.arm, run.seed) for run in runs)
    assert counts == {
        ("zero-shot", 1): 1,
        **{(arm, seed): 1 for arm in ("plain", "empty", "words") for seed in (1, 2)},
        **{("random", seed): 3 for seed in (1, 2)},
    }
    assert [run.config.random_words for run in runs if run.arm == "random"] == [1, 2, 3] * 2


def test_without_words_a_plan_has_the_arms_that_need_none() -> None:
    assert plan(words=0).arms == ("zero-shot", "plain")
    assert plan(words="0,2").arms == DEFAULT_ARMS
    with pytest.raises(ConfigError, match="learners contains 'zero-shot', which is an arm"):
        plan(learners="zero-shot,coop")


def test_arms_without_a_learner_are_run_once_for_all_learners() -> None:
    made = plan(
        datasets="dtd,eurosat",
        arms="zero-shot,linear-probe,words-only,plain",
        learners="coop,kgcoop",
        seeds="1,2",
        words="1,2",
    )
    counts = Counter((run.dataset, run.learner, run.words) for run in expand(made))
    for dataset in ("dtd", "eurosat"):
        assert counts[dataset, "zero-shot", 0] == 1
        assert counts[dataset, "linear-probe", 0] == 2  # seeds
        assert [counts[dataset, "words-only", words] for words in (1, 2)] == [2, 2]
        assert counts[dataset, "coop", 0] == counts[dataset, "kgcoop", 0] == 2
    assert sum(counts.values()) == 2 * (1 + 2 + 4 + 4)


def test_given_words_are_those_of_the_plan() -> None:
    run = only(arms="given", given=["Sand", "playfulness"])
    assert (run.words, run.config.words_given) == (2, "sand, playfulness")
    assert plan(arms="given", given="sand,stone").words == (0,)  # the number makes no difference


def test_no_slots_are_the_plain_learner_and_no_other_arm() -> None:
    runs = expand(plan(arms="plain,empty,words", words="0,1", seeds=1))
    assert [run.arm for run in runs] == ["plain", "empty", "words"]
    with pytest.raises(ConfigError, match="words is 0; the arm empty needs 1 or more"):
        expand(plan(arms="plain,empty,words", words=0, seeds=1))


def test_random_words_need_a_pool_of_twice_as_many(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("sand\nstone\nwall\n")
    values = {"arms": "random", "words_file": str(path), "seeds": 1}
    with pytest.raises(ConfigError, match="words is 2"):
        expand(plan(words=2, **values))
    assert len(expand(plan(words=1, **values))) == 3


def test_a_learner_without_slots_has_no_arms_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = CoOp.layout_for(0, 4)
    monkeypatch.setattr(CoOp, "layout_for", classmethod(lambda cls, words, m: layout))
    for arm in ("empty", "random", "words"):
        with pytest.raises(ConfigError, match=f"coop has no slots .* cannot have the arm {arm}"):
            expand(plan(arms=arm))
    assert len(expand(plan(arms="plain", seeds=1))) == 1


def test_arms_have_ids_and_titles_of_their_own() -> None:
    arms = "linear-probe,words-only,plain,empty,random,given,words"
    runs = expand(plan(arms=arms, words=2, seeds=1, draws=2, given="sand"))
    assert len({run.id for run in runs}) == len(runs) == 9
    assert [run.title.removeprefix("dtd, ") for run in runs][4:8] == [
        "coop, 1 empty slot, seed 1",  # as many as there are given words
        "coop, 2 random words (draw 1), seed 1",
        "coop, 2 random words (draw 2), seed 1",
        "coop, given words (sand), seed 1",
    ]
    assert [run.id.rpartition("-seed")[0].removeprefix("dtd-") for run in runs] == [
        "linear-probe-0w",
        "words-only-2w",
        "coop-0w",
        "coop-2w-empty",
        "coop-1w-empty",
        "coop-2w-random1",
        "coop-2w-random2",
        "coop-1w-given",
        "coop-2w",
    ]
    for run in runs:
        assert Run.from_dict(run.as_dict()) == run
        assert bool(run.pool_sha256) == (run.arm in ("words-only", "random", "words"))
    # settings that an arm does not depend on make no other run
    searched = expand(plan(arms=arms, words=2, seeds=1, draws=2, given="sand", search="exhaustive"))
    same = [run.arm for run, other in zip(runs, searched, strict=True) if run.id == other.id]
    assert same == ["linear-probe", "plain", "empty", "empty", "given"]


def test_titles_say_what_differs_where_they_would_be_the_same() -> None:
    short, long = (only(words=1, interval=interval) for interval in (5, 10))
    other = only(words=0)
    titles = titles_of([short, other, long])
    assert titles[long.id] == "dtd, coop, 1 word, seed 1, interval 10"
    assert titles[other.id] == other.title == "dtd, coop, no words, seed 1"
