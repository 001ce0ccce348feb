"""Addresses in answers: every version of every API that has them, as bytes in and bytes out."""

from __future__ import annotations

from typing import Any

from kmini.protocol.messages import REQUESTS
from kmini.protocol.messages.api_versions import ApiVersionsResponse
from kmini.protocol.schema import REQUIRED, Response, Struct, structs_of
from kmini.trace.rewriting import (
    ADDRESSES,
    Node,
    cut_versions,
    may_be_rewritten,
    request_class,
    rewrite_addresses,
)
from support.for_each import for_each

VERSIONS = [
    (api_key, version)
    for api_key in ADDRESSES
    for message in [request_class(api_key)]
    if message is not None
    for version in range(message.min_version, message.max_version + 1)
]
WITHOUT = {(0, version) for version in range(10)} | {(1, version) for version in range(16)}
"""Versions of Produce and Fetch before KIP-951: they have no address."""


def made(struct: type[Struct], version: int) -> Any:
    """A struct with something in each field that the version has, and one element in each array."""
    values: dict[str, Any] = {}
    for field in struct.__fields__:
        if not field.exists_in(version):
            if field.default is REQUIRED:
                raise AssertionError(field.name)
            continue
        held = field.type
        if held.element is not None:
            element = held.element
            values[field.name] = [made(element.struct, version) if element.struct is not None else _wire(element)]
        elif held.struct is not None:
            values[field.name] = made(held.struct, version)
        else:
            values[field.name] = {"host": "kafka-2", "port": 9093, "node_id": 2, "broker_id": 2}.get(
                field.name, _wire(held)
            )
    return struct(**values)


def _wire(type_: Any) -> Any:
    return {"string": "text", "bytes": b"bytes", "records": b"records", "uuid": bytes(range(16)), "boolean": True}.get(
        type_.wire.name, 1
    )


def encoded(answer: Response, version: int) -> bytes:
    return b"".join(answer.encode(version))


def with_addresses(answer: Any, host: str, port: int) -> Any:
    """The answer, in which each host and port is this one."""
    for struct in structs_of(type(answer)):
        assert struct.__fields__
    _replace(answer, host, port)
    return answer


def _replace(value: Any, host: str, port: int) -> None:
    if isinstance(value, list):
        for one in value:
            _replace(one, host, port)
    elif isinstance(value, Struct):
        names = [field.name for field in type(value).__fields__]
        if "host" in names and getattr(value, "host", ""):
            value.host, value.port = host, port  # type: ignore[attr-defined]
        for name in names:
            _replace(getattr(value, name), host, port)


@for_each(("api_key", "version"), VERSIONS)
def test_only_the_addresses_of_an_answer_change(api_key: int, version: int) -> None:
    message = request_class(api_key)
    assert message is not None
    original = made(message.response, version)
    given = message.response.decode(encoded(original, version), version)
    asked: list[tuple[Node, str, int]] = []

    def local(node: Node, host: str, port: int) -> tuple[str, int]:
        asked.append((node, host, port))
        return "::1", 19093

    is_changed = rewrite_addresses(given, local)
    assert is_changed is ((api_key, version) not in WITHOUT)
    assert may_be_rewritten(api_key, version) is is_changed
    assert encoded(given, version) == encoded(with_addresses(original, "::1", 19093), version)
    assert {(node.id, host, port) for node, host, port in asked} == ({(2, "kafka-2", 9093)} if is_changed else set())


def test_a_coordinator_that_is_not_there_keeps_its_empty_address() -> None:
    answer: Any = made(REQUESTS[10].response, 3)
    answer.node_id, answer.host, answer.port = -1, "", -1
    assert not rewrite_addresses(answer, lambda *_: ("127.0.0.1", 1))
    assert (answer.host, answer.port) == ("", -1)


def test_a_controller_is_told_apart_from_the_broker_of_its_number() -> None:
    answer: Any = made(REQUESTS[60].response, 1)
    answer.endpoint_type = 2
    asked: list[Node] = []
    rewrite_addresses(answer, lambda node, host, port: (asked.append(node), (host, port))[1])  # type: ignore[func-returns-value]
    assert asked == [Node(2, is_controller=True)]
    assert str(asked[0]) == "controller 2"


def test_versions_whose_addresses_are_unknown_are_cut_with_a_note() -> None:
    offered = ApiVersionsResponse.ApiVersion
    answer = ApiVersionsResponse(
        api_keys=[
            offered(api_key=3, min_version=0, max_version=99),
            offered(api_key=8, min_version=0, max_version=99),
            offered(api_key=60, min_version=98, max_version=99),
            offered(api_key=10, min_version=0, max_version=6),
        ]
    )
    notes = cut_versions(answer)
    assert [one.max_version for one in answer.api_keys] == [13, 99, 99, 6]
    assert notes == [
        "clients are not offered Metadata v14 to v99, of which kmini cannot rewrite the addresses",
        "DescribeCluster v3 to v99 is unknown to kmini: clients that use it may leave the proxy",
    ]
