"""The tables of operations whose calls over HTTP need more than a request: Python functions run here."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from kmini.broker.faults.rule import When
from kmini.broker.journal.entries import JournalEntry
from kmini.broker.journal.entry_selection import EntrySelection
from kmini.control.control_client import ConnectedTable, ControlClient, plain
from kmini.control.fault_control import FaultControl, RuleControl, RuleStatus
from kmini.control.record_pages import TopicPages
from kmini.control.report_control import ReportControl
from kmini.protocol.errors import UnknownTopicOrPartition
from kmini.testkit.arrivals import KEPT_BEYOND, LOOKED_AT, RecordsMissing, present_records
from kmini.testkit.contents import Isolation, Record
from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.fault_draft import FaultDraft
from kmini.testkit.fault_handle import RuleInForce, RuleOperations
from kmini.testkit.journal_handle import RequestOperations, What
from kmini.testkit.loop_thread import LoopThread
from kmini.testkit.phrases import counted
from kmini.testkit.record_selection import Mark, Predicate, RecordSelection
from kmini.testkit.topic_handle import TopicOperations
from kmini.testkit.waiting import NotInTime

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kmini.broker.faults.acts import Act


class Deadline:
    """A time-out, by the wall clock here."""

    def __init__(self, timeout_ms: int) -> None:
        self._ends_s = time.monotonic() + timeout_ms / 1000

    def left_ms(self) -> int:
        """Milliseconds that are left; 0 when it has passed."""
        return max(round((self._ends_s - time.monotonic()) * 1000), 0)


class ConnectedTopic(ConnectedTable):
    """A topic; predicates run here, over the records that the rest of the call chooses there."""

    def __init__(self, client: ControlClient, name: str) -> None:
        super().__init__(client, TopicOperations, {"topic": name})
        self.name = name

    async def records(
        self,
        partition: int | None = None,
        *,
        key: bytes | None = None,
        where: Predicate | None = None,
        since: int | Mark | None = None,
        isolation: Isolation = "committed",
    ) -> list[Record]:
        """See `TopicOperations.records`."""
        selection = RecordSelection.of(self.name, partition, key, [where], since, isolation)
        return [record async for record in self._chosen(selection)]

    async def _chosen(self, selection: RecordSelection) -> AsyncGenerator[Record, None]:
        """The selected records, page by page."""
        pages, cursor = ConnectedTable(self._client, TopicPages, self._about), None
        chosen = {name: value for name, value in selection._asdict().items() if name != "where"}
        while True:
            page = await pages.records(**chosen, cursor=cursor)
            for record in page:
                if selection.takes(record):
                    yield record
            if page.next is None:
                return
            cursor = f"{page.next.partition}:{page.next.offset}"

    async def wait_for(
        self,
        wanted: int | Predicate,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        where: Predicate | None = None,
        since: int | Mark | None = None,
        timeout_ms: int = 10_000,
        isolation: Isolation = "committed",
    ) -> list[Record]:
        """See `TopicOperations.wait_for`."""
        count, predicate = (1, wanted) if callable(wanted) else (wanted, None)
        selection = RecordSelection.of(self.name, partition, key, [predicate, where], since, isolation)
        chosen: dict[str, Any] = {"partition": partition, "key": key, "isolation": isolation, "limit": 1}
        pages = ConnectedTable(self._client, TopicPages, self._about)
        if selection.where is None:
            await pages.wait_for(count, since=since, timeout_ms=timeout_ms, **chosen)
            return await self._first(selection, count + KEPT_BEYOND)
        deadline, topic_id = Deadline(timeout_ms), None
        found: dict[tuple[int, int], Record] = {}
        while True:
            mark = await self._there.mark()
            if mark.topic_id != topic_id:
                found, topic_id = {}, mark.topic_id
            for record in await self._first(selection, count + KEPT_BEYOND):
                found[record.partition, record.offset] = record
            if len(found) >= count:
                return [found[place] for place in sorted(found)]
            selection = selection._replace(since=mark)
            try:
                await pages.wait_for(1, since=mark, timeout_ms=deadline.left_ms(), **chosen)
            except RecordsMissing:
                meant = RecordSelection.of(self.name, partition, key, [predicate, where], since, isolation)
                visible = await self._first(meant._replace(where=None), LOOKED_AT)
                phrases = present_records(
                    self.name, meant, [*found.values()], visible, counted(count, "record"), timeout_ms
                )
                raise RecordsMissing("; ".join(phrases)) from None

    async def _first(self, selection: RecordSelection, most: int) -> list[Record]:
        """The first selected records; none of a topic that is not there."""
        found: list[Record] = []
        try:
            async with aclosing(self._chosen(selection)) as records:
                async for record in records:
                    found.append(record)
                    if len(found) >= most:
                        break
        except UnknownTopicOrPartition:
            if selection.partition is not None:
                raise
        return found


class _ReceivedRequests(RequestOperations):
    """Answers questions about the requests of a journal there, as it was at one moment."""

    def __init__(self, entries: Sequence[JournalEntry], lost: int) -> None:
        self._received = entries
        self._lost = lost

    def _entries(self, selection: EntrySelection) -> list[JournalEntry]:
        return [entry for entry in self._received if selection.may_mean(entry.number, entry.api)]

    def _apis(self, since: int) -> list[str]:
        return [entry.api for entry in self._received if entry.number >= since]

    def _extent(self) -> tuple[int, int, int]:
        first_number = self._received[0].number - self._lost if self._received else 1
        return first_number, self._lost, len(self._received)


class ConnectedRequests(ConnectedTable):
    """The journal; a function of an entry runs here, over all entries since the mark."""

    def __init__(self, client: ControlClient) -> None:
        super().__init__(client, RequestOperations)

    async def _fetched(self, what: What) -> _ReceivedRequests:
        since = {"since": _number(what["since"])} if "since" in what else {}
        return _ReceivedRequests(await self._there.all(**since), await self._there.lost())

    async def _ask(self, method: str, api: str | None, what: What, **more: Any) -> Any:
        if "where" in what:
            return await getattr(await self._fetched(what), method)(api, **more, **what)
        if "since" in what:
            what = {**what, "since": _number(what["since"])}
        return await getattr(self._there, method)(api, **more, **what)

    async def all(self, api: str | None = None, **what: Unpack[What]) -> Any:
        """See `RequestOperations.all`."""
        return await self._ask("all", api, what)

    async def count(self, api: str | None = None, **what: Unpack[What]) -> Any:
        """See `RequestOperations.count`."""
        return await self._ask("count", api, what)

    async def assert_some(self, api: str | None = None, *, number: int = 1, **what: Unpack[What]) -> Any:
        """See `RequestOperations.assert_some`."""
        return await self._ask("assert_some", api, what, number=number)

    async def assert_none(self, api: str | None = None, **what: Unpack[What]) -> Any:
        """See `RequestOperations.assert_none`."""
        return await self._ask("assert_none", api, what)

    async def wait_for(
        self, api: str | None = None, *, number: int = 1, timeout_ms: int = 10_000, **what: Unpack[What]
    ) -> Any:
        """See `RequestOperations.wait_for`."""
        if "where" not in what:
            return await self._ask("wait_for", api, what, number=number, timeout_ms=timeout_ms)
        deadline = Deadline(timeout_ms)
        while True:
            mark = await self._there.mark()
            fetched = await self._fetched(what)
            try:
                return await fetched.assert_some(api, number=number, **what)
            except AssertionError as missing:
                told = str(missing)
            try:
                await self._there.wait_for(number=1, since=mark, timeout_ms=deadline.left_ms())
            except NotInTime:
                raise NotInTime(f"{told} (after {timeout_ms} ms)") from None


def _number(since: int | JournalEntry) -> int:
    """The number of the first request that counts."""
    return since.number + 1 if isinstance(since, JournalEntry) else since


# --- faults


class ConnectedRules:
    """What a handle of fault rules keeps here."""

    def __init__(self, seed: int) -> None:
        """`seed` is that of the run; 0 leaves it to the rules there."""
        self.unfinished: set[Any] = set()
        """Rules that were begun and do not say what they do."""
        self.rules: tuple[()] = ()
        """None: the rules are there."""
        self.seed = seed


class ConnectedFaults(ConnectedTable):
    """The fault rules; a rule is put together here and checked there."""

    def __init__(self, client: ControlClient, thread: LoopThread, rules: ConnectedRules) -> None:
        super().__init__(client, FaultControl)
        self._thread = thread
        self._rules = rules

    async def arm(self, draft: FaultDraft[Any], act: Act) -> RuleInForce:
        """Put a rule in force. Raises ValueError for one with a Python function, which cannot run elsewhere."""
        apis = [draft.api] if isinstance(draft.api, str) else [*draft.api]
        conditions: dict[str, Any] = When((), **draft.conditions).to_json()
        chance: dict[str, Any] = (
            {"seed": self._rules.seed} if self._rules.seed and "probability" in draft.selection else {}
        )
        document: dict[str, Any] = {
            "when": {**conditions, "api": apis},
            "which": {**chance, **{name: plain(value) for name, value in draft.selection.items()}},
            "do": [act.to_json()],
            **({} if draft.name is None else {"name": draft.name}),
        }
        (made,) = await self._there.load([document], replaces=False)
        return ConnectedRule(self._client, self._thread, made)

    async def load_rules(self, documents: Any) -> Sequence[RuleInForce]:
        """Put rules in force that are given as JSON objects."""
        made = await self._there.load([*documents])
        return [ConnectedRule(self._client, self._thread, one) for one in made]

    async def all_rules(self) -> Sequence[RuleInForce]:
        """The rules in force."""
        return [ConnectedRule(self._client, self._thread, one) for one in await self._there.statuses()]

    async def remove_rule(self, rule: RuleInForce) -> None:
        """Take a rule back."""
        assert isinstance(rule, ConnectedRule)
        await rule.remove()

    async def clear(self) -> None:
        """Take all rules back."""
        self._rules.unfinished.clear()
        await self._there.clear()


class ConnectedRule:
    """A fault rule there, as its handle sees it. What it has met is asked anew each time, until it is removed."""

    def __init__(self, client: ControlClient, thread: LoopThread, status: RuleStatus) -> None:
        self.name = status.name
        self._document = status.rule
        self._there: Any = ConnectedTable(client, RuleControl, {"rule": status.name})
        self._thread = thread
        self._last: RuleStatus | None = None
        """What it had met when it was removed."""

    async def remove(self) -> None:
        """Take it back, unless it was taken back already."""
        if self._last is None:
            self._last = await self._there.remove()

    def _status(self) -> RuleStatus:
        return self._thread.run(self._there.status()) if self._last is None else self._last

    @property
    def hits(self) -> int:
        return self._status().hits

    @property
    def seen(self) -> int:
        return self._status().seen

    @property
    def held(self) -> list[str]:
        return [*self._status().held]

    def summary(self) -> str:
        return self._status().summary

    def why(self) -> str:
        return self._status().why

    def to_json(self) -> dict[str, Any]:
        if self._document is None:
            raise ValueError("a rule with a Python function has no JSON: respond and where are for Python only")
        return self._document

    def operations(self) -> RuleOperations:
        return cast(RuleOperations, self._there)

    def __str__(self) -> str:
        return self.name


class ConnectedReport(ConnectedTable):
    """The failure report; the waits of the test are known here."""

    def __init__(self, client: ControlClient, waits: Sequence[FailedWait]) -> None:
        super().__init__(client, ReportControl)
        self._waits = waits

    async def text(self) -> str:
        """See `ReportOperations.text`."""
        text: str = await self._there.text_with(self._waits)
        return text
