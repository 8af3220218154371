"""A workbench to open in a browser, with few words to choose from; runs as a script."""

from __future__ import annotations

import sys

from ipl.apps.hosts import address_of, allowed_hosts, listen
from ipl.apps.workbench.app import run_workbench
from ipl.apps.workbench.sessions import Workbench
from ipl.backbone.loading import load_backbone
from ipl.words.pool import Pool

WORDS = ("bright", "dark", "ocean", "sand", "stone", "tower", "wall", "water")


def main() -> None:
    """Prints the address once the page can be opened, and serves it until SIGTERM."""
    pool = Pool.from_words(WORDS, "eight words")
    workbench = Workbench(load_backbone("pocket", "cpu"), pool=pool)
    with listen("127.0.0.1", 0) as bound:
        hosts = allowed_hosts(bound)
        run_workbench(workbench, bound, hosts, lambda: print(address_of(bound), flush=True))
    sys.stdout.write("ended\n")


if __name__ == "__main__":
    main()
