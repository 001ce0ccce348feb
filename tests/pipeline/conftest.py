"""One Spark session for all tests of the pipeline, which run in one process (tests/support/stages.py)."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def need_spark() -> None:
    """Skip where Spark, Java or the connector's jars are not to be had."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    from kmini.pipeline.connector import why_no_connector
    from kmini.pipeline.session import why_unavailable

    if reason := why_unavailable() or why_no_connector():
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def py4j_leaves_sockets(leaky_clients: None) -> None:
    """Spark's bridge to Java leaves its sockets to the garbage collector."""


@pytest.fixture(scope="session")
def spark(need_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, with two cores; stopping it does not end what tests run in processes of their own."""
    from kmini.pipeline.session import spark_session

    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("spark"))  # Spark makes a folder `artifacts` where it is started
    session = spark_session(
        "kmini-tests",
        master="local[2]",
        settings={
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            # A short life: to compile better costs more than it gives.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    os.chdir(here)
    gc.collect()
    gc.freeze()  # else each collection of `leaky_clients` goes through all of Spark's modules
    yield session
    session.stop()
