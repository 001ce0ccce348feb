"""Chunks that are sifted two at a time: the log gets what one thread would write, in the same order."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from kmini.protocol.errors import CorruptMessage
from kmini.protocol.records.compression import Codec
from kmini.storage.cleaner import clean
from kmini.storage.cleaner.chunk_filter import ChunkSifting
from kmini.storage.cleaner.cleanable_log import CleaningAborted, Limits
from kmini.storage.cleaner.offset_map import OffsetMap
from kmini.storage.cleaner.segment_reader import SegmentReader

Bench = Any

SMALL = Limits(buffer_bytes=4_096)
ALONE = SMALL._replace(sifts_ahead=False)
ODD = {1: {"codec": Codec.GZIP}, 7: {"codec": Codec.NONE}, 20: {"producer_id": 7, "producer_epoch": 0}}
"""Batches among others that are compressed with zstd: not simple, or not compressed."""


class Later(Executor):
    """A thread that never gets a core: nothing that is submitted begins."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:  # type: ignore[override]
        return Future()


class Counting(ThreadPoolExecutor):
    """A thread, and how much was submitted to it."""

    submitted = 0

    def submit(self, *work: Any, **more: Any) -> Future[Any]:  # type: ignore[override]
        Counting.submitted += 1
        return super().submit(*work, **more)


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How much the helpers of all passes were given."""
    monkeypatch.setattr(Counting, "submitted", 0)
    monkeypatch.setattr(clean, "ThreadPoolExecutor", Counting)
    return lambda: Counting.submitted


def fill(bench: Bench, codec: Codec, odd: dict[int, dict[str, Any]] | None = None) -> None:
    """Write 60 batches of which half the records are superseded by later ones."""
    for number in range(60):
        pairs = [(f"k{(number * 7 + n * 11) % 200}", f"{number}-{n}" * 9) for n in range(12)]
        batch = {"codec": codec, **(odd or {}).get(number, {})}
        if "producer_id" in batch:
            batch["base_sequence"] = 0
        bench.put(*pairs, **batch)
        if number in (2, 40):
            bench.put((f"gone{number}", None), codec=codec)


@pytest.mark.parametrize("odd", [{}, ODD], ids=["simple", "mixed"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_two_threads_write_what_one_writes(
    make_cleaning_bench: Callable[..., Bench],
    sieve: Any,
    helpers: Callable[[], int],
    codec: Codec,
    odd: dict[int, dict[str, Any]],
) -> None:
    both, alone = make_cleaning_bench(), make_cleaning_bench()
    for bench in (both, alone):
        fill(bench, codec, odd)
    reports = [both.clean(limits=SMALL)]
    assert (helpers() > 2) == (codec is Codec.ZSTD)  # the only one that takes long
    given = helpers()
    reports.append(alone.clean(limits=ALONE))
    assert helpers() == given
    for report in reports:
        report.seconds = report.map_utilization = 0.0
    assert reports[0] == reports[1]
    assert [bytes(data) for _, data in both.batches()] == [bytes(data) for _, data in alone.batches()]
    assert len(both.records()) < 12 * 60


def test_a_chunk_that_the_helper_has_not_begun_is_sifted_without_it(
    bench: Bench, make_cleaning_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = make_cleaning_bench()
    for each in (bench, alone):
        fill(each, Codec.ZSTD)
    monkeypatch.setattr(clean, "ThreadPoolExecutor", lambda *_: Later())
    bench.clean(limits=SMALL)
    alone.clean(limits=ALONE)
    assert bench.batches() == alone.batches()


def test_the_first_of_two_damaged_chunks_is_named(bench: Bench) -> None:
    fill(bench, Codec.ZSTD)
    bench.roll()
    log = bench.log.segments.oldest.log
    positions = [0]
    for header, _ in bench.batches():
        positions.append(positions[-1] + header.size)
    first = next(at for at in positions if at > 2_100)
    following = next(at for at in positions if at > 4_200)
    log.write_at(first + 70, b"!!!!")
    log.write_at(following + 8, b"\xff\xff\xff\xff")  # its length
    with pytest.raises(CorruptMessage, match=rf"position {first}$"):
        bench.clean(limits=SMALL)
    assert bench.files(".cleaned") == []
    assert not helping()


def test_a_pass_that_is_stopped_leaves_no_thread(bench: Bench, helpers: Callable[[], int]) -> None:
    class Stop:
        def on_bytes(self, count: int) -> None:
            if helpers() == 3:
                raise CleaningAborted

    fill(bench, Codec.ZSTD)
    before = bench.batches()
    with pytest.raises(CleaningAborted):
        bench.clean(limits=SMALL, watch=Stop())
    assert helpers() == 3
    assert not helping()
    assert bench.batches() == before
    assert bench.files(".cleaned") == []


def helping() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "cleaner-helper" in thread.name]


@pytest.fixture
def sifting() -> Iterator[Callable[..., ChunkSifting]]:
    maps: list[OffsetMap] = []

    def make(helper: Executor | None) -> ChunkSifting:
        maps.append(OffsetMap(10, budget_bytes=10_000))
        return ChunkSifting(maps[-1], 1_000, 0, SMALL, helper)

    yield make
    for each in maps:
        each.close()


def test_two_chunks_share_the_buffer(bench: Bench, sifting: Callable[..., ChunkSifting]) -> None:
    fill(bench, Codec.ZSTD)
    bench.roll()
    segment = bench.log.segments.oldest
    for helper, most in ((Later(), SMALL.buffer_bytes // 2), (None, SMALL.buffer_bytes)):
        read: list[int] = []
        reader = SegmentReader(segment, SMALL.buffer_bytes, read.append)
        chunks = list(sifting(helper).chunks(reader, segment.size, array("q")))
        assert [len(chunk.data) for chunk in chunks] == read
        assert max(read) == most
        ends = [chunk.position + chunk.end for chunk in chunks]
        assert ends == [chunk.position for chunk in chunks[1:]] + [segment.size]
