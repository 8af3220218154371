"""The paper's numbers agree with each other as far as they can be recomputed."""

from __future__ import annotations

from statistics import mean

import pytest

from ipl.bench.protocols.registry import find_protocol
from ipl.bench.tables import paper
from ipl.metrics import harmonic_mean
from ipl.words.template import DEFAULT_TEMPLATE

HUNDREDTH = 0.0101  # numbers were rounded before and after


@pytest.mark.parametrize("row", paper.BASE_TO_NOVEL, ids=str)
def test_hm_is_the_one_of_the_averages(row: tuple[str, bool]) -> None:
    base, novel, hm = paper.BASE_TO_NOVEL[row]
    assert harmonic_mean(base, novel) == pytest.approx(hm, abs=HUNDREDTH)


@pytest.mark.parametrize("row", paper.PER_SET, ids=str)
def test_the_averages_of_coop_come_from_its_sets(row: tuple[str, bool]) -> None:
    sets = paper.PER_SET[row]
    assert tuple(sets) == paper.ELEVEN
    base, novel = (mean(values) for values in zip(*sets.values(), strict=True))
    assert (base, novel) == pytest.approx(paper.BASE_TO_NOVEL[row][:2], abs=0.00501)
    assert harmonic_mean(base, novel) == pytest.approx(paper.BASE_TO_NOVEL[row][2], abs=HUNDREDTH)


def test_all_rows_are_there() -> None:
    five = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")
    assert set(paper.BASE_TO_NOVEL) == {
        ("zero-shot", False),
        *((name, words) for name in five for words in (False, True)),
    }
    three = {(name, words) for name in ("coop", "cocoop", "maple") for words in (False, True)}
    assert set(paper.CROSS_DATASET) == set(paper.DOMAIN) == three


def test_words_help_across_data_sets_and_domains_in_the_paper() -> None:
    for numbers in (paper.CROSS_DATASET, paper.DOMAIN):
        gains = [numbers[name, True] - numbers[name, False] for name, words in numbers if words]
        assert all(0 < gain < 2 for gain in gains)


def test_every_set_has_its_k_its_words_and_its_size() -> None:
    assert set(paper.WORDS) == set(paper.CHOSEN) == set(paper.LAMBDA) == set(paper.ELEVEN)
    assert {name: len(words) for name, words in paper.CHOSEN.items()} == paper.WORDS
    assert len(paper.TARGETS) == 10
    assert paper.VARIANTS == ("imagenetv2", "imagenet_sketch", "imagenet_a", "imagenet_r")
    assert paper.LAMBDA["oxford_pets"] == paper.LAMBDA["oxford_flowers"] == 0.2
    assert sorted(set(paper.LAMBDA.values())) == [0.1, 0.2]


def test_the_sizes_are_the_published_ones() -> None:
    tested = {name: images for name, (_, images) in paper.SIZES.items()}
    assert tested == {
        "imagenet": 50_000,
        "caltech101": 2_465,
        "oxford_pets": 3_669,
        "stanford_cars": 8_041,
        "oxford_flowers": 2_463,
        "food101": 30_300,
        "fgvc_aircraft": 3_333,
        "sun397": 19_850,
        "dtd": 1_692,
        "eurosat": 8_100,
        "ucf101": 3_783,
        "imagenetv2": 10_000,
        "imagenet_sketch": 50_889,
        "imagenet_a": 7_500,
        "imagenet_r": 30_000,
    }
    classes = [count for count, _ in paper.SIZES.values()]
    assert classes == [1000, 100, 37, 196, 102, 101, 100, 397, 47, 10, 101, 1000, 1000, 200, 200]


def test_the_sentence_of_the_search_is_the_papers_first() -> None:
    assert paper.TEMPLATES[0] == DEFAULT_TEMPLATE


def test_lookups() -> None:
    assert find_protocol("base-to-novel").paper_average("maple", True) == {
        "base": 83.51,
        "novel": 74.85,
        "hm": 78.94,
    }
    assert find_protocol("domain").paper_average("cocoop", False) == {"accuracy": 59.91}
    assert find_protocol("domain").paper_average("kgcoop", False) is None
    assert find_protocol("base-to-novel").paper_average("mine", True) is None
    found = find_protocol("base-to-novel").paper_results("coop", True, "oxford_pets")
    assert found is not None
    assert found["hm"] == pytest.approx(2 * 95.48 * 96.50 / (95.48 + 96.50))
    assert find_protocol("base-to-novel").paper_results("maple", True, "oxford_pets") is None
    assert find_protocol("cross-dataset").paper_results("coop", True, "oxford_pets") is None
