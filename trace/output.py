"""Where exchanges go: to standard output, to a file, and into the statistics; those that a filter means."""

from __future__ import annotations

from collections.abc import Callable

from kmini.broker.journal.entry_selection import EntrySelection
from kmini.trace.observer import TracedExchange
from kmini.trace.statistics import Statistics
from kmini.trace.trace_file import TraceWriter

Line = Callable[[TracedExchange], str]


class TraceOutput:
    """Shows, saves and counts the exchanges that are meant."""

    def __init__(
        self,
        selection: EntrySelection,
        line: Line,
        write: Callable[[str], None],
        failed: Callable[[Exception], None],
        writer: TraceWriter | None = None,
    ) -> None:
        """`failed` is told of the first error of `write` or `writer`; nothing is shown after it."""
        self.statistics = Statistics()
        self._selection = selection
        self._line = line
        self._write = write
        self._failed = failed
        self._writer = writer
        self._has_failed = False

    def show(self, exchange: TracedExchange) -> None:
        """Show, save and count an exchange, if it is meant."""
        if self._has_failed or not self._selection.means(exchange.entry):
            return
        self.statistics.add(exchange)
        try:
            self._write(self._line(exchange))
            if self._writer is not None:
                self._writer.write(exchange)
        except Exception as error:  # told to the command, which ends
            self._has_failed = True
            self._failed(error)
