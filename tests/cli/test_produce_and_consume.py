"""`kmini produce` and `kmini consume`: what goes in comes out."""

from __future__ import annotations

import json
import random

import pytest

from kmini.cli.tables import json_text


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
    from kmini.client.partitioner import partition_for_key

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
    broker.create_topic("profiles", configs={"cleanup.policy": "compact"})
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
    broker.create_topic("small", configs={"max.message.bytes": 1_000})
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


def test_a_broker_that_ends_meanwhile_is_told_with_the_number_of_stored_records(start, broker) -> None:
    broker.create_topic("orders")
    process = start("produce", "orders", "-b", broker.bootstrap_servers, "--timeout-ms", 300)
    process.stdin.write("one\n")
    process.stdin.flush()
    broker.wait_for_records("orders", 1)
    broker.stop()
    _, stderr = process.communicate("two\n", timeout=60)
    assert process.returncode == 1
    assert "1 record is stored in orders" in stderr
    assert len(stderr.splitlines()) == 1


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
    broker.create_topic("profiles", configs={"cleanup.policy": "compact"})
    assert "INVALID_RECORD" in refuse("produce", "profiles", stdin="no key\n", code=1)
    assert "has no partition 9" in refuse("produce", "profiles", "-p", 9, stdin="x\n", code=1)


# --- consume


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
    assert values == [json_text(content) for content in contents]


def test_time_headers_and_key_can_be_printed_before_the_value(ask, broker) -> None:
    broker.create_topic("orders", configs={"message.timestamp.after.max.ms": 2**63 - 1})
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


def test_ctrl_c_ends_producing_at_a_terminal_quietly(start, stop, broker) -> None:
    import signal

    broker.create_topic("orders")
    process = start("produce", "orders", "-b", broker.bootstrap_servers)
    process.stdin.write("one\n")
    process.stdin.flush()
    assert [record.value for record in broker.wait_for_records("orders", 1)] == [b"one"]
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
