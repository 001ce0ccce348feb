"""`kmini log dump`: what it shows of whole files, and how it names what is wrong in damaged ones."""

from __future__ import annotations

import struct

import pytest

from kmini.protocol.records.batch import build_batch, read_header, rewrite_header
from kmini.protocol.records.compression import Codec, compress
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.storage.filesystem import FileSystem
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.inspect.dump import Damage, dump

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
SNAPSHOT = bytes.fromhex(
    "0001ecb6412c00000001000000000000000700030000000b00000000000000150000000100000000000003edffffffff0000000000000014"
)


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()


def write(filesystem: FileSystem, path: str, content: bytes) -> None:
    filesystem.make_directory(path.rpartition("/")[0] or ".")
    file = filesystem.open(path, create=True)
    file.append(content)
    file.close()


def lines(filesystem: FileSystem, path: str, *, records: bool = False) -> list[str]:
    """The dump of what must be whole."""
    entries = list(dump(filesystem, path, records=records))
    assert not [entry for entry in entries if isinstance(entry, Damage)]
    return [str(entry) for entry in entries]


def damage(filesystem: FileSystem, path: str) -> list[tuple[int, str]]:
    """Positions and reasons."""
    return [(entry.position, entry.reason) for entry in dump(filesystem, path) if isinstance(entry, Damage)]


def batch(first: int, count: int = 1, codec: Codec = Codec.NONE, timestamp: int = 1000) -> bytes:
    records = [Record(first + n, timestamp + n, b"k", b"v%d" % n) for n in range(count)]
    return bytes(build_batch(records, base_offset=first, codec=codec))


# --- batches and records


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


def test_bytes_that_are_no_text_are_hexadecimal_and_long_ones_are_cut(filesystem) -> None:
    record = Record(0, 0, b"\xff\x00", b"x" * 500, (("h", b"1"), ("n", None)))
    write(filesystem, LOG, bytes(build_batch([record])))
    line = lines(filesystem, LOG, records=True)[2]
    assert "key=0xff00 " in line
    assert f'value="{"x" * 200}"… (500 bytes) headers: h="1" n=null' in line


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


# --- damaged segments


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
    content[17:21] = struct.pack(">I", _crc(content))
    write(filesystem, LOG, bytes(content))
    ((position, reason),) = damage(filesystem, LOG)
    assert position == 0
    assert reason.startswith("the batch from offset 0: ")


def _crc(content: bytearray) -> int:
    from kmini.protocol.records.crc import crc32c

    return crc32c(memoryview(content)[21:])


@pytest.mark.parametrize("position", range(len(TWO_RECORDS)))
def test_a_flipped_bit_anywhere_in_a_batch_is_noticed_or_harmless(filesystem, position: int) -> None:
    """The checksum covers all but the base offset and the leader epoch."""
    content = bytearray(TWO_RECORDS)
    content[position] ^= 0x80
    write(filesystem, LOG, bytes(content))
    outside_checksum = 0 < position < 8 or 12 <= position < 16
    assert bool(damage(filesystem, LOG)) != outside_checksum


# --- indexes


def segment_of_six(filesystem: FileSystem) -> str:
    """Six batches of two records; the indexes are those that the log has when every second batch is indexed."""
    directory = "orders-0"
    log, offset_index, time_index = b"", b"", b""
    for number in range(6):
        one = batch(1000 + 2 * number, 2, timestamp=100 + 2 * number)
        if number % 2:
            offset_index += struct.pack(">ii", 2 * number + 1, len(log))
            time_index += struct.pack(">qi", 100 + 2 * number + 1, 2 * number + 1)
        log += one
    for kind, content in ((".log", log), (".index", offset_index), (".timeindex", time_index)):
        write(filesystem, f"{directory}/00000000000000001000{kind}", content)
    return f"{directory}/00000000000000001000"


def test_indexes_are_shown_with_absolute_offsets(filesystem) -> None:
    path = segment_of_six(filesystem)
    size = len(batch(0, 2))
    assert lines(filesystem, f"{path}.index")[1:] == [
        f"  offset={1000 + 2 * number + 1} position={size * number}" for number in (1, 3, 5)
    ]
    assert lines(filesystem, f"{path}.timeindex")[1] == "  time=1970-01-01T00:00:00.103Z timestamp=103 offset=1003"


def test_place_that_kafka_reserves_in_an_index_is_no_damage(filesystem) -> None:
    path = segment_of_six(filesystem)
    for kind, size in ((".index", 8), (".timeindex", 12)):
        file = filesystem.open(path + kind)
        file.append(bytes(10 * size))
        assert lines(filesystem, path + kind)[-1].startswith("  10 entries of zeros")
    write(filesystem, "fresh-0/00000000000000000000.index", bytes(80))
    assert lines(filesystem, "fresh-0/00000000000000000000.index")[0].endswith("0 entries")


@pytest.mark.parametrize(
    ("kind", "entries", "position", "reason"),
    [
        (".index", [(3, 99999)], 0, "position 99999 is beyond the batches of the log"),
        (".index", [(3, 7)], 0, "at position 7 of the log there is no whole batch"),
        (".index", [(2, 150)], 0, "at position 150"),
        (".index", [(11, 0), (3, 0)], 8, "(1003 at 0) comes after (1011 at 0)"),
        (".index", [(0, 0)], 0, "the batch at position 0 ends at offset 1001, not at 1000"),
        (".timeindex", [(103, 3), (103, 5)], 12, "(103, 1005) comes after (103, 1003)"),
        (".timeindex", [(103, 3), (105, 1)], 12, "(105, 1001) comes after (103, 1003)"),
        (".timeindex", [(103, 3), (104, 7)], 12, "up to offset 1007 there is a timestamp of 107, after 104"),
    ],
)
def test_an_entry_that_contradicts_its_log_or_its_neighbour_is_named(
    filesystem, kind: str, entries: list[tuple[int, int]], position: int, reason: str
) -> None:
    path = segment_of_six(filesystem)
    filesystem.remove(path + kind)
    packing = ">ii" if kind == ".index" else ">qi"
    write(filesystem, path + kind, b"".join(struct.pack(packing, *entry) for entry in entries) + b"\x01")
    found = damage(filesystem, path + kind)
    assert found[0][0] == position
    assert reason in found[0][1]
    assert found[-1] == (len(entries) * struct.calcsize(packing), "a rest of 1 byte is no whole entry")


def test_an_index_without_its_log_is_shown_all_the_same(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000001000.index", struct.pack(">ii", 3, 7))
    assert lines(filesystem, "orders-0/00000000000000001000.index")[1] == "  offset=1003 position=7"


def test_aborted_transactions_are_shown_and_checked(filesystem) -> None:
    path = "orders-0/00000000000000000000.txnindex"
    good = struct.pack(">hqqqq", 0, 7, 90, 110, 105)
    write(filesystem, path, good)
    assert lines(filesystem, path)[1] == "  producer=7 first_offset=90 marker=110 last_stable_offset=105"
    file = filesystem.open(path)
    file.append(good, struct.pack(">hqqqq", 1, 7, 90, 120, 105), struct.pack(">hqqqq", 0, 7, 130, 125, 105), b"tail")
    assert damage(filesystem, path) == [
        (34, "the marker at 110 comes after 110"),
        (68, "there is no version 1"),
        (102, "the transaction begins at 130, after its marker at 125"),
        (136, "a rest of 4 bytes is no whole entry"),
    ]


# --- small files


def test_a_snapshot_is_shown_by_producer(filesystem) -> None:
    path = "orders-0/00000000000000000022.snapshot"
    write(filesystem, path, SNAPSHOT)
    assert lines(filesystem, path) == [
        f"{path}: producers before offset 22, 1 entry",
        "  producer=7 epoch=3 last_sequence=11 last_batch=20..21 time=1970-01-01T00:00:01.005Z"
        " open_transaction_since=20",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\0\1", [(0, "2 bytes are too few for a snapshot")]),
        (b"\0\2" + SNAPSHOT[2:], [(0, "version 2 is unknown")]),
        (SNAPSHOT[:-1], [(2, "the CRC is"), (6, "1 entries are announced, 0 are there"), (10, "a rest of 45 bytes")]),
        (SNAPSHOT[:2] + b"\0\0\0\0" + SNAPSHOT[6:], [(2, "the CRC is ecb6412c, it says 00000000")]),
    ],
)
def test_a_damaged_snapshot_is_named_by_what_is_wrong(filesystem, content: bytes, expected) -> None:
    path = "orders-0/00000000000000000022.snapshot"
    write(filesystem, path, content)
    found = damage(filesystem, path)
    assert [position for position, _ in found] == [position for position, _ in expected]
    assert all(reason.startswith(start) for (_, reason), (_, start) in zip(found, expected, strict=True))


def test_checkpoints_are_shown_by_entry(filesystem) -> None:
    write(filesystem, "d/log-start-offset-checkpoint", b"0\n1\nmytopic 0 42\n")
    write(filesystem, "orders-0/leader-epoch-checkpoint", b"0\n2\n0 0\n3 17\n")
    write(filesystem, "d/cleaner-offset-checkpoint", b"")
    assert lines(filesystem, "d/log-start-offset-checkpoint") == [
        "d/log-start-offset-checkpoint: checkpoint, 1 entry",
        "  topic=mytopic partition=0 offset=42",
    ]
    assert lines(filesystem, "orders-0/leader-epoch-checkpoint")[1:] == [
        "  epoch=0 start_offset=0",
        "  epoch=3 start_offset=17",
    ]
    assert lines(filesystem, "d/cleaner-offset-checkpoint") == ["d/cleaner-offset-checkpoint: checkpoint, 0 entries"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("recovery-point-offset-checkpoint", b"1\n0\n", [(0, '"1" is unknown')]),
        ("recovery-point-offset-checkpoint", b"0\n", [(2, "the number of entries is missing")]),
        ("recovery-point-offset-checkpoint", b"0\n2\nt 0 1\n", [(2, '"2" entries are announced, 1 are there')]),
        ("recovery-point-offset-checkpoint", b"0\n2\nt 0\nt 0 7\n", [(4, '"t 0" is not of the form')]),
        ("replication-offset-checkpoint", b"0\n1\nt x 1\n", [(4, "is not of the form topic partition offset")]),
        ("replication-offset-checkpoint", b"0\n1\n\xff 0 1 2\n", [(4, "is not of the form")]),
        ("leader-epoch-checkpoint", b"0\n2\n3 0\n2 5\n", [(8, "epoch 2 5 comes after 3 0")]),
    ],
)
def test_a_damaged_checkpoint_is_named_by_line(filesystem, name: str, content: bytes, expected) -> None:
    write(filesystem, f"d/{name}", content)
    found = damage(filesystem, f"d/{name}")
    assert [position for position, _ in found] == [position for position, _ in expected]
    assert all(part in reason for (_, reason), (_, part) in zip(found, expected, strict=True))


def test_whose_a_directory_is_is_shown_and_checked(filesystem) -> None:
    write(filesystem, "orders-0/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    write(filesystem, "d/meta.properties", b"#Mon Jan 01\nversion=1\nnode.id=1\ndirectory.id=nonsense\n")
    assert lines(filesystem, "orders-0/partition.metadata")[1:] == [
        "  version=0",
        "  topic_id=AAECAwQFBgcICQoLDA0ODw",
    ]
    ((position, reason),) = damage(filesystem, "d/meta.properties")
    assert position == len(b"#Mon Jan 01\nversion=1\nnode.id=1\n")
    assert "nonsense" in reason
    write(filesystem, "other-0/partition.metadata", b"version: 0\nnonsense\n")
    assert [position for position, _ in damage(filesystem, "other-0/partition.metadata")] == [11, 20]


# --- directories


def test_a_partition_is_shown_in_reading_order(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000000000.log", batch(0, 5))
    write(filesystem, "orders-0/00000000000000000000.index", b"")
    write(filesystem, "orders-0/00000000000000000005.log", batch(5, 5))
    write(filesystem, "orders-0/00000000000000000005.timeindex", b"")
    write(filesystem, "orders-0/00000000000000000005.snapshot", SNAPSHOT)
    write(filesystem, "orders-0/leader-epoch-checkpoint", b"")
    write(filesystem, "orders-0/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    write(filesystem, "orders-0/00000000000000000002.log.deleted", batch(2))
    write(filesystem, "orders-0/notes.txt", b"")
    headings = [line.split(":")[0] for line in lines(filesystem, "orders-0") if not line.startswith(" ")]
    assert [heading.removeprefix("orders-0/") for heading in headings] == [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000005.log",
        "00000000000000000005.timeindex",
        "00000000000000000005.snapshot",
        "00000000000000000002.log.deleted",
        "notes.txt",
    ]


def test_a_data_directory_is_shown_whole(filesystem) -> None:
    write(filesystem, "data/kmini.db", b"kmini.db 3\n")
    write(filesystem, "data/broker-1/meta.properties", b"version=1\nnode.id=1\n")
    write(filesystem, "data/broker-1/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":-1}')
    write(filesystem, "data/broker-1/orders-0/00000000000000000000.log", batch(0))
    text = "\n".join(lines(filesystem, "data"))
    for part in (
        "topics, settings and producer ids of all brokers",
        "node.id=1",
        "the last shutdown was clean",
        "offsets=0..0",
    ):
        assert part in text


def test_segments_that_overlap_and_missing_indexes_are_named(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000000000.log", batch(0, 5))
    write(filesystem, "orders-0/00000000000000000003.log", batch(3, 5))
    found = [entry for entry in dump(filesystem, "orders-0") if isinstance(entry, Damage)]
    assert found == [
        Damage("orders-0/00000000000000000000.index", 0, "is missing; the next start rebuilds it"),
        Damage("orders-0/00000000000000000003.log", 0, "the segment before ends at offset 4, where this one has begun"),
    ]


def test_a_file_on_its_way_out_can_be_shown_by_its_name(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000000002.log.deleted", batch(2))
    assert "offsets=2..2" in lines(filesystem, "orders-0/00000000000000000002.log.deleted")[1]


def test_a_file_that_must_not_be_written_is_read_all_the_same(filesystem, monkeypatch) -> None:
    write(filesystem, LOG, batch(0, 5))

    def refuse(self: object, position: int, length: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(filesystem.open(LOG)), "read_at", refuse)
    assert "offsets=0..4" in lines(filesystem, LOG)[1]


def test_files_that_a_running_broker_removes_meanwhile_are_no_damage(filesystem) -> None:
    write(filesystem, "orders-0/00000000000000000000.log", batch(0))
    write(filesystem, "orders-0/00000000000000000001.log", batch(1))
    write(filesystem, "orders-0/00000000000000000001.index", b"")
    write(filesystem, "orders-0/00000000000000000002.log.deleted", batch(2))
    entries = dump(filesystem, "orders-0")
    first = next(entries)
    for name in filesystem.list("orders-0"):
        filesystem.remove(f"orders-0/{name}")
    shown = [first, *entries]
    assert not [entry for entry in shown if isinstance(entry, Damage)]
    assert "orders-0/00000000000000000001.log: was removed meanwhile" in map(str, shown)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_shown(filesystem, monkeypatch) -> None:
    write(filesystem, "orders-0/00000000000000000000.log", batch(0))
    write(filesystem, "orders-0/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    opened = filesystem.open

    def refuse(path: str, *, create: bool = False):
        if path.endswith("metadata"):
            raise OSError(5, "Input/output error", path)
        return opened(path, create=create)

    monkeypatch.setattr(filesystem, "open", refuse)
    entries = list(dump(filesystem, "orders-0"))
    assert Damage("orders-0/partition.metadata", 0, "cannot be read: Input/output error") in entries
    assert "offsets=0..0" in str(entries[-1])
