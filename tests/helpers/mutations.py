"""Files damaged in many ways, and a process that gives one after the other to commands.

The same number always gives the same damage.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

SECONDS = 30  # until one command counts as hanging; the system then ends the process
LONGEST_MESSAGE = 5000  # characters of a refusal
# What no field expects. Some are larger than what they are put into.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, float("nan")),
    *(
        float("inf"),
        "",
        " ",
        "\0",
        "\ud800",
        "a" * 100_000,
        "../../etc/passwd",
        "/dev/zero",
        "é\u202e",
    ),
    *("{}", "%s%n", "<script>", "=1+1", "1e999", "NaN", "nan", "-1", "999999999", "null", "[]"),
    *([], {}, [[]], [None], [1, 2, 3], {"": ""}, {"a": {"b": []}}, [[[[[[]]]]]], ["x"] * 5000),
)
BYTES = (
    *(
        b"",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x80",
        b"\r",
        b"\n",
        b'"',
        b"'",
        b"{",
        b"}",
        b"[",
    ),
    *(b"]", b",", b":", b"-", b"*a", b"&a", b"!!python/object/apply:os.system [id]", b"<<", b"\t"),
    *(b"9" * 5000, b"[" * 20_000, b"a" * 100_000, b"NaN", b"1e999", b"null", b"\xf0\x9f\x98\x80"),
)


def damage_bytes(data: bytes, chance: random.Random) -> bytes:
    """Returns bytes with one to four damages: other bytes, more, fewer, or in another order."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 2, 4, 16, 256, len(data))))
        piece = data[start:end]
        way = chance.randrange(8)
        if way == 0:
            piece = chance.randbytes(len(piece))
        elif way == 1:
            piece = b""
        elif way == 2:
            piece = piece * chance.choice((2, 3, 50))
        elif way == 3:
            piece = bytes(len(piece))
        elif way == 4:
            piece = piece[::-1]
        elif way == 5:
            piece = chance.choice(BYTES)
        elif way == 6:
            piece = chance.choice(BYTES) + piece
        elif piece:
            piece = bytes([piece[0] ^ 1 << chance.randrange(8)]) + piece[1:]
        data = data[:start] + piece + data[end:]
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data) + 1)]
    return data[:2_000_000]


def damage_values(value: Any, chance: random.Random) -> Any:
    """Returns JSON values of which one to three are others, are missing, or are there twice."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return deepcopy(chance.choice(VALUES))
        holder, key = chance.choice(places)
        way = chance.randrange(6)
        if way == 0:
            del holder[key]
        elif way == 1:
            other, other_key = chance.choice(places)
            if other_key in (other if isinstance(other, dict) else range(len(other))):
                holder[key] = deepcopy(other[other_key])
        elif way == 2 and isinstance(holder, dict):
            holder[str(chance.choice(VALUES))[:1000]] = holder.pop(key)
        elif way == 3 and isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = deepcopy(chance.choice(VALUES))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every (dict or list, key or index) of JSON values."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _damage_json(data: bytes, chance: random.Random) -> bytes:
    text = json.dumps(damage_values(json.loads(data), chance))
    return text.encode("utf-8", "surrogatepass")


def _damage_json_lines(data: bytes, chance: random.Random) -> bytes:
    values = damage_values([json.loads(line) for line in data.splitlines()], chance)
    lines = values if isinstance(values, list) else [values]
    return "\n".join(json.dumps(value) for value in lines).encode("utf-8", "surrogatepass")


def _damage_yaml(data: bytes, chance: random.Random) -> bytes:
    import yaml

    text = yaml.safe_dump(damage_values(yaml.safe_load(data), chance))
    return text.encode("utf-8", "surrogatepass")


def _damage_csv(data: bytes, chance: random.Random) -> bytes:
    rows = damage_values(list(csv.reader(io.StringIO(data.decode()))), chance)
    text = io.StringIO()
    for row in rows if isinstance(rows, list) else [rows]:
        csv.writer(text).writerow(row if isinstance(row, list) else [row])
    return text.getvalue().encode("utf-8", "surrogatepass")


def _damage_safetensors(data: bytes, chance: random.Random) -> bytes:
    """Returns safetensors with another header, whose length is right."""
    length = int.from_bytes(data[:8], "little")
    header = _damage_json(data[8 : 8 + length], chance)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


STRUCTURED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": _damage_json,
    ".jsonl": _damage_json_lines,
    ".yaml": _damage_yaml,
    ".csv": _damage_csv,
    ".safetensors": _damage_safetensors,
}


def damage(data: bytes, suffix: str, number: int) -> bytes:
    """Returns a damaged file; one of two of a known format can still be parsed."""
    chance = random.Random(number)
    structured = STRUCTURED.get(suffix)
    if structured is None or number % 2:
        return damage_bytes(data, chance)
    return structured(data, chance)


def problem(code: Any, err: str) -> str:
    """Returns what is wrong with the end of a command; "" for a result or one sentence."""
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if len(err) > LONGEST_MESSAGE + 200 * err.count("warning: "):
        return f"a message of {len(err):,} characters"
    refusals = [line for line in err.splitlines() if line.startswith("error: ")]
    if code == 2 and len(refusals) != 1:
        return f"{len(refusals)} refusals"
    return ""


def run_command(arguments: list[str], succeeds: bool = False) -> str:
    """Returns what is wrong with the way a command ends in this process; "" if nothing is."""
    from ipl.cli.main import main

    out, err, code = StringIO(), StringIO(), 0
    sys.argv = ["ipl", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code or 0  # type: ignore[assignment]
    except BaseException as error:
        import traceback

        return "".join(traceback.format_exception(error)[-3:])[-1500:]
    wrong = f"exit code {code}" if succeeds and code else problem(code, err.getvalue())
    return f"{wrong}: {err.getvalue()[:1000]}" if wrong else ""


def main() -> None:
    """Damages a file again and again and runs a command after each: DATA FILE FIRST LAST COMMAND...

    Prints a line of JSON for each number: what went wrong, or "".
    """
    original, file, first, last, *command = sys.argv[1:]
    data, target = Path(original).read_bytes(), Path(file)
    answers = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    target.write_bytes(data)
    if wrong := run_command(command, succeeds=True):
        sys.exit(f"The whole file is refused: {wrong}")
    for number in range(int(first), int(last)):
        target.write_bytes(damage(data, target.suffix, number))
        signal.alarm(SECONDS)
        wrong = run_command(command)
        signal.alarm(0)
        if wrong:
            target.with_name(f"{target.name}.{number}").write_bytes(target.read_bytes())
        print(json.dumps(wrong), file=answers, flush=True)
    target.write_bytes(data)
