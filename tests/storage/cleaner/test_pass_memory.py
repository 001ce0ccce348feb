"""The memory that a pass of the cleaner takes at most."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.load_kernel import load_sieve
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.background_work import Deletions
from kmini.storage.cleaner.clean import Pass
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.dirtiness import assess, capture
from kmini.storage.cleaner.stats import PassReport
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.log_config import LogConfig
from kmini.storage.log_environment import LogEnvironment
from kmini.storage.log_manager import create_log
from kmini.storage.validation import ValidatedRecords

MIB = 1024 * 1024
IN_BATCH = 500
LIMITS = Limits(buffer_bytes=32_768)


class Unwatched:
    def on_bytes(self, count: int) -> None:
        """Never stops it."""


@pytest.fixture
def cleaned_on_disk(tmp_path: Path) -> Callable[..., tuple[PassReport, int]]:
    """Cleans a log of so many records on the disk; the report, and the most bytes that the pass held at any time
    besides its map."""

    def clean(keys: int, *, codec: Codec = Codec.NONE, value: bytes = b"") -> tuple[PassReport, int]:
        filesystem = OsFileSystem()
        directory = tmp_path / f"{keys}-{codec.name}"
        directory.mkdir()
        environment = LogEnvironment(filesystem, [], Deletions(filesystem), lambda: 1_000)
        config = LogConfig(cleanup_policy=("compact",))
        log = create_log(environment, str(directory), TopicPartition("orders", 0), bytes(16), config)
        for first in range(0, keys, IN_BATCH):
            records = [Record(0, 1_000, b"key %d" % number, value) for number in range(first, first + IN_BATCH)]
            batch = ValidatedRecords.of(build_batch(records, codec=codec))
            log.append_as_leader(batch, leader_epoch=0, now_ms=1_000)
        log.update_high_watermark(log.log_end_offset)
        log.roll(1_000)
        passing = Pass(capture(log, assess(log, None, 1_000)), 1_000, LIMITS, Unwatched())
        load_sieve()  # to compile the interpreted one takes more than a pass
        tracemalloc.start()
        try:
            for _ in passing.run():
                pass
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        log.close()
        assert passing.report.keys == passing.report.records_kept == keys
        return passing.report, held

    return clean


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_map_has_24_bytes_a_key_by_the_load_factor(
    cleaned_on_disk: Callable[..., tuple[PassReport, int]], codec: Codec
) -> None:
    report, _ = cleaned_on_disk(4_000, codec=codec)
    assert report.map_bytes <= 24 * (4_000 / 0.9 + 3)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_what_a_pass_holds_besides_its_map_does_not_grow_with_the_keys(
    cleaned_on_disk: Callable[..., tuple[PassReport, int]], codec: Codec
) -> None:
    value = b"v" * 100
    few, many = (cleaned_on_disk(keys, codec=codec, value=value)[1] for keys in (1_000, 5_000))
    assert many < few + 4 * LIMITS.buffer_bytes
    assert many < 32 * MIB


def test_of_batches_larger_than_its_buffers_a_pass_holds_a_few(
    cleaned_on_disk: Callable[..., tuple[PassReport, int]],
) -> None:
    report, held = cleaned_on_disk(4_000, value=b"v" * 1_000)
    batch_bytes = report.bytes_read // (4_000 // IN_BATCH)
    assert LIMITS.buffer_bytes < batch_bytes
    assert held < 6 * batch_bytes < report.bytes_read
