"""The release and the features of a broker, and requests that common clients need."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kmini.client.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding
from kmini.protocol.api_keys import API_KEYS
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

NEEDED = {
    "consumers": ("Fetch", "ListOffsets", "OffsetForLeaderEpoch"),
    "consumer groups": (
        "FindCoordinator",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
    ),
    "producers": ("Produce", "Metadata"),
    "idempotent producers, which Java's and kafka-python's are by default,": ("InitProducerId",),
    "transactional producers": ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
    "administration": ("CreateTopics", "DeleteTopics", "DescribeConfigs"),
}
"""Requests, by what needs them."""


def missing_apis(served: Collection[int]) -> Iterator[Finding]:
    """Requests that common clients need and that the broker does not serve."""
    for use, names in NEEDED.items():
        missing = [name for name in names if API_KEYS[name] not in served]
        if missing:
            text = f"the broker does not serve {', '.join(missing)}: {use} do not work here"
            yield Finding("missing-api", text, "use a release, or a make, of Kafka that serves it")


async def features(brokers: Brokers, node_id: int) -> Finding:
    """The finalized features, such as metadata.version."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    response: ApiVersionsResponse | None = await brokers.ask(node_id, request, "features")
    listed = (
        [] if response is None else sorted((one.name, one.max_version_level) for one in response.finalized_features)
    )
    text = ", ".join(f"{name} {level}" for name, level in listed) or "none are told"
    return Finding("features", f"finalized features: {text}")
