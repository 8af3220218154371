"""Sockets are bound where they are asked to, and other names of this machine are recognised."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from ipl.apps.hosts import (
    ANY_ADDRESS,
    LOCAL_HOSTS,
    address_of,
    allowed_hosts,
    is_allowed_host,
    is_loopback,
    is_same_origin,
    listen,
)
from ipl.support.errors import ConfigError


def test_a_port_in_use_is_named() -> None:
    with closing(listen("127.0.0.1", 0)) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        assert address_of(bound) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=f"port {port} of '127.0.0.1': .*--port 0 takes"):
            listen("127.0.0.1", port)
    with pytest.raises(ConfigError, match="Cannot listen on"):
        listen("\x00", 0)


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_a_socket_has_few_names(host: str, loopback: bool) -> None:
    with closing(listen(host, 0)) as bound:
        assert is_loopback(bound) is loopback
        hosts, more = allowed_hosts(bound), allowed_hosts(bound, ["Proxy.example"])
        assert allowed_hosts(bound, ["*"]) is None
        assert hosts is not None
        assert hosts >= LOCAL_HOSTS
    assert not is_allowed_host("evil.example", hosts)
    assert not is_allowed_host(ANY_ADDRESS, hosts)
    assert is_allowed_host("proxy.example:80", more)
    for name in ("192.0.2.7:8000", "[2001:db8::1]:8000", socket.gethostname()):
        assert is_allowed_host(name, hosts) is not loopback


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("127.0.0.1:8001", True),
        ("LOCALHOST", True),
        ("[::1]:8001", True),
        ("[::1]", True),
        ("[::1", False),
        ("evil.example:8001", False),
        ("127.0.0.1.evil.example:8001", False),
        ("", False),
    ],
)
def test_only_names_of_this_machine_are_allowed(header: str, allowed: bool) -> None:
    assert is_allowed_host(header, LOCAL_HOSTS) is allowed
    assert is_allowed_host(header, None)


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        (None, True),
        ("http://localhost:8001", True),
        ("https://LOCALHOST:8001", True),
        ("http://localhost", False),
        ("http://localhost:8001.evil.example", False),
        ("http://evil.example", False),
        ("null", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_another_site_is_another_origin(origin: str | None, same: bool) -> None:
    assert is_same_origin(origin, "localhost:8001") is same
