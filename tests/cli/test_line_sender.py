"""Lines that become records in batches, and lines that are refused."""

from __future__ import annotations

import random

import pytest


def test_lines_before_a_bad_one_are_stored_and_counted(refuse, broker) -> None:
    sentence = refuse("produce", "orders", "-K", ":", stdin="a:1\nb:2\nc\nd:4\n", code=2)
    assert "line 3 has no key: ':' was expected between key and value; 2 records are stored in orders" in sentence
    assert [record.value for record in broker.records("orders")] == [b"1", b"2"]


def test_bad_lines_are_skipped_on_request(run, broker) -> None:
    lines = "".join(f"k:{number}\n" if number % 3 else f"{number}\n" for number in range(60))
    address = broker.bootstrap_servers
    result = run("produce", "orders", "-K", ":", "--on-error", "skip", "-b", address, stdin=lines)
    assert result.exit_code == 0
    *told, more, summary = result.stderr.splitlines()
    assert told[0] == "kmini: line 1 has no key: ':' was expected between key and value; it is skipped"
    assert [int(line.split()[2]) for line in told] == [1, 4, 7, 10, 13, 16, 19, 22, 25, 28]
    assert more == "kmini: more lines are skipped, and counted at the end"
    assert summary == "40 records produced to orders, 20 lines skipped"
    assert [record.value for record in broker.records("orders")] == [b"%d" % n for n in range(60) if n % 3]


@pytest.fixture
def profiles(broker):
    """A compacted topic, whose records need keys."""
    broker.create_topic("profiles", config={"cleanup.policy": "compact"})
    return "profiles"


KEYS_AND_NULLS = "a:1\nb:2\n-:3\nd:4\n-:5\nf:6\n"


def test_a_line_whose_record_the_broker_refuses_is_named_and_those_before_it_are_stored(
    refuse, broker, profiles
) -> None:
    sentence = refuse("produce", profiles, "-K", ":", "--null-marker", "-", stdin=KEYS_AND_NULLS, code=1)
    assert sentence.startswith("kmini: line 3 is refused: INVALID_RECORD: ")
    assert sentence.endswith("; 2 records are stored in profiles")
    assert [record.value for record in broker.records(profiles)] == [b"1", b"2"]


def test_lines_whose_records_the_broker_refuses_are_skipped_on_request(run, broker, profiles) -> None:
    result = run(
        *("produce", profiles, "-K", ":", "--null-marker", "-", "--on-error", "skip"),
        *("-b", broker.bootstrap_servers),
        stdin=KEYS_AND_NULLS,
    )
    assert result.exit_code == 0
    assert [line[:47] for line in result.stderr.splitlines()[:-1]] == [
        "kmini: line 3 is refused: INVALID_RECORD: a com",
        "kmini: line 5 is refused: INVALID_RECORD: a com",
    ]
    assert result.stderr.endswith("4 records produced to profiles, 2 lines skipped\n")
    assert [record.value for record in broker.records(profiles)] == [b"1", b"2", b"4", b"6"]


def test_a_line_that_is_too_large_is_named_and_the_others_of_its_batch_are_stored(run, broker) -> None:
    broker.create_topic("small", config={"max.message.bytes": 1_000})
    lines = [b"x" * (2_000 if number == 77 else 30) for number in range(100)]
    text = b"\n".join(lines)
    stopped = run("produce", "small", "-b", broker.bootstrap_servers, stdin=text)
    assert stopped.exit_code == 1
    assert "line 78 is refused: MESSAGE_TOO_LARGE" in stopped.stderr
    assert "; 77 records are stored in small" in stopped.stderr
    skipped = run("produce", "small", "--on-error", "skip", "-b", broker.bootstrap_servers, stdin=text)
    assert skipped.exit_code == 0
    assert skipped.stderr.endswith("99 records produced to small, 1 line skipped\n")
    assert len(broker.records("small")) == 77 + 99


def test_lines_keep_their_order_in_each_partition_whatever_the_blocks(ask, broker, monkeypatch) -> None:
    monkeypatch.setattr("kmini.cli.line_sender.BATCH_BYTES", 700)
    monkeypatch.setattr("kmini.cli.line_sender.FIRST_BLOCK_BYTES", 16)
    monkeypatch.setattr("kmini.cli.line_sender.MOST_GATHERED_BYTES", 2_000)
    monkeypatch.setattr("kmini.cli.line_input.READ_BYTES", 333)
    broker.create_topic("orders", 3)
    chance = random.Random(5)
    keys = [chance.choice(["a", "b", "c", "d", "-"]) for _ in range(2_000)]
    lines = [f"{key}:{number} {'x' * chance.randrange(90)}" for number, key in enumerate(keys)]
    lines[700] = "a:700 " + "y" * 5_000
    ask("produce", "orders", "-K", ":", "--null-marker", "-", stdin="\n".join(lines))
    stored = {number: broker.records("orders", number) for number in range(3)}
    for records in stored.values():
        keyed = [int((record.value or b"").split()[0]) for record in records if record.key is not None]
        assert keyed == sorted(keyed)
    assert sorted(
        f"{(record.key or b'-').decode()}:{(record.value or b'').decode()}"
        for some in stored.values()
        for record in some
    ) == sorted(lines)
