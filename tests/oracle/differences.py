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


_AT_ONCE = "what is asked for is done at once, so nothing runs out of time"
_NO_ELR = (
    "Apache Kafka keeps it for the whole cluster, for its eligible leader replicas (KIP-966), which need more than one"
    " broker"
)
_NO_SUCH_RESOURCE = "there is neither telemetry of clients (KIP-714) nor the group protocol (KIP-848) that they are for"
_ONCE = "what is asked for again is told once, because an answer is a hundred times as large as its question"
_NO_METADATA_LOG = (
    "the controller keeps the metadata in a database and not in a log, and is reached through the broker alone"
)
_NO_SUCH_FEATURE = "a feature is told where more than its level 0 is served, because clients use what is told"
_NO_TRANSACTIONS_2 = "the second version of transactions (KIP-890), which level 2 stands for, is not offered"

_STUCK = "a client of Kafka 3.9, the last release that serves these versions, waits in vain there, and for ever"

DIFFERENCES = (
    Difference("Produce", "null records, v0 to v2", "error_code", "INVALID_RECORD", "no answer", _STUCK),
    Difference(
        *("Fetch", "a limit without room for a batch, v0 to v2", "records", "the beginning of a message", "nothing"),
        _STUCK,
    ),
    Difference(
        *("ListOffsets", "a negative number of offsets, v0", "error_code", "INVALID_REQUEST", "UNKNOWN_SERVER_ERROR"),
        "it is the request that is wrong",
    ),
    Difference("DescribeProducers", "twice*", "topics", "...", "...", _ONCE),
    Difference("DescribeQuorum", "the quorum*", "high_watermark", "0", "moving on", _NO_METADATA_LOG),
    Difference("DescribeQuorum", "the quorum*", "log_end_offset", "0", "moving on", _NO_METADATA_LOG),
    Difference("DescribeQuorum", "the quorum, v2", "listeners", "[]", "...", _NO_METADATA_LOG),
    Difference("ApiVersions", "features*", "group.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("ApiVersions", "features*", "share.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("ApiVersions", "features*", "streams.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("ApiVersions", "features*", "finalized.transaction.version", "1", "2", _NO_TRANSACTIONS_2),
    Difference("ApiVersions", "features, v4", "supported.transaction.version[1]", "1", "2", _NO_TRANSACTIONS_2),
    Difference(
        *("UpdateFeatures", "transaction.version to 2*", "error_code", "INVALID_UPDATE_VERSION", "NONE"),
        _NO_TRANSACTIONS_2,
    ),
    Difference(
        *(
            "UpdateFeatures",
            "transaction.version to 1, upgrade type 1*",
            "error_code",
            "NONE",
            "INVALID_UPDATE_VERSION",
        ),
        _NO_TRANSACTIONS_2,
    ),
    Difference("ApiVersions", "features, v4", "kraft.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("ApiVersions", "features*", "eligible.leader.replicas.version", "absent", "...", _NO_SUCH_FEATURE),
    Difference("UpdateFeatures", "group.version*", "error_code", "INVALID_UPDATE_VERSION", "NONE", _NO_SUCH_FEATURE),
    Difference("CreatePartitions", "with no time*", "error_code", "NONE", "REQUEST_TIMED_OUT", _AT_ONCE),
    Difference(
        *("IncrementalAlterConfigs", "small segments*", "error_code", "NONE", "INVALID_CONFIG"),
        "small segments, as before Kafka 4.0, make retention and cleaning quick to see",
    ),
    Difference(
        *("IncrementalAlterConfigs", "contradicting lags*", "error_code", "INVALID_REQUEST", "NONE"),
        "the broker would keep a topic from being created whose settings are compared with such defaults",
    ),
    Difference(
        *("IncrementalAlterConfigs", "log.retention.ms=-2*", "error_code", "INVALID_REQUEST", "NONE"),
        "one negative number, -1, says that there is no limit, as it does for topics",
    ),
    Difference(
        "IncrementalAlterConfigs", "client metrics*", "error_code", "INVALID_REQUEST", "NONE", _NO_SUCH_RESOURCE
    ),
    Difference("IncrementalAlterConfigs", "a group's*", "error_code", "INVALID_REQUEST", "NONE", _NO_SUCH_RESOURCE),
    Difference(
        *("IncrementalAlterConfigs", "an unknown group setting*", "error_code", "INVALID_REQUEST", "INVALID_CONFIG"),
        _NO_SUCH_RESOURCE,
    ),
    Difference(
        *("FindCoordinator", "the state of a share group*", "error_code", "INVALID_REQUEST", "..."),
        "share groups (KIP-932) are not served, and nobody should ask again and again",
    ),
    Difference("DescribeConfigs", "client metrics*", "error_code", "INVALID_REQUEST", "NONE", _NO_SUCH_RESOURCE),
    Difference("DescribeConfigs", "a group's settings*", "error_code", "INVALID_REQUEST", "NONE", _NO_SUCH_RESOURCE),
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
