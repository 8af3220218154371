"""Domain generalisation: train on a source, test on the same classes in other domains."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ipl.bench import paper_numbers as paper
from ipl.bench.protocols.cross_dataset import CrossDataset
from ipl.bench.protocols.protocol import Values
from ipl.datasets.benchmark_readers import check_same_classes, list_domains
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import Dataset
from ipl.support.errors import DataError

# Variants that have fewer classes than the dataset they vary, and are tested over their own.
OWN_CLASSES = ("imagenet_a", "imagenet_r")


class DomainGeneralization(CrossDataset):
    """Trains on a source; measures the accuracy on it and on other domains of its classes."""

    name = "domain"
    title = "Domain generalisation, trained on {}"
    targets = paper.VARIANTS

    def candidates(self, source: str | None, root: Path) -> list[str]:
        """The other domains beside a domain, else the variants of ImageNet."""
        group, slash, _ = (source or "").partition("/")
        if not slash:
            return [n for n, known in BENCHMARKS.items() if known.is_variant and n != source]
        if not os.path.isdir(root / group):
            return []
        names = [f"{group}/{domain}" for domain in list_domains(root / group)]
        return [name for name in names if name != source]

    def check_target(self, source: Dataset, name: str, target: Dataset) -> None:
        """Raises DataError unless a target has the classes of the source."""
        check_same_classes(source, target)
        present = set(target.class_names)
        absent = [class_name for class_name in source.class_names if class_name not in present]
        if absent and name not in OWN_CLASSES:
            raise DataError(
                f"{name} has no class {absent[0]!r}, which {source.name} has ({len(absent)} of "
                f"{len(source.class_names)} are missing); domains must have the same classes."
            )

    def paper_table(self) -> Mapping[paper.Row, Mapping[str, Values]]:
        return paper.domain()
