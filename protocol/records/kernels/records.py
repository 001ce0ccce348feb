# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel of every process: records and producers' batches checked, records made of tuples and into tuples.

Compiled it checks a record in some 20 ns and lets other threads run meanwhile; interpreted it is about a hundred times
slower. What other modules import from here is written in its parts, which become one extension with it.
"""

from __future__ import annotations

from .plain_batches import (
    PlainBatches,
    assign_offsets,
    fault_of_claims,
    is_transactional,
    transactional_batches,
)
from .tuples import RecordReader, encode_records
from .walker import RecordWalker

__all__ = [
    "PlainBatches",
    "RecordReader",
    "RecordWalker",
    "assign_offsets",
    "encode_records",
    "fault_of_claims",
    "is_transactional",
    "transactional_batches",
]
