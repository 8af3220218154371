"""Where pictures come from: class names and lists of (path, label), and nothing about models."""

from ipl.datasets.dataset import Dataset, Item, check_class_names, clean_class_name
from ipl.datasets.fewshot import check_draw, sample_shots, split_base_novel
from ipl.datasets.images import UnreadableImageError, open_image
from ipl.datasets.readers import read_dataset, read_folder, read_table
from ipl.datasets.scenes_set import scenes_dataset

__all__ = [
    "Dataset",
    "Item",
    "UnreadableImageError",
    "check_class_names",
    "check_draw",
    "clean_class_name",
    "open_image",
    "read_dataset",
    "read_folder",
    "read_table",
    "sample_shots",
    "scenes_dataset",
    "split_base_novel",
]
