"""Damaged bytes, of files and of what is sent to servers."""

from __future__ import annotations

import random

# What is put into files. The last ones are larger than what they are put into.
BYTES = (
    *(b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x80", b"\r", b"\n"),
    *(b'"', b"{", b"[", b",", b":", b"*a", b"&a", b"<<", b"\t", b"NaN", b"1e999"),
    *(b"!!python/object/apply:os.system [id]", b"\xf0\x9f\x98\x80"),
    *(b"9" * 5000, b"[" * 20_000, b"a" * 100_000),
)


def damage_bytes(data: bytes, chance: random.Random) -> bytes:
    """Returns bytes with one to four damages: other bytes, more, fewer, or in another order."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((1, 2, 4, 16, 256, len(data))))
        piece = data[start:end]
        pieces = (b"", piece * 3, bytes(len(piece)), piece[::-1], chance.randbytes(len(piece)))
        piece = chance.choice((*pieces, chance.choice(BYTES), chance.choice(BYTES) + piece))
        data = data[:start] + piece + data[end:]
    return data[:2_000_000]
