"""The names under which a server on this machine may be asked.

Another site could point a name of its own at this machine, and a browser here would then let it
read the answers (DNS rebinding). So a request's Host header must be one that no site can have.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from ipaddress import ip_address

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_ADDRESS = "/any-address"  # among allowed hosts; no host name has a slash
HOST_HEADER = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def allowed_hosts(names: Collection[str], local: bool) -> frozenset[str] | None:
    """`names` and those of this machine; None, which allows any, if "*" is among the names.

    Where other machines can reach the server (not `local`), any address in numbers is allowed too.
    """
    if "*" in names:
        return None
    hosts = LOCAL_HOSTS | {name.lower() for name in names}
    if local:
        return hosts
    machine = socket.gethostname().lower()
    return hosts | {machine, f"{machine}.local", ANY_ADDRESS}


def is_allowed_host(header: str, hosts: Collection[str] | None) -> bool:
    """Whether a Host header is one of the allowed hosts, perhaps with a port, and nothing else."""
    match = HOST_HEADER.fullmatch(header)
    if hosts is None or match is None:
        return match is not None
    name = (match[1] or match[2]).lower()
    return name in hosts or (ANY_ADDRESS in hosts and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False
