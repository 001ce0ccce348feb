"""SIGINT and SIGTERM end a pipeline in order, whether they come to this process or to Spark's JVM.

Below `spark-submit` the JVM is the process that a supervisor stops. Elsewhere it is a child, which gets SIGTERM when a
supervisor stops all processes of a service. By itself it would end amid running stages.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Inside this context a signal sets `stop`. Handlers of this process belong to its main thread: in another one its
    signals stay what they are. At the end the handlers from before are back."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}
        self._jvm: Any = None
        self._before_in_jvm: dict[Any, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM
            self.handle_in_jvm()
        return self

    def handle_in_jvm(self) -> None:
        """Handle the signals of Spark's JVM, which is running. A second call does nothing."""
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        if self._jvm is not None:
            return
        SparkContext._ensure_initialized()
        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]
        self._jvm = SparkContext._jvm
        handler = SignalHandler(self._stop)
        for number in SIGNALS:
            name = self._jvm.sun.misc.Signal(number.name.removeprefix("SIG"))
            self._before_in_jvm[name] = self._jvm.sun.misc.Signal.handle(name, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for name, handler in self._before_in_jvm.items():
            self._jvm.sun.misc.Signal.handle(name, handler)


class SignalHandler:
    """The JVM's interface sun.misc.SignalHandler."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, name: Any) -> None:
        self._stop.set()

    class Java:
        implements = ("sun.misc.SignalHandler",)
