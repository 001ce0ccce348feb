"""What tests of records share: both kernels, batches as Kafka wrote them, and batches made by hand."""

import random
import struct
from collections.abc import Callable
from typing import Any

import crcmod.predefined
import pytest

from kmini.protocol.records import batch, batch_records, load_kernel
from kmini.protocol.records.record import Record

CRC32C = crcmod.predefined.mkPredefinedCrcFun("crc-32c")


@pytest.fixture(params=["compiled", "interpreted"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each kernel in turn, used by everything in `batch_records` and `batch` too."""
    interpreted = request.param == "interpreted"
    module = load_kernel.load(interpreted=interpreted)
    if not interpreted and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    monkeypatch.setattr(batch_records, "RecordWalker", module.RecordWalker)
    monkeypatch.setattr(batch_records, "RecordReader", module.RecordReader)
    monkeypatch.setattr(batch, "encode_records", module.encode_records)
    return module


@pytest.fixture(scope="session")
def golden() -> dict[str, bytes]:
    """Batches written by the classes of Apache Kafka 4.3.1."""
    vectors = {
        # producer 7, epoch 3, base sequence 10, leader epoch 5: (1000, k1=v1), (1005, k2=null)
        "produced": """0000000000000000 00000045 00000005 02 bca0f4fb 0000 00000001 00000000000003e8 00000000000003ed
            0000000000000007 0003 0000000a 00000002 14000000046b310476310010000a02046b320100""",
        # that, cleaned at 5000 with delete.retention.ms=600: the tombstone is left, with a delete horizon of 5600
        "cleaned": """0000000000000000 0000003b 00000005 02 fb594d40 0040 00000001 00000000000015e0 00000000000003ed
            0000000000000007 0003 0000000a 00000001 1200e54702046b320100""",
        # that, with nothing left but the producer's sequence
        "emptied": """0000000000000000 00000031 00000005 02 fe578f57 0000 00000001 ffffffffffffffff 00000000000003ed
            0000000000000007 0003 0000000a 00000000""",
        # ABORT of producer 7, epoch 3, by coordinator epoch 4, at 2000, offset 42, leader epoch 9
        "abort": """000000000000002a 00000042 00000009 02 9402fce0 0030 00000000 00000000000007d0 00000000000007d0
            0000000000000007 0003 ffffffff 00000001 2000000008000000000c00000000000400""",
    }
    return {name: bytes.fromhex(digits) for name, digits in vectors.items()}


@pytest.fixture(scope="session")
def some_records() -> Callable[..., list[Record]]:
    """`some_records(count)`: records of every shape with offsets 0, 1, 2, … and plausible timestamps."""

    def make(count: int, *, seed: int = 0) -> list[Record]:
        dice = random.Random(seed)
        maybe = [None, b"", b"k", b"kafka" * 5, dice.randbytes(300)]
        return [
            Record(
                offset,
                1_700_000_000_000 + dice.randrange(10_000),
                dice.choice(maybe),
                dice.choice(maybe),
                tuple((dice.choice(["", "trace", "é"]), dice.choice(maybe)) for _ in range(dice.choice([0, 0, 1, 3]))),
            )
            for offset in range(count)
        ]

    return make


@pytest.fixture
def batch_of() -> Callable[..., bytes]:
    """`batch_of(block, count)`: a batch with this block of records, whatever it is worth, and a right checksum."""

    def build(block: bytes, count: int = 1, *, attributes: int = 0, base_timestamp: int = 1000) -> bytes:
        built = bytearray(61) + block
        length = len(built) - 12
        struct.pack_into(
            ">qiibIhiqqqhii",
            built,
            0,
            0,
            length,
            -1,
            2,
            0,
            attributes,
            count - 1,
            base_timestamp,
            1000,
            -1,
            -1,
            -1,
            count,
        )
        struct.pack_into(">I", built, 17, CRC32C(bytes(built[21:])))
        return bytes(built)

    return build
