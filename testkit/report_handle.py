"""The failure report of a broker or a cluster: `broker.report()`."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING

from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.handle import Awaiting, Blocking, Handle, method
from kmini.testkit.operations import Operations
from kmini.testkit.report.failure_report import failure_report
from kmini.testkit.report.gathering import gather

if TYPE_CHECKING:
    from kmini.broker.faults.active_rules import ActiveRules


class ReportOperations:
    """The reports of a running broker or cluster."""

    def __init__(
        self,
        operations: Operations,
        rules: ActiveRules | None,
        waits: Collection[FailedWait] = (),
        told_address_s: float = inf,
    ) -> None:
        self._operations = operations
        self._rules = rules
        self._waits = waits
        self._told_address_s = told_address_s

    async def text(self) -> str:
        """The failure report."""
        is_address_known = self._told_address_s >= self._operations.began_s
        facts = await gather(self._operations, self._rules, self._waits, is_address_known=is_address_known)
        return failure_report(facts)


class _Report(Handle[ReportOperations]):
    """The methods of `Report` and `AsyncReport`."""

    def __init__(self, host: Handle[Operations]) -> None:
        owner, thread = getattr(host, "_host", host), host._thread
        super().__init__(
            thread,
            lambda: host._operations.part(
                ReportOperations,
                getattr(owner, "_faults", None),
                [*thread.failed_waits],
                thread.told_address_s,
            ),
        )

    text = method(ReportOperations.text)


class Report(_Report, Blocking[ReportOperations]):
    """The reports of a broker or a cluster."""


class AsyncReport(_Report, Awaiting[ReportOperations]):
    """The reports of a broker or a cluster; see Report."""
