"""Where an answer of ours differs from Apache Kafka's on purpose: one table, which `docs/differences.md` renders.

`same_answers` (conftest.py) lets these pass and nothing else, and fails where one of them does not occur any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """One intended difference."""

    api: str
    what: str
    """What is asked, in the words of the script; a shell pattern."""
    field: str
    """The end of the way to the field that differs; empty for the answer as a whole."""
    ours: str
    theirs: str
    """The two values; errors by name. `...` is any."""
    reason: str

    def __str__(self) -> str:
        field = f" `{self.field}`" if self.field else ""
        return f"**{self.api}**, {self.what}:{field} {self.ours}, in Apache Kafka {self.theirs}: {self.reason}."


class Behaviour(NamedTuple):
    """Something that is done without being asked, and otherwise on purpose."""

    what: str
    ours: str
    theirs: str
    reason: str
    test: str
    """Which shows it: file and function under `tests/`."""


_AT_ONCE = "what is asked for is done at once, so nothing runs out of time"
_NO_ELR = (
    "Apache Kafka keeps it for the whole cluster, for its eligible leader replicas (KIP-966), which need more than one"
    " broker"
)
_NO_SUCH_RESOURCE = "there is no telemetry of clients (KIP-714) that they are for"
_ONCE = "a resource that is named twice is answered once, because an answer is a hundred times larger than its request"
_NO_METADATA_LOG = (
    "the controller keeps the metadata in a database and not in a log, and is reached through the broker alone"
)
_NO_SUCH_FEATURE = "kmini lists only features that it serves above level 0, because clients use what is listed"

_STUCK = "a client of Kafka 3.9, the last release that serves these versions, waits in vain there, and for ever"

DIFFERENCES = (
    Difference("Produce", "null records, v0 to v2", "error_code", "INVALID_RECORD", "no answer", _STUCK),
    Difference(
        *("Fetch", "a limit without room for a batch, v0 to v2", "records", "the beginning of a message", "nothing"),
        _STUCK,
    ),
    Difference(
        *("Produce", "offset deltas *, uncompressed", "error_code", "INVALID_RECORD", "NONE"),
        "Apache Kafka stores such records as they came, and consumers see an offset twice, or out of order",
    ),
    Difference(
        *("Produce", "offset deltas *, compressed", "error_code", "NONE", "UNKNOWN_SERVER_ERROR"),
        "they are numbered 0, 1, 2, … as Apache Kafka numbers them where the topic has another codec; here it fails",
    ),
    Difference(
        *("ListOffsets", "a negative number of offsets, v0", "error_code", "INVALID_REQUEST", "UNKNOWN_SERVER_ERROR"),
        "it is the request that is wrong",
    ),
    Difference("DescribeProducers", "twice*", "topics", "...", "...", _ONCE),
    Difference("DescribeQuorum", "the quorum*", "high_watermark", "0", "moving on", _NO_METADATA_LOG),
    Difference("DescribeQuorum", "the quorum*", "log_end_offset", "0", "moving on", _NO_METADATA_LOG),
    Difference("DescribeQuorum", "the quorum, v2", "listeners", "[]", "...", _NO_METADATA_LOG),
    Difference("ApiVersions", "features, v4", "kraft.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("ApiVersions", "features*", "eligible.leader.replicas.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("CreatePartitions", "with no time*", "error_code", "NONE", "REQUEST_TIMED_OUT", _AT_ONCE),
    Difference(
        *("IncrementalAlterConfigs", "small segments*", "error_code", "NONE", "INVALID_CONFIG"),
        "small segments, as before Kafka 4.0, make retention and cleaning quick to see",
    ),
    Difference(
        *("IncrementalAlterConfigs", "contradicting lags*", "error_code", "INVALID_REQUEST", "NONE"),
        "the settings of a topic are validated together with these defaults, so CreateTopics could fail",
    ),
    Difference(
        *("IncrementalAlterConfigs", "log.retention.ms=-2*", "error_code", "INVALID_REQUEST", "NONE"),
        "one negative number, -1, says that there is no limit, as it does for topics",
    ),
    Difference(
        "IncrementalAlterConfigs", "client metrics*", "error_code", "INVALID_REQUEST", "NONE", _NO_SUCH_RESOURCE
    ),
    Difference("DescribeConfigs", "client metrics*", "error_code", "INVALID_REQUEST", "NONE", _NO_SUCH_RESOURCE),
    Difference("CreateTopics", "a topic made*", "min.insync.replicas.config_source", "5", "3", _NO_ELR),
    Difference("DescribeConfigs", "described*", "min.insync.replicas.config_source", "5", "3", _NO_ELR),
    Difference("DescribeConfigs", "described*", "min.insync.replicas.synonyms", "...", "...", _NO_ELR),
    Difference(
        *("DescribeConfigs", "the same twice*", "results", "...", "..."),
        _ONCE,
    ),
    Difference(
        *("DescribeGroups", "the same twice*", "groups", "...", "..."),
        "what is asked for again is told once, because an answer may be a thousand times as large as its question",
    ),
)


CLEANER = (
    Behaviour(
        "a login by SCRAM of a user who has no credentials",
        "is refused after the proof, as with a wrong password",
        "is refused before it",
        "nobody should learn which users exist",
        "oracle/test_same_answers_logins.py::"
        "test_apache_kafka_hangs_up_on_another_scheme_and_says_at_once_that_a_user_is_unknown",
    ),
    Behaviour(
        "a login by OAUTHBEARER whose first message has another scheme than Bearer",
        "is refused with SASL_AUTHENTICATION_FAILED",
        "ends the connection without an answer",
        "the client should learn why",
        "oracle/test_same_answers_logins.py::"
        "test_apache_kafka_hangs_up_on_another_scheme_and_says_at_once_that_a_user_is_unknown",
    ),
    Behaviour(
        "the active segment of a compacted log, older than `segment.ms` or `max.compaction.lag.ms`",
        "rolls",
        "rolls at the next append",
        "else the bound of KIP-354 does not hold where no client writes any more",
        "kips/test_kip_354_max_compaction_lag.py::test_the_active_segment_of_an_idle_topic_rolls_too",
    ),
    Behaviour(
        "logs with records past `max.compaction.lag.ms`",
        "are cleaned first, by must-clean ratio, then by dirty ratio",
        "are cleaned too, but the dirtiest log first",
        "as KIP-354 says: what has to be gone by a time goes before what only takes up room",
        "kips/test_kip_354_max_compaction_lag.py::"
        "test_logs_past_the_bound_go_first_by_must_clean_ratio_then_by_dirty_ratio",
    ),
    Behaviour(
        "a log in which a delete horizon has passed, and nothing is dirty",
        "is cleaned, at most every back-off, and a tenth of the time",
        "is cleaned with the next dirty records, if there ever are any",
        "tombstones and markers are promised to stay for about `delete.retention.ms` (KIP-534), not for ever",
        "kips/test_kip_534_delete_horizons.py::test_a_passed_horizon_alone_makes_a_log_eligible",
    ),
    Behaviour(
        "segments that are made into one",
        "are at most 32 at a time",
        "are as many as `segment.bytes` and their offsets allow",
        "they are swapped in one turn of the event loop; later passes put together what is left",
        "storage/cleaner/test_clean.py::test_tiny_segments_are_swapped_a_few_at_a_time",
    ),
    Behaviour(
        "a batch with tombstones that ends beyond the last offset in the key map, because the map is full",
        "gets its delete horizon when a pass has mapped beyond it",
        "gets it at once",
        "older values of its keys may still be there, and the time to read the tombstone must not run out before",
        "storage/cleaner/test_delete_horizons.py::test_a_batch_beyond_the_reach_of_the_map_gets_no_horizon",
    ),
    Behaviour(
        "how old a segment is for `max.compaction.lag.ms`",
        "as old as its first record",
        "as old as the largest timestamp of its first batch",
        "it is the record that waits, and the bound is promised for it",
        "kips/test_kip_354_max_compaction_lag.py::test_of_a_batch_it_is_that_of_the_first_record_and_not_the_largest",
    ),
    Behaviour(
        "`max-compaction-delay-secs`, `max-dirty-percent`, `uncleanable-bytes`",
        "are as they are when asked, of all compacted logs",
        "are as the cleaner found them when it last looked, of logs that could be cleaned",
        "an open transaction, a pause or damage suspends the bound, and that is what the gauge is read for",
        "kips/test_kip_354_max_compaction_lag.py::"
        "test_what_an_open_transaction_holds_up_shows_and_is_gone_soon_after_its_end",
    ),
    Behaviour(
        "when the cleaner looks for something to clean",
        "a back-off after something has changed, and when something falls due",
        "every back-off",
        "a broker with nothing to do costs nothing, and a clock that is moved by a week is moved at once",
        "broker/test_log_cleaner_metrics.py::test_the_time_since_the_cleaner_looked_is_told",
    ),
    Behaviour(
        "the base timestamp of a batch that has lost its first record, and has no horizon",
        "stays",
        "becomes that of the first record that is left",
        "no client is told it, and the records need not be written anew",
        "oracle/test_compaction_differential.py::"
        "test_the_base_timestamp_of_what_has_lost_its_first_record_stays_here_only",
    ),
    Behaviour(
        "a transaction after an aborted one of the same producer, in a pass that begins between them in one segment",
        "supersedes what is older",
        "is taken for aborted, and what it supersedes stays",
        "a pass begins there if the key map of the previous pass was full; max.compaction.lag.ms applies there, too",
        "storage/cleaner/test_cleaned_transactions.py::"
        "test_an_abort_in_the_clean_part_of_a_segment_does_not_affect_later_transactions",
    ),
    Behaviour(
        "a message of magic 0 or 1 that is superseded, where cleaning ends",
        "becomes the header of a batch",
        "ends the cleaning of its log until the next start",
        "a log of an old Kafka is to be cleaned too",
        "storage/cleaner/test_clean.py::test_the_last_message_of_an_old_format_in_a_pass_stays_as_an_empty_batch",
    ),
    Behaviour(
        "a segment with more index entries than `segment.index.bytes` has room for, once it is cleaned",
        "has as many as there is room for",
        "ends the cleaning of its log until the next start",
        "an index need not be complete",
        "storage/cleaner/test_cleaned_segment.py::test_indexes_longer_than_the_setting_do_not_end_the_pass",
    ),
)
"""What the log cleaner does otherwise."""


def intention_of(what: str, api: str, field: str, ours: Any, theirs: Any) -> Difference | None:
    """The line of the table that a difference belongs to."""
    for listed in DIFFERENCES:
        if (
            listed.api == api
            and fnmatchcase(what, listed.what)
            and (field.endswith(f".{listed.field}") if listed.field else not field)
            and listed.ours in ("...", _text(field, ours))
            and listed.theirs in ("...", _text(field, theirs))
        ):
            return listed
    return None


def listed_for(apis: Mapping[str, str]) -> Iterator[Difference]:
    """The lines of the table that speak of what was asked; `apis` has the API of each question."""
    for listed in DIFFERENCES:
        if any(api == listed.api and fnmatchcase(what, listed.what) for what, api in apis.items()):
            yield listed


def _text(field: str, value: Any) -> str:
    if field.endswith("error_code") and isinstance(value, int):
        from kmini.protocol.errors import error_name

        return error_name(value)
    return str(value)
