"""A broker, a maker of pipelines on it, and a checkpoint, for tests of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kmini.pipeline import Pipeline, Stage
    from support.pipeline_cluster import Cluster
    from support.server_process import StartServer


@pytest.fixture
def cluster(start_server: StartServer, need_spark: None) -> Cluster:
    from support.pipeline_cluster import Cluster

    return Cluster(start_server().bootstrap_servers)


@pytest.fixture
def piped(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """A maker of pipelines on the test's broker; batches follow one another."""
    from kmini.pipeline import Pipeline

    def declare(*stages: Stage, **more: Any) -> Pipeline:
        return Pipeline(
            "p", stages, **{"kafka": cluster.kafka, "directory": str(tmp_path), "trigger_interval_ms": 0, **more}
        )

    yield declare
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The folders of a checkpoint whose Kafka source began at offset 0 of t-0."""
    for folder in ("offsets", "commits", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":0}}')
    return tmp_path
