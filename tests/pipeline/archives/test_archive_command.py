"""`kmini archive` and `kmini replay`: their output, and one sentence for each error."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kmini import Broker
from kmini.cli import kmini
from support.archives import write_archive

pytestmark = pytest.mark.sockets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., "tuple[int, str, str]"]

KEEPS_ALL = {"log.retention.ms": "-1"}
"""Settings of a broker whose retention never deletes records, whatever their timestamps."""


@pytest.fixture(scope="module")
def broker(need_spark: None) -> Iterator[Broker]:
    with Broker(config=KEEPS_ALL, topics={"orders": 2, "invoices": 1}) as running:
        running.produce("orders", b"one", key=b"k", partition=1)
        running.produce("invoices", b"two")
        yield running


@pytest.fixture
def run(broker: Broker) -> Run:
    """Run `kmini` in this process: exit code, stdout, stderr."""

    def invoke(*arguments: object) -> tuple[int, str, str]:
        runner = CliRunner(env={"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers})
        result = runner.invoke(kmini, [str(argument) for argument in arguments], prog_name="kmini")
        return result.exit_code, result.stdout, result.stderr

    return invoke


def test_topics_go_into_a_directory_and_come_back(
    spark: SparkSession, broker: Broker, run: Run, tmp_path: Path
) -> None:
    assert run("archive", "orders", "invoices", tmp_path) == (
        0,
        f"orders: 1 new record, 1 record in {tmp_path}\ninvoices: 1 new record, 1 record in {tmp_path}\n",
        "",
    )
    code, out, err = run("replay", tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith("kmini: invoices exists and has had records")
    assert run("replay", tmp_path, "orders", "--topic", "again") == (0, "again: 1 record written\n", "")
    assert run("replay", tmp_path, "--resume") == (
        0,
        "invoices: 0 records written, 1 were there\norders: 0 records written, 1 were there\n",
        "",
    )
    assert [one.value for one in broker.records("again", 1)] == [b"one"]


def test_the_files_of_a_broker_will_do(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    with Broker(config=KEEPS_ALL, topics={"orders": 2}, data_dir=tmp_path / "data") as stopped:
        stopped.produce("orders", b"one", partition=1, headers=[("h", None)])
        stopped.produce("orders", b"two", partition=1, timestamp_ms=-1)
    archive, nowhere = tmp_path / "archive", ["--bootstrap-server", "127.0.0.1:1", "--timeout-ms", 500]
    code, out, err = run("archive", "orders", archive, "--log-dir", tmp_path / "data", *nowhere)
    assert (code, out, err.split(": ")[1:]) == (1, "", ["orders", "no broker answers at 127.0.0.1:1\n"])
    from kmini.pipeline.archives.archive import archive_log_dir
    from kmini.pipeline.archives.replay import replay_topic
    from kmini.pipeline.clients import Kafka

    assert archive_log_dir(spark, "orders", str(archive), str(tmp_path / "data"))[:4] == ("orders", 2, 2, 2)
    with Broker(config=KEEPS_ALL) as other:
        done = replay_topic(spark, str(archive), "orders", Kafka(other.bootstrap_servers))
        assert [note.split(":")[0] for note in done.notes] == ["the archive does not know what settings the topic had"]
        (one, two) = other.records("orders", 1)
        assert (one.value, one.headers, two.value, two.timestamp) == (b"one", (("h", None),), b"two", -1)
    (segment,) = (tmp_path / "data").glob("broker-*/orders-1/*.log")
    segment.write_bytes(segment.read_bytes()[:-1] + b"!")
    code, _, err = run("archive", "orders", tmp_path / "damaged", "--log-dir", tmp_path / "data")
    assert (code, err.count("\n"), "orders-1/00000000000000000000.log at byte" in err) == (1, 1, True)
    assert run("archive", "orders", tmp_path / "damaged", "--log-dir", tmp_path / "data", "--allow-loss")[1:] == (
        f"orders: 1 new record, 1 record in {tmp_path / 'damaged'}\n",
        "orders: 1 damaged place(s) left out; kmini log dump shows them\n",
    )
    code, _, err = run("archive", "orders", archive, "--log-dir", tmp_path / "data")
    assert (code, "taken as a whole" in err) == (1, True)
    code, _, err = run("archive", "orders", archive)
    assert (code, "was taken from a log directory" in err) == (1, True)
    code, _, err = run("archive", "nope", archive, "--log-dir", tmp_path / "data")
    assert (code, "there is no such topic in" in err) == (1, True)


def test_a_replay_without_a_broker_ends_before_spark_is_started(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kmini.cli.archive._session", lambda *_: pytest.fail("Spark is started"))
    said = "kmini: orders: no broker answers at 127.0.0.1:1\n"
    archive = write_archive(tmp_path, "orders", [[]])
    assert run("replay", archive, "orders", "-b", "127.0.0.1:1", "--timeout-ms", 300) == (1, "", said)


def test_what_spark_cannot_hold_is_said_on_one_line(
    spark: SparkSession, broker: Broker, run: Run, tmp_path: Path
) -> None:
    broker.create_topic("far", config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    broker.produce("far", b"x", timestamp_ms=2**62)
    assert run("archive", "far", tmp_path) == (
        1,
        "",
        "kmini: far: a timestamp is beyond the year 294246, which Spark does not have\n",
    )
    assert run("replay", tmp_path) == (1, "", "kmini: far: its first archiving did not come to its end: run it again\n")


def test_who_has_to_say_who_it_is_says_it_once(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    users = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonder land";'
        ),
    }
    told = tmp_path / "client.properties"
    told.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wonder land";\n'
    )
    with Broker(config={**users, **KEEPS_ALL}, topics={"secret": 1}) as broker:
        broker.produce("secret", b"by Java", timestamp_ms=0)
        broker.produce("secret", b"by librdkafka", timestamp_ms=1)
        there = ["-b", broker.bootstrap_servers, "--command-config", told]
        assert run("archive", "secret", tmp_path / "archive", *there)[0] == 0
        assert run("replay", tmp_path / "archive", "--topic", "again", *there) == (0, "again: 2 records written\n", "")
        assert [one.value for one in broker.records("again")] == [b"by Java", b"by librdkafka"]
        code, _, err = run("archive", "secret", tmp_path, "-b", broker.bootstrap_servers, "--timeout-ms", 1_000)
        assert (code, err) == (1, f"kmini: secret: no broker answers at {broker.bootstrap_servers}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["archive", "nope", "OUT"], 1, "nope: there is no such topic at 127.0.0.1:"),
        (["archive", "orders"], 2, "missing argument 'TOPIC...'"),
        (
            ["archive", "orders", "OUT", "-b", "127.0.0.1:1", "--timeout-ms", "500"],
            1,
            "no broker answers at 127.0.0.1:1",
        ),
        (["archive", "orders", "OUT", "--isolation-level", "x"], 2, "read_committed"),
        (["archive", "orders", "OUT", "--command-config", "NONE"], 2, "cannot read"),
        (["archive", "orders", "TABLE"], 1, "topic=orders is there, and is no archive"),
        (["archive", "orders", "TABLE", "--log-dir", "DATA"], 1, "topic=orders is there, and is no archive"),
        (["replay", "NONE"], 2, "NONE cannot be read: No such file or directory"),
        (["replay", "EMPTY"], 2, "EMPTY is no archive: it has no folder topic="),
        (["replay", "ARCHIVE", "nope"], 2, "has no archive of nope, only of good, half, odd"),
        (["replay", "ARCHIVE", "half"], 1, "half: its first archiving did not come to its end: run it again"),
        (["replay", "ARCHIVE", "odd"], 1, "cannot be understood"),
        (["replay", "ARCHIVE", "--topic", "x"], 2, "--topic x: these are 3 topics: good, half, odd; name one"),
    ],
)
def test_bad_input_is_one_sentence(
    spark: SparkSession,
    run: Run,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kmini.pipeline.archives.archive_files import Description, write_description

    for folder in ("EMPTY", "TABLE/topic=orders/partition=0", "DATA/orders-0"):
        (tmp_path / folder).mkdir(parents=True)
    write_archive(tmp_path / "ARCHIVE", "good", [[]])
    write_description(str(tmp_path / "ARCHIVE"), Description("half", 1))
    write_archive(tmp_path / "ARCHIVE", "odd", [[]])
    (tmp_path / "ARCHIVE" / "topic=odd" / "_topic.json").write_text('{"format": 2}')
    monkeypatch.chdir(tmp_path)
    found, out, err = run(*arguments)
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert sentence in err
    assert (tmp_path / "TABLE" / "topic=orders" / "partition=0").exists()


def test_without_the_extra_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "kmini.testkit.installed.find_spec", lambda name: None if name == "pyspark" else find_spec(name)
    )
    for arguments in (["archive", "orders", "out"], ["replay", "out"]):
        code, _, err = run(*arguments)
        assert (code, "pip install '.[spark]'" in err, err.count("\n")) == (2, True, 1)


def test_the_program_on_the_page_runs(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "archive.md").read_text(encoding="utf-8")
    program = page.partition("```py\n")[2].partition("```")[0].replace("localhost:9092", broker.bootstrap_servers)
    program = program.replace('to="orders-again"', 'to="of-the-page"')
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "archive.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert (said[0], said[-1]) == ("1 archived", "1 replayed")
