"""Diagnoses of clients of the schema registry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kmini.report.facts import Facts, client_of

if TYPE_CHECKING:
    from kmini.broker.journal.entries import JournalEntry

_REGISTERS = re.compile(r"/subjects/[^/]+/versions(\?|$)")
_DESCRIPTION = re.compile(r"description:'(.*?)'(?=\}|, additionalInfo)", re.DOTALL)
"""What an answer about incompatible schemas says of a difference."""
_PLACE = re.compile(r"\.? at \S+$")
"""The place behind it, a JSON pointer."""
_REFUSES = (409, 422)


def schema_refused(facts: Facts) -> str | None:
    """The registry did not take a schema, and has taken none for the subject since."""
    taken: set[str | None] = set()
    for entry in reversed(facts.requests):
        call = entry.registry
        if call is None or call.method != "POST" or not _REGISTERS.search(call.path):
            continue
        if 200 <= call.status < 300:
            taken.add(call.subject)
        elif call.status in _REFUSES and call.subject not in taken:
            return (
                f"the schema registry refused {call.subject} of {client_of(entry)} with {call.status}: "
                f"{_why(call.message)}{_acted(entry)}"
            )
    return None


def registry_failed(facts: Facts) -> str | None:
    """The last request of a client to the registry failed in another way."""
    last = next((entry for entry in reversed(facts.requests) if entry.registry is not None), None)
    if last is None or last.registry is None:
        return None
    call = last.registry
    asked = f"{call.method} {call.path} of {client_of(last)}"
    if call.status >= 400 and not (call.status in _REFUSES and _REGISTERS.search(call.path)):
        return f"the schema registry answered {asked} with {call.status}: {_why(call.message)}{_acted(last)}"
    if last.closed is not None and last.faults:
        return f"the schema registry did not answer {asked}: {last.closed}{_acted(last)}"
    return None


def _why(message: str) -> str:
    """What is wrong: of incompatible schemas the first difference."""
    found = _DESCRIPTION.search(message)
    return _PLACE.sub("", found[1]) if found else message


def _acted(entry: JournalEntry) -> str:
    return f" (fault rule {entry.faults[-1]!r} acted)" if entry.faults else ""
