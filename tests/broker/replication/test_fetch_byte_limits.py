"""What a fetch reads of its partitions: which of them may exceed the limits."""

from __future__ import annotations

import asyncio

from kmini.broker.broker import BrokerServer
from support.broker.fetching import Asked, append, request


async def test_only_the_first_partition_with_data_may_exceed_the_limits(broker: BrokerServer, topic: str, ask) -> None:
    for partition in range(3):
        append(broker, topic, b"x" * 5_000, partition=partition)
    asked = request(max_bytes=100)
    asked.topics[0].partitions = [Asked(partition=p, fetch_offset=0, partition_max_bytes=1 << 20) for p in range(3)]
    sizes = [len(p.records) for p in (await ask(broker, asked, 12)).responses[0].partitions]
    assert sizes[0] > 5_000
    assert sizes[1:] == [0, 0]


async def test_a_partition_without_records_leaves_the_right_to_one_whole_batch_to_the_next(
    broker: BrokerServer, topic: str, ask
) -> None:
    """KIP-74. Else a consumer at the end of the first partition stands still before a large batch in the second. A
    partition with an error leaves it, too; and the wait for `min_bytes` counts the whole batch."""
    for partition in (1, 2):
        append(broker, topic, b"x" * 5_000, partition=partition)
    for first, offset in ((0, 0), (0, 7), (9, 0)):
        asked = request(max_bytes=100, max_wait_ms=600_000, min_bytes=4_000)
        asked.topics[0].partitions = [
            Asked(partition=number, fetch_offset=at, partition_max_bytes=100)
            for number, at in ((first, offset), (1, 0), (2, 0))
        ]
        answers = (await asyncio.wait_for(ask(broker, asked, 12), 60)).responses[0].partitions
        assert [len(answer.records) > 5_000 for answer in answers] == [False, True, False]
