"""The error that tells a producer which records of its batch a log refuses, and why (KIP-467)."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol.errors import InvalidRecord, InvalidTimestamp, RecordsRefused

MAX_NAMED_RECORDS = 1_000
"""Refused records that an error names; it leaves out further ones."""

_RECORDS_IN_MESSAGE = 3


def refusal(errors: Sequence[tuple[int, type[RecordsRefused], str]]) -> RecordsRefused:
    """Return the error for a batch with these faults: number of the record in its batch, error, reason.

    Without any, the records were refused, but the faulty ones lie behind those that were examined.
    """
    if not errors:
        return InvalidTimestamp("records refused, behind very many without a timestamp", [])
    error = InvalidTimestamp if any(kind is InvalidTimestamp for _, kind, _ in errors) else InvalidRecord
    shown = "; ".join(f"record {index}: {text}" for index, _, text in errors[:_RECORDS_IN_MESSAGE])
    count = f"{len(errors)} record{'' if len(errors) == 1 else 's'}"
    return error(f"{count} refused: {shown}", [(index, text) for index, _, text in errors])
