"""What tests of records share: both kernels, and batches made by hand."""

import struct
from collections.abc import Callable
from typing import Any

import crcmod.predefined
import pytest

from kmini.protocol.records import load_kernel, record

CRC32C = crcmod.predefined.mkPredefinedCrcFun("crc-32c")


@pytest.fixture(params=["compiled", "interpreted"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each kernel in turn, used by everything in `record` too."""
    interpreted = request.param == "interpreted"
    module = load_kernel.load(interpreted=interpreted)
    if not interpreted and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    monkeypatch.setattr(record, "RecordWalker", module.RecordWalker)
    monkeypatch.setattr(record, "RecordReader", module.RecordReader)
    return module


@pytest.fixture
def batch_of() -> Callable[..., bytes]:
    """`batch_of(block, count)`: a batch with this block of records, whatever it is worth, and a right checksum."""

    def build(block: bytes, count: int = 1, *, attributes: int = 0, base_timestamp: int = 1000) -> bytes:
        batch = bytearray(61) + block
        length = len(batch) - 12
        struct.pack_into(
            ">qiibIhiqqqhii",
            batch,
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
        struct.pack_into(">I", batch, 17, CRC32C(bytes(batch[21:])))
        return bytes(batch)

    return build
