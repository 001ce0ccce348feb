"""A pipeline that can be run: its declaration, with `start` and `run`."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .declaration import PipelineDeclaration
from .pipeline_progress import Watcher, logged
from .running_pipeline import Running, StoppedAtStart
from .signals import Signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kmini.pipeline")

CHECK_STOP_EVERY_S = 0.05
"""Seconds between checks whether a start is to be given up."""
END_START_S = 1.0
"""Seconds that a start which is to stop has for ending in order."""


@dataclass(frozen=True)
class Pipeline(PipelineDeclaration):
    """Stages joined by topics. Raises `DeclarationError` where they do not fit together."""

    def start(
        self,
        *,
        available_now: bool = False,
        apply: bool = False,
        take_over: bool = False,
        spark: SparkSession | None = None,
    ) -> Running:
        """Run the pipeline beside the rest of this program, with the arguments of `run`; `Running.stop` ends it."""
        return Running(self, available_now=available_now, apply=apply, take_over=take_over, spark=spark)

    def run(
        self,
        *,
        available_now: bool = False,
        apply: bool = False,
        take_over: bool = False,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """Run the pipeline until `stop` is set, or SIGINT or SIGTERM comes; with `available_now`, until every stage has
        processed everything that is there. Signals of Spark's JVM count too; those of this process are taken in the
        main thread only.

        With `apply` the declared settings of topics that exist are set. Without it a difference is logged, and those by
        which records go (retention, compaction) have to be as declared. `take_over` makes this pipeline the owner of
        topics that another one purges.

        `watcher` is called about once a second; without one the progress is logged to "kmini.pipeline" now and then,
        and to the standard error where nothing else is set up. Raises `PipelineError` after a stage failed and the
        others were stopped, upstream first.
        """
        stop = stop or threading.Event()
        with Signals(stop) as signals, logged() if watcher is None else nullcontext(watcher) as report:
            running = self._start_beside(
                stop,
                available_now=available_now,
                apply=apply,
                take_over=take_over,
                spark=spark,
                when_spark_runs=signals.handle_in_jvm,
            )
            if running is None:
                log.info("pipeline %r was stopped while it started", self.name)
                return
            with running:
                running.wait(stop, report)

    def _start_beside(self, stop: threading.Event, **options: Any) -> Running | None:
        """Start the pipeline in a thread, for no signal can interrupt Spark; None if `stop` is set before it runs.

        A start that has not ended `END_START_S` after `stop` was set is left to end by itself: a session of Spark takes
        some seconds, and the end of this program ends its JVM. A start that fails then, as it does where the signal
        ended the JVM too, has not failed for a reason of its own.
        """
        started: Future[Running] = Future()

        def start() -> None:
            try:
                started.set_result(Running(self, stop=stop, **options))
            except BaseException as error:
                started.set_exception(error)

        threading.Thread(target=start, name="kmini-start", daemon=True).start()
        while not started.done() and not stop.is_set():
            wait([started], timeout=CHECK_STOP_EVERY_S)
        try:
            return started.result(END_START_S)
        except (Exception, StoppedAtStart):
            if not stop.is_set():
                raise
            started.add_done_callback(_stop_if_running)
            return None


def _stop_if_running(started: Future[Running]) -> None:
    if started.exception() is None:
        started.result().stop(finishes_batches=False)
