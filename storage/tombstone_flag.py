"""The tombstone flag at append (KIP-87), for topics with `kmini.tombstone.flag.enable`.

A producer flags a record by the header `kmini.tombstone` or, if it can, by bit 5 of the record's attributes. In the log
every flagged record has both. After all other checks, each record is checked:

| value    | bit or header | |
|----------|---------------|-|
| any      | both          | stored as it is |
| any      | one of them   | gets the other |
| null     | neither       | gets both; INVALID_RECORD with `kmini.tombstone.null.refuse` |
| not null | neither       | no tombstone: stored as it is |
| any      | a header that says no (`0`, `false`) | INVALID_RECORD: some readers would take it for a tombstone, some not
|

A batch in which nothing has to change is stored as it was sent. Any other is rebuilt, a piece at a time, in the codec
of the log. A header takes 17 bytes; a batch that exceeds max.message.bytes with them is refused with MESSAGE_TOO_LARGE,
as one that has grown by recompression is (Java's producer then sends it in halves). Memory holds one record, or some
ten KiB, of a compressed batch at a time, decompressed; twice while it is flagged.

Message sets of magic 0 and 1 come from producers that have neither bit nor header: their null values are tombstones,
and are flagged even with `kmini.tombstone.null.refuse`.
"""

from __future__ import annotations

from ..protocol.errors import InvalidRecord, RecordsRefused
from ..protocol.records.batch import BatchHeader
from ..protocol.records.record import BATCH_FACTOR, TOMBSTONE_HEADER
from ..protocol.records.tombstones import DENIED, NULL, are_settled, flagged, marked_pieces, marks_of
from .filesystem import Buffer
from .log_config import LogConfig
from .refused_records import MAX_NAMED_RECORDS, refusal

_NULL_REFUSED = f"a null value without the header {TOMBSTONE_HEADER}, which kmini.tombstone.null.refuse=true asks for"
_NO_REFUSED = f"the header {TOMBSTONE_HEADER} says no; a record that is no tombstone has no such header"


def must_be_flagged(records: Buffer, header: BatchHeader, config: LogConfig, limit: int) -> bool:
    """Whether a record of the batch has to be changed. InvalidRecord, with their numbers, if some records are refused.

    `limit` bounds a record, and a batch as in `check_records`, which the batch has passed.
    """
    refuses_null = config.kmini_tombstone_null_refuse
    errors: list[tuple[int, type[RecordsRefused], str]] = []
    is_settled = True
    count = 0
    for _, marks in marked_pieces(records, 0, header, limit * BATCH_FACTOR):
        if not are_settled(marks):
            is_settled = False
            for number, mark in enumerate(marks, count):
                if mark & DENIED:
                    errors.append((number, InvalidRecord, _NO_REFUSED))
                elif mark == NULL and refuses_null:
                    errors.append((number, InvalidRecord, _NULL_REFUSED))
                if len(errors) == MAX_NAMED_RECORDS:
                    raise refusal(errors)
        count += len(marks)
    if errors:
        raise refusal(errors)
    return not is_settled


def flagged_messages(block: Buffer) -> Buffer:
    """Return the block of converted messages of magic 0 or 1, with a flag on each null value."""
    _, marks = marks_of(block)
    return block if are_settled(marks) else flagged(block, marks)
