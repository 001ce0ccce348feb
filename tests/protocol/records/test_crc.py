"""CRC-32C by the hardware and by table."""

import pytest

from kmini.protocol.records import crc
from kmini.protocol.records.crc import crc32c


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_the_fallback_gives_the_same_numbers() -> None:
    fallback = crc._crcmod_crc32c()
    assert fallback(memoryview(b"123456789")) == 0xE3069283
    assert fallback(b"6789", fallback(b"12345")) == 0xE3069283
