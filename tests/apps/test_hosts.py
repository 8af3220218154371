"""Requests may name this machine, and no other site may be the origin of one."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from ipl.apps.hosts import LOCAL_HOSTS, allowed_hosts, is_allowed_host, is_same_origin, listen


@pytest.mark.parametrize(("host", "loopback"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_other_machines_may_use_addresses_and_the_name_of_this_one(
    host: str, loopback: bool
) -> None:
    with closing(listen(host, 0)) as bound:
        hosts, more = allowed_hosts(bound), allowed_hosts(bound, ["Proxy.example"])
        assert allowed_hosts(bound, ["*"]) is None
    assert not is_allowed_host("evil.example", hosts)
    assert is_allowed_host("localhost:8000", hosts)
    assert is_allowed_host("proxy.example:80", more)
    for name in ("192.0.2.7:8000", "[2001:db8::1]:8000", socket.gethostname()):
        assert is_allowed_host(name, hosts) is not loopback


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("127.0.0.1:8001", True),
        ("LOCALHOST", True),
        ("[::1]:8001", True),
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
        ("https://LOCALHOST:8001", True),
        ("http://localhost", False),
        ("http://localhost:8001.evil.example", False),
        ("null", False),
        ("http://[", False),
    ],
)
def test_another_site_is_another_origin(origin: str | None, same: bool) -> None:
    assert is_same_origin(origin, "localhost:8001") is same
