"""Records that say of themselves that they delete (KIP-87), in the attribute bit, in the header, or in both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmini import Broker
from kmini.protocol.records.batch import iter_batches
from kmini.protocol.records.record import TOMBSTONE_BIT, Record
from kmini.protocol.records.tombstones import marked_pieces
from support.batches import Item

DAY = "1d1s"
NAME = b"kmini.tombstone"
BIT = Item(value=b"why", attributes=TOMBSTONE_BIT)
IN_HEADER = Item(value=b"why", headers=((NAME, b""),))
BOTH = Item(value=b"why", headers=((NAME, b""),), attributes=TOMBSTONE_BIT)
UNFLAGGED_NULL = Item(value=None)
PLAIN = Item(value=b"1")
Produce = Callable[..., Any]
Fetch = Callable[[int], bytes]


def marks(stored: bytes) -> list[int]:
    """What each record says of itself: NULL, FLAG and HEADER."""
    return [
        mark
        for position, header in iter_batches(stored)
        for _, marks in marked_pieces(stored, position, header, 1 << 20)
        for mark in marks
    ]


def compact_until_tombstones_go(broker: Broker) -> list[Record]:
    broker.topic("t").compact()
    broker.clock.advance(DAY)
    return broker.records("t")
