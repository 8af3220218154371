"""Relevance by people: words rated from 1 to 5 by several, who do not know where they come from.

The page needs the extra `ipl[serve]`; it is in `ipl.rating.app`, so that ratings can be read
without it.
"""

from ipl.rating.alpha import Alpha, krippendorff_alpha
from ipl.rating.make import Making, make_study, read_runs
from ipl.rating.raters import Answer, Rater, Raters
from ipl.rating.results import (
    Agreement,
    Difference,
    RatedList,
    RatedWord,
    Results,
    RunRating,
    ratings_of,
    read_results,
    results,
)
from ipl.rating.sheet import write_sheet
from ipl.rating.study import (
    CHOSEN,
    METHODS,
    PLAIN,
    RANDOM,
    Study,
    default_study,
    fingerprint,
    is_study,
    read_study,
    write_study,
)

__all__ = [
    "CHOSEN",
    "METHODS",
    "PLAIN",
    "RANDOM",
    "Agreement",
    "Alpha",
    "Answer",
    "Difference",
    "Making",
    "RatedList",
    "RatedWord",
    "Rater",
    "Raters",
    "Results",
    "RunRating",
    "Study",
    "default_study",
    "fingerprint",
    "is_study",
    "krippendorff_alpha",
    "make_study",
    "ratings_of",
    "read_results",
    "read_runs",
    "read_study",
    "results",
    "write_sheet",
    "write_study",
]
