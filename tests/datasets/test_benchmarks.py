"""The table of published datasets: sizes, templates and folders as published."""

from __future__ import annotations

from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS, teacher_template_of, template_of

TEST_SIZES = {
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


def test_all_fifteen_with_the_published_test_sizes() -> None:
    assert {name: b.test_images for name, b in BENCHMARKS.items()} == TEST_SIZES
    assert all(name == b.name and b.home.startswith("https://") for name, b in BENCHMARKS.items())
    assert [name for name, b in BENCHMARKS.items() if b.is_variant] == list(TEST_SIZES)[11:]


def test_class_counts() -> None:
    counts = [b.classes for b in BENCHMARKS.values()]
    assert counts == [1000, 100, 37, 196, 102, 101, 100, 397, 47, 10, 101, 1000, 1000, 200, 200]
    assert DOMAIN_SETS["pacs"].classes == 7
    assert sum(DOMAIN_SETS["pacs"].images.values()) == 9_991


def test_templates() -> None:
    own = {name: b.template for name, b in BENCHMARKS.items() if b.template != "a photo of a {}."}
    assert own == {
        "oxford_pets": "a photo of a {}, a type of pet.",
        "oxford_flowers": "a photo of a {}, a type of flower.",
        "fgvc_aircraft": "a photo of a {}, a type of aircraft.",
        "dtd": "{} texture.",
        "eurosat": "a centered satellite photo of {}.",
        "food101": "a photo of {}, a type of food.",
        "ucf101": "a photo of a person doing {}.",
    }
    assert template_of("pacs/photo") == template_of("no such set") == "a photo of a {}."
    other = [name for name in BENCHMARKS if teacher_template_of(name) != template_of(name)]
    assert other == ["dtd"]
    assert teacher_template_of("dtd") == "a photo of a {}, a type of texture."
    assert teacher_template_of("pacs/photo") == "a photo of a {}."


def test_where_the_images_are() -> None:
    assert {b.name: f"{b.folder}/{b.images}".rstrip("/") for b in BENCHMARKS.values()} == {
        "imagenet": "imagenet/images",
        "caltech101": "caltech-101/101_ObjectCategories",
        "oxford_pets": "oxford_pets/images",
        "stanford_cars": "stanford_cars",
        "oxford_flowers": "oxford_flowers/jpg",
        "food101": "food-101/images",
        "fgvc_aircraft": "fgvc_aircraft/images",
        "sun397": "sun397/SUN397",
        "dtd": "dtd/images",
        "eurosat": "eurosat/2750",
        "ucf101": "ucf101/UCF-101-midframes",
        "imagenetv2": "imagenetv2/imagenetv2-matched-frequency-format-val",
        "imagenet_sketch": "imagenet-sketch/images",
        "imagenet_a": "imagenet-adversarial/imagenet-a",
        "imagenet_r": "imagenet-rendition/imagenet-r",
    }
