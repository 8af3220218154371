"""The published datasets: their folders, sizes and hand-written prompts."""

from __future__ import annotations

from dataclasses import dataclass

PHOTO = "a photo of a {}."
# Where CoOp links its split files and ImageNet's classnames.txt.
SPLITS_HOME = "https://github.com/KaiyangZhou/CoOp/blob/main/DATASETS.md"


@dataclass(frozen=True)
class Benchmark:
    """One published dataset in CoOp's folder layout."""

    name: str
    title: str
    folder: str  # below the root of all datasets
    images: str  # below `folder`; "" is the folder itself
    classes: int
    test_images: int
    home: str  # where the images can be downloaded
    template: str = PHOTO  # the hand-written prompt
    split_file: str | None = None  # below `folder`
    layout: str = "split"  # split, aircraft, imagenet, by-wnid or by-number
    teacher: str | None = None  # the prompt of KgCoOp's teacher, if it is another

    @property
    def teacher_template(self) -> str:
        """Returns the hand-written prompt that a learner is kept close to."""
        return self.teacher or self.template

    @property
    def has_lists(self) -> bool:
        """Returns whether files list the images; otherwise class folders contain them."""
        return self.layout in ("split", "aircraft")

    @property
    def is_variant(self) -> bool:
        """Returns whether this is a variant of ImageNet, with test images only."""
        return self.layout in ("by-wnid", "by-number")


@dataclass(frozen=True)
class DomainSet:
    """A published dataset of the same classes in several domains: folder/domain/class/image."""

    name: str
    title: str
    classes: int
    images: dict[str, int]  # by domain
    home: str


def _oxford(page: str) -> str:
    return f"https://www.robots.ox.ac.uk/~vgg/data/{page}/"


_ALL = (
    Benchmark(
        name="imagenet",
        title="ImageNet",
        folder="imagenet",
        images="images",
        classes=1000,
        test_images=50_000,
        home="https://image-net.org",
        layout="imagenet",
    ),
    Benchmark(
        name="caltech101",
        title="Caltech101",
        folder="caltech-101",
        images="101_ObjectCategories",
        classes=100,
        test_images=2_465,
        home="https://data.caltech.edu/records/mzrjq-6wc02",
        split_file="split_zhou_Caltech101.json",
    ),
    Benchmark(
        name="oxford_pets",
        title="OxfordPets",
        folder="oxford_pets",
        images="images",
        classes=37,
        test_images=3_669,
        home=_oxford("pets"),
        template="a photo of a {}, a type of pet.",
        split_file="split_zhou_OxfordPets.json",
    ),
    Benchmark(
        name="stanford_cars",
        title="StanfordCars",
        folder="stanford_cars",
        images="",
        classes=196,
        test_images=8_041,
        home="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        split_file="split_zhou_StanfordCars.json",
    ),
    Benchmark(
        name="oxford_flowers",
        title="Flowers102",
        folder="oxford_flowers",
        images="jpg",
        classes=102,
        test_images=2_463,
        home=_oxford("flowers/102"),
        template="a photo of a {}, a type of flower.",
        split_file="split_zhou_OxfordFlowers.json",
    ),
    Benchmark(
        name="food101",
        title="Food101",
        folder="food-101",
        images="images",
        classes=101,
        test_images=30_300,
        home="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        template="a photo of {}, a type of food.",
        split_file="split_zhou_Food101.json",
    ),
    Benchmark(
        name="fgvc_aircraft",
        title="FGVCAircraft",
        folder="fgvc_aircraft",
        images="images",
        classes=100,
        test_images=3_333,
        home=_oxford("fgvc-aircraft"),
        template="a photo of a {}, a type of aircraft.",
        layout="aircraft",
    ),
    Benchmark(
        name="sun397",
        title="SUN397",
        folder="sun397",
        images="SUN397",
        classes=397,
        test_images=19_850,
        home="https://vision.princeton.edu/projects/2010/SUN/",
        split_file="split_zhou_SUN397.json",
    ),
    Benchmark(
        name="dtd",
        title="DTD",
        folder="dtd",
        images="images",
        classes=47,
        test_images=1_692,
        home=_oxford("dtd"),
        template="{} texture.",
        split_file="split_zhou_DescribableTextures.json",
        teacher="a photo of a {}, a type of texture.",
    ),
    Benchmark(
        name="eurosat",
        title="EuroSAT",
        folder="eurosat",
        images="2750",
        classes=10,
        test_images=8_100,
        home="https://github.com/phelber/EuroSAT",
        template="a centered satellite photo of {}.",
        split_file="split_zhou_EuroSAT.json",
    ),
    Benchmark(
        name="ucf101",
        title="UCF101",
        folder="ucf101",
        images="UCF-101-midframes",
        classes=101,
        test_images=3_783,
        home=SPLITS_HOME,  # the middle frames of the videos, made for CoOp
        template="a photo of a person doing {}.",
        split_file="split_zhou_UCF101.json",
    ),
    Benchmark(
        name="imagenetv2",
        title="ImageNetV2",
        folder="imagenetv2",
        images="imagenetv2-matched-frequency-format-val",
        classes=1000,
        test_images=10_000,
        home="https://github.com/modestyachts/ImageNetV2",
        layout="by-number",
    ),
    Benchmark(
        name="imagenet_sketch",
        title="ImageNet-Sketch",
        folder="imagenet-sketch",
        images="images",
        classes=1000,
        test_images=50_889,
        home="https://github.com/HaohanWang/ImageNet-Sketch",
        layout="by-wnid",
    ),
    Benchmark(
        name="imagenet_a",
        title="ImageNet-A",
        folder="imagenet-adversarial",
        images="imagenet-a",
        classes=200,
        test_images=7_500,
        home="https://github.com/hendrycks/natural-adv-examples",
        layout="by-wnid",
    ),
    Benchmark(
        name="imagenet_r",
        title="ImageNet-R",
        folder="imagenet-rendition",
        images="imagenet-r",
        classes=200,
        test_images=30_000,
        home="https://github.com/hendrycks/imagenet-r",
        layout="by-wnid",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}

DOMAIN_SETS: dict[str, DomainSet] = {
    "pacs": DomainSet(
        name="pacs",
        title="PACS",
        classes=7,
        images={"photo": 1_670, "art_painting": 2_048, "cartoon": 2_344, "sketch": 3_929},
        home="https://dali-dl.github.io/project_iccv2017.html",
    )
}


def template_of(name: str) -> str:
    """Returns a dataset's hand-written prompt with {} for the class, "a photo of a {}." if none."""
    return BENCHMARKS[name].template if name in BENCHMARKS else PHOTO


def teacher_template_of(name: str) -> str:
    """Returns the hand-written prompt that a learner is kept close to on this dataset."""
    return BENCHMARKS[name].teacher_template if name in BENCHMARKS else PHOTO
