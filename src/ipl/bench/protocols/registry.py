"""The protocols by name, with those of installed packages.

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

# In the order of the tables.
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (BaseToNovel(), CrossDataset(), DomainGeneralization(), FewShot())
}


def find_protocol(name: str) -> Protocol:
    """The protocol of that name; ConfigError if there is none."""
    if name not in PROTOCOLS:
        _load_plugins()
    if name not in PROTOCOLS:
        raise ConfigError(
            f"protocol is {name!r}; it must be one of {', '.join(PROTOCOLS)}."
            f"{closest(name, PROTOCOLS)}"
        )
    return PROTOCOLS[name]


def known_protocols() -> tuple[str, ...]:
    """The names of all protocols, those of installed packages last."""
    _load_plugins()
    return tuple(PROTOCOLS)


def all_measures() -> dict[str, str]:
    """The measures of all protocols, with the heading of each."""
    return {
        name: title for protocol in PROTOCOLS.values() for name, title in protocol.measures.items()
    }


@cache
def _load_plugins() -> None:
    for plugin in entry_points(group="ipl.protocols"):
        try:
            protocol: Protocol = plugin.load()()
            PROTOCOLS.setdefault(protocol.name, protocol)
        except Exception as error:  # a broken package must not disable the others
            warnings.warn(f"The protocol {plugin.name!r} cannot be loaded: {error!r}", stacklevel=2)
