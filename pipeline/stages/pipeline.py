"""A pipeline that can be run: its declaration, with `start` and `run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .declaration import PipelineDeclaration
from .pipeline_progress import Watcher
from .running_pipeline import Running

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Pipeline(PipelineDeclaration):
    """Stages joined by topics. Raises `DeclarationError` where they do not fit together."""

    def start(self, *, available_now: bool = False, spark: SparkSession | None = None) -> Running:
        """Run the pipeline beside the rest of this program; `Running.stop` ends it."""
        return Running(self, available_now=available_now, spark=spark)

    def run(
        self,
        *,
        available_now: bool = False,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """Run the pipeline until `stop` is set; with `available_now`, until every stage has processed everything that
        is there.

        Raises `PipelineError` after a stage failed and the others were stopped, upstream first.
        """
        with self.start(available_now=available_now, spark=spark) as running:
            running.wait(stop, watcher)
