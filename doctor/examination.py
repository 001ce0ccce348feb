"""All checks of doctor, one after the other. They read, and change nothing."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kmini.client import Address, ConnectionSettings, Sasl
from kmini.doctor.addresses import Reached, advertised_addresses, reach
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import FAIL, Finding, at_address, ordered
from kmini.doctor.groups import (
    MOST_GROUPS,
    counted_groups,
    gather_groups,
    list_groups,
    still_rebalancing,
    stuck_groups,
    unseen_topics,
)
from kmini.doctor.partitions import log_dirs, offsets_of, states_of
from kmini.doctor.replicas import replicas
from kmini.doctor.server import features, missing_apis
from kmini.doctor.settings import (
    TopicSettings,
    impossible_topics,
    settings_of_broker,
    settings_of_topics,
    surprising_settings,
    surprising_topics,
)
from kmini.doctor.topics import clock, is_stamped, odd_topics, topic_facts
from kmini.doctor.transactions import open_transactions, pinning, unexplained
from kmini.doctor.waiting_records import waiting_records
from kmini.protocol.errors import KafkaError
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.remote.server_identity import identity_of
from kmini.testkit.report.facts import Facts

if TYPE_CHECKING:
    from ssl import SSLContext

MOST_PARTITIONS = 10_000
"""Partitions whose offsets are asked for, at most: the first by topic."""
CLIENT_ID = "kmini-doctor"

NO_FAILURE = 0
PROBLEMS = 1
NOT_REACHED = 3
"""Exit codes. 2 is wrong usage, as of every command."""


def exit_code(findings: Sequence[Finding]) -> int:
    """What a script is told: whether there is a failure, or nothing answers."""
    if any(finding.name in ("nothing-answers", "login-refused-here") for finding in findings):
        return NOT_REACHED
    return PROBLEMS if any(finding.level == FAIL for finding in findings) else NO_FAILURE


async def examine(
    given: Sequence[Address], *, timeout_ms: int, sasl: Sasl | None = None, tls: SSLContext | None = None
) -> list[Finding]:
    """Everything that is found at these bootstrap addresses, in the order of the checks. `timeout_ms` bounds each
    connection and each question."""
    brokers = Brokers(
        ConnectionSettings(client_id=CLIENT_ID, connect_timeout_ms=timeout_ms, sasl=sasl, tls=tls), timeout_ms
    )
    try:
        reached, findings = await reach(brokers, given)
        if reached is not None:
            findings += await _examine(reached, brokers)
    finally:
        await brokers.close()
    address = ",".join(map(str, given))
    return ordered([at_address(finding, address) for finding in (*findings, *brokers.findings)])


async def _examine(reached: Reached, brokers: Brokers) -> list[Finding]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    try:
        metadata: MetadataResponse = await reached.connection.send(request, timeout_ms=brokers.timeout_ms)
    except KafkaError as error:
        text = f"{reached.given} answers ApiVersions, and not Metadata: {error.message}"
        change = "a listener with authentication hangs up on clients without it: --command-config FILE has credentials"
        return [Finding("no-metadata", text, change)]
    findings = await advertised_addresses(reached, metadata, brokers)
    if not brokers.routes:
        return findings
    home = next(
        (node_id for node_id, address in brokers.routes.items() if address == reached.given), min(brokers.routes)
    )
    findings += [*missing_apis(reached.connection.versions), await features(brokers, home)]
    settings = dict(
        zip(brokers.routes, await gather(*(settings_of_broker(brokers, one) for one in brokers.routes)), strict=True)
    )
    versions = reached.connection.versions
    identity = identity_of(metadata.cluster_id, versions, settings[home])
    text = f"{reached.given} answers in {reached.took_ms:.1f} ms: {identity} by what it serves, {len(versions)} APIs"
    findings += [Finding("reached", text), *surprising_settings(settings)]
    topics = {topic.name or "": len(topic.partitions) for topic in metadata.topics}
    live = [one.node_id for one in metadata.brokers]
    findings += impossible_topics(settings, topics, len(live))
    of_topics = await settings_of_topics(brokers, home, sorted(topics))
    findings += surprising_topics(of_topics)
    return [*findings, *await _examine_contents(brokers, home, metadata, of_topics, identity)]


async def _examine_contents(
    brokers: Brokers, home: int, metadata: MetadataResponse, of_topics: Mapping[str, TopicSettings], identity: str
) -> list[Finding]:
    """Examine what the cluster holds: partitions, topics, groups and transactions."""
    states = states_of(metadata)
    findings = [*replicas(states, of_topics, [one.node_id for one in metadata.brokers]), *await log_dirs(brokers)]
    if len(states) > MOST_PARTITIONS:
        text = f"there are {len(states)} partitions: the offsets of the first {MOST_PARTITIONS} were asked for"
        findings.append(Finding("partitions-sampled", text))
        states = states[:MOST_PARTITIONS]
    listed = await list_groups(brokers)
    if len(listed) > MOST_GROUPS:
        text = f"there are {len(listed)} groups: the first {MOST_GROUPS} by name were examined"
        findings.append(Finding("groups-sampled", text))
    listed = listed[:MOST_GROUPS]
    groups = await gather_groups(brokers, listed)
    counts = {topic.name or "": len(topic.partitions) for topic in metadata.topics}
    counts |= dict.fromkeys(await unseen_topics(brokers, home, groups, counts), 0)
    partitions = await offsets_of(brokers, states)  # after committed offsets, which would seem to be ahead else
    transactions = await open_transactions(brokers)
    facts = Facts(
        topics=topic_facts(partitions, counts),
        groups=tuple(groups),
        transactions=tuple(transactions),
        elsewhere=identity,
    )
    findings += odd_topics(facts)
    findings += counted_groups(listed)
    leaders = {state.place: state.leader for state in states if state.leader in brokers.routes}
    waiting = await waiting_records(brokers, groups, partitions, leaders)
    findings += stuck_groups(facts, partitions, await still_rebalancing(brokers, groups, listed), waiting)
    findings += pinning(facts, partitions)
    findings += await unexplained(brokers, transactions, partitions, states)
    stamped = [place for place in leaders if is_stamped(place.topic, of_topics)]
    return [*findings, await clock(brokers, stamped, leaders)]
