"""A Spark session that can read and write Kafka: on this machine, or on a cluster."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .connector import AVRO_NAME, NO_AVRO, connector_jars, why_no_avro, why_no_connector
from .connector import NAME as CONNECTOR_NAME

ARTIFACTS = "artifacts"
"""The folder that Spark makes where it runs, for files of its sessions, and leaves behind."""

QUIET = {"spark.ui.showConsoleProgress": "false"}
LOCAL = QUIET | {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, 8)),
}
"""Settings of a session on this machine, reached from this machine only."""

MASTERS = re.compile(r"local(-cluster)?(\[.*\])?|spark://.+|k8s://.+|yarn")
ON_THIS_MACHINE = re.compile(r"local\b|spark://(localhost|127\.)")
ANSWER_WITHIN_S = 5.0


class SparkUnavailableError(Exception):
    """Spark cannot run here; the message says what is missing."""


def why_unavailable(master: str = "local[*]") -> str | None:
    """Why a session cannot be started under a master, or None when it can. A standalone master has to answer."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java 17 or 21, and there is no java on the path and no JAVA_HOME"
    if not MASTERS.fullmatch(master):
        return f"{master!r} is no master of Spark: local[2], spark://HOST:PORT, yarn or k8s://ADDRESS"
    if master.startswith("spark://"):
        addresses = [address.rpartition(":") for address in master.removeprefix("spark://").split(",")]
        if not all(host and port.isdigit() for host, _, port in addresses):
            return f"{master!r} is no address of a master: spark://HOST:PORT, or spark://HOST:PORT,HOST:PORT"
        if not any(_answers(host, int(port)) for host, _, port in addresses):
            return f"no Spark master answers at {master}"
    return None


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ANSWER_WITHIN_S).close()
    except (OSError, OverflowError):
        return False
    return True


def spark_session(
    app_name: str = "kmini",
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    needs_kafka: bool = True,
    needs_avro: bool = False,
) -> SparkSession:
    """The session of this process, started where there is none.

    Below `spark-submit`, and where one was started already, that session is taken as it is, with `settings` for what
    can still change. Otherwise one is started under `settings["spark.master"]`, or `master`, with the jars of
    `connector_jars`. A master elsewhere has executors that must reach this machine: the session then listens where
    Spark decides, or as `settings` say (`spark.driver.host`).

    Raises `SparkUnavailableError` where there is no Java, where the master does not answer, and where the connector
    (unless `needs_kafka` is False) or Avro (if `needs_avro`) is missing and `settings` do not name it (`spark.jars`,
    `spark.jars.packages`).
    """
    builder = SparkSession.builder.appName(app_name)
    settings = dict(settings or {})
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = settings.get("spark.master", master)
        reason = why_unavailable(master)
        if not _names(CONNECTOR_NAME, settings):
            reason = reason or (why_no_connector() if needs_kafka else None)
            if needs_avro and not _names(AVRO_NAME, settings):
                reason = reason or why_no_avro()
            jars = [*map(str, connector_jars()), settings.get("spark.jars", "")]
            settings["spark.jars"] = ",".join(filter(None, jars))
        if reason:
            raise SparkUnavailableError(reason)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(master)
        settings = (LOCAL if ON_THIS_MACHINE.match(master) else QUIET) | settings
    for key, value in settings.items():
        builder = builder.config(key, value)
    is_ours = not os.path.exists(ARTIFACTS)
    session = builder.getOrCreate()
    if is_ours:
        session._jvm.java.io.File(ARTIFACTS).deleteOnExit()  # type: ignore[union-attr]  # if nothing is in it then
    if needs_avro:
        require_avro(session)
    return session


def require_avro(session: SparkSession) -> None:
    """Raise `SparkUnavailableError` if a session has no functions for Avro."""
    from py4j.java_gateway import JavaClass

    if not isinstance(session._jvm.org.apache.spark.sql.avro.functions, JavaClass):  # type: ignore[union-attr]
        raise SparkUnavailableError(NO_AVRO)


def _names(name: str, settings: Mapping[str, str]) -> bool:
    """Whether the caller brings jars of that name."""
    given = [settings.get(key, "") for key in ("spark.jars", "spark.jars.packages")]
    return name in " ".join([*given, os.environ.get("PYSPARK_SUBMIT_ARGS", "")])
