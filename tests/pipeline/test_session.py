"""The session finds its jars, its Python and its address by itself."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from support.server_process import StartServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_writes_and_reads_a_topic(spark: SparkSession, start_server: StartServer) -> None:
    server = start_server()
    kafka = {"kafka.bootstrap.servers": server.bootstrap_servers}
    rows = spark.range(100).selectExpr("cast(id as string) as key", "cast(id * id as string) as value")
    rows.write.format("kafka").options(**kafka, topic="squares").save()
    read = spark.read.format("kafka").options(**kafka, subscribe="squares").load()
    squares = {int(row.key): int(row.value) for row in read.select("key", "value").collect()}
    assert squares == {number: number * number for number in range(100)}


def test_a_session_listens_on_this_machine_only(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


def test_without_java_the_message_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    session = pytest.importorskip("kmini.pipeline.session")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "Java 17" in session.why_unavailable()


@pytest.mark.sockets
def test_a_standalone_master_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "somewhere")
    session = pytest.importorskip("kmini.pipeline.session")
    with socket.socket() as nothing_listens:
        nothing_listens.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{nothing_listens.getsockname()[1]}"
        assert session.why_unavailable(master) == f"no Spark master answers at {master}"
        nothing_listens.listen()
        assert session.why_unavailable(master) is None
