"""What the sub-commands share: options, standard output, and what Ctrl-C says."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ipl.support.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ipl.support.progress import Reporter
    from ipl.words.pool import Pool

QUIET = typer.Option(False, "--quiet", "-q", help="No progress on standard error.")
JSON = typer.Option(False, "--json", help="Print one JSON object instead of text.")
DEVICE = typer.Option("auto", "--device", help="auto, cpu, cuda, cuda:1, mps.")
HOST = typer.Option("127.0.0.1", "--host", help="Address to listen on; others can reach 0.0.0.0.")
BACKBONE_HELP = "pocket (bundled), a Hugging Face name or a model folder."

# What decides which words are chosen: the same options for `fit` and `select`.
DATA = typer.Argument(
    metavar="DATA",
    help="A folder with one sub-folder per class, or with one of CoOp's split files; or a "
    "CSV/JSONL file: path,label[,split].",
)
BACKBONE = typer.Option("pocket", "--backbone", help=BACKBONE_HELP)
SHOTS = typer.Option(16, "--shots", help="Training images per class.")
LAMBDA = typer.Option(0.1, "--lambda", help="Weight of redundancy between words.")
PRESET = typer.Option(
    "paper", "--preset", help="Redundancy: paper (sum of cosines) or reference (their mean)."
)
WORD_EMBEDDING = typer.Option(
    "text",
    "--word-embedding",
    help="What redundancy compares: text (features) or token (embeddings).",
)
TEMPLATE = typer.Option(
    "a photo of a {cls}, with emphasis on: {words}",
    "--template",
    help="The sentence that scores words.",
)
SEARCH = typer.Option(
    "exact",
    "--search",
    help="exact (proved, most words ruled out by bounds), exhaustive (every word scored), "
    "screen or lazy (both approximate).",
)
SHORTLIST = typer.Option(
    1000, "--shortlist", help="With --search screen: how many words are scored exactly."
)
MEMORY = typer.Option(2.0, "--memory", help="GiB of working memory for the search.")
WORDS_FILE = typer.Option(None, "--words-file", help="Choose from your own list of words.")
NO_NAMES = typer.Option(False, "--no-names", help="Leave proper names out of the pool.")
PRECISION = typer.Option("fp32", "--precision", help="fp32, bf16 or fp16; prompts stay fp32.")
NO_CACHE = typer.Option(
    False, "--no-cache", help="Compute everything anew and keep nothing (see: ipl cache)."
)
STRICT = typer.Option(False, "--strict", help="Fail on a file that is not an image.")

# Where the runs of a grid are done: the same options for `bench` and `ablate`.
ROOT = typer.Option(..., "--data", help="The folder that holds the datasets.")
DATASETS = typer.Option(None, help="Names with commas, or all: every one found complete.")
JOBS = typer.Option(1, "--jobs", help="Runs at once; with ray, on each GPU or node.")
ENGINE = typer.Option("local", help="local (this machine) or ray (a cluster).")
ADDRESS = typer.Option(None, help="The Ray cluster to join (default: one is started here).")
RETRY_FAILED = typer.Option(False, "--retry-failed", help="Do runs again that failed earlier.")
DRY_RUN = typer.Option(False, "--dry-run", help="List the runs and do none.")

# What works with a saved prompt: the same for `predict`, `export`, `report` and `serve`.
RUN = typer.Argument(metavar="RUN", help="A folder that `ipl fit` saved, or owner/name on the hub.")
CLASSES = typer.Option(None, help='Other classes: "a,b,c", or a file with a name per line.')
OVERWRITE = typer.Option(False, "--overwrite", help="Replace the file in --out.")
MOVED_BACKBONE = typer.Option(
    None, "--backbone", help="Where the backbone's weights are now (default: as saved)."
)
ANY_BACKBONE = typer.Option(
    False, "--any-backbone", help="Allow weights that the prompt was not made for."
)


def read_class_names(text: str) -> list[str]:
    """Returns the class names in a file, a line each, or in a text, with commas between them.

    Lines of a file that begin with # are comments; in a text a name in quotes may hold a comma.
    """
    from ipl.support.files import path_exists

    path = Path(text)
    if path_exists(path) and path.is_file():
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The class list {path} cannot be read: {error}.") from None
        names = [line.strip() for line in lines if line.strip()]
        names = [name for name in names if not name.startswith("#")]
        given = f"The class list {path}"
    else:
        given = f"--classes {text!r} is no file, and"
        try:
            rows = list(csv.reader(text.splitlines(), skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise DataError(f"{given} cannot be read as names: {error}.") from None
        names = [name.strip() for row in rows for name in row]
    if len(names) < 2:
        raise DataError(f"{given} gives {len(names)} class(es); at least two are needed.")
    return names


def check_new(path: Path, overwrite: bool) -> None:
    """Raises IplError if no file can be written at `path`, or one would be lost by it."""
    from ipl.support.files import check_file_writable, path_exists

    check_file_writable(path)
    if path_exists(path) and not overwrite:
        raise ConfigError(
            f"{path} is there already; choose another file with --out, or replace it with "
            "--overwrite."
        )


def own_pool(
    words_file: Path | None, no_names: bool, tokenizer: Any, reporter: Reporter
) -> Pool | None:
    """Returns the pool that --words-file and --no-names ask for; None is the bundled one."""
    from ipl.words.pool import Pool

    pool = None
    if words_file is not None:
        pool, dropped = Pool.from_file(words_file, tokenizer)
        for drop in dropped:
            reporter.warn(f"{words_file}: {drop.word!r} is left out, it is {drop.reason}.")
    return (pool or Pool.bundled()).without_names() if no_names else pool


def as_number(text: str) -> int | str:
    """Returns a whole number if that is what the text is, else the text."""
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() else text


def out() -> Console:
    """Returns the console of standard output; piped output is not cut to a terminal's width."""
    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, width=width)


def print_json(value: Any) -> None:
    """Prints one JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def typed(*words: str | Path) -> str:
    """Returns a command line that can be typed as it stands."""
    return " ".join([command(), *(shlex.quote(str(word)) for word in words)])


def command() -> str:
    """Returns how to call this program from here: `ipl`, or the path it was started by."""
    if shutil.which("ipl"):
        return "ipl"
    here = Path(sys.argv[0])
    return str(here) if here.name == "ipl" else "python -m ipl"


@contextmanager
def stopping(kept: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C says what was kept and ends with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nstopped: {kept()}", file=sys.stderr)
        raise typer.Exit(130) from None
