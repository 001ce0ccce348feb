"""What a test leaves behind, said unasked at its end as warnings that point to the test."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from kmini.pytest_plugin.report_section import has_failed

if TYPE_CHECKING:
    import pytest

MOST_SHOWN = 3
"""Most errors of the broker's log in a warning."""


class KafkaTestWarning(UserWarning):
    """A test ended, and left something at its broker that it should not have left."""


def warn(item: pytest.Item, text: str) -> None:
    """Warn, with the place of the test."""
    path, line, _ = item.location
    warnings.warn_explicit(text, KafkaTestWarning, path, (line or 0) + 1)


class Leftovers(logging.Handler):
    """Watches a broker from the begin of a test to its end."""

    def __init__(self, item: pytest.Item, host: Any) -> None:
        super().__init__(logging.ERROR)
        self._item = item
        self._host = host
        self._errors: list[str] = []
        logging.getLogger("kmini").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self._errors.append(record.getMessage() + (f": {cause!r}" if cause is not None else ""))

    def tell(self) -> None:
        """Stop watching, and warn of what is left. The broker still runs, unless its test has stopped it."""
        logging.getLogger("kmini").removeHandler(self)
        for text in self._found():
            warn(self._item, text)

    def _found(self) -> list[str]:
        return [*self._of_faults(), *self._of_the_log()]

    def _of_faults(self) -> list[str]:
        """Rules that never acted, and requests that rules still hold. Without a rule the broker is not asked; a test
        that has failed need not be told that it tested nothing."""
        if self._host._faults is None or self._host._running is None:
            return []
        return [*(() if has_failed(self._item) else self._host.faults.unhit()), *self._host.faults.held()]

    def _of_the_log(self) -> list[str]:
        if not self._errors or self._has_disk_faults():
            return []
        shown = "; ".join(self._errors[:MOST_SHOWN])
        more = len(self._errors) - MOST_SHOWN
        return [f"the broker logged errors: {shown}" + (f"; and {more} more" if more > 0 else "")]

    def _has_disk_faults(self) -> bool:
        """Whether the test made the disk fail, so that the broker had to log errors."""
        rules = self._host._faults.rules if self._host._faults is not None else ()
        return any(active.hits and "disk" in active.rule.when.api for active in rules)
