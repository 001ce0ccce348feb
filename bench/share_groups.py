"""Measure share groups (KIP-932) beside Apache Kafka; prints one line of JSON a peer.

one_by_one  100-byte records that one consumer acquires by the hundred and acknowledges by a request each
batches     the same, acknowledged with the fetch of the next 500; records a second

Both are single requests of one connection, so that the client costs the same on either peer. The peers take turns in
rounds, of which the first is not counted; the figures are medians of the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from peers import ServerProcess, available, running

# isort: split
from kmini.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kmini.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.uuids import format_uuid
from kmini.testing import Wire
from support import kafka_requests
from support.offset_requests import await_share_coordinator
from support.until import until
from support.wire import Wire as TheirWire

ACCEPT = 1
BATCH, RECORD_BYTES = 500, 100


class Reader:
    """The only member of a share group, at the only partition of its topic."""

    def __init__(self, server: ServerProcess, name: str, records: int) -> None:
        with TheirWire(server.host, server.port) as wire:
            (created,) = wire.ask(kafka_requests.create_topics({"name": name}), 7).topics
            kafka_requests.wait_for_leaders(wire, name, 1)
            self.topic_id = created.topic_id.bytes
            await_share_coordinator(wire, f"{name}:{format_uuid(self.topic_id)}:0")
        self.wire = Wire(server.bootstrap_servers)
        self.name = name
        self.epoch = 0
        Topic = InitializeShareGroupStateRequest.Topic
        state = Topic.Partition(partition=0, state_epoch=1, start_offset=0)
        begin = InitializeShareGroupStateRequest(
            group_id=name, topics=[Topic(topic_id=self.topic_id, partitions=[state])]
        )
        until(lambda: self.wire.ask(begin).results[0].partitions[0].error_code == 0, "a coordinator that has loaded")
        value = bytes(RECORD_BYTES)
        batch = bytes(build_batch([Record(number, 1_700_000_000_000, None, value) for number in range(BATCH)]))
        Produced = ProduceRequest.Topic
        for _ in range(records // BATCH):
            data = [Produced(name=name, partition_data=[Produced.Partition(index=0, records=batch)])]
            produced = self.wire.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
            assert produced.responses[0].partition_responses[0].error_code == 0, produced

    def fetch(self, most: int, first: int = 0, last: int = -1) -> tuple[int, int]:
        """Acknowledge these offsets, and acquire others: the first and the last one."""
        batches = (
            [AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])]
            if first <= last
            else []
        )
        partition = ShareFetchRequest.Topic.Partition(partition_index=0, acknowledgement_batches=batches)
        request = ShareFetchRequest(
            group_id=self.name,
            member_id="m",
            share_session_epoch=self.epoch,
            max_wait_ms=5_000,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=most,
            batch_size=most,
            share_acquire_mode=1,
            topics=[ShareFetchRequest.Topic(topic_id=self.topic_id, partitions=[partition])],
            forgotten_topics_data=[],
        )
        self.epoch += 1
        answer = self.wire.ask(request)
        assert answer.error_code == 0, answer
        if not answer.responses:  # Apache Kafka had not read the state yet
            return self.fetch(most)
        told = answer.responses[0].partitions[0]
        assert told.error_code == told.acknowledge_error_code == 0, told
        return (told.acquired_records[0].first_offset, told.acquired_records[-1].last_offset)

    def acknowledge(self, offset: int) -> None:
        Topic = ShareAcknowledgeRequest.Topic
        batch = AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT])
        partition = Topic.Partition(partition_index=0, acknowledgement_batches=[batch])
        request = ShareAcknowledgeRequest(
            group_id=self.name,
            member_id="m",
            share_session_epoch=self.epoch,
            topics=[Topic(topic_id=self.topic_id, partitions=[partition])],
        )
        self.epoch += 1
        answer = self.wire.ask(request)
        assert answer.responses[0].partitions[0].error_code == 0, answer


def one_by_one(server: ServerProcess, name: str, records: int) -> float:
    """Records a second."""
    reader = Reader(server, name, records)
    done = 0
    began = time.perf_counter()
    while done < records:
        first, last = reader.fetch(100)
        for offset in range(first, last + 1):
            reader.acknowledge(offset)
        done = last + 1
    return records / (time.perf_counter() - began)


def batches(server: ServerProcess, name: str, records: int) -> float:
    """Records a second."""
    reader = Reader(server, name, records)
    began = time.perf_counter()
    first, last = reader.fetch(BATCH)
    while last + 1 < records:
        first, last = reader.fetch(BATCH, first, last)
    return records / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", default=["kmini", "kafka"], help="kmini, kafka; both by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=3_000, help="of one_by_one; batches has 50 times as many")
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    with running(available(options.peers)) as servers:
        for number in range(options.rounds + 1):
            for name, server in servers.items():
                figures = found.setdefault(name, {"one_by_one": [], "batches": []})
                single = one_by_one(server, f"single-{number}", options.records)
                whole = batches(server, f"batches-{number}", options.records * 50)
                if number:
                    figures["one_by_one"].append(single)
                    figures["batches"].append(whole)
    for name, figures in found.items():
        medians = {f"{part}_per_s": round(statistics.median(values)) for part, values in figures.items()}
        print(json.dumps({"peer": name, **medians}))


if __name__ == "__main__":
    main()
