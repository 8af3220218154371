"""The protocols by name."""

from __future__ import annotations

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
    """Returns the protocol of that name.

    Raises
    ------
    ConfigError
        If there is no such protocol.
    """
    if name not in PROTOCOLS:
        raise ConfigError(
            f"protocol is {name!r}; it must be one of {', '.join(PROTOCOLS)}."
            f"{closest(name, PROTOCOLS)}"
        )
    return PROTOCOLS[name]


def all_measures() -> dict[str, str]:
    """Returns the measures of all protocols, with the heading of each."""
    return {
        name: title for protocol in PROTOCOLS.values() for name, title in protocol.measures.items()
    }
