"""Keys go where Kafka's own producer sends them."""

from __future__ import annotations

import random

import pytest
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kmini.protocol.records.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_of_kafka(key: bytes, hash_: int) -> None:
    assert murmur2(key) == hash_ & 0xFFFFFFFF


def test_murmur2_agrees_with_kafka_python_on_keys_of_any_length() -> None:
    chance = random.Random(1)
    for length in range(70):
        key = chance.randbytes(length)
        assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


def test_the_sign_is_cut_off_before_the_partition_is_chosen() -> None:
    assert partition_for_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
