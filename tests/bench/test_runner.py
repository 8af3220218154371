"""One run and its record: the numbers of a fit by hand, and what is missing said by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.protocols.base_to_novel import base_shots
from ipl.bench.records import RunRecord
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.classifier import PromptClassifier
from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.fewshot import split_base_novel
from ipl.support.errors import BackboneError
from ipl.words.pool import Pool

Runs = Callable[..., tuple[Run, ...]]
NAMES = """format id status error protocol dataset learner words seed shots settings backbone data
chosen prompt accuracy history selection seconds peak_memory profile versions device time"""


def done(environment: RunEnvironment, *runs: Run) -> list[dict[str, Any]]:
    runner = Runner(environment)
    records = [json.loads(json.dumps(runner.execute(run).as_dict())) for run in runs]
    assert [record["error"] for record in records] == [None] * len(records)
    json.dumps(records, allow_nan=False)
    return records


def losses(record: dict[str, Any]) -> list[float]:
    return [epoch["loss"] for epoch in record["history"]["epochs"]]


def test_a_record_holds_the_numbers_of_a_fit_by_hand(
    environment: RunEnvironment, runs: Runs, root: Path, pocket: Backbone
) -> None:
    plain, worded = done(environment, *runs())
    dataset = read_benchmark("eurosat", root)
    base, novel = split_base_novel(dataset)
    for record, words in ((plain, 0), (worded, 1)):
        pool, _ = Pool.from_file(root / "words.txt", pocket.tokenizer)
        by_hand = PromptClassifier(
            pocket,
            learner="coop",
            words=words,
            shots=2,
            epochs=2,
            interval=1,
            views=0,
            pool=pool,
            head=False,
            utility="paper",
            cache=False,
        )
        by_hand.fit(base_shots(dataset, 2, 1), validation_fraction=0)
        assert set(record) >= set(NAMES.split())
        assert record["accuracy"] == {
            "base": by_hand.score(base),
            "novel": by_hand.with_classes(novel).score(novel),
        }
        assert record["chosen"] == by_hand.words_
        assert record["prompt"] == by_hand.prompt_
        assert losses(record) == [epoch.loss for epoch in by_hand.result_.history.epochs]
        assert (record["selection"] is None) == (words == 0)
        assert record["settings"]["batch"] == by_hand.result_.training["batch"]
        assert record["backbone"]["weights_sha256"] == pocket.weights_sha256
        assert record["backbone"]["on_hub"] is False
    assert plain["data"] == worded["data"]
    assert plain["data"]["classes"] == {"base": 3, "novel": 2}
    assert plain["data"]["test_images"] == {"base": 6, "novel": 4}
    assert plain["data"]["train_images"] == 6
    assert plain["peak_memory"] > 0
    assert plain["profile"] is None


def test_a_linear_probe_is_tested_on_the_classes_it_was_trained_on(
    environment: RunEnvironment, runs: Runs, root: Path, pocket: Backbone
) -> None:
    (record,) = done(environment, *runs(arms="linear-probe"))
    dataset, store = read_benchmark("eurosat", root), FeatureStore(pocket)
    training, (base, _) = base_shots(dataset, 2, 1), split_base_novel(dataset)
    shots = store.encode([item.path for item in training.train])
    labels = torch.tensor([item.label for item in training.train])
    probe = fit_linear_probe(shots.features, labels, 3, 1)
    guesses = probe.logits(store.encode([item.path for item in base.test]).features).argmax(1)
    right = [guess == item.label for guess, item in zip(guesses.tolist(), base.test, strict=True)]
    assert record["accuracy"] == {"base": sum(right) / len(right)}
    assert RunRecord.from_dict(record).arm == "linear-probe"


def test_words_only_is_the_sentence_of_the_search_as_a_prompt(
    environment: RunEnvironment, runs: Runs, root: Path, pocket: Backbone
) -> None:
    alone, learnt = done(environment, *runs(arms="words-only,words", words=2))
    base, novel = split_base_novel(read_benchmark("eurosat", root))
    assert alone["chosen"] == learnt["chosen"]
    assert len(alone["chosen"]) == 2
    first, second = alone["chosen"]
    assert alone["prompt"] == f"a photo of a {{}}, with emphasis on: {first}, {second}"
    store = FeatureStore(pocket)
    assert alone["accuracy"] == {
        "base": zero_shot_accuracy(base, store, alone["prompt"]),
        "novel": zero_shot_accuracy(novel, store, alone["prompt"]),
    }
    assert RunRecord.from_dict(alone).arm == "words-only"


def test_records_of_arms_say_what_stood_in_the_slots(
    environment: RunEnvironment, runs: Runs
) -> None:
    arms = runs(arms="empty,random,given,words", words=2, draws=2, given="playfulness, sand")
    records = {run.id: record for run, record in zip(arms, done(environment, *arms), strict=True)}
    read = [RunRecord.from_dict(record) for record in records.values()]
    assert [(one.arm, one.draw) for one in read] == [
        *[("empty", 0), ("random", 1), ("random", 2), ("given", 0), ("words", 0)]
    ]
    empty, first, second, given, words = records.values()
    assert (empty["chosen"], empty["prompt"]) == ([], "[V V] *_* [V V] *_* [V V] {cls}.")
    assert given["chosen"] == ["playfulness", "sand"]
    assert given["prompt"] == "[V V] *playfulness* [V V] *sand* [V V] {cls}."
    for drawn in (first, second):
        one, other = drawn["chosen"]
        assert not {one, other} & set(words["chosen"])
        assert f"*{one}* [V V] *{other}*" in drawn["prompt"]
    assert first["chosen"] != second["chosen"]
    assert [record["selection"] is None for record in records.values()] == [True] * 4 + [False]


def test_with_auto_the_controls_have_as_many_slots_as_the_words(
    environment: RunEnvironment, runs: Runs
) -> None:
    found = runs(arms="empty,random,words", words="auto", draws=1, epochs=6, interval=1)
    empty, drawn, words = done(environment, *found)
    assert len({run.id for run in found}) == 3
    count = len(words["chosen"])
    assert empty["prompt"].count("*_*") == len(drawn["chosen"]) == count


def test_transfer_has_an_accuracy_for_the_source_and_each_target(
    environment: RunEnvironment, runs: Runs, root: Path, pocket: Backbone
) -> None:
    more = {"protocol": "cross-dataset", "source": "eurosat", "datasets": "dtd,pacs/photo"}
    zero, learnt = done(environment, *runs(words=0, arms="zero-shot,plain", **more))
    for record in (zero, learnt):
        assert list(record["accuracy"]) == ["eurosat", "dtd", "pacs/photo"]
        assert record["data"]["classes"] == {"eurosat": 5, "dtd": 4, "pacs/photo": 5}
        assert record["data"]["test_images"] == {"eurosat": 10, "dtd": 8, "pacs/photo": 15}
    assert learnt["data"]["train_images"] == 10
    store = FeatureStore(pocket)
    dtd = read_benchmark("dtd", root)
    assert zero["accuracy"]["dtd"] == zero_shot_accuracy(dtd, store, "{} texture.")


def test_missing_and_unreadable_test_images_are_counted_and_named(
    own_root: Path, runs: Runs
) -> None:
    (own_root / "eurosat/2750/beach/2.png").rename(own_root / "elsewhere.png")
    (own_root / "eurosat/2750/lake/3.png").write_bytes(b"no image")
    (record,) = done(RunEnvironment(str(own_root), device="cpu"), *runs(words=0))
    assert record["data"]["test_images"] == {"base": 5, "novel": 3}
    assert record["data"]["missing_images"] == {"eurosat": 1}
    assert record["data"]["unreadable_images"] == {"base": 0, "novel": 1}
    missing, unreadable = record["notes"]
    assert "beach/2.png" in missing
    assert "lake/3.png" in unreadable


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["beach/0", "beach/1"], "2 of the 6 training images that were drawn cannot be read"),
        (["forest/2", "forest/3", "lake/2", "lake/3"], "none of its test images can be read"),
    ],
)
def test_a_run_that_cannot_be_done_fails_alone(
    own_root: Path, runs: Runs, names: list[str], sentence: str
) -> None:
    for name in names:
        (own_root / "eurosat/2750" / f"{name}.png").write_bytes(b"")
    runner = Runner(RunEnvironment(str(own_root), device="cpu"))
    failed, fine = (runner.execute(run).as_dict() for run in runs(words=0, datasets="eurosat,dtd"))
    assert (failed["status"], fine["status"]) == ("failed", "done")
    assert sentence in failed["error"]
    assert failed["accuracy"] == {}
    assert "Traceback" in failed["traceback"]


def test_a_backbone_or_device_that_is_not_there_is_no_runs_failure(root: Path, runs: Runs) -> None:
    with pytest.raises(BackboneError, match="There is no backbone or folder"):
        Runner(RunEnvironment(str(root), device="cpu")).execute(
            runs(words=0, backbone="nothing")[0]
        )
    run = runs(words=0, precision="bf16")[0]
    with pytest.raises(BackboneError, match="device is 'cuda:77'"):
        Runner(RunEnvironment(str(root), device="cuda:77")).execute(run)


def test_a_prompt_of_a_source_is_trained_once_for_all_that_test_it(
    environment: RunEnvironment, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"source": "pacs/photo", "arms": "words", "words": 1}
    across, other = (
        *runs(protocol="cross-dataset", datasets="dtd", **source),
        *runs(protocol="domain", datasets="pacs/sketch", **source),
    )
    assert across.training == other.training != across.id
    alone = done(environment, other)[0]
    trained, fit = list[object](), PromptClassifier.fit
    monkeypatch.setattr(
        PromptClassifier, "fit", lambda self, *a, **more: (trained.append(a), fit(self, *a, **more))
    )
    _, record = done(replace(environment, prompts=str(tmp_path)), across, other)
    assert len(trained) == 1
    for name in ("accuracy", "chosen", "prompt", "train_accuracy", "selection", "settings"):
        assert record[name] == alone[name]
    assert losses(record) == losses(alone)
    assert [RunRecord.from_dict(record).training] == [path.name for path in tmp_path.iterdir()]


def test_a_copy_of_a_backbone_is_told_by_its_architecture_and_its_hash(
    environment: RunEnvironment, runs: Runs, pocket: Backbone
) -> None:
    (run,) = runs(words=0, arms="zero-shot")
    checked = replace(environment, weights_sha256=pocket.weights_sha256)
    backbone = done(checked, run)[0]["backbone"]
    assert backbone["architecture"].startswith(f"clip, text {pocket.text_layers} x ")
    assert backbone["weights_checked"]
    with pytest.raises(BackboneError, match="--weights-sha256"):
        Runner(replace(environment, weights_sha256="ab" * 32)).execute(run)
