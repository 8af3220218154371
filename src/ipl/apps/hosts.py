"""Sockets to listen on, and the host names that a request may use for this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from errno import EADDRINUSE
from ipaddress import ip_address
from urllib.parse import urlsplit

from ipl.support.errors import ConfigError

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = "*"
ANY_ADDRESS = "/any-address"  # among allowed hosts; no host name has a slash


def listen(host: str, port: int) -> socket.socket:
    """Returns a bound socket, on a free port if `port` is 0.

    Connections are refused until the socket's own `listen` is called.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = " --port 0 takes a free one." if getattr(error, "errno", 0) == EADDRINUSE else ""
        raise ConfigError(f"Cannot listen on port {port} of {host!r}: {reason}.{hint}") from None
    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Returns whether only this machine can reach a socket."""
    return ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def allowed_hosts(bound: socket.socket, names: Iterable[str] = ()) -> frozenset[str] | None:
    """Returns the host names that requests to a socket may use; None allows any.

    Another site could point a name of its own at this machine, and a browser here would then let
    it read the answers. So only the address of the socket and names of this machine are allowed,
    and `names`; "*" among them allows any. Where other machines can reach the socket, any address
    in numbers is allowed too, since no site can have it as its name.
    """
    more = frozenset(name.lower() for name in names if name)
    if ANY in more:
        return None
    hosts = LOCAL_HOSTS | more | {str(bound.getsockname()[0])}
    if is_loopback(bound):
        return hosts
    machine = socket.gethostname().lower()
    return hosts | {machine, f"{machine}.local", ANY_ADDRESS}


def is_allowed_host(header: str, hosts: frozenset[str] | None) -> bool:
    """Returns whether a request's Host header names one of the allowed hosts; None allows any."""
    if hosts is None:
        return True
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:  # half an IPv6 address
        return False
    return name in hosts or (ANY_ADDRESS in hosts and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def is_same_origin(origin: str | None, host: str) -> bool:
    """Returns whether a request's Origin header, if it has one, is the site in its Host header."""
    if origin is None:  # no browser, or a request that any site may make
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # half an IPv6 address
        return False


def address_of(bound: socket.socket) -> str:
    """Returns the address of a socket as typed into a browser."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
