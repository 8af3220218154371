"""Options and arguments that several commands share.

The options that are fields of FitConfig are derived from it in `cli/config_options.py`; those that
are declared here have no such field, or belong to commands that take only a few of them.
"""

from __future__ import annotations

import typer

OUTPUT = "Output"  # a group of the help
QUIET = typer.Option(
    False, "--quiet", "-q", help="Print no progress on standard error.", rich_help_panel=OUTPUT
)
JSON = typer.Option(
    False, "--json", help="Print one JSON object instead of text.", rich_help_panel=OUTPUT
)
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
    False, "--no-cache", help="Compute everything anew and keep nothing (see: ipl list cache)."
)
BACKBONE_HELP = "pocket (bundled), a Hugging Face name or folder, or open_clip:MODEL/WEIGHTS."
BACKBONE = typer.Option("pocket", "--backbone", help=BACKBONE_HELP)
LOG_TO = typer.Option(
    [],
    "--log-to",
    metavar="NAME:TARGET",
    help="Log each run to tensorboard:DIR, wandb:PROJECT or a logger of your own; repeatable.",
    rich_help_panel=OUTPUT,
)

# The images that `fit` and `select` read.
DATA_HELP = (
    "A folder with one sub-folder per class, or with one of CoOp's split files; or a CSV, TSV or "
    "JSONL file: path,label[,split]."
)
DATA = typer.Argument(metavar="DATA", help=DATA_HELP)
OPTIONAL_DATA = typer.Argument(None, metavar="DATA", help=DATA_HELP)

# A saved run, for `predict`, `export`, `report`, `serve` and others.
RUN = typer.Argument(metavar="RUN", help="A folder that `ipl fit` saved, or owner/name on the hub.")
CLASSES = typer.Option(None, help='Other classes: "a,b,c", or a file with a name per line.')
WORDS_FILE = typer.Option(
    None, "--words-file", help="The list of words that the run chose from, if it had its own."
)
OVERWRITE = typer.Option(False, "--overwrite", help="Replace a file that exists.")
MOVED_BACKBONE = typer.Option(
    None, "--backbone", help="Where the backbone's weights are now (default: as saved)."
)
ANY_BACKBONE = typer.Option(
    False, "--any-backbone", help="Allow weights that the prompt was not trained on."
)
