"""The request log: with `--log-level debug`, or the logger `kmini.request` at DEBUG, a line for each request.

    Produce v9 client=billing correlation=7 peer=127.0.0.1:50312 acks=-1 topics=orders[0,2] error=NONE ms=0.4

A line has the API and its version, the client, the key fields of the request, the first error of the answer, and the
milliseconds from decoding the request to answering it. Key fields are numbers and names: fields of the request itself
whose value differs from the default, and of its topics, groups and other items the name, partitions and offsets. A line
has no bytes and no deeper fields: no records, passwords, tokens or values of settings. Clients choose names, so names
are escaped and shortened.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import API_NAMES
from ...protocol.errors import error_name
from ...protocol.schema import Field, Request, Response, Struct
from ...protocol.uuids import ZERO_UUID, format_uuid
from ..security.resources import ANONYMOUS, Principal
from .peer_log import printable

if TYPE_CHECKING:
    from ...protocol.messages.headers import RequestHeader

log = logging.getLogger("kmini.request")

_MAX_ITEMS = 5
"""Items of a list that a line shows; it gives the number of the others."""
_NOT_PLAIN = r"[^\w.:/@+*-]"
_NUMBERS = ("partition", "partition_index", "index")
"""Fields that hold the number of a partition."""
_OFFSETS = ("fetch_offset", "committed_offset", "offset", "timestamp")
"""Fields of a partition that a line shows behind its number."""

NameOf = Callable[[bytes], "str | None"]
"""Gives the name of the topic with an id; None if no topic has it."""


class LoggedRequest:
    """A request whose line is logged once it is answered, or its connection ends."""

    __slots__ = ("_fields", "_header", "_peer", "_started")

    def __init__(
        self,
        header: RequestHeader,
        peer: tuple[str, int],
        principal: Principal,
        request: Request | None,
        name_of: NameOf,
    ) -> None:
        """Without a `request` the line has no key fields: it could not be decoded."""
        self._header = header
        self._started = time.perf_counter()
        self._peer = f"{printable(peer[0])}:{peer[1]}"
        self._fields: list[str] = []
        if principal != ANONYMOUS:
            self._fields.append(f"principal={_quoted(str(principal))}")
        if request is not None:
            self._fields += key_fields(request, name_of)

    def answered(self, response: Response | None) -> None:
        """Log the request with the first error of its answer; None stands for no answer (acks=0)."""
        from ..api.answer_errors import first_error  # a broker without this log needs it not

        self._log("error=NONE" if response is None else f"error={error_name(first_error(response))}")

    def closed(self, reason: object) -> None:
        """Log a request that closed its connection."""
        self._log(f"closed={_quoted(str(reason))}")

    def _log(self, outcome: str) -> None:
        header = self._header
        client = "null" if header.client_id is None else _quoted(header.client_id)
        ms = (time.perf_counter() - self._started) * 1000
        api = API_NAMES.get(header.api_key, f"api-{header.api_key}")
        asked = f"{api} v{header.api_version} client={client} correlation={header.correlation_id} peer={self._peer}"
        log.debug("%s", " ".join((asked, *self._fields, outcome, f"ms={ms:.1f}")))


def key_fields(request: Request, name_of: NameOf) -> Iterator[str]:
    """The key fields of a request, each as `name=value`."""
    for field in type(request).__fields__:
        value = getattr(request, field.name)
        if _is_default(field, value):
            continue
        if value is None:
            yield f"{field.name}=null"
        elif isinstance(value, list):
            yield f"{field.name}={_list(value, name_of)}"
        elif isinstance(value, (str, int)):
            yield f"{field.name}={_scalar(value)}"


def _is_default(field: Field, value: Any) -> bool:
    return value == "" or (value == field.default and type(value) is type(field.default))


def _list(values: list[Any], name_of: NameOf) -> str:
    if not values:
        return "[]"
    shown = [_item(value, name_of) for value in values[:_MAX_ITEMS]]
    return ",".join(_with_rest(shown, len(values)))


def _with_rest(shown: list[str], count: int) -> Iterable[str]:
    return shown if count <= _MAX_ITEMS else [*shown, f"+{count - _MAX_ITEMS}"]


def _item(value: Any, name_of: NameOf) -> str:
    """The name of a topic, group, user or other item, and its partitions."""
    if not isinstance(value, Struct):
        return _scalar(value) if isinstance(value, (str, int)) else "..."
    names = [getattr(value, field.name) for field in type(value).__fields__]
    name = next((_quoted(text) for text in names if isinstance(text, str) and text), "")
    topic_id = getattr(value, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        name = _quoted(name_of(topic_id) or format_uuid(topic_id))
    partitions = next(
        (getattr(value, field.name) for field in type(value).__fields__ if "partition" in field.name), None
    )
    if not isinstance(partitions, list):
        return name or "..."
    numbers = [_partition(one) for one in islice(partitions, _MAX_ITEMS)]
    return f"{name}[{','.join(_with_rest(numbers, len(partitions)))}]"


def _partition(value: Any) -> str:
    number = next((getattr(value, name) for name in _NUMBERS if hasattr(value, name)), value)
    offset = next((getattr(value, name) for name in _OFFSETS if hasattr(value, name)), None)
    shown = str(number) if isinstance(number, int) else "..."
    return shown if offset is None else f"{shown}@{offset}"


def _scalar(value: str | int) -> str:
    return _quoted(value) if isinstance(value, str) else str(value).lower()


def _quoted(text: str) -> str:
    """Escape text that a client sent, so that it cannot look like another field or another line."""
    escaped = printable(text)
    if escaped and not re.search(_NOT_PLAIN, escaped):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'
