"""Where pictures come from: class names and lists of (path, label), and nothing about models."""

from ipl.datasets.archive import unpack
from ipl.datasets.benchmarks import (
    BENCHMARKS,
    DOMAIN_SETS,
    Benchmark,
    DomainSet,
    teacher_template_of,
    template_of,
)
from ipl.datasets.check import SetState, check_root
from ipl.datasets.dataset import (
    Dataset,
    Item,
    check_class_names,
    clean_class_name,
    read_alike,
)
from ipl.datasets.domains import check_same_classes
from ipl.datasets.fewshot import check_draw, sample_shots, split_base_novel
from ipl.datasets.images import Picture, UnreadableImageError, open_image, small_jpeg
from ipl.datasets.presence import check_files, missing_files
from ipl.datasets.published import check_name, read_benchmark
from ipl.datasets.readers import read_dataset, read_folder, read_table
from ipl.datasets.scenes_set import scenes_dataset

__all__ = [
    "BENCHMARKS",
    "DOMAIN_SETS",
    "Benchmark",
    "Dataset",
    "DomainSet",
    "Item",
    "Picture",
    "SetState",
    "UnreadableImageError",
    "check_class_names",
    "check_draw",
    "check_files",
    "check_name",
    "check_root",
    "check_same_classes",
    "clean_class_name",
    "missing_files",
    "open_image",
    "read_alike",
    "read_benchmark",
    "read_dataset",
    "read_folder",
    "read_table",
    "sample_shots",
    "scenes_dataset",
    "small_jpeg",
    "split_base_novel",
    "teacher_template_of",
    "template_of",
    "unpack",
]
