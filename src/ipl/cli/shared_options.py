"""Options and arguments that several commands share.

The options that are fields of FitConfig are derived from it in `cli/config_options.py`; those that
are declared here have no such field, or belong to commands that take only a few of them.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import typer

from ipl.display.formatting import several
from ipl.support.errors import DataError

QUIET = typer.Option(False, "--quiet", "-q", help="Print no progress on standard error.")
JSON = typer.Option(False, "--json", help="Print one JSON object instead of text.")
DEVICE = typer.Option("auto", "--device", help="auto, cpu, cuda, cuda:1, mps.")
HOST = typer.Option(
    "127.0.0.1", "--host", help="Address to listen on; 0.0.0.0 can be reached from other machines."
)
ALLOW_HOST = typer.Option(
    None,
    "--allow-host",
    metavar="NAME",
    help="Another name that requests may use for this machine, such as a proxy's; repeatable; "
    "* allows any.",
)
NO_CACHE = typer.Option(
    False, "--no-cache", help="Compute everything anew and keep nothing (see: ipl cache)."
)
STRICT = typer.Option(False, "--strict", help="Fail on a file that is not an image.")
BACKBONE_HELP = "pocket (bundled), a Hugging Face name or folder, or open_clip:MODEL/WEIGHTS."
BACKBONE = typer.Option("pocket", "--backbone", help=BACKBONE_HELP)
LOG_TO = typer.Option(
    [],
    "--log-to",
    metavar="NAME:TARGET",
    help="Log each run to tensorboard:DIR, wandb:PROJECT or a logger of your own; repeatable.",
)
MEMORY = typer.Option(2.0, "--memory", help="GiB of working memory for the search.")

# The images that `fit` and `select` read.
DATA = typer.Argument(
    metavar="DATA",
    help="A folder with one sub-folder per class, or with one of CoOp's split files; or a "
    "CSV, TSV or JSONL file: path,label[,split].",
)

# The runs of a grid, for `bench` and `ablate`.
ROOT = typer.Option(
    None, "--data", help="The folder that contains the published datasets; your own need none."
)
DATASETS = typer.Option(
    None,
    help="Published names, folders or CSV/JSONL files of your own, with commas; all stands for "
    "every published one whose test images and shots exist.",
)
ARMS = typer.Option(
    None,
    help="What is compared, with commas: zero-shot, linear-probe, words-only (chosen words in a "
    "sentence), plain (the learner), empty (slots without words), random, given, words (default: "
    "zero-shot,plain,empty,random,words).",
)
DRAWS = typer.Option(None, help="Draws of random words for each seed (default: 3).")
GIVEN = typer.Option(
    None,
    help="The words of the arm given: a file with a line `dataset: word, word` for each dataset.",
)
JOBS = typer.Option(
    1, "--jobs", help="Runs at the same time; on a cluster, on each of its GPUs or nodes."
)
ADDRESS = typer.Option(
    None,
    help="Run on the Ray cluster at this address: HOST:PORT, or local to start one here (default: "
    "no Ray, processes of this machine).",
)
RETRY_FAILED = typer.Option(False, "--retry-failed", help="Repeat runs that failed earlier.")
DRY_RUN = typer.Option(False, "--dry-run", help="List the runs without doing them.")

# A saved run, for `predict`, `export`, `report`, `serve` and others.
RUN = typer.Argument(metavar="RUN", help="A folder that `ipl fit` saved, or owner/name on the hub.")
CLASSES = typer.Option(None, help='Other classes: "a,b,c", or a file with a name per line.')
OVERWRITE = typer.Option(False, "--overwrite", help="Replace the file in --out.")
MOVED_BACKBONE = typer.Option(
    None, "--backbone", help="Where the backbone's weights are now (default: as saved)."
)
ANY_BACKBONE = typer.Option(
    False, "--any-backbone", help="Allow weights that the prompt was not trained on."
)


def read_class_names(text: str) -> list[str]:
    """Returns the class names in a file, one per line, or in a text, separated by commas.

    Lines of a file that begin with # are comments. In a text, a name in quotes may contain a comma.
    """
    path = Path(text)
    if os.path.exists(path) and path.is_file():
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The class list {path} cannot be read: {error}.") from None
        names = [line.strip() for line in lines if line.strip()]
        names = [name for name in names if not name.startswith("#")]
        source = f"The class list {path}"
    else:
        source = f"--classes {text!r} is not a file, and"
        try:
            rows = list(csv.reader(text.splitlines(), skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise DataError(f"{source} cannot be read as names: {error}.") from None
        names = [name.strip() for row in rows for name in row]
    if len(names) < 2:
        given = several(len(names), "class", "classes")
        raise DataError(f"{source} gives {given}; at least two are needed.")
    return names
