"""`kmini produce` sends lines as records."""

from __future__ import annotations

import random

import pytest

from support.until import PATIENCE


def test_lines_become_records_and_records_lines(ask, broker) -> None:
    result = ask("produce", "orders", stdin="one\ntwo\n\nfour")
    assert result.stderr == "4 records produced to orders\n"
    assert [record.value for record in broker.records("orders")] == [b"one", b"two", b"", b"four"]
    assert ask("consume", "orders").stdout == "one\ntwo\n\nfour\n"


def test_bytes_are_not_interpreted(ask, broker) -> None:
    line = bytes(set(range(256)) - {10})
    ask("produce", "orders", stdin=line)
    assert [record.value for record in broker.records("orders")] == [line]
    assert ask("consume", "orders").stdout_bytes == line + b"\n"


def test_keys_headers_and_nulls_are_given_by_the_line_and_the_options(ask, broker) -> None:
    ask(
        *("produce", "profiles", "-K", ":", "--null-marker", "-", "-H", "source=import", "-H", "empty="),
        stdin="alice:x:y\nbob:-\n-:z\n",
    )
    headers = (("source", b"import"), ("empty", b""))
    assert [(record.key, record.value, record.headers) for record in broker.records("profiles")] == [
        (b"alice", b"x:y", headers),
        (b"bob", None, headers),
        (None, b"z", headers),
    ]


def test_keys_choose_partitions_as_in_kafka(ask, broker) -> None:
    from kmini.protocol.records.partitioner import partition_for_key

    broker.create_topic("orders", 5)
    keys = [b"key-%d" % number for number in range(40)]
    ask("produce", "orders", "-K", "=", stdin=b"".join(key + b"=v\n" for key in keys))
    for partition in range(5):
        found = {record.key for record in broker.records("orders", partition)}
        assert found == {key for key in keys if partition_for_key(key, 5) == partition}


def test_a_partition_can_be_chosen(ask, broker) -> None:
    broker.create_topic("orders", 3)
    ask("produce", "orders", "--partition", 2, stdin="one\ntwo\n")
    assert [record.value for record in broker.records("orders", 2)] == [b"one", b"two"]
    assert ask("consume", "orders", "--partition", 2).stdout == "one\ntwo\n"
    assert ask("consume", "orders", "--partition", 0).stdout == ""


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_large_input_goes_in_and_out_whole_with_every_codec(ask, broker, tmp_path, codec: str) -> None:
    chance = random.Random(codec)
    lines = [b"%d " % number + bytes(chance.choices(b"abcdef", k=chance.randrange(300))) for number in range(5_000)]
    lines[77] = b"x" * 700_000
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(lines))
    ask("produce", "orders", "--file", path, "-z", codec)
    assert ask("consume", "orders").stdout_bytes == b"\n".join(lines) + b"\n"


def test_many_empty_lines_do_not_make_a_batch_too_large(ask, broker) -> None:
    ask("produce", "orders", "-H", f"h={'x' * 500}", stdin="\n" * 3_000)
    assert len(broker.records("orders")) == 3_000


def test_without_waiting_for_an_acknowledgement_records_arrive_too(ask, broker) -> None:
    broker.create_topic("orders")
    ask("produce", "orders", "--acks", 0, stdin="one\n")
    assert broker.wait_for_records("orders", 1)[0].value == b"one"


def test_no_input_is_no_record(ask) -> None:
    assert ask("produce", "orders", stdin="").stderr == "0 records produced to orders\n"


def test_no_input_for_what_takes_no_record_is_told(refuse, run, broker) -> None:
    broker.create_topic("orders", 2)
    assert "INVALID_TOPIC_EXCEPTION" in refuse("produce", "or ders", stdin="", code=1)
    assert "orders has no partition 2, it has 2 of them" in refuse("produce", "orders", "-p", 2, stdin="", code=1)
    assert "no broker answers" in run("produce", "orders", "-b", "127.0.0.1:1", stdin="").stderr


def test_a_broker_that_ends_meanwhile_is_told_with_the_number_of_stored_records(start, broker) -> None:
    broker.create_topic("orders")
    # short: it is waited for in the end
    process = start("produce", "orders", "-b", broker.bootstrap_servers, "--timeout-ms", 1_000 * PATIENCE)
    process.stdin.write("one\n")
    process.stdin.flush()
    broker.wait_for_records("orders", 1)
    broker.stop()
    _, stderr = process.communicate("two\n", timeout=60)
    assert process.returncode == 1
    assert "1 record is stored in orders" in stderr
    assert len(stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--header", "source"], "NAME=VALUE was expected"),
        (["--file", "no/such/file"], "cannot read no/such/file: No such file or directory"),
        (["-K", ""], "at least one character was expected"),
    ],
)
def test_bad_input_to_produce_is_told(refuse, options: list[str], said: str) -> None:
    assert said in refuse("produce", "orders", *options, code=2)


def test_records_that_the_broker_refuses_are_told(refuse, broker) -> None:
    broker.create_topic("profiles", config={"cleanup.policy": "compact"})
    assert "INVALID_RECORD" in refuse("produce", "profiles", stdin="no key\n", code=1)
    assert "has no partition 9" in refuse("produce", "profiles", "-p", 9, stdin="x\n", code=1)


def test_ctrl_c_ends_producing_at_a_terminal_quietly(start, stop, broker) -> None:
    import signal

    broker.create_topic("orders")
    process = start("produce", "orders", "-b", broker.bootstrap_servers)
    process.stdin.write("one\n")
    process.stdin.flush()
    assert [record.value for record in broker.wait_for_records("orders", 1)] == [b"one"]
    code, stderr = stop(process, signal.SIGINT)
    assert (code, stderr.strip()) == (130, "")
