"""A dump of a log file: batches and records, and every kind of damage."""

from __future__ import annotations

import struct

import pytest

from kmini.protocol.records.batch import build_batch, read_header, rewrite_header
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.inspect.dump import dump
from support.batches import with_crc
from support.dumps import batch, damage, lines, write
from support.for_each import for_each

LOG = "orders-0/00000000000000000000.log"


TWO_RECORDS = bytes.fromhex(
    "0000000000000000000000450000000502bca0f4fb00000000000100000000000003e800000000000003ed"
    "000000000000000700030000000a0000000214000000046b310476310010000a02046b320100"
)


EMPTIED = bytes.fromhex(
    "0000000000000000000000310000000502fe578f57000000000001ffffffffffffffff00000000000003ed"
    "000000000000000700030000000a00000000"
)


WITH_HORIZON = bytes.fromhex(
    "00000000000000000000003b0000000502fb594d4000400000000100000000000015e000000000000003ed"
    "000000000000000700030000000a000000011200e54702046b320100"
)


ABORT = bytes.fromhex(
    "000000000000002a0000004200000009029402fce000300000000000000000000007d000000000000007d0"
    "00000000000000070003ffffffff000000012000000008000000000c00000000000400"
)


V0_MESSAGE = bytes.fromhex("0000000000000064000000101fecd70a0000000000016b0000000176")


V1_MESSAGE = bytes.fromhex("000000000000006400000018e4e321bc010000000000000003e8000000016b0000000176")


def test_a_batch_is_a_line_and_its_records_are_lines_under_it(filesystem) -> None:
    write(filesystem, LOG, TWO_RECORDS)
    assert lines(filesystem, LOG, records=True) == [
        f"{LOG}: segment from offset 0, 81 bytes",
        "  position=0 offsets=0..1 records=2 size=81 codec=none create_time=1970-01-01T00:00:01.005Z leader_epoch=5"
        " producer=7 epoch=3 sequence=10..11 crc=bca0f4fb",
        '    offset=0 time=1970-01-01T00:00:01.000Z key="k1" value="v1"',
        '    offset=1 time=1970-01-01T00:00:01.005Z key="k2" value=null',
    ]
    assert len(lines(filesystem, LOG)) == 2


def test_what_compaction_leaves_is_shown_for_what_it_is(filesystem) -> None:
    write(filesystem, LOG, EMPTIED)
    write(filesystem, "kept-0/00000000000000000000.log", WITH_HORIZON)
    assert "offsets=0..1 records=0" in lines(filesystem, LOG)[1]
    header, record = lines(filesystem, "kept-0/00000000000000000000.log", records=True)[1:]
    assert "delete_horizon=1970-01-01T00:00:05.600Z" in header
    assert record == '    offset=1 time=1970-01-01T00:00:01.005Z key="k2" value=null'


def test_markers_are_shown_without_asking_for_records(filesystem) -> None:
    commit = build_end_transaction_marker(
        EndTransactionMarker(is_abort=False, coordinator_epoch=6),
        producer_id=7,
        producer_epoch=3,
        timestamp=1,
        base_offset=43,
    )
    write(filesystem, LOG, ABORT + bytes(commit))
    abort_batch, abort, _, committed = lines(filesystem, LOG)[1:]
    assert "transactional control" in abort_batch
    assert abort == "    offset=42 type=ABORT coordinator_epoch=4"
    assert committed == "    offset=43 type=COMMIT coordinator_epoch=6"


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_every_codec_are_shown(filesystem, codec: Codec) -> None:
    write(filesystem, LOG, batch(5, 3, codec))
    shown = lines(filesystem, LOG, records=True)
    assert f"codec={codec.name.lower()}" in shown[1]
    assert [line.split()[0] for line in shown[2:]] == ["offset=5", "offset=6", "offset=7"]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_tombstone_flag_is_shown(filesystem, codec: Codec) -> None:
    """KIP-87. The bit tells, not the header, and not the value."""
    header = (("kmini.tombstone", b""),)
    records = [Record(0, 0, b"a", b"why", header), Record(0, 0, b"b", b"1"), Record(0, 0, b"c", None)]
    plain = build_batch(records)
    plain[62] |= 0x20  # the attributes of the first record
    block = bytes(plain[61:])
    built = build_batch(records, codec=codec)
    stored = built[:61] + compress(codec, block)
    rewrite_header(stored, 0, read_header(stored)._replace(batch_length=len(stored) - 12))
    write(filesystem, LOG, bytes(stored))
    flagged, *others = lines(filesystem, LOG, records=True)[2:]
    assert flagged.endswith('key="a" value="why" tombstone headers: kmini.tombstone=""')
    assert not [line for line in others if "tombstone" in line]


def test_messages_of_old_formats_are_named(filesystem) -> None:
    write(filesystem, LOG, V0_MESSAGE + V1_MESSAGE.replace(b"\0\0\0\x64", b"\0\0\0\x65", 1))
    assert lines(filesystem, LOG)[1:] == [
        "  position=0 offset=100 magic=0 size=28 codec=none crc=1fecd70a",
        "  position=28 offset=101 magic=1 size=36 codec=none create_time=1970-01-01T00:00:01.000Z crc=e4e321bc",
    ]


def test_a_wrong_checksum_is_named_and_the_next_batch_shown(filesystem) -> None:
    content = bytearray(batch(0, 2) + batch(2, 2))
    first = len(batch(0, 2))
    content[first - 1] ^= 1
    write(filesystem, LOG, bytes(content))
    ((position, reason),) = damage(filesystem, LOG)
    assert position == 0
    assert reason.startswith("the CRC of the batch from offset 0 is ")
    assert f"position={first} offsets=2..3" in str(list(dump(filesystem, LOG))[-1])


def test_a_torn_tail_is_named_with_what_is_missing(filesystem) -> None:
    whole, torn = batch(0, 2), batch(2, 2)[:-1]
    write(filesystem, LOG, whole + torn)
    assert damage(filesystem, LOG) == [
        (
            len(whole),
            f"a batch of {len(torn) + 1} bytes from offset 2 is cut off after {len(torn)}; "
            f"skipped {len(torn)} bytes to the end of the file",
        )
    ]


def test_a_tail_that_is_too_short_for_anything_is_named(filesystem) -> None:
    write(filesystem, LOG, batch(0) + bytes(11))
    ((position, reason),) = damage(filesystem, LOG)
    assert position == len(batch(0))
    assert "11 bytes cannot hold a batch" in reason


def test_a_zeroed_tail_is_one_damage(filesystem) -> None:
    write(filesystem, LOG, batch(0) + bytes(5000))
    ((position, reason),) = damage(filesystem, LOG)
    assert position == len(batch(0))
    assert reason == "a batch cannot have the length 0; skipped 5000 bytes to the end of the file"


@pytest.mark.parametrize("garbage", [b"\x02" * 300, bytes(300), b"\xff" * 7, b"no batch at all " * 20])
def test_after_garbage_the_next_batch_is_found(filesystem, garbage: bytes) -> None:
    write(filesystem, LOG, batch(0) + garbage + batch(1, 5))
    ((position, reason),) = damage(filesystem, LOG)
    resumed = len(batch(0)) + len(garbage)
    assert position == len(batch(0))
    assert f"to the next batch, at {resumed}" in reason
    assert f"position={resumed} offsets=1..5" in str(list(dump(filesystem, LOG))[-1])


def test_the_search_goes_on_beyond_what_is_read_at_once(filesystem, monkeypatch) -> None:
    monkeypatch.setattr("kmini.storage.inspect.dump_log._SEARCH_BYTES", 64)
    monkeypatch.setattr("kmini.storage.inspect.dump_report._BLOCK", 100)
    for length in range(200, 265):
        path = f"orders-{length}/00000000000000000000.log"
        write(filesystem, path, batch(0) + b"\x01" * length + batch(1))
        assert str(list(dump(filesystem, path))[-1]).startswith(f"  position={len(batch(0)) + length} offsets=1..1")


def test_offsets_that_go_back_are_named(filesystem) -> None:
    write(filesystem, LOG, batch(5, 3) + batch(6))
    ((position, reason),) = damage(filesystem, LOG)
    assert position == len(batch(5, 3))
    assert reason == "offset 6 comes where 8 or a later one must"


def test_a_batch_below_the_base_offset_of_its_file_is_named(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000000009.log", batch(8))
    assert damage(filesystem, "orders-0/00000000000000000009.log")[0][1] == "offset 8 comes where 9 or a later one must"


def test_records_that_the_checksum_does_not_betray_are_checked_too(filesystem) -> None:
    content = bytearray(batch(0, 3))
    struct.pack_into(">i", content, 57, 4)  # one record more than there are
    with_crc(content)
    write(filesystem, LOG, bytes(content))
    ((position, reason),) = damage(filesystem, LOG)
    assert position == 0
    assert reason.startswith("the batch from offset 0: ")


@for_each("position", range(len(TWO_RECORDS)))
def test_a_flipped_bit_anywhere_in_a_batch_is_noticed_or_harmless(position: int) -> None:
    """The checksum covers all but the base offset and the leader epoch."""
    filesystem, content = MemoryFileSystem(), bytearray(TWO_RECORDS)
    content[position] ^= 0x80
    write(filesystem, LOG, bytes(content))
    outside_checksum = 0 < position < 8 or 12 <= position < 16
    assert bool(damage(filesystem, LOG)) != outside_checksum
