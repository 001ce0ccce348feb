"""Producing: what is sent again, and what must not be."""

from __future__ import annotations

import pytest

from kmini.client import Disconnected, ProduceResult, record
from kmini.protocol.errors import (
    InvalidRecord,
    KafkaStorageError,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.produce import ProduceRequest, ProduceResponse
from kmini.protocol.records.batch import read_header
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.compression import Codec
from support.until import PATIENCE

Partition = ProduceResponse.Topic.Partition


def acknowledge(*codes: int, **fields):
    """Answers to Produce with these error codes, one after the other, then with base offset 40."""
    left = list(codes)

    def answer(request: ProduceRequest) -> ProduceResponse:
        (topic,) = request.topic_data
        partition = Partition(
            index=topic.partition_data[0].index, error_code=left.pop(0) if left else 0, base_offset=40, **fields
        )
        return ProduceResponse(
            responses=[ProduceResponse.Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=[partition])]
        )

    return answer


async def test_records_go_to_the_leader_as_one_batch(cluster, client) -> None:
    cluster.lead("t", 1, 2)
    cluster[2].answers[ProduceRequest] = acknowledge()
    records = [record(b"v", key=b"k", headers=[("h", None)], timestamp_ms=5), record(None, timestamp_ms=6)]
    result = await client.produce("t", 1, records, codec=Codec.GZIP)
    assert result == ProduceResult(40)
    (request,) = cluster[2].asked(ProduceRequest)
    sent = request.topic_data[0].partition_data[0]
    assert (request.acks, sent.index, request.topic_data[0].topic_id) == (-1, 1, cluster.topic_ids["t"])
    assert [found._replace(offset=0) for found in decode_all(sent.records)] == records
    assert read_header(sent.records).codec == Codec.GZIP


@pytest.mark.parametrize(
    "error",
    [
        *(KafkaStorageError, LeaderNotAvailable, NotEnoughReplicas),
        *(NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition),
    ],
)
async def test_what_was_not_written_is_sent_again(cluster, client, error) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[ProduceRequest] = acknowledge(error.code, error.code)
    assert (await client.produce("t", 0, [record(b"v")])).base_offset == 40
    assert len(cluster[1].asked(ProduceRequest)) == 3


@pytest.mark.parametrize("error", [RequestTimedOut, NotEnoughReplicasAfterAppend])
async def test_what_may_have_been_written_is_not_sent_again(cluster, client, error) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[ProduceRequest] = acknowledge(error.code)
    with pytest.raises(error):
        await client.produce("t", 0, [record(b"v")])
    assert len(cluster[1].asked(ProduceRequest)) == 1


async def test_what_was_under_way_when_the_connection_broke_is_not_sent_again(cluster, client) -> None:
    def hang_up(_: ProduceRequest) -> None:
        raise cluster[1].HangUp

    cluster.lead("t", 1)
    cluster[1].answers[ProduceRequest] = hang_up
    with pytest.raises(Disconnected):
        await client.produce("t", 0, [record(b"v")])
    assert len(cluster[1].asked(ProduceRequest)) == 1


async def test_a_silent_leader_is_a_time_out(cluster, client) -> None:
    cluster.lead("t", 1)
    with pytest.raises(RequestTimedOut):
        await client.produce("t", 0, [record(b"v")], timeout_ms=800 * PATIENCE)
    assert len(cluster[1].asked(ProduceRequest)) == 1


async def test_refused_records_are_named(cluster, client) -> None:
    cluster.lead("t", 1)
    errors = [Partition.RecordError(batch_index=1, batch_index_error_message="no key")]
    cluster[1].answers[ProduceRequest] = acknowledge(
        InvalidRecord.code, record_errors=errors, error_message="one record refused"
    )
    with pytest.raises(InvalidRecord, match="one record refused") as raised:
        await client.produce("t", 0, [record(b"v"), record(b"w")])
    assert raised.value.record_errors == [(1, "no key")]


async def test_with_acks_0_nothing_is_waited_for_and_nothing_known(cluster, client) -> None:
    cluster.lead("t", 1)
    assert await client.produce("t", 0, [record(b"v")], acks=0) == ProduceResult(-1, -1, -1)
    assert await client.partitions("t") == [("t", 0)]
    assert [request.acks for request in cluster[1].asked(ProduceRequest)] == [0]
