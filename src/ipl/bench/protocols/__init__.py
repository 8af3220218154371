"""The protocols: a class and a file each, and those of installed packages.

A package announces its protocols as entry points of the group `ipl.protocols`; each is a subclass
of `Protocol` that can be called without arguments.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points

from ipl.bench.protocols.base_to_novel import BaseToNovel
from ipl.bench.protocols.cross_dataset import CrossDataset
from ipl.bench.protocols.domain import DomainGeneralization
from ipl.bench.protocols.few_shot import FewShot
from ipl.bench.protocols.protocol import Protocol
from ipl.support.errors import ConfigError, closest


@cache
def known_protocols() -> dict[str, Protocol]:
    """The protocols by name in the order of the tables, those of installed packages last."""
    ours = (BaseToNovel(), CrossDataset(), DomainGeneralization(), FewShot())
    known: dict[str, Protocol] = {protocol.name: protocol for protocol in ours}
    for plugin in entry_points(group="ipl.protocols"):
        try:
            protocol: Protocol = plugin.load()()
            known.setdefault(protocol.name, protocol)
        except Exception as error:  # a broken package must not disable the others
            warnings.warn(f"The protocol {plugin.name!r} cannot be loaded: {error!r}", stacklevel=2)
    return known


def find_protocol(name: str) -> Protocol:
    """The protocol of that name; ConfigError if there is none."""
    known = known_protocols()
    if name not in known:
        raise ConfigError(
            f"protocol is {name!r}; it must be one of {', '.join(known)}.{closest(name, known)}"
        )
    return known[name]
