"""Break down the time of one produce and of one fetch, layer by layer; prints a Markdown table for each.

A broker runs in this process, a raw socket asks it, and the functions at the border of a layer are timed in place.
Each figure is the median over all requests, in microseconds of the broker's loop; timing costs each border a third of
one.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from raw_client import Client, framed

from kmini import Broker
from kmini.broker.handlers import produce as produce_module
from kmini.broker.network import connection as connection_module
from kmini.broker.network.connection import Connection
from kmini.broker.replication.partition import Partition
from kmini.client import parse_addresses
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.produce import ProduceRequest, ProduceResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.storage.log import PartitionLog

VERSION = 9
TOPIC = "profile"
WHOLE = "all"


class Border(NamedTuple):
    """A function whose time is a layer's."""

    layer: str
    owner: Any
    name: str


SHARED = (Border("framing: one request", Connection, "_next_frame"),)
PRODUCE = (
    *SHARED,
    Border("decode", ProduceRequest, "decode"),
    Border("validate", produce_module, "validate_plain"),
    Border("append", Partition, "append"),
    Border("encode", ProduceResponse, "encode"),
    Border("framing: the answer", connection_module, "response_frame"),
    Border("encode, frame and write", Connection, "send"),
    Border(WHOLE, Connection, "buffer_updated"),
)
FETCH = (
    *SHARED,
    Border("decode", FetchRequest, "decode"),
    Border("read the log", PartitionLog, "read"),
    Border("encode", FetchResponse, "encode"),
    Border("framing: the answer", connection_module, "response_frame"),
    Border("encode, frame and write", Connection, "send"),
    Border(WHOLE, Connection, "buffer_updated"),
)


class OfEachObject:
    """Times a function that each object has as an attribute of its own: a data descriptor in place of the attribute."""

    def __init__(self, name: str, timed: Callable[[Any], Any]) -> None:
        self._name = name
        self._timed = timed

    def __get__(self, owner: Any, _: type) -> Any:
        return vars(owner)[self._name]

    def __set__(self, owner: Any, function: Any) -> None:
        vars(owner)[self._name] = self._timed(function)


class Timed:
    """Replaces the borders by timed versions of themselves while it is entered."""

    def __init__(self, borders: tuple[Border, ...]) -> None:
        self.borders = borders
        self.requests: list[dict[str, float]] = []
        self._current: dict[str, float] = defaultdict(float)
        self._originals: list[Any] = []

    def __enter__(self) -> Timed:
        for border in self.borders:
            original = vars(border.owner).get(border.name)
            self._originals.append(original)
            setattr(border.owner, border.name, self._replacement(border))
        return self

    def __exit__(self, *_: object) -> None:
        for border, original in zip(self.borders, self._originals, strict=True):
            if original is None:
                delattr(border.owner, border.name)
            else:
                setattr(border.owner, border.name, original)

    def _replacement(self, border: Border) -> Any:
        function = getattr(border.owner, border.name, None)
        if function is None:
            return OfEachObject(border.name, functools.partial(self._timed, border=border))
        return self._timed(function, border)

    def _timed(self, function: Callable[..., Any], border: Border) -> Any:
        clock, layer = time.perf_counter, border.layer

        @functools.wraps(function)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            start = clock()
            result = function(*arguments, **keywords)
            self._current[layer] += clock() - start
            if layer == WHOLE:
                self.requests.append(self._current)
                self._current = defaultdict(float)
            return result

        is_bound_class_method = isinstance(getattr(function, "__self__", None), type)
        return staticmethod(timed) if is_bound_class_method else timed

    def forget(self) -> None:
        """Start over, once everything is warm."""
        self.requests.clear()

    def table(self, title: str) -> str:
        layers = [border.layer for border in self.borders]
        medians = {layer: statistics.median(request[layer] for request in self.requests) * 1e6 for layer in layers}
        everything, sending = medians.pop(WHOLE), medians.pop("encode, frame and write")
        medians["write to the socket"] = sending - medians["framing: the answer"]
        medians["framing: the answer"] -= medians["encode"]
        medians["dispatch and handler"] = everything - sum(medians.values())
        rows = [f"| {layer} | {duration:.1f} |" for layer, duration in medians.items()]
        return "\n".join([f"| {title} | µs |", "|---|---|", *rows, f"| **sum** | **{everything:.1f}** |"])


def ask(client: Client, frame: bytes, count: int) -> None:
    for _ in range(count):
        client.ask(frame)


def produce_frame(records: int, size: int) -> bytes:
    now = time.time_ns() // 1_000_000
    batch = build_batch([Record(n, now, None, b"x" * size, ()) for n in range(records)])
    data = ProduceRequest.Topic.Partition(index=0, records=memoryview(batch))
    topics = [ProduceRequest.Topic(name=TOPIC, partition_data=[data])]
    return framed(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), VERSION)


def fetch_frame(max_bytes: int) -> bytes:
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    topics = [FetchRequest.Topic(topic=TOPIC, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics)
    return framed(request, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5_000)
    options = parser.parse_args()
    with Broker(topics={TOPIC: 1}) as broker:
        address = parse_addresses(broker.bootstrap_servers)[0]
        cases = (
            ("produce of one 100-byte record", PRODUCE, produce_frame(1, 100), options.requests),
            ("produce of a batch of 1,000", PRODUCE, produce_frame(1_000, 100), options.requests // 10),
            ("fetch of 1 KiB", FETCH, fetch_frame(1024), options.requests),
            ("fetch of 1 MiB", FETCH, fetch_frame(1024 * 1024), options.requests // 10),
        )
        for title, borders, frame, count in cases:
            # uvloop remembers a connection's callbacks, so each case has its own connection.
            with Timed(borders) as timed, closing(Client(address)) as client:
                ask(client, frame, 200)
                timed.forget()
                ask(client, frame, count)
            print(timed.table(title), end="\n\n")


if __name__ == "__main__":
    main()
