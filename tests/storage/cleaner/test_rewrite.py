"""Batches after a cleaning, byte for byte as the classes of Apache Kafka 4.3.1 write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Bench = Any

PRODUCED = bytes.fromhex(
    "0000000000000000 00000045 00000005 02 bca0f4fb 0000 00000001 00000000000003e8 00000000000003ed"
    "0000000000000007 0003 0000000a 00000002 14000000046b310476310010000a02046b320100"
)
"""Producer 7, epoch 3, base sequence 10, leader epoch 5: (1000, k1=v1), (1005, k2=null)."""
ONLY_THE_TOMBSTONE = bytes.fromhex(
    "0000000000000000 0000003b 00000005 02 fb594d40 0040 00000001 00000000000015e0 00000000000003ed"
    "0000000000000007 0003 0000000a 00000001 1200e54702046b320100"
)
"""That, cleaned at 5000 with delete.retention.ms=600."""
NOTHING = bytes.fromhex(
    "0000000000000000 00000031 00000005 02 fe578f57 0000 00000001 ffffffffffffffff 00000000000003ed"
    "0000000000000007 0003 0000000a 00000000"
)
"""That, with nothing left but the producer's sequence."""


@pytest.fixture
def produced(make_cleaning_bench: Callable[..., Bench], sieve: Any) -> Bench:
    bench = make_cleaning_bench(delete_retention_ms=600)
    bench.append(PRODUCED, leader_epoch=5)
    bench.now_ms = 5_000
    return bench


def test_a_tombstone_alone(produced: Bench) -> None:
    produced.put(("k1", "v2"))
    produced.clean()
    assert produced.batches()[0][1] == ONLY_THE_TOMBSTONE


def test_nothing_but_the_sequence_of_the_producer(produced: Bench) -> None:
    produced.put(("k1", "v2"), ("k2", "v2"))
    produced.clean()
    assert produced.batches()[0][1] == NOTHING


def test_an_emptied_batch_has_no_horizon_any_more(produced: Bench) -> None:
    produced.put(("k1", "v2"))
    produced.clean()
    produced.now_ms = 5_600
    produced.clean()
    assert produced.batches()[0][1] == NOTHING


def test_an_emptied_batch_stays_as_it_is(produced: Bench) -> None:
    produced.put(("k1", "v2"), ("k2", "v2"))
    produced.clean()
    produced.put(("k1", "v3"))
    produced.clean()
    assert produced.batches()[0][1] == NOTHING
