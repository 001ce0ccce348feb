"""The one folder of the connector's jars: where it is, what is fetched into it, and what is told where it is empty."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark")

import pyspark

from kmini.cli import kmini
from kmini.pipeline import connector, session

JAR = f"{connector.NAME}-{pyspark.__version__}.jar"
AVRO_JAR = f"{connector.AVRO_NAME}-{pyspark.__version__}.jar"
TOLD = f"Spark {pyspark.__version__} has no Kafka connector in"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of jars, on a machine with Java."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv(connector.JARS_VARIABLE, str(tmp_path / "jars"))
    return tmp_path / "jars"


class Ivy:
    """Stands for `spark-submit`, which puts jars below `spark.jars.ivy`."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.runs: list[list[str]] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.runs.append(command)
        (ivy,) = [part.partition("=")[2] for part in command if part.startswith("spark.jars.ivy=")]
        names = ["org.slf4j_slf4j-api-9.9.9.jar"]
        if connector.CONNECTOR in self.packages():
            names += [f"org.apache.spark_{JAR}", "org.apache.kafka_kafka-clients-3.9.0.jar"]
        if connector.AVRO in self.packages():
            names += [f"org.apache.spark_{AVRO_JAR}"]
        (Path(ivy) / "jars").mkdir()
        for name in names:
            (Path(ivy) / "jars" / name).write_text(name)
        return subprocess.CompletedProcess(command, 1 if self.error else 0, "", self.error)

    def packages(self) -> list[str]:
        """Those that the last run was to fetch."""
        last = self.runs[-1]
        return last[last.index("--packages") + 1].split(",")


def test_each_release_of_spark_has_a_folder_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(connector.JARS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert connector.jars_folder() == tmp_path / "kmini" / f"spark-{pyspark.__version__}"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert connector.jars_folder().parent == tmp_path / ".cache" / "kmini"


def test_what_spark_has_itself_is_not_put_beside_the_connector(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ivy = Ivy()
    monkeypatch.setattr(connector.subprocess, "run", ivy)
    jars = connector.fetch_connector()
    assert [jar.name for jar in jars] == ["kafka-clients-3.9.0.jar", AVRO_JAR, JAR]
    assert sorted(folder.iterdir()) == jars
    assert ivy.packages() == [connector.CONNECTOR, connector.AVRO]
    assert connector.fetch_connector() == jars
    assert len(ivy.runs) == 1


def test_a_folder_that_has_the_connector_only_gets_the_functions_for_avro(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    (folder / JAR).write_text("as it is")
    ivy = Ivy()
    monkeypatch.setattr(connector.subprocess, "run", ivy)
    assert [jar.name for jar in connector.fetch_connector()] == [AVRO_JAR, JAR]
    assert ivy.packages() == [connector.AVRO]


def test_a_fetch_that_fails_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = 'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: x: not found]\n\tat y'
    monkeypatch.setattr(connector.subprocess, "run", Ivy(error))
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "jars"], prog_name="kmini")
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"kmini: {connector.CONNECTOR},{connector.AVRO} could not be fetched: [unresolved dependency: x: not found]\n"
    )
    assert connector.connector_jars() == []


def test_jars_of_another_release_are_neither_taken_nor_mixed_with_others(folder: Path) -> None:
    folder.mkdir()
    (folder / f"{connector.NAME}-3.5.0.jar").touch()
    assert connector.connector_jars() == []
    with pytest.raises(connector.ConnectorError, match=r"3\.5\.0\.jar is of another release"):
        connector.fetch_connector()


def test_jars_of_the_same_minor_release_are_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / f"{connector.NAME}-4.2.0.jar").touch()
    monkeypatch.setattr(connector.pyspark, "__version__", "4.2.1")
    assert connector.why_no_connector() is None


def test_the_command_prints_jars_as_spark_submit_takes_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    for name in ("kafka-clients-3.9.0.jar", AVRO_JAR, JAR):
        (folder / name).touch()
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "jars"], prog_name="kmini")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{folder}/kafka-clients-3.9.0.jar,{folder}/{AVRO_JAR},{folder}/{JAR}\n"


class Builder:
    """Stands for Spark's builder of sessions, and for the session; keeps the settings."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self._jvm = MagicMock()

    def appName(self, name: str) -> Builder:
        return self

    def master(self, master: str) -> Builder:
        return self.config("spark.master", master)

    def config(self, key: str, value: str) -> Builder:
        self.settings[key] = value
        return self

    def getOrCreate(self) -> Builder:
        return self


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without a session, which needs no Java here."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", "somewhere")

    class NoSession:
        getActiveSession = staticmethod(lambda: None)

        @property
        def builder(self) -> Builder:
            return Builder()

    monkeypatch.setattr(session, "SparkSession", NoSession())


def settings_of(**arguments: Any) -> dict[str, str]:
    started: Any = session.spark_session(**arguments)
    found: dict[str, str] = started.settings
    return found


def test_a_missing_connector_is_told_before_spark_starts(folder: Path, no_session: None) -> None:
    with pytest.raises(session.SparkUnavailableError) as refused:
        session.spark_session()
    assert str(refused.value) == f"{TOLD} {folder}: `kmini pipeline jars` fetches it, in 10 MB"
    assert settings_of(needs_kafka=False)["spark.jars"] == ""


def test_missing_functions_for_avro_are_told_before_spark_starts_where_they_are_needed(
    folder: Path, no_session: None
) -> None:
    folder.mkdir()
    (folder / JAR).touch()
    with pytest.raises(session.SparkUnavailableError) as refused:
        session.spark_session(needs_avro=True)
    assert str(refused.value) == (
        f"Spark {pyspark.__version__} has no spark-avro_2.13, for values in Avro: `kmini pipeline jars` fetches it"
    )
    assert settings_of()["spark.jars"] == str(folder / JAR)


def test_a_session_that_has_no_functions_for_avro_is_refused(no_session: None) -> None:
    """One that is there already, or whose caller named other jars: it has a package of that name, and no class."""
    with pytest.raises(session.SparkUnavailableError, match=r"has no spark-avro_2\.13"):
        session.require_avro(Builder())  # type: ignore[arg-type]


def test_a_connector_that_the_caller_names_is_enough(folder: Path, no_session: None) -> None:
    settings = {"spark.jars.packages": connector.CONNECTOR}
    assert "spark.jars" not in settings_of(settings=settings)


def test_jars_of_the_caller_come_beside_the_connector(folder: Path, no_session: None) -> None:
    folder.mkdir()
    (folder / JAR).touch()
    assert settings_of(settings={"spark.jars": "mine.jar"})["spark.jars"] == f"{folder / JAR},mine.jar"


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("sprak://head:7077", "'sprak://head:7077' is no master of Spark"),
        ("spark://head", "'spark://head' is no address of a master: spark://HOST:PORT"),
        ("local[2", "is no master of Spark"),
    ],
)
def test_a_master_that_cannot_be_is_told_before_spark_starts(
    folder: Path, no_session: None, master: str, told: str
) -> None:
    with pytest.raises(session.SparkUnavailableError, match=told.replace("[", r"\[")):
        session.spark_session(settings={"spark.master": master})


def test_only_a_master_elsewhere_has_a_session_that_others_reach(no_session: None) -> None:
    local = settings_of(master="local[2]", needs_kafka=False)
    assert local["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in settings_of(master="k8s://https://head", needs_kafka=False)
