"""The addresses in answers, in whose place clients get those of the proxy, so that they stay on it.

Metadata, FindCoordinator and DescribeCluster name brokers; Produce, Fetch, ShareFetch and ShareAcknowledge name the new
leaders of partitions (KIP-951). The addresses of an answer are replaced in the decoded answer, so a proxy has to know
each version that a client may use of these: `cut_versions` takes others out of the answer to ApiVersions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.protocol.messages import REQUESTS
from kmini.protocol.messages.describe_cluster import CONTROLLERS

if TYPE_CHECKING:
    from kmini.protocol.schema import Request, Response

API_VERSIONS = 18


class Node(NamedTuple):
    """The number of a broker or a controller."""

    id: int
    is_controller: bool = False

    def __str__(self) -> str:
        return f"{'controller' if self.is_controller else 'broker'} {self.id}"


LocalAddress = Callable[[Node, str, int], tuple[str, int]]
"""Gives the address of the proxy that stands for a node at a host and a port."""


def _brokers(answer: Any) -> Iterator[tuple[Node, Any]]:
    for broker in answer.brokers:
        yield Node(broker.node_id), broker


def _coordinators(answer: Any) -> Iterator[tuple[Node, Any]]:
    for one in (answer, *answer.coordinators):
        if one.node_id >= 0 and one.host:
            yield Node(one.node_id), one


def _nodes_of_cluster(answer: Any) -> Iterator[tuple[Node, Any]]:
    for node in answer.brokers:
        yield Node(node.broker_id, answer.endpoint_type == CONTROLLERS), node


def _new_leaders(answer: Any) -> Iterator[tuple[Node, Any]]:
    for endpoint in answer.node_endpoints:
        yield Node(endpoint.node_id), endpoint


ADDRESSES: Mapping[int, Callable[[Any], Iterator[tuple[Node, Any]]]] = {
    0: _new_leaders,
    1: _new_leaders,
    3: _brokers,
    10: _coordinators,
    60: _nodes_of_cluster,
    78: _new_leaders,
    79: _new_leaders,
}
"""What has a host and a port in the answer to an API, with its node, by API key."""

_SINCE: Mapping[int, int] = {0: 10, 1: 16}
"""The first version whose answer has addresses (KIP-951), for APIs where that is not the first one of all."""


def may_be_rewritten(api_key: int, version: int) -> bool:
    """Whether an answer is to be decoded before it goes on."""
    return api_key == API_VERSIONS or (api_key in ADDRESSES and version >= _SINCE.get(api_key, 0))


def request_class(api_key: int) -> type[Request] | None:
    """The class of an API's requests; None for an API whose messages kmini does not know."""
    return REQUESTS.get(api_key)


def rewrite_addresses(answer: Response, local: LocalAddress) -> bool:
    """Replace the addresses in a decoded answer. Returns whether it has any."""
    found = ADDRESSES.get(answer.api_key)
    is_changed = False
    for node, one in () if found is None else found(answer):
        one.host, one.port = local(node, one.host, one.port)
        is_changed = True
    return is_changed


def cut_versions(answer: Any) -> list[str]:
    """Take from an answer to ApiVersions the versions whose addresses kmini cannot rewrite. Returns a sentence for each
    API that was cut."""
    notes = []
    for offered in answer.api_keys:
        known = request_class(offered.api_key) if offered.api_key in ADDRESSES else None
        if known is None or offered.max_version <= known.max_version:
            continue
        name = f"{known.name} v{known.max_version + 1} to v{offered.max_version}"
        if offered.min_version > known.max_version:
            notes.append(f"{name} is unknown to kmini: clients that use it may leave the proxy")
            continue
        offered.max_version = known.max_version
        notes.append(f"clients are not offered {name}, of which kmini cannot rewrite the addresses")
    return notes
