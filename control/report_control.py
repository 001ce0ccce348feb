"""The failure report, as the control API gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.report_handle import ReportOperations

if TYPE_CHECKING:
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.testkit.operations import Operations


class ReportControl:
    """The failure report of a broker or a cluster."""

    def __init__(self, operations: Operations, rules: ActiveRules) -> None:
        self._operations = operations
        self._rules = rules

    async def text(self) -> str:
        """What the broker knows for a test that has failed, in at most 40 lines."""
        return await self.text_with(())

    async def text_with(self, waits: Sequence[FailedWait]) -> str:
        """The same, with the calls of the test that waited in vain."""
        return await ReportOperations(self._operations, self._rules, waits).text()
