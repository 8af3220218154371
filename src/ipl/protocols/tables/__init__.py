"""Tables of run records, with the paper's numbers beside ours where they may stand there."""

from ipl.protocols.tables.arms import Arm, shown
from ipl.protocols.tables.build import ResultTable, build_tables
from ipl.protocols.tables.entries import AVERAGE, Entry, Number
from ipl.protocols.tables.gains import Gain
from ipl.protocols.tables.pairs import PairedTest, paired_test
from ipl.protocols.tables.results import Result, read_results

__all__ = [
    "AVERAGE",
    "Arm",
    "Entry",
    "Gain",
    "Number",
    "PairedTest",
    "Result",
    "ResultTable",
    "build_tables",
    "paired_test",
    "read_results",
    "shown",
]
