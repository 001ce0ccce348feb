"""ShareAcknowledge (KIP-932): what is refused before a record is looked at. What becomes of records is in
`tests/broker/share_fetch/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.security.resources import ResourceType
from kmini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from support.broker.share_readers import ACCEPT, RELEASE, ShareReaders


def example(resource: ResourceType, topic_id: bytes) -> ShareAcknowledgeRequest:
    Topic = ShareAcknowledgeRequest.Topic
    partition = Topic.Partition(partition_index=0, acknowledgement_batches=[])
    return ShareAcknowledgeRequest(
        group_id="readers",
        member_id="m",
        share_session_epoch=1,
        topics=[Topic(topic_id=topic_id, partitions=[partition])],
    )


MALFORMED: list[list[tuple[int, int, Any]]] = [
    [(1, 0, ACCEPT)],
    [(2, 3, ACCEPT), (0, 1, ACCEPT)],
    [(0, 1, [])],
    [(0, 2, [ACCEPT, RELEASE])],
    [(0, 0, 5)],
    [(0, 0, -1)],
]


async def test_malformed_acknowledgements_are_refused(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    readers = await make_share_readers()
    await readers.initialize()
    readers.append(4)
    await readers.fetch()
    for acks in MALFORMED:
        assert await readers.acknowledge("m", *acks) == "INVALID_REQUEST", acks
    assert await readers.acknowledge("m", (0, 3, ACCEPT)) == "NONE", "nothing has changed"


@pytest.mark.parametrize("ends", [True, False])
async def test_the_last_request_of_a_session_acknowledges_first(
    make_share_readers: Callable[..., Awaitable[ShareReaders]], ends: bool
) -> None:
    readers = await make_share_readers()
    await readers.initialize()
    readers.append(3)
    await readers.fetch("m")
    assert await readers.acknowledge("m", (0, 0, ACCEPT), **({"epoch": -1} if ends else {})) == "NONE"
    await readers.settled()
    assert (await readers.fetch("n")).acquired == ([(1, 2, 2)] if ends else [])
