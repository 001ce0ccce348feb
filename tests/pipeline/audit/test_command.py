"""`kmini audit` (cli/audit.py), and its output (pipeline/audit/rendering.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kmini import Broker
from kmini.cli import kmini

from .directories import DAY_MS, PROFILES, WITHOUT_CLEANER

pytestmark = pytest.mark.sockets


@pytest.fixture
def run() -> Callable[..., Result]:
    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(kmini, ["audit", *map(str, arguments)], prog_name="kmini")

    return invoke


@pytest.fixture
def refuse(run: Callable[..., Result]) -> Callable[..., str]:
    """Run it as it must not be; the sentence that it says."""

    def invoke(*arguments: object) -> str:
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        (line,) = result.stderr.splitlines()
        return str(line)

    return invoke


class Planted:
    """A directory with a value that is past its bound by a day, and two keys of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with Broker(config=WITHOUT_CLEANER, data_dir=path) as broker:
            broker.create_topic("profiles", config=PROFILES)
            broker.create_topic("events")
            broker.produce("profiles", b"1", key=b"john")
            broker.produce("profiles", b"1", key=b"\xff")
            broker.produce("profiles", b"2", key=b"john")
            self.clean = iso(broker.clock.now_ms())
            broker.clock.advance("2d")
            self.late = iso(broker.clock.now_ms())


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return Planted(tmp_path_factory.mktemp("planted"))


def iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, timezone.utc).isoformat()


def test_a_clean_directory_is_success(run: Callable[..., Result], planted: Planted) -> None:
    result = run(planted.path, "--now", planted.clean)
    assert result.exit_code == 0, result.output
    heading, events, profiles = (line.split("\t") for line in result.stdout.splitlines())
    assert heading[0] == "topic"
    assert events == ["events", "1", "0 B", *["-"] * 7, "0"]
    assert dict(zip(heading, profiles, strict=True)) | {"bound": "1d", "violations": "0", "records": "3"} == dict(
        zip(heading, profiles, strict=True)
    )
    assert "clean; 3 records" in result.stderr
    assert f"settings of topics: from {planted.path / 'kmini.db'}" in result.stderr


@pytest.mark.parametrize(("name", "holds"), [("notes.txt", "it holds notes.txt"), (None, "it is empty")])
def test_a_directory_without_logs_is_not_said_to_be_clean(
    run: Callable[..., Result], tmp_path: Path, name: str | None, holds: str
) -> None:
    if name:
        (tmp_path / name).touch()
    result = run(tmp_path, "--topic-config", "cleanup.policy=compact")
    assert result.exit_code == 2
    assert f"{tmp_path} is no directory of logs: {holds}; a data directory of kmini," in result.stderr
    assert "clean;" not in result.stderr


def test_a_data_directory_without_topics_is_clean(run: Callable[..., Result], tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path):
        pass
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "clean; 0 records" in result.stderr


def test_violations_are_exit_code_1_and_told_in_a_table(run: Callable[..., Result], planted: Planted) -> None:
    result = run(planted.path, "--now", planted.late, "--key", "john", "--key-hex", "ff", "--key", "jack")
    assert result.exit_code == 1
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    keys = {line[0]: line[1:5] for line in lines if line[0] in ("john", "0xff", "jack")}
    assert keys == {
        "john": ["left", "2", "0", "yes"],
        "0xff": ["left", "1", "0", "yes"],
        "jack": ["gone", "0", "0", "yes"],
    }
    kinds = [line[1] for line in lines if line[0] == "violation"]
    assert kinds == ["superseded", "uncompacted", "erased-key", "erased-key"]
    (superseded,) = (line for line in lines if line[:2] == ["violation", "superseded"])
    assert superseded[2] == "broker-1/profiles-0/00000000000000000000.log"
    assert "is past the bound of 1d by 1d" in superseded[3]


def test_json_is_one_document_with_everything(run: Callable[..., Result], planted: Planted, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"john\r\n\n\xff\njohn\n")
    result = run(planted.path, "--now", planted.late, "--format", "json", "--keys-file", tmp_path / "keys")
    assert result.exit_code == 1
    told: dict[str, Any] = json.loads(result.stdout)
    assert told["is_clean"] is False
    assert told["violations"] == 4
    assert [key["key"] for key in told["keys"]] == ["john", "0xff"]
    (profiles,) = (log for log in told["partitions"] if log["topic"] == "profiles")
    assert (profiles["bound_ms"], profiles["oldest_dead_offset"], profiles["violations"]) == (DAY_MS, 0, 4)
    assert told["findings"][0]["kind"] == "superseded"
    assert told["findings"][0]["overdue_ms"] == pytest.approx(DAY_MS, abs=60_000)


def test_parquet_holds_what_json_says(run: Callable[..., Result], planted: Planted, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = run(planted.path, "--now", planted.late, "--key", "john", "--parquet", folder, "--format", "json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    for name in ("partitions", "findings", "keys"):
        table = pq.read_table(folder / f"{name}.parquet")
        assert table.num_rows == len(told[name])
        assert set(table.column_names) == set(told[name][0])
        assert table.schema.metadata[b"kmini.audit.now_ms"] == str(told["now_ms"]).encode()
    findings = pq.read_table(folder / "findings.parquet")
    assert findings.column("kind").to_pylist() == [finding["kind"] for finding in told["findings"]]
    assert pq.read_table(folder / "keys.parquet").column("key").to_pylist() == [b"john"]


@pytest.mark.sockets
@pytest.mark.parametrize(("kind", "begin"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_there_is_a_picture_of_each_compacted_topic(
    run: Callable[..., Result], planted: Planted, tmp_path: Path, kind: str, begin: bytes
) -> None:
    run(planted.path, "--now", planted.late, "--pictures", tmp_path / "out", "--picture-format", kind)
    (picture,) = (tmp_path / "out").iterdir()
    assert picture.name == f"profiles.{kind}"
    data = picture.read_bytes()
    assert data.startswith(begin)
    if kind == "svg":
        assert all(text in data for text in (b"profiles: age of what is not compacted", b"bound: 1d", b"partition 0"))


@pytest.mark.sockets
def test_a_running_broker_may_have_its_database_for_itself(run: Callable[..., Result], tmp_path: Path) -> None:
    with Broker(config=WITHOUT_CLEANER, data_dir=tmp_path) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        read = run(tmp_path, "--format", "json")
        asked = run(tmp_path / "broker-1", "--format", "json", "-b", broker.bootstrap_servers)
    for result in (read, asked):
        assert result.exit_code == 0, result.output
        (log,) = json.loads(result.stdout)["partitions"]
        assert (log["bound_ms"], log["records"]) == (DAY_MS, 1)


def test_settings_can_be_given(run: Callable[..., Result], planted: Planted, tmp_path: Path) -> None:
    def bound(*options: object) -> object:
        result = run(planted.path, "--now", planted.clean, "--format", "json", "--topic", "events", *options)
        (log,) = json.loads(result.stdout)["partitions"]
        return log["bound_ms"] if log["is_compacted"] else None

    properties = tmp_path / "server.properties"
    properties.write_text("log.cleanup.policy=compact\nlog.cleaner.max.compaction.lag.ms=5\nof.somebody.else=1\n")
    assert bound() is None
    given = ("--topic-config", "events:cleanup.policy=compact", "--topic-config", "max.compaction.lag.ms=7")
    assert bound(*given) == 7
    assert bound("--broker-config", properties) == 5
    assert bound("--broker-config", "log.cleanup.policy=compact", "--topic-config", "max.compaction.lag.ms=8") == 8
    assert bound("--broker-config", properties, "--topic-config", "events:cleanup.policy=delete") is None


def test_topics_that_nothing_is_known_of_are_named(run: Callable[..., Result], planted: Planted) -> None:
    (planted.path / "broker-1" / "stranger-0").mkdir(exist_ok=True)
    result = run(planted.path, "--now", planted.clean)
    (planted.path / "broker-1" / "stranger-0").rmdir()
    assert result.exit_code == 0
    assert "no settings were found of stranger: taken to be the broker's defaults" in result.stderr


def test_only_the_partitions_that_are_named_are_audited(run: Callable[..., Result], tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("profiles", config=PROFILES, partitions=3)
    result = run(tmp_path, "--topic", "profiles:0,2", "--partitions")
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["topic", "profiles-0", "profiles-2"]


def test_what_cannot_be_is_refused_in_a_sentence(
    refuse: Callable[..., str], planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not exist" in refuse(tmp_path / "nowhere")
    (tmp_path / "without-settings" / "orders-0").mkdir(parents=True)
    assert "says which settings its topics have" in refuse(tmp_path / "without-settings")
    assert "hexadecimal digits were expected" in refuse(planted.path, "--key-hex", "xyz")
    assert "a time like" in refuse(planted.path, "--now", "yesterday")
    assert "is no duration" in refuse(planted.path, "--grace", "long")
    assert "a size was expected" in refuse(planted.path, "--spark-from", "huge")
    assert "there is no such topic setting" in refuse(planted.path, "--topic-config", "profiles:max.lag=1")
    assert "there is no such setting of a broker" in refuse(planted.path, "--broker-config", "max.lag=1")
    assert "named twice" in refuse(planted.path, "--topic", "a", "--topic", "a:1")
    (tmp_path / "empty").write_text("\n\n")
    assert "there is no key in it" in refuse(planted.path, "--keys-file", tmp_path / "empty")
    for module in [name for name in sys.modules if name.startswith("kmini.pipeline.audit")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install '.[audit]'" in refuse(planted.path)


def test_without_java_a_large_directory_is_audited_all_the_same(
    run: Callable[..., Result], refuse: Callable[..., str], planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    result = run(planted.path, "--now", planted.clean, "--spark-from", "1B")
    assert result.exit_code == 0, result.output
    assert "a large directory, audited on one core: Spark needs Java" in result.stderr
    assert "park needs Java" in refuse(planted.path, "--spark")
