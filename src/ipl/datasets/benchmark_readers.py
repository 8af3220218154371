"""The one entrance to the published datasets, by name."""

from __future__ import annotations

from pathlib import Path

from ipl.datasets.aircraft import read_aircraft
from ipl.datasets.benchmarks import BENCHMARKS, Benchmark
from ipl.datasets.dataset import Dataset
from ipl.datasets.domains import read_domain
from ipl.datasets.imagenet import read_imagenet, read_variant
from ipl.datasets.scenes import kept_scenes
from ipl.datasets.split_file import read_split_set
from ipl.support.errors import ConfigError, DataError, did_you_mean
from ipl.support.files import is_folder


def read_benchmark(name: str, root: str | Path) -> Dataset:
    """Returns a published dataset below `root`, in CoOp's layout; looks at no image.

    A domain is named like `pacs/photo`. `scenes` are the drawn scenes, which lie in the
    folder of the cache and are drawn there if they are not yet.
    """
    check_name(name)
    root = Path(root)
    if name == "scenes":
        return kept_scenes()
    if not is_folder(root):
        raise DataError(f"No such folder: {root}; it should hold the folders of the datasets.")
    try:
        return _read(BENCHMARKS[name], root) if name in BENCHMARKS else read_domain(root, name)
    except PermissionError as error:
        raise DataError(f"No permission to read {error.filename or root}.") from None


def _read(benchmark: Benchmark, root: Path) -> Dataset:
    folder = root / benchmark.folder
    if not is_folder(folder):
        raise DataError(
            f"{benchmark.name}: no folder {folder}; the data is to be had from {benchmark.home}."
        )
    if benchmark.layout == "aircraft":
        return read_aircraft(benchmark, folder)
    if benchmark.layout == "imagenet":
        return read_imagenet(benchmark, folder)
    if benchmark.is_variant:
        return read_variant(benchmark, folder, root)
    return read_split_set(benchmark, folder)


def check_name(name: str) -> None:
    """Raises ConfigError unless this is a dataset's name, or that of a domain: `pacs/photo`."""
    if name in BENCHMARKS or name == "scenes":
        return
    group, slash, domain = name.partition("/")
    if not slash:
        known = did_you_mean(name, [*BENCHMARKS, "scenes"])
        raise ConfigError(f"There is no dataset {name!r}; a domain is named pacs/photo.{known}")
    if any(part in ("", ".", "..") or {*part} & {*"/\\"} for part in (group, domain)):
        raise ConfigError(f"{name!r} is no dataset; a domain is named like pacs/photo.")
