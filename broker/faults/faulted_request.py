"""One request on which fault rules act, on its way to its answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import UnsupportedVersion, error_named
from ..api.request_context import CloseConnection
from .active_rule import FOR_EVER_MS, ActiveRule, Never, pause, wait_at
from .acts import (
    Act,
    Corrupt,
    Disconnect,
    Drop,
    Error,
    ExpiredToken,
    NoRecords,
    Respond,
    Throttle,
    Trickle,
    Truncate,
)
from .answer_bytes import damage_frame, frame_of
from .error_answers import EntryError, FailedEntries, add_missing_fetches, details_of, level_of
from .matching import means_entry, share_session_keys

if TYPE_CHECKING:
    from ..api.interception import Exchange, Serve
    from ..network.connection import Connection

API_VERSIONS = 18
_TRICKLE_STEP_MS = 50
"""Milliseconds between the pieces of an answer that trickles."""


class FaultedRequest:
    """A request and the rules that act on it, the newest first."""

    def __init__(self, exchange: Exchange, serve: Serve, rules: list[ActiveRule]) -> None:
        self._exchange = exchange
        self._request: Any = exchange.request
        self._serve = serve
        self._context = exchange.context
        self._version = exchange.header.api_version
        self._acting: list[ActiveRule] = []
        """The rules that take part; those whose only act is decided by a newer rule do not."""
        self._deciding: tuple[ActiveRule, Act] | None = None
        self._errors: list[tuple[ActiveRule, EntryError]] = []
        """The errors for entries, the newest first; all of them act."""
        for active in rules:
            self._take(active)
        for active in self._acting:
            exchange.note_fault(active.rule.name)

    def _take(self, active: ActiveRule) -> None:
        takes_part = False
        for act in active.rule.do:
            if not act.is_terminal:
                takes_part = True
            elif self._deciding is None:
                self._deciding = active, act
                takes_part = True
                if isinstance(act, Error):
                    self._errors.append((active, self._entry_error(active, act)))
            elif isinstance(act, Error) and self._errors and self._errors[0][1].means is not None:
                error = self._entry_error(active, act)
                if error.means is not None and error.level.path:
                    self._errors.append((active, error))
                    takes_part = True
        if takes_part:
            self._acting.append(active)
            if not self._depends_on_answer(active):
                active.acted()

    def _depends_on_answer(self, active: ActiveRule) -> bool:
        """Whether only the answer tells if the rule acts: one about records does not where there are none."""
        return self._deciding is not None and self._deciding[0] is active and bool(self._deciding[1].apis)

    def _entry_error(self, active: ActiveRule, act: Error) -> EntryError:
        when = active.rule.when
        level = level_of(type(self._request), self._version, act.code, of_partition=when.partition is not None)
        if level is None:
            raise CloseConnection(f"fault rule {active.rule.name!r}: this version has no error code")
        details = details_of(act, level, self._request.response)
        means = means_entry(when) if level.path else None
        return EntryError(error_named(act.code).code, level, means, act.applied, details)

    # --- the way of the request

    async def answer(self) -> Any:
        """What the interceptor returns."""
        await wait_at("before", self._exchange, self._acting)
        answer = await self._answer_of_rules()
        await wait_at("after", self._exchange, self._acting)
        throttle_ms = sum(act.ms for active in self._acting for act in active.rule.do if isinstance(act, Throttle))
        if throttle_ms:
            if answer is not None and hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms += throttle_ms
            self._connection.mute(throttle_ms)
        return await self._send(answer)

    async def _answer_of_rules(self) -> Any:
        if self._deciding is None:
            return await self._serve()
        active, act = self._deciding
        if isinstance(act, Error):
            return await self._fail()
        if isinstance(act, (Drop, Disconnect)) and not act.applied:
            return None
        if isinstance(act, ExpiredToken):
            if self._connection.sasl is not None and self._connection.sasl.expire_token():
                active.acted()
            return await self._serve()
        answer = await self._serve()
        if isinstance(act, Respond):
            return act.function(self._request, answer)
        if answer is not None and act.apis and act.change(answer, means_entry(active.rule.when), self._topic_name):
            active.acted()
            if isinstance(act, NoRecords):
                await pause(self._exchange, self._request.max_wait_ms)  # as a fetch without records waits
        return answer

    async def _fail(self) -> Any:
        """Serve what the errors leave of the request; answer the errors in their places."""
        request = self._request
        if request.name == "Produce" and request.acks == 0 and not all(error.is_applied for _, error in self._errors):
            raise CloseConnection("a fault rule fails a produce with acks=0, which has no answer")
        if request.api_key == API_VERSIONS:
            return await self._old_api_versions()
        serve: Any = self._serve
        for _, error in reversed(self._errors):
            serve = self._failing(error, serve)
        return await serve()

    def _failing(self, error: EntryError, serve: Any) -> Any:
        request = self._request

        async def failing() -> Any:
            entries = FailedEntries(request, self._version, self._topic_name)
            answer = await entries.answer(error, serve)
            if request.name in ("Fetch", "ShareFetch") and error.level.path and answer is not None:
                add_missing_fetches(answer, self._fetched(error), error)
                entries.fail_acknowledgements(answer, error)
            return answer

        return failing

    def _fetched(self, error: EntryError) -> Iterator[tuple[str, bytes, int]]:
        """What the fetch reads and the error means: topic, topic id and partition."""
        request, services = self._request, self._context.services
        remembered: Iterable[tuple[str, bytes, int]]
        if request.name == "ShareFetch":
            named = [("", t.topic_id, p.partition_index) for t in request.topics for p in t.partitions]
            remembered = [("", key.topic_id, key.partition) for key in share_session_keys(request, services)]
        else:
            named = [(t.topic, t.topic_id, p.partition) for t in request.topics for p in t.partitions]
            remembered = services.fetch_sessions.keys_of(request.session_id) if request.session_epoch > 0 else ()
        for topic, topic_id, index in dict.fromkeys([*named, *remembered]):
            if error.means is None or error.means(topic or self._topic_name(topic_id), index):
                yield topic, topic_id, index

    async def _old_api_versions(self) -> Any:
        """An error of ApiVersions: UNSUPPORTED_VERSION is answered in version 0, as KIP-511 says."""
        answer: Any = await self._serve()
        answer.error_code = self._errors[0][1].code
        if answer.error_code == UnsupportedVersion.code:
            header = self._exchange.header
            self._connection.write([frame_of(header.correlation_id, 0, answer)])
            return None
        return answer

    async def _send(self, answer: Any) -> Any:
        """Send the answer as the deciding act says, or leave that to the dispatcher."""
        if self._deciding is None:
            return answer
        active, act = self._deciding
        if isinstance(act, Drop):
            await self._context.wait(Never(), timeout_ms=FOR_EVER_MS)
            return None
        if isinstance(act, Disconnect):
            if act.rst:
                self._connection.reset()
            raise CloseConnection(f"fault rule {active.rule.name!r}")
        if answer is None or act.apis or not isinstance(act, (Truncate, Trickle, Corrupt)):
            return answer
        frame = frame_of(self._exchange.header.correlation_id, self._version, answer)
        if isinstance(act, Corrupt):
            damage_frame(frame, act.what)
            self._connection.write([frame])
        elif isinstance(act, Truncate):
            self._connection.write([frame[: act.bytes]])
            raise CloseConnection(f"fault rule {active.rule.name!r}")
        else:
            await self._trickle(frame, act.bytes_per_second)
        return None

    async def _trickle(self, frame: bytearray, bytes_per_second: int) -> None:
        step = max(1, bytes_per_second * _TRICKLE_STEP_MS // 1000)
        step_ms = max(1, step * 1000 // bytes_per_second)
        for start in range(0, len(frame), step):
            if start:
                await pause(self._exchange, step_ms)
            self._connection.write([bytes(frame[start : start + step])])

    @property
    def _connection(self) -> Connection:
        """The connection, for what is written past the dispatcher."""
        return cast("Connection", self._context.connection)

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._context.services.controller.topic_by_id(topic_id)
        return None if topic is None else topic.name
