"""One run and its record: the numbers of a fit by hand, and what is missing said by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ipl.bench.runner
from ipl.backbone import encode_images
from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.engines.forwarding_reporter import ForwardingReporter
from ipl.bench.protocols.base_to_novel import base_shots
from ipl.bench.records import RunRecord
from ipl.bench.run import Run, prompts_images
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
    records = [json.loads(json.dumps(runner.record(run))) for run in runs]  # as in a file
    assert [record["error"] for record in records] == [None] * len(records)
    json.dumps(records, allow_nan=False)
    return records


def test_a_record_holds_the_numbers_of_a_fit_by_hand(
    environment: RunEnvironment, runs: Runs, root: Path, pocket: Backbone
) -> None:
    plain, worded = done(environment, *runs())
    dataset = read_benchmark("eurosat", root)
    base, novel = split_base_novel(dataset)
    for record, words in ((plain, 0), (worded, 1)):
        pool, _ = Pool.from_file(root / "words.txt", pocket.tokenizer)
        by_hand = PromptClassifier(
            pocket, words=words, shots=2, epochs=2, interval=1, views=0, pool=pool, cache=False
        )
        by_hand.fit(base_shots(dataset, 2, 1))
        assert set(record) >= set(NAMES.split())
        assert record["accuracy"] == {
            "base": by_hand.score(base),
            "novel": by_hand.with_classes(novel).score(novel),
        }
        assert record["chosen"] == by_hand.words_
        assert record["prompt"] == by_hand.prompt_
        losses = [epoch["loss"] for epoch in record["history"]["epochs"]]
        assert losses == [epoch.loss for epoch in by_hand.result_.history.epochs]
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


def test_known_images_are_told_by_the_names_of_both_halves(
    environment: RunEnvironment, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = lambda backbone, names: (f"All {len(names)} class names are known.",)  # noqa: E731
    monkeypatch.setattr("ipl.bench.runner.note_known_images", note)
    (record,) = done(environment, *runs(arms="zero-shot", words=0))
    assert record["notes"] == ["All 5 class names are known."]  # three base and two novel ones


@pytest.mark.parametrize(
    ("available", "keeps_crops"), [(1 << 40, True), (1 << 40, False), (0, True)]
)
def test_runs_that_prompt_images_open_them_once_if_there_is_memory(
    environment: RunEnvironment,
    runs: Runs,
    available: int,
    keeps_crops: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    plain = encode_images.open_source
    monkeypatch.setattr(
        encode_images, "open_source", lambda source: (opened.append(source), plain(source))[1]
    )
    # Without a cache, so that nothing is resumed.
    environment = replace(environment, cache=False, keeps_crops=keeps_crops)
    wanted = runs(learners="maple", arms="plain,empty", words=1, views=2)
    alone = [done(environment, run)[0] for run in wanted]
    monkeypatch.setattr(ipl.bench.runner, "available_memory", lambda: available)
    opened.clear()
    together = done(environment, *wanted)
    images = 6 + 10  # shots, and test images of both halves
    # For frozen features, and then for the first prompts or, without memory, for all of them.
    assert len(opened) == images * (1 + (2 if not available else not keeps_crops))
    for name in ("accuracy", "train_accuracy", "prompt"):
        assert [record[name] for record in together] == [record[name] for record in alone]
    for first, second in zip(together, alone, strict=True):
        losses = [
            [epoch["loss"] for epoch in each["history"]["epochs"]] for each in (first, second)
        ]
        assert losses[0] == losses[1]


def test_whether_runs_prompt_images(runs: Runs) -> None:
    for learners, expected in (("coop", False), ("coop,maple", True)):
        assert prompts_images(runs(learners=learners, arms="zero-shot,plain")) == expected


def test_the_memory_for_crops_is_divided_by_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipl.bench.runner, "available_memory", lambda: 1600)
    assert [ipl.bench.runner.memory_for_crops(jobs) for jobs in (1, 4)] == [400, 100]


def test_hashes_tell_splits_and_shots_apart(environment: RunEnvironment, runs: Runs) -> None:
    first, same, other = done(environment, *runs(words="0,1"), *runs(words=0, seeds=2, shots=1))
    assert first["data"]["split_sha256"] == same["data"]["split_sha256"]
    assert first["data"]["shots_sha256"] == same["data"]["shots_sha256"]
    assert first["data"]["split_sha256"] == other["data"]["split_sha256"]
    assert first["data"]["shots_sha256"] != other["data"]["shots_sha256"]


def test_hashes_do_not_tell_where_the_data_lies(
    environment: RunEnvironment, own_root: Path, runs: Runs
) -> None:
    (here,) = done(environment, *runs(words=0))
    (there,) = done(RunEnvironment(str(own_root) + "/", device="cpu"), *runs(words=0))
    assert here["data"] == there["data"]


def test_zero_shot_has_the_prompt_of_its_data_set(
    environment: RunEnvironment, runs: Runs, root: Path, pocket: Backbone
) -> None:
    (record,) = done(environment, *runs(datasets="dtd", arms="zero-shot"))
    base, novel = split_base_novel(read_benchmark("dtd", root))
    store = FeatureStore(pocket)
    assert record["accuracy"] == {
        "base": zero_shot_accuracy(base, store, "{} texture."),
        "novel": zero_shot_accuracy(novel, store, "{} texture."),
    }
    assert record["data"]["train_images"] == 0


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
    assert (record["chosen"], record["selection"], record["settings"]) == ([], None, {})
    assert record["data"]["train_images"] == 6
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
    assert [step["word"] for step in alone["selection"]["steps"]] == alone["chosen"]
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
    assert empty["settings"]["empty_slots"] is True
    assert given["settings"]["words_given"] == "playfulness, sand"
    for drawn in (first, second):
        assert len(drawn["chosen"]) == 2
        assert not set(drawn["chosen"]) & set(words["chosen"])
        assert (
            "*".join(["", drawn["chosen"][0], " [V V] ", drawn["chosen"][1], ""])
            in (drawn["prompt"])
        )
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
    assert "1 of 10 test images are missing" in missing
    assert "beach/2.png" in missing
    assert "1 of 4 test images cannot be read" in unreadable
    assert "lake/3.png" in unreadable


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("shot", "2 of the 6 training images that were drawn cannot be read"),
        ("split", "split_zhou_EuroSAT.json"),
        ("tests", "none of its test images can be read"),
    ],
)
def test_a_run_that_cannot_be_done_fails_alone(
    own_root: Path, runs: Runs, damage: str, sentence: str
) -> None:
    folder = own_root / "eurosat"
    if damage == "split":
        (folder / "split_zhou_EuroSAT.json").write_text("{")
    for index in (0, 1) if damage == "shot" else (2, 3):
        for name in ("beach",) if damage == "shot" else ("forest", "lake"):
            if damage != "split":
                (folder / "2750" / name / f"{index}.png").write_bytes(b"")
    runner = Runner(RunEnvironment(str(own_root), device="cpu"))
    failed, fine = (runner.record(run) for run in runs(words=0, datasets="eurosat,dtd"))
    assert (failed["status"], fine["status"]) == ("failed", "done")
    assert sentence in failed["error"]
    assert failed["accuracy"] == {}
    assert "Traceback" in failed["traceback"]


def test_out_of_memory_is_a_failure_with_a_name(
    environment: RunEnvironment, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*arguments: object, **more: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(PromptClassifier, "fit", fit)
    record = Runner(environment).record(runs(words=0)[0])
    assert record["status"] == "failed"
    assert record["error"] == "Out of memory: CUDA out of memory. Tried to allocate 2 GiB"


def test_a_backbone_or_device_that_is_not_there_is_no_runs_failure(root: Path, runs: Runs) -> None:
    with pytest.raises(BackboneError, match="There is no backbone or folder"):
        Runner(RunEnvironment(str(root), device="cpu")).record(runs(words=0, backbone="nothing")[0])
    run = runs(words=0, precision="bf16")[0]
    with pytest.raises(BackboneError, match="device is 'cuda:77'"):
        Runner(RunEnvironment(str(root), device="cuda:77")).record(run)


def test_words_are_searched_once_for_all_learners(environment: RunEnvironment, runs: Runs) -> None:
    first, second = done(environment, *runs(arms="words", words=1, learners="coop,kgcoop"))
    assert first["selection"] == second["selection"]  # with its times: it is the very same


def test_a_profile_on_a_cpu(root: Path, runs: Runs) -> None:
    (record,) = done(
        RunEnvironment(str(root), device="cpu", profile=True), *runs(words=0, epochs=60)
    )
    profile = record["profile"]
    assert profile["source"] == "process"
    assert 0 <= profile["utilisation"]["above_50"] <= 1


def test_a_runner_hands_back_the_classifier_and_takes_datasets_that_were_read(
    runs: Runs, root: Path, tmp_path: Path, pocket: Backbone
) -> None:
    dataset = read_benchmark("eurosat", root)
    runner = Runner(RunEnvironment(str(tmp_path), device="cpu"), datasets={"eurosat": dataset})
    zero_shot, run = runs(words=0, arms="zero-shot,plain")
    assert runner.fit(zero_shot)[1] is None
    record, classifier = runner.fit(run)
    assert classifier is not None
    base, novel = split_base_novel(dataset)
    assert record["accuracy"] == {
        "base": classifier.score(base),
        "novel": classifier.with_classes(novel).score(novel),
    }
    assert classifier.config.epochs == 2
    missing, nothing = runner.fit(runs(words=0, datasets="dtd")[0])
    assert (missing["status"], nothing) == ("failed", None)


def test_zero_shot_by_hand(root: Path, pocket: Backbone) -> None:
    dataset, store = read_benchmark("eurosat", root), FeatureStore(pocket)
    texts = pocket.encode_texts([f"a photo of a {name}." for name in dataset.class_names])
    images = store.encode([item.path for item in dataset.test])
    cosines = torch.nn.functional.cosine_similarity(images.features[:, None], texts[None], dim=-1)
    labels = torch.tensor([item.label for item in dataset.test])
    expected = (cosines.argmax(1) == labels).float().mean().item()
    assert zero_shot_accuracy(dataset, store) == pytest.approx(expected)


def test_each_run_is_logged_for_itself(
    environment: RunEnvironment, runs: Runs, tmp_path: Path
) -> None:
    logs = f"tensorboard:{tmp_path}"
    runner = Runner(replace(environment, log_to=[logs]))
    for run in runs(arms="zero-shot,words", words=1):
        record = runner.record(run)
        events = EventAccumulator(str(tmp_path / run.id))
        events.Reload()
        accuracies = {name: events.Scalars(f"accuracy/{name}")[0].value for name in ("base", "HM")}
        assert accuracies["base"] == pytest.approx(record["accuracy"]["base"])
        assert 0 <= accuracies["HM"] <= 1
        losses = [event.value for event in events.Scalars("train/loss")] if run.words else []
        epochs = record["history"]["epochs"] if run.words else []
        assert losses == pytest.approx([epoch["loss"] for epoch in epochs])
        saved = json.loads((tmp_path / run.id / "record.json").read_text())
        assert saved["accuracy"] == record["accuracy"]


def test_warnings_are_notes_and_tests_are_progress(
    environment: RunEnvironment,
    runs: Runs,
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A grid shows each note once; the reporter of a run collects warnings and shows none."""
    words, notes = tmp_path / "words.txt", list[str]()
    words.write_text((root / "words.txt").read_text() + "qqqqqqqq\n")
    (run,) = runs(arms="words", words=1, words_file=str(words))
    record = Runner(environment, ForwardingReporter(notes.append)).record(run)
    assert record["error"] is None
    assert len([note for note in record["notes"] if "'qqqqqqqq' is left out" in note]) == 1
    assert "qqqqqqqq" not in capsys.readouterr().err
    assert notes[0].startswith("encoding images")


def test_a_logger_that_fails_is_noted_in_the_record(
    environment: RunEnvironment, runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    logged = replace(environment, log_to=[f"tensorboard:{tmp_path / 'file'}"])
    (record,) = done(logged, *runs(words=0))
    (note,) = [note for note in record["notes"] if "TensorBoardLogger" in note]
    assert "nothing more is logged" in note
