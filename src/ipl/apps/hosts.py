"""Sockets to listen on, and the host names that a request may use for this machine."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from ipl.support.errors import ConfigError

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


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
        raise ConfigError(f"Cannot listen on port {port} of {host!r}: {reason}.") from None
    return bound


def is_loopback(bound: socket.socket) -> bool:
    """Returns whether only this machine can reach a socket."""
    return ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def allowed_hosts(bound: socket.socket) -> frozenset[str] | None:
    """Returns the host names that requests to a loopback socket may use; None allows any.

    Another site could point a name of its own at a loopback address and read the answers.
    """
    return LOCAL_HOSTS | {str(bound.getsockname()[0])} if is_loopback(bound) else None


def is_allowed_host(header: str, hosts: frozenset[str] | None) -> bool:
    """Returns whether a request's Host header names one of the allowed hosts; None allows any."""
    if hosts is None:
        return True
    try:
        return urlsplit(f"//{header}").hostname in hosts
    except ValueError:  # half an IPv6 address
        return False


def address_of(bound: socket.socket) -> str:
    """Returns the address of a socket as typed into a browser."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
