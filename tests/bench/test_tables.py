"""Tables from records: means over seeds, averages over sets, and gaps that are told."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from recorded import paper_records, record, write_records

from ipl.bench.records import read_records
from ipl.bench.tables import paper
from ipl.bench.tables.cells import AVERAGE, Cell
from ipl.bench.tables.result_table import ResultTable, build_tables
from ipl.metrics import harmonic_mean


def tables(tmp_path: Path, *records: dict[str, Any]) -> list[ResultTable]:
    return build_tables(read_records([write_records(tmp_path, *records)])[0])


def one(tmp_path: Path, *records: dict[str, Any]) -> ResultTable:
    (table,) = tables(tmp_path, *records)
    return table


def find(table: ResultTable, dataset: str, label: str) -> Cell:
    (entry,) = [entry for entry in table.of(dataset) if entry.arm.label == label]
    return entry


def test_the_paper_reproduces_itself(tmp_path: Path) -> None:
    table = one(tmp_path, *paper_records(words=0), *paper_records(words="auto"))
    assert table.datasets == paper.ELEVEN
    assert [arm.label for arm in table.arms] == ["CoOp", "CoOp + IPL"]
    assert table.notes == ()
    for entry in table.entries:
        assert entry.comparable, (entry.dataset, entry.differs, entry.gaps)
        assert entry.paper is not None
        for measure, number in entry.numbers.items():
            assert number.mean == pytest.approx(entry.paper[measure], abs=0.0101)
    average = find(table, AVERAGE, "CoOp + IPL")
    assert average.numbers["base"].std == pytest.approx(0.5)
    assert average.seeds == (1, 2, 3)


def test_means_and_deviations_by_hand(tmp_path: Path) -> None:
    seen = {1: (0.8, 0.5), 2: (0.9, 0.7), 3: (0.7, 0.3)}
    runs = [record(seed=s, accuracy={"base": b, "novel": n}) for s, (b, n) in seen.items()]
    entry = find(one(tmp_path, *runs), "oxford_pets", "CoOp + IPL")
    base, novel = [80.0, 90.0, 70.0], [50.0, 70.0, 30.0]
    assert entry.numbers["base"].mean == pytest.approx(80)
    assert entry.numbers["base"].std == pytest.approx(statistics.stdev(base))
    assert entry.numbers["hm"].mean == pytest.approx(harmonic_mean(80, 50))
    each = [harmonic_mean(b, n) for b, n in zip(base, novel, strict=True)]
    assert entry.numbers["hm"].std == pytest.approx(statistics.stdev(each))


def test_the_average_has_the_hm_of_the_averages(tmp_path: Path) -> None:
    table = one(
        tmp_path,
        record("oxford_pets", accuracy={"base": 0.9, "novel": 0.9}),
        record("eurosat", accuracy={"base": 0.9, "novel": 0.1}),
    )
    average = find(table, AVERAGE, "CoOp + IPL")
    assert average.numbers["hm"].mean == pytest.approx(harmonic_mean(90, 50))
    assert average.numbers["hm"].mean != pytest.approx((90 + harmonic_mean(90, 10)) / 2)
    assert average.numbers["base"].std is None  # a single seed deviates from nothing


def test_the_deviation_of_an_average_is_over_seeds(tmp_path: Path) -> None:
    runs = [
        record(name, seed=seed, accuracy={"base": base, "novel": 0.5})
        for name, bases in (("eurosat", (0.5, 0.7)), ("oxford_pets", (0.9, 0.7)))
        for seed, base in enumerate(bases, 1)
    ]
    average = find(one(tmp_path, *runs), AVERAGE, "CoOp + IPL")
    assert average.numbers["base"].mean == pytest.approx(70)
    assert average.numbers["base"].std == pytest.approx(0)  # both seeds average 70


def test_what_failed_or_was_not_run_is_told(tmp_path: Path) -> None:
    runs = [record(name, seed=seed) for name in ("eurosat", "oxford_pets") for seed in (1, 2, 3)]
    runs[1] = record("eurosat", seed=2, error="Out of memory.")
    del runs[5]
    runs.append(record("dtd", words=0, seed=1))
    table = one(tmp_path, *runs)
    assert find(table, "eurosat", "CoOp + IPL").gaps == (
        "2 of 3 seeds (seed 2 failed: Out of memory.)",
    )
    assert find(table, "oxford_pets", "CoOp + IPL").gaps == ("2 of 3 seeds (not run: seed 3)",)
    missing = find(table, "dtd", "CoOp + IPL")
    assert missing.numbers == {}
    assert missing.gaps == ("0 of 3 seeds (not run: seed 1, 2, 3)",)
    assert find(table, AVERAGE, "CoOp + IPL").gaps == (
        "2 of 3 datasets (without dtd)",
        "with fewer seeds on oxford_pets, eurosat",
    )
    assert not any(entry.comparable for entry in table.entries)


def test_more_seeds_elsewhere_are_a_gap_but_no_other_setting(tmp_path: Path) -> None:
    runs = [record("oxford_pets", seed=seed) for seed in (1, 2, 3)]
    table = one(tmp_path, *runs, *(record("eurosat", seed=seed) for seed in (1, 2, 3, 4)))
    pets, eurosat = (find(table, name, "CoOp + IPL") for name in ("oxford_pets", "eurosat"))
    assert pets.gaps == ("3 of 4 seeds (not run: seed 4)",)
    assert pets.comparable  # seeds 1 to 3 are the paper's
    assert eurosat.differs == ("the seeds are 1, 2, 3, 4, not 1, 2, 3",)


def test_different_settings_are_different_rows(tmp_path: Path) -> None:
    runs = [record(seed=seed, lr=lr) for seed in (1, 2) for lr in (0.01, 0.002)]
    runs += [record(words=0), record(words=3), record(backbone="pocket", lr=0.002)]
    labels = [arm.label for arm in one(tmp_path, *runs).arms]
    name = "openai/clip-vit-base-patch16"
    assert labels == [
        "CoOp",
        f"CoOp + IPL (lr 0.002, words 3, backbone {name})",
        f"CoOp + IPL (lr 0.002, words auto, backbone {name})",
        "CoOp + IPL (lr 0.002, words auto, backbone pocket)",
        f"CoOp + IPL (lr 0.01, words auto, backbone {name})",
    ]


def test_what_changes_with_the_data_set_is_one_row_and_a_note(tmp_path: Path) -> None:
    table = one(tmp_path, record("oxford_pets", words=3), record("eurosat", words=1))
    assert [arm.label for arm in table.arms] == ["CoOp + IPL"]
    assert table.notes == ()  # so it is in the paper
    odd = one(tmp_path / "odd", record("oxford_pets", epochs=20), record("eurosat", epochs=40))
    assert [arm.label for arm in odd.arms] == ["CoOp + IPL"]
    assert odd.notes == (
        "CoOp + IPL has different epochs for datasets (40: eurosat; 20: oxford_pets).",
    )


def test_order_and_titles(tmp_path: Path) -> None:
    learners = ("promptsrc", "maple", "zero-shot", "kgcoop", "coop", "cocoop")
    table = one(tmp_path, *(record(learner=name, words=0) for name in learners))
    assert [arm.label for arm in table.arms] == [
        "zero-shot CLIP",
        "CoOp",
        "CoCoOp",
        "KgCoOp",
        "MaPLe",
        "PromptSRC",
    ]


def across(seed: int, words: int | str, shift: float, **more: Any) -> dict[str, Any]:
    targets = dict.fromkeys(paper.TARGETS, 0.6 + shift)
    return record("imagenet", "coop", words, seed, {"imagenet": 0.7, **targets}, **more)


def test_across_data_sets(tmp_path: Path) -> None:
    runs = [
        across(seed, words, shift + (words != 0) * 0.02, protocol="cross-dataset")
        for seed, shift in ((1, 0.0), (2, 0.01), (3, 0.02))
        for words in (0, "auto")
    ]
    table = one(tmp_path, *runs)
    assert (table.source, table.datasets) == ("imagenet", paper.ELEVEN)
    assert table.averaged == paper.TARGETS
    average = find(table, AVERAGE, "CoOp + IPL")
    assert average.numbers["accuracy"].mean == pytest.approx(63)  # the source's 70 stays out
    assert average.numbers["accuracy"].std == pytest.approx(1)
    assert average.comparable
    assert average.paper == {"accuracy": 65.36}
    (gain,) = table.gains
    assert gain.tests["accuracy"].pairs == 30
    assert gain.tests["accuracy"].difference == pytest.approx(2)


def test_every_source_and_protocol_has_its_table(tmp_path: Path) -> None:
    domains = {"pacs/photo": 0.9, "pacs/sketch": 0.5, "pacs/cartoon": 0.4}
    found = tables(
        tmp_path,
        record("pacs/photo", accuracy=domains, protocol="domain"),
        record("pacs/sketch", accuracy=domains, protocol="domain"),
        record(),
        across(1, 0, 0, protocol="cross-dataset"),
    )
    assert [(table.protocol, table.source) for table in found] == [
        ("base-to-novel", None),
        ("cross-dataset", "imagenet"),
        ("domain", "pacs/photo"),
        ("domain", "pacs/sketch"),
    ]
    average = find(found[2], AVERAGE, "CoOp + IPL")
    assert average.numbers["accuracy"].mean == pytest.approx(45)
    assert average.differs[0] == "the paper's source is imagenet, not pacs/photo"


def test_a_run_across_data_sets_that_failed_leaves_its_targets(tmp_path: Path) -> None:
    failed = across(1, 0, 0, protocol="cross-dataset", error="The disk is full.")
    table = one(tmp_path, failed)
    assert table.datasets == paper.ELEVEN
    assert find(table, "dtd", "CoOp").gaps == ("0 of 1 seeds (seed 1 failed: The disk is full.)",)


def test_a_run_that_failed_before_the_weights_were_read_is_in_its_row(tmp_path: Path) -> None:
    failed = record(seed=1, error="The backbone is gone.")
    failed["backbone"]["weights_sha256"] = None
    table = one(tmp_path, failed, record(seed=2), *(record(words=0, seed=s) for s in (1, 2)))
    assert [arm.label for arm in table.arms] == ["CoOp", "CoOp + IPL"]
    assert len(table.gains) == 1


def test_other_weights_under_the_same_name_are_another_row(tmp_path: Path) -> None:
    other = record(seed=2)
    other["backbone"]["weights_sha256"] = "cd" * 32
    labels = [arm.label for arm in one(tmp_path, record(seed=1), other).arms]
    assert labels == ["CoOp + IPL (weights abababab)", "CoOp + IPL (weights cdcdcdcd)"]


def test_data_that_the_bundled_backbone_has_seen_is_named(tmp_path: Path) -> None:
    runs = [record(name, backbone="pocket") for name in ("eurosat", "dtd")]
    (note,) = one(tmp_path / "pocket", *runs).notes
    assert "trained with images and class names of eurosat:" in note
    assert one(tmp_path / "other", record("eurosat")).notes == ()
    assert one(tmp_path / "unseen", record("dtd", backbone="pocket")).notes == ()


def test_test_images_that_were_left_out_are_told(tmp_path: Path) -> None:
    run = record("oxford_pets")
    run["data"] |= {
        "missing_images": {"oxford_pets": 7},
        "unreadable_images": {"base": 0, "novel": 2},
    }
    assert one(tmp_path, run).notes == (
        "7 test images of oxford_pets are missing; accuracies are over the rest.",
        "2 test images of oxford_pets (novel) cannot be read; accuracies are over the rest.",
    )
