"""A worker process: reads runs as lines of JSON, answers with their records.

Lines in: the environment first, then runs. Lines out: {"ready"}, {"note"}, {"record"}, or
{"refused"} for an error that every run would meet. When the input ends, the worker ends.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import IO, Any

import torch

from ipl.bench.engines.forwarding_reporter import ForwardingReporter
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import IplError


def main() -> None:
    """Does runs until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin, lines), daemon=True).start()
    environment = RunEnvironment(**json.loads(lines.get()))
    _set_threads()
    runner = Runner(environment, ForwardingReporter(lambda text: _answer(answers, {"note": text})))
    _answer(answers, {"ready": os.getpid()})
    while True:
        values = json.loads(lines.get())
        try:
            run = Run.from_dict(values)
            runner.backbone(run)
        except IplError as error:  # a missing backbone, device or learner: no run can be done
            _answer(answers, {"refused": str(error)})
            continue
        _answer(answers, {"record": runner.record(run)})


def _listen(source: IO[str], lines: queue.Queue[str]) -> None:
    for line in source:
        lines.put(line)
    os._exit(1)  # at once, in the middle of whatever is computed


def _answer(answers: IO[str], value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def _set_threads() -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))


if __name__ == "__main__":
    main()
