"""The addresses of a cluster: the one that was given, and those that its brokers tell clients to use.

A client asks the address that it was given for Metadata, and from then on connects to the addresses in the answer
(`advertised.listeners`). Each is resolved and connected to from here, and asked which broker of which cluster it is.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kmini.client import Address, Connection, Disconnected
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding
from kmini.protocol.errors import KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanism
from kmini.protocol.messages.describe_configs import BROKER, DescribeConfigsRequest, DescribeConfigsResponse
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.protocol.topics import CONSUMER_OFFSETS

UNSPECIFIED = ("0.0.0.0", "::", "")
COORDINATOR_KEYS = 8
"""Groups whose coordinators are looked up, to compare their addresses: coordinators are spread by names."""
IDENTITY_KEY = "node.id"
REFUSES_LOGIN = (SaslAuthenticationFailed, UnsupportedSaslMechanism)


class Advertised(NamedTuple):
    """A broker, and the address that clients are told for it."""

    node_id: int
    address: Address

    def __str__(self) -> str:
        return f"broker {self.node_id} at {self.address}"


class Reached(NamedTuple):
    """The address that was given and answers."""

    given: Address
    connection: Connection
    took_ms: float


async def reach(brokers: Brokers, given: Sequence[Address]) -> tuple[Reached | None, list[Finding]]:
    """Connect to the addresses that were given; return the first that answers, and what was found."""
    outcomes = await asyncio.gather(*(_open(brokers, address) for address in given))
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    reached = next((outcome for outcome in outcomes if isinstance(outcome, Reached)), None)
    return reached, [_unreached(error, is_alone=reached is None) for error in failed]


def _unreached(error: Exception, *, is_alone: bool) -> Finding:
    """What is found about an address that was given and does not answer; `is_alone` if none does."""
    if not is_alone:
        change = "take it out of bootstrap.servers, or start that broker"
        return Finding("one-of-several-does-not-answer", _sentence(error), change)
    if isinstance(error, REFUSES_LOGIN):
        change = "compare mechanism, name and password in --command-config with the users of the broker"
        return Finding("login-refused-here", _sentence(error), change)
    change = (
        "kmini serve starts a broker; for another one, compare with its listeners, and in Docker with the published "
        "ports (docker ps)"
    )
    return Finding("nothing-answers", _sentence(error), change)


async def _open(brokers: Brokers, address: Address) -> Reached | Exception:
    began = time.monotonic()
    try:
        connection = await brokers.connected(address)
    except (KafkaError, OSError, ValueError) as error:
        return error
    return Reached(address, connection, (time.monotonic() - began) * 1_000)


def _sentence(error: Exception) -> str:
    if isinstance(error, Disconnected):
        return error.message
    return f"{error.kafka_name}: {error.message}" if isinstance(error, KafkaError) else str(error)


async def advertised_addresses(reached: Reached, metadata: MetadataResponse, brokers: Brokers) -> list[Finding]:
    """Examine each address that clients are told; remember in `brokers.routes` those that lead to their broker."""
    told = [Advertised(one.node_id, Address(one.host, one.port)) for one in metadata.brokers]
    if not told:
        return [Finding("no-brokers", f"{reached.given} names no broker: clients have nothing to connect to")]
    findings = _shared(told)
    for known in await _coordinators(reached, metadata, brokers):
        if known not in told:
            told.append(known)
            findings.append(
                Finding(
                    "coordinator-elsewhere",
                    f"{reached.given} names a coordinator as {known}, and in its metadata another address for it: "
                    "clients use both",
                    "a proxy in front of a Kafka must rewrite both, Metadata and FindCoordinator",
                )
            )
    node_ids = [one.node_id for one in told]
    home = await _node_id_of(reached.connection, node_ids, brokers.timeout_ms)
    if home is None and len({*node_ids}) == 1:
        home = node_ids[0]
    if home is not None:
        brokers.routes[home] = reached.given
    examined = await asyncio.gather(*(_examine(one, reached, metadata.cluster_id, node_ids, brokers) for one in told))
    findings += [finding for found in examined for finding in found]
    if not brokers.routes:  # its id is hidden from this user, and no address works: the questions go to it all the same
        brokers.routes[told[0].node_id] = reached.given
    return findings


def _shared(told: Collection[Advertised]) -> list[Finding]:
    by_address: defaultdict[Address, list[int]] = defaultdict(list)
    for one in told:
        by_address[one.address].append(one.node_id)
    return [
        Finding(
            "shared-address",
            f"brokers {' and '.join(map(str, ids))} advertise the same address, {address}: a client that wants the one "
            "gets the other, and its requests fail with NOT_LEADER_OR_FOLLOWER",
            "give each broker an address of its own in advertised.listeners (KAFKA_ADVERTISED_LISTENERS)",
        )
        for address, ids in by_address.items()
        if len(ids) > 1
    ]


async def _coordinators(reached: Reached, metadata: MetadataResponse, brokers: Brokers) -> list[Advertised]:
    """Coordinators of some groups. None before there is a topic of offsets, because the question would create it."""
    if all(topic.name != CONSUMER_OFFSETS for topic in metadata.topics):
        return []
    keys = [f"kmini-doctor-{number}" for number in range(COORDINATOR_KEYS)]
    request = FindCoordinatorRequest(key=keys[0], coordinator_keys=keys)
    try:
        response: FindCoordinatorResponse = await reached.connection.send(request, timeout_ms=brokers.timeout_ms)
    except KafkaError:
        return []
    if not response.coordinators:  # below version 4
        return [] if response.error_code else [Advertised(response.node_id, Address(response.host, response.port))]
    return [Advertised(one.node_id, Address(one.host, one.port)) for one in response.coordinators if not one.error_code]


async def _examine(
    told: Advertised, reached: Reached, cluster_id: str | None, node_ids: Sequence[int], brokers: Brokers
) -> list[Finding]:
    host, port = told.address
    if told.address.host in UNSPECIFIED:
        text = f"clients are told {told}, which is no address to connect to (some systems take it for themselves)"
        return [Finding("any-address-advertised", text, _change(told, reached))]
    if not 0 < port < 65536:
        return [Finding("impossible-port", f"clients are told {told}: {port} is no port", _change(told, reached))]
    began = time.monotonic()
    try:
        resolving = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        resolved = await asyncio.wait_for(resolving, brokers.timeout_ms / 1_000)
    except (OSError, ValueError, asyncio.TimeoutError) as error:  # UnicodeError is a ValueError
        why = getattr(error, "strerror", None) or str(error) or "no answer in time"
        text = (
            f"you asked {reached.given}, and the broker tells clients to use {told}: {host!r} has no address here "
            f"({why}). A client gets past the bootstrap and fails then"
        )
        return [Finding("host-does-not-resolve", text, _change(told, reached))]
    resolve_ms = (time.monotonic() - began) * 1_000
    found = [*_kinds_of_address(told, reached, {entry[0] for entry in resolved})]
    began = time.monotonic()
    try:
        connection = await brokers.connected(told.address)
    except (KafkaError, OSError, ValueError) as error:
        return [*found, _failed(told, reached, error)]
    connect_ms = (time.monotonic() - began) * 1_000
    wrong = await _other_identity(told, reached, connection, cluster_id, node_ids, brokers.timeout_ms)
    if wrong is not None:
        return [*found, wrong]
    brokers.routes.setdefault(told.node_id, told.address)
    times = f"resolved in {resolve_ms:.1f} ms, connected in {connect_ms:.1f} ms"
    if told.address == reached.given:
        times = f"the address that you asked, connected in {reached.took_ms:.1f} ms"
    return [Finding("address-works", f"{told}: {times}"), *found]


def _failed(told: Advertised, reached: Reached, error: Exception) -> Finding:
    sentence = _sentence(error)
    text = f"you asked {reached.given}, and the broker tells clients to use {told}: {sentence}"
    if isinstance(error, REFUSES_LOGIN):
        change = "advertise a listener with the mechanism of your client, or change its sasl.mechanism and credentials"
        return Finding("login-refused", text, change)
    is_silent = not sentence.startswith("cannot connect")
    return Finding(
        "address-does-not-answer" if is_silent else "nothing-listens",
        f"{text}. A client gets past the bootstrap and fails then",
        f"start that broker if it is down; else {_change(told, reached)}",
    )


def _kinds_of_address(told: Advertised, reached: Reached, families: Collection[int]) -> list[Finding]:
    """What is the matter with an address, wherever it leads to."""
    host = told.address.host
    if is_loopback(host):
        if is_loopback(reached.given.host):
            text = f"{told} is for clients on this machine: in a container that is told it, {host} is that container"
            change = "for containers add a listener that advertises a name on their network: "
            return [Finding("only-this-machine", text, change + _both(told, reached))]
        text = (
            f"you asked {reached.given}, and the broker tells clients to use {told}: on any other machine, and in a "
            f"container, {host} is that machine or container itself"
        )
        return [Finding("loopback-for-others", text, _change(told, reached))]
    if {*families} == {socket.AF_INET6}:
        text = (
            f"{told} has IPv6 addresses only, which many container networks and java.net.preferIPv4Stack do not reach"
        )
        return [Finding("only-ipv6", text, "give the name an IPv4 address as well, or advertise another one")]
    return []


async def _other_identity(
    told: Advertised,
    reached: Reached,
    connection: Connection,
    cluster_id: str | None,
    node_ids: Sequence[int],
    timeout_ms: int,
) -> Finding | None:
    """What is found if another broker than the one meant is at an address."""
    try:
        metadata: MetadataResponse = await connection.send(MetadataRequest(topics=[]), timeout_ms=timeout_ms)
    except KafkaError as error:
        return Finding("address-does-not-answer", f"{told} does not answer Metadata: {error.message}")
    if metadata.cluster_id != cluster_id:
        text = (
            f"the address of {told} leads to cluster {metadata.cluster_id}, and {reached.given} belongs to cluster "
            f"{cluster_id}: clients send what is meant for the one to the other"
        )
        return Finding("another-cluster", text, _change(told, reached))
    own = await _node_id_of(connection, node_ids, timeout_ms)
    if own is not None and own != told.node_id:
        text = (
            f"the address of {told} leads to broker {own} of the same cluster: requests fail with "
            "NOT_LEADER_OR_FOLLOWER, and clients retry without end"
        )
        return Finding("another-broker", text, _change(told, reached))
    return None


async def _node_id_of(connection: Connection, node_ids: Sequence[int], timeout_ms: int) -> int | None:
    """The node id of the broker at the other end, which is the only one that tells the settings of that id; None if it
    tells none."""
    resources = [
        DescribeConfigsRequest.Resource(
            resource_type=BROKER, resource_name=str(node_id), configuration_keys=[IDENTITY_KEY]
        )
        for node_id in dict.fromkeys(node_ids)
    ]
    try:
        response: DescribeConfigsResponse = await connection.send(
            DescribeConfigsRequest(resources=resources), timeout_ms=timeout_ms
        )
    except KafkaError:
        return None
    own = [one.resource_name for one in response.results if not one.error_code]
    return next((node_id for node_id in node_ids if [str(node_id)] == own), None)


def is_loopback(host: str) -> bool:
    """Whether a host stands for the machine that asks."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") in ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def _change(told: Advertised, reached: Reached) -> str:
    """How the broker is told to advertise an address that this client reaches."""
    return (
        f"set advertised.listeners of broker {told.node_id} (in a container KAFKA_ADVERTISED_LISTENERS) to an address "
        f"that clients reach, or to two: {_both(told, reached)}"
    )


def _both(told: Advertised, reached: Reached) -> str:
    """A listener for containers and one for the address that was asked."""
    inside = told.address
    if is_loopback(inside.host) or inside.host in UNSPECIFIED or inside == reached.given:
        inside = Address("kafka", 19092)
    return f"INSIDE://{inside},OUTSIDE://{reached.given}"
