"""A pipeline that can be run: its declaration, with `start` and `run`."""

from __future__ import annotations

import logging
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .declaration import PipelineDeclaration
from .pipeline_progress import Watcher, logged
from .running_pipeline import Running, StoppedAtStart
from .signals import Signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kmini.pipeline")


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
        """Run the pipeline until `stop` is set, or SIGINT or SIGTERM comes; with `available_now`, until every stage has
        processed everything that is there. Signals are taken in the main thread.

        `watcher` is called about once a second; without one the progress is logged to "kmini.pipeline" now and then,
        and to the standard error where nothing else is set up. Raises `PipelineError` after a stage failed and the
        others were stopped, upstream first.
        """
        stop = stop or threading.Event()
        with Signals(stop) as signals, logged() if watcher is None else nullcontext(watcher) as report:
            try:
                running = Running(
                    self, available_now=available_now, spark=spark, stop=stop, when_spark_runs=signals.take_back
                )
            except StoppedAtStart:
                log.info("pipeline %r was stopped while it started", self.name)
                return
            with running:
                running.wait(stop, report)
