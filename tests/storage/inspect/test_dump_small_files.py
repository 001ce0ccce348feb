"""A dump of producer snapshots, checkpoints, and files that say whose a directory is."""

from __future__ import annotations

import pytest

from support.dumps import damage, lines, write

SNAPSHOT = bytes.fromhex(
    "0001ecb6412c00000001000000000000000700030000000b00000000000000150000000100000000000003edffffffff0000000000000014"
)


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
