"""Facts between the map step and the reduce step on one machine: in memory, and above a limit on the disk.

The files on the disk hold hashes (under a secret that is not stored), offsets and times; no keys and no values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from .supersession import FACTS

SPILL_BYTES = 64 << 20
"""Bytes of facts of one log that are held in memory."""


def divided(facts: pa.RecordBatch, buckets: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Divide facts into buckets by key, and keep their order."""
    if buckets == 1:
        yield 0, facts
        return
    numbers = bucket_numbers(facts, buckets)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=buckets)).tolist()
    facts = facts.take(pa.array(order))
    start = 0
    for bucket, end in enumerate(ends):
        if start < end:
            yield bucket, facts.slice(start, end - start)
        start = end


def bucket_numbers(facts: pa.RecordBatch, buckets: int) -> Any:
    low = facts.column("hash_low").to_numpy()
    return (low % np.uint64(buckets)).astype(np.int64)


class Buckets:
    """The facts of one log, by bucket. A context manager: it removes its files at the end."""

    def __init__(self, count: int, *, spill_bytes: int = SPILL_BYTES) -> None:
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        self._held_bytes = 0
        self._spill_bytes = spill_bytes
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def has_spilled(self) -> bool:
        return self._folder is not None

    def add(self, facts: pa.RecordBatch) -> None:
        """Add facts. OSError if the disk has no room for facts beyond the memory limit."""
        for bucket, part in divided(facts, len(self._held)):
            self._held[bucket].append(part)
        self._held_bytes += facts.nbytes
        if self._held_bytes > self._spill_bytes and len(self._held) > 1:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the facts of each bucket once, in the order of their arrival."""
        for bucket, held in enumerate(self._held):
            parts = [*self._spilled(bucket), *held]
            self._held[bucket] = []
            yield pa.Table.from_batches(parts, FACTS)

    def _path(self, bucket: int) -> str:
        assert self._folder is not None
        return os.path.join(self._folder.name, str(bucket))

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="kmini-audit-")
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for bucket, held in enumerate(self._held):
            if not held:
                continue
            # The file is opened for each write: a process may have fewer descriptors than buckets.
            with open(self._path(bucket), "ab") as file, pa.ipc.new_stream(file, FACTS, options=options) as stream:
                for part in pa.Table.from_batches(held, FACTS).combine_chunks().to_batches():
                    stream.write_batch(part)
            self._held[bucket] = []
        self._held_bytes = 0

    def _spilled(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Read the streams of Arrow that spills appended."""
        if self._folder is None or not os.path.exists(self._path(bucket)):
            return
        with open(self._path(bucket), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while file.tell() < size:
                with pa.ipc.open_stream(file) as stream:
                    yield from stream
