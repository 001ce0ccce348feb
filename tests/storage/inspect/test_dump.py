"""`kmini log dump`: what it shows of whole files, and how it names what is wrong in damaged ones."""

from __future__ import annotations

from kmini.storage.inspect.dump import Damage, dump
from support.dumps import batch, lines, write

SNAPSHOT = bytes.fromhex(
    "0001ecb6412c00000001000000000000000700030000000b00000000000000150000000100000000000003edffffffff0000000000000014"
)


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
