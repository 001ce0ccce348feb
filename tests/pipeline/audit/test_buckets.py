"""Facts are divided by key, keep their order, and come back from the disk."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from kmini.pipeline.audit.buckets import Buckets, bucket_numbers, divided
from kmini.pipeline.audit.supersession import FACTS


def facts(count: int, seed: int = 1) -> pa.RecordBatch:
    chance = np.random.default_rng(seed)
    columns = {
        "hash_low": chance.integers(0, 1 << 62, count).astype(np.uint64),
        "hash_high": chance.integers(0, 1 << 62, count).astype(np.uint64),
        "offset": np.arange(count) + 1000 * seed,
        "timestamp": np.zeros(count, np.int64),
        "size_bytes": np.ones(count, np.int32),
        "file": np.zeros(count, np.int32),
        "kind": np.zeros(count, np.uint8),
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in FACTS], schema=FACTS)


def test_every_fact_is_in_the_bucket_of_its_key_and_in_order() -> None:
    whole = facts(500)
    found = dict(divided(whole, 7))
    assert sum(part.num_rows for part in found.values()) == 500
    for bucket, part in found.items():
        assert set(bucket_numbers(part, 7).tolist()) == {bucket}
        offsets = part.column("offset").to_pylist()
        assert offsets == sorted(offsets)
    assert [number for number, _ in divided(whole, 1)] == [0]


@pytest.mark.parametrize("spill_bytes", [1, 1 << 30])
def test_facts_come_back_once_whether_they_were_spilled_or_not(spill_bytes: int) -> None:
    parts = [facts(100, seed) for seed in range(1, 5)]
    with Buckets(3, spill_bytes=spill_bytes) as buckets:
        for part in parts:
            buckets.add(part)
        assert buckets.has_spilled == (spill_bytes == 1)
        folder = buckets._folder.name if buckets._folder else None
        found = [table.column("offset").to_pylist() for table in buckets.tables()]
    assert all(offsets == sorted(offsets) for offsets in found)
    expected = sorted(offset for part in parts for offset in part.column("offset").to_pylist())
    assert sorted(offset for offsets in found for offset in offsets) == expected
    assert folder is None or not os.path.exists(folder)
