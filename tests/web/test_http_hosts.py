"""Which hosts are this machine, and which origins another server's. `control/test_access.py` and
`registry/test_registry_access.py` test that the servers refuse other hosts."""

from __future__ import annotations

import pytest

from kmini.web.http_hosts import is_loopback, is_other_origin, names_this_machine


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_only_this_machine_reaches_what_listens_at_a_loopback_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.1.x"])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "localhost:8090", "127.0.0.1:8090", "[::1]:8090", "[::1]"])
def test_a_host_header_names_this_machine_with_and_without_a_port(host: str) -> None:
    assert names_this_machine(host)


@pytest.mark.parametrize("host", ["", "example.com", "example.com:8090", "127.0.0.1.example.com", "10.0.0.1:8090"])
def test_any_other_host_header_names_another_machine(host: str) -> None:
    assert not names_this_machine(host)


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1:9999", "http://localhost:8090", ""])
def test_a_page_of_another_host_or_port_is_of_another_origin(origin: str) -> None:
    assert is_other_origin(origin, "127.0.0.1:8090")


@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:8090", "https://127.0.0.1:8090"])
def test_a_page_of_the_server_and_a_request_of_no_page_are_of_none(origin: str | None) -> None:
    assert not is_other_origin(origin, "127.0.0.1:8090")
