"""How methods are compared: the same pictures, the same seeds, the same measure."""

from ipl.protocols.base_to_novel import (
    BaseToNovel,
    Method,
    Outcome,
    base_to_novel,
    harmonic_mean,
    mean_and_spread,
)
from ipl.protocols.bench import Bench, Place
from ipl.protocols.engines import ENGINES, Engine, LocalEngine, make_engine
from ipl.protocols.engines.spread import spread_over_ray
from ipl.protocols.found import Found, find_datasets
from ipl.protocols.grid import GridResult, run_grid
from ipl.protocols.plan import PLANNED, ZERO_SHOT, Plan
from ipl.protocols.records import (
    DONE,
    FAILED,
    Records,
    read_record,
    read_records,
    record_path,
    write_record,
)
from ipl.protocols.runs import Run, expand, titles_of
from ipl.protocols.zero_shot import ZERO_SHOT_TEMPLATE, zero_shot_accuracy

__all__ = [
    "DONE",
    "ENGINES",
    "FAILED",
    "PLANNED",
    "ZERO_SHOT",
    "ZERO_SHOT_TEMPLATE",
    "BaseToNovel",
    "Bench",
    "Engine",
    "Found",
    "GridResult",
    "LocalEngine",
    "Method",
    "Outcome",
    "Place",
    "Plan",
    "Records",
    "Run",
    "base_to_novel",
    "expand",
    "find_datasets",
    "harmonic_mean",
    "make_engine",
    "mean_and_spread",
    "read_record",
    "read_records",
    "record_path",
    "run_grid",
    "spread_over_ray",
    "titles_of",
    "write_record",
    "zero_shot_accuracy",
]
