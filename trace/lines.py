"""Exchanges as lines: for people, and as JSON. What is secret never comes here: `observer.py` does not decode it.

JSON has one object for each exchange, with `header` and `payload` as Kroxylicious' protocol logger has them:
`{"header": {"type": "Produce", "apiKey": 0, "apiVersion": 9, ...}, "payload": {...}, "answer": {...}}`.
"""

from __future__ import annotations

import json
from typing import Any

from kmini.broker.api.key_fields import KeyPartition, Producer
from kmini.broker.journal.entries import JournalEntry
from kmini.broker.network.peer_log import printable
from kmini.protocol.api_keys import API_KEYS
from kmini.trace.observer import TracedExchange

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def text_line(exchange: TracedExchange) -> str:
    """An exchange for people: "+0.031 #2 Produce v9 orders-svc orders-1:3 -> ok 1.0 ms, 412 B in, 60 B out"."""
    entry = exchange.entry
    note = f" ({printable(exchange.note)})" if exchange.note else ""
    sizes = f"{shown_bytes(entry.bytes_in)} in, {shown_bytes(entry.bytes_out)} out"
    outcome = entry.outcome
    if exchange.note and outcome.startswith("ok "):
        outcome = f"answered {outcome[3:]}"
    return f"+{exchange.since_s:.3f} #{exchange.connection} {entry.asked} -> {outcome}, {sizes}{note}"


def shown_bytes(count: int) -> str:
    """A number of bytes: "412 B", "1.5 MiB"."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def json_line(exchange: TracedExchange) -> str:
    """An exchange as a JSON object on one line, which `exchange_of` reads."""
    entry = exchange.entry
    shown = {
        "since": round(exchange.since_s, 6),
        "time": entry.time_ms,
        "number": entry.number,
        "connection": exchange.connection,
        "peer": entry.connection,
        "broker": entry.broker,
        "header": {
            "type": entry.api,
            "apiKey": _api_key(entry.api),
            "apiVersion": entry.version,
            "correlationId": entry.correlation_id,
            "clientId": entry.client_id,
        },
        "payload": {
            "partitions": [_given(one._asdict()) for one in entry.partitions],
            "groups": entry.groups,
            "members": entry.members,
            "transactionalIds": entry.transactional_ids,
            "producers": [one._asdict() for one in entry.producers],
        },
        "bytes": entry.bytes_in,
        "answer": {
            "errors": entry.errors,
            "ms": None if entry.ms is None else round(entry.ms, 3),
            "bytes": entry.bytes_out,
            "closed": entry.closed,
        },
        "faults": entry.faults,
        "note": exchange.note,
    }
    return json.dumps(shown, separators=(",", ":"))


def exchange_of(line: str) -> TracedExchange:
    """The exchange of a line that `json_line` has written. Raises ValueError for any other."""
    try:
        return _exchange(json.loads(line))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no exchange: {error}") from None


def _exchange(shown: Any) -> TracedExchange:
    header, payload, answer = shown["header"], shown["payload"], shown["answer"]
    entry = JournalEntry(
        shown["number"],
        shown["broker"],
        header["type"],
        header["apiVersion"],
        header["clientId"],
        shown["peer"],
        "",
        header["correlationId"],
        shown["time"],
        shown["time"],
        answer["ms"],
        tuple(KeyPartition(**one) for one in payload["partitions"]),
        tuple(payload["groups"]),
        tuple(payload["members"]),
        tuple(payload["transactionalIds"]),
        tuple(Producer(**one) for one in payload["producers"]),
        shown["bytes"],
        answer["bytes"],
        tuple(answer["errors"]),
        answer["closed"],
        tuple(shown["faults"]),
    )
    return TracedExchange(shown["since"], shown["connection"], entry, shown["note"])


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _api_key(api: str) -> int:
    """The key of an API; one without a name is shown as "api-1000"."""
    return API_KEYS[api] if api in API_KEYS else int(api.removeprefix("api-"))
