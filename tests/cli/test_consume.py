"""`kmini consume` prints records."""

from __future__ import annotations

import json

import pytest

from kmini.web.json_data import data_to_json


@pytest.fixture
def numbers(broker):
    """The topic `numbers` with the values 0 to 9 at 1970-01-01T00:00:00.000Z, 00:00:01.000Z, …"""
    broker.create_topic("numbers")
    for number in range(10):
        broker.produce("numbers", b"%d" % number, timestamp_ms=number * 1000)
    return broker


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("beginning", 0),
        ("end", 10),
        ("0", 0),
        ("7", 7),
        ("10", 10),
        ("1970-01-01T00:00:04Z", 4),
        ("1970-01-01T00:00:04.500+00:00", 5),
        ("1970-01-01T02:00:04+02:00", 4),
        ("2100-01-01T00:00:00Z", 10),
        ("1900-01-01T00:00:00Z", 0),
    ],
)
def test_where_to_begin_is_a_place_an_offset_or_a_time(ask, numbers, start: str, first: int) -> None:
    assert ask("consume", "numbers", "--from", start).stdout.split() == [str(n) for n in range(first, 10)]


def test_an_offset_that_is_not_there_is_told_with_those_that_are(refuse, numbers) -> None:
    numbers.delete_records("numbers", 3)
    for offset in (2, 11):
        sentence = refuse("consume", "numbers", "--from", offset, code=1)
        assert f"partition 0 of numbers has the offsets 3 to 10, there is no offset {offset}" in sentence


def test_a_start_that_is_none_is_told(refuse) -> None:
    for start in ("middle", "-3", "2026-13-01", "1e3"):
        assert "beginning, end, an offset, or a time" in refuse("consume", "numbers", f"--from={start}", code=2)


def test_a_count_ends_it_early(ask, numbers) -> None:
    assert ask("consume", "numbers", "--count", 3).stdout.split() == ["0", "1", "2"]
    assert ask("consume", "numbers", "--from", 8, "--count", 30).stdout.split() == ["8", "9"]


def test_what_was_deleted_is_not_shown(ask, numbers) -> None:
    numbers.delete_records("numbers", 6)
    assert ask("consume", "numbers").stdout.split() == ["6", "7", "8", "9"]


def test_as_json_a_record_is_an_object_with_everything(ask, broker) -> None:
    broker.produce("orders", None, key=b"\xff", headers=[("h", b"\xe2\x82\xac"), ("n", None)], timestamp_ms=5)
    assert json.loads(ask("consume", "orders", "--format", "json").stdout) == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": 5,
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [["h", "€"], ["n", None]],
    }


def test_each_line_of_json_is_what_the_json_module_writes(ask, broker) -> None:
    contents = [
        None,
        b"",
        b"text",
        b'quote " \\ back',
        "ü 你 \x00\x1f\x7f\u2028".encode(),
        b"\xff\xfe",
        b"\n\t",
    ]
    for number, content in enumerate(contents):
        broker.produce("orders", content, key=contents[-number], headers=[("ü\n", content)], timestamp_ms=number)
    text = ask("consume", "orders", "--format", "json").stdout
    for line in text.removesuffix("\n").split("\n"):
        assert json.dumps(json.loads(line), ensure_ascii=False) == line
    values = [json.loads(line)["value"] for line in text.removesuffix("\n").split("\n")]
    assert values == [data_to_json(content) for content in contents]


def test_time_headers_and_key_can_be_printed_before_the_value(ask, broker) -> None:
    broker.create_topic("orders", config={"message.timestamp.after.max.ms": 2**63 - 1})
    broker.produce("orders", b"v", key=b"k", headers=[("a", b"1"), ("b", None)], timestamp_ms=1_500)
    broker.produce("orders", None, timestamp_ms=1 << 60)
    printed = ask("consume", "orders", "--timestamps", "--headers", "-K", "=", "--null-marker", "∅").stdout
    assert printed == f"1970-01-01T00:00:01.500Z\ta=1,b=∅\tk=v\n{1 << 60}\t\t∅=∅\n"


@pytest.fixture
def transactions(broker):
    """The topic `t` with the records 0 committed, 1 aborted, 2 plain, 3 committed, 4 in an open transaction, 5 plain.
    With the markers they have the offsets 0, 2, 4, 5, 7, 8."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    broker.create_topic("t")
    made = []
    for number, end in enumerate(["commit", "abort", "", "commit", "open", ""]):
        if not end:
            broker.produce("t", b"%d" % number)
            continue
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"t-{end}", "log_level": 0}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("t", b"%d" % number)
        assert producer.flush(20) == 0
        {"commit": producer.commit_transaction, "abort": producer.abort_transaction, "open": lambda _: None}[end](20)
        made.append(producer)
    yield broker
    for producer in made:
        producer.purge()


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], ["0", "2", "3"]),
        (["--isolation-level", "read_committed"], ["0", "2", "3"]),
        (["--isolation-level", "read_uncommitted"], ["0", "1", "2", "3", "4", "5"]),
        (["--from", "3"], ["2", "3"]),
        (["--count", "2"], ["0", "2"]),
    ],
    ids=" ".join,
)
def test_only_committed_records_are_printed_unless_all_are_asked_for(ask, transactions, options, printed) -> None:
    assert ask("consume", "t", *options).stdout.split() == printed


def test_records_held_back_by_an_open_transaction_are_told(ask, transactions) -> None:
    told = "kmini: in t-0, a transaction is open that holds back what follows offset 6, up to 8; "
    assert ask("consume", "t").stderr == f"{told}--isolation-level read_uncommitted shows it\n"
    assert ask("consume", "t", "--isolation-level", "read_uncommitted").stderr == ""


def test_a_group_goes_on_where_the_open_transaction_begins(ask, transactions) -> None:
    assert ask("consume", "t", "--group", "g").stdout.split() == ["0", "2", "3"]
    assert ask("consume", "t", "--group", "g").stdout.split() == []
    ask("txn", "abort", "t-open")
    assert ask("consume", "t", "--group", "g").stdout.split() == ["5"]


def test_a_group_without_a_name_is_refused(refuse, numbers) -> None:
    assert "--group: at least one character was expected" in refuse("consume", "numbers", "--group", "", code=2)
    assert "GROUP: at least one character" in refuse("group", "reset", "", "numbers", "--to-latest", code=2)


def test_an_unknown_topic_or_partition_is_told(refuse, numbers) -> None:
    assert "there is no topic nowhere" in refuse("consume", "nowhere", code=1)
    assert "numbers has no partition 4" in refuse("consume", "numbers", "-p", 4, code=1)
    assert numbers.topics() == ["numbers"]


def test_following_shows_what_arrives(start, numbers) -> None:
    process = start("consume", "numbers", "-b", numbers.bootstrap_servers, "--from", 9, "--follow")
    assert process.stdout.readline() == "9\n"
    numbers.produce("numbers", b"10")
    assert process.stdout.readline() == "10\n"


def test_following_ends_after_a_count(start, numbers) -> None:
    process = start("consume", "numbers", "-b", numbers.bootstrap_servers, "--from", 10, "-f", "-n", 1)
    numbers.produce("numbers", b"10")
    assert process.communicate(timeout=30) == ("10\n", "")
    assert process.returncode == 0


def test_ctrl_c_ends_following_quietly(start, stop, numbers) -> None:
    import signal

    process = start("consume", "numbers", "-b", numbers.bootstrap_servers, "--from", 9, "--follow")
    process.stdout.readline()
    code, stderr = stop(process, signal.SIGINT)
    assert (code, stderr.strip()) == (130, "")


def test_a_reader_that_has_seen_enough_is_no_fault(start, broker) -> None:
    broker.produce("orders", b"x" * 100_000)
    broker.produce("orders", b"x" * 100_000)
    process = start("consume", "orders", "-b", broker.bootstrap_servers)
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    _, stderr = process.communicate(timeout=30)
    assert "raceback" not in stderr
    assert "fault" not in stderr
