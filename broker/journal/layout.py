"""Where an entry of the journal has what, as it is written."""

from typing import Any

Entry = list[Any]
"""A request. It is a list, because to make an object of a class costs as much as all the rest."""

NUMBER = 0
"""1 for the first request that the journal saw."""
SOURCE = 1
CORRELATION_ID = 2
STARTED_S = 3
"""By `time.perf_counter`, as the next one."""
ENDED_S = 4
"""None while the request is in service."""
ASKED = 5
"""The body as bytes; a pair of it and the partitions of its fetch session; a Produce without records; or KeyFields."""
BYTES_IN = 6
ANSWERED = 7
"""The frame of the answer, as a buffer; an `Answer`; a text that says why there is none; or None."""
FAULTS = 8
"""The names of the fault rules that acted, in a list, or None."""
