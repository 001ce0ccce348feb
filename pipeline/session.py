"""A Spark session that can read and write Kafka: on this machine unless `spark-submit` says otherwise."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

JARS_VARIABLE = "KMINI_SPARK_JARS"
CHECKOUT_JARS = Path(__file__).resolve().parent.parent / ".spark-jars"
"""The folder that `make spark-jars` fills."""

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
"""Spark's Kafka connector of Spark's own release, as Maven knows it."""

ARTIFACTS = "artifacts"
"""The folder that Spark makes where it runs, for files of its sessions, and leaves behind."""

LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 1, 8)),
}
"""Settings of a session on this machine, reached from this machine only."""


class SparkUnavailableError(Exception):
    """Spark cannot run here; the message says what is missing."""


def connector_jars() -> list[Path]:
    """The connector's jars, from the folder `KMINI_SPARK_JARS` or that of `make spark-jars`; none there: empty."""
    return sorted(Path(os.environ.get(JARS_VARIABLE) or CHECKOUT_JARS).glob("*.jar"))


def why_unavailable() -> str | None:
    """Why a session cannot be started on this machine, or None when it can."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs Java 17 or 21, and there is no java on the path and no JAVA_HOME"
    return None


def spark_session(
    app_name: str = "kmini", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this process, started where there is none.

    Below `spark-submit`, and where one was started already, that session is taken as it is, with `settings` for what
    can still change. Otherwise one is started under `master`, with the jars of `connector_jars` or, where there are
    none, with the connector as `spark.jars.packages`, which Spark then fetches itself.

    Raises `SparkUnavailableError` where there is no Java.
    """
    builder = SparkSession.builder.appName(app_name)
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        if reason := why_unavailable():
            raise SparkUnavailableError(reason)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(master)
        jars = connector_jars()
        connector = {"spark.jars": ",".join(map(str, jars))} if jars else {"spark.jars.packages": CONNECTOR}
        for key, value in (LOCAL | connector).items():
            builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    is_ours = not os.path.exists(ARTIFACTS)
    session = builder.getOrCreate()
    if is_ours:
        session._jvm.java.io.File(ARTIFACTS).deleteOnExit()  # type: ignore[union-attr]  # if nothing is in it then
    return session
