"""All checks of doctor, one after the other. They read, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from kmini.client import Address, ConnectionSettings, Sasl
from kmini.doctor.addresses import Reached, advertised_addresses, reach
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import FAIL, Finding, ordered
from kmini.protocol.errors import KafkaError
from kmini.protocol.messages.describe_configs import BROKER, DescribeConfigsRequest, DescribeConfigsResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.remote.server_identity import AS_VERSION, identity_of

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


async def examine(given: Sequence[Address], *, timeout_ms: int, sasl: Sasl | None = None) -> list[Finding]:
    """Everything that is found at these bootstrap addresses, in the order of the checks. `timeout_ms` bounds each
    connection and each question."""
    brokers = Brokers(ConnectionSettings(client_id=CLIENT_ID, connect_timeout_ms=timeout_ms, sasl=sasl), timeout_ms)
    try:
        reached, findings = await reach(brokers, given)
        if reached is not None:
            findings += await _examine(reached, brokers)
    finally:
        await brokers.close()
    return ordered([*findings, *brokers.findings])


async def _examine(reached: Reached, brokers: Brokers) -> list[Finding]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    try:
        metadata: MetadataResponse = await reached.connection.send(request, timeout_ms=brokers.timeout_ms)
    except KafkaError as error:
        text = f"{reached.given} answers ApiVersions, and not Metadata: {error.message}"
        change = "a listener with authentication hangs up on clients without it: --command-config FILE has credentials"
        return [Finding("no-metadata", text, change)]
    findings = await advertised_addresses(reached, metadata, brokers)
    return [await _reached(reached, metadata, brokers), *findings]


async def _reached(reached: Reached, metadata: MetadataResponse, brokers: Brokers) -> Finding:
    node_id = next((node_id for node_id, address in brokers.routes.items() if address == reached.given), None)
    own: list[str] = []
    if node_id is not None:
        resource = DescribeConfigsRequest.Resource(
            resource_type=BROKER, resource_name=str(node_id), configuration_keys=[AS_VERSION]
        )
        response: DescribeConfigsResponse | None = await brokers.ask(
            node_id, DescribeConfigsRequest(resources=[resource]), "settings"
        )
        own = [config.name for one in (response.results if response else ()) for config in one.configs]
    versions = reached.connection.versions
    identity = identity_of(metadata.cluster_id, versions, own)
    text = f"{reached.given} answers in {reached.took_ms:.1f} ms: {identity} by what it serves, {len(versions)} APIs"
    return Finding("reached", text)
