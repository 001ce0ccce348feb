"""An error code as the answer of an API, at the level where Kafka has it: of the whole answer, a topic, a partition.

An error of entries fails those entries and lets the others be served. What fails is taken out of the request before the
handler runs, so that nothing of it is applied; an error that is to be answered although the request was applied
replaces the handler's answer. Requests that only read are served whole, and their answers replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ...protocol.schema import REQUIRED, Field, Request, Response, Struct
from .acts import Error
from .documented_errors import documented

TOPIC_NAMES = ("name", "topic", "topic_name")
PARTITION_NAMES = ("partition_index", "index", "partition", "partition_id")
MESSAGE = "error_message"
"""The field of an answer that says why, for people."""
RECORD_ERRORS = "record_errors"
"""The field of a produce's answer that names the records at fault."""
_ALIASES = (TOPIC_NAMES, PARTITION_NAMES)
_IDENTITIES = frozenset(
    {
        *TOPIC_NAMES,
        *PARTITION_NAMES,
        "entity",
        "group_id",
        "group_instance_id",
        "key",
        "log_dir",
        "member_id",
        "resource_name",
        "resource_type",
        "topic_id",
        "transactional_id",
        "user",
    }
)
"""Fields that say what an entry is about. They stay as they are when the entry becomes an error."""

_ENTRIES: dict[str, tuple[tuple[str, str], ...]] = {
    "AddPartitionsToTxn": (("v3_and_below_topics.partitions", "results_by_topic_v3_and_below.results_by_partition"),),
    "AlterClientQuotas": (("entries", "entries"),),
    "AlterConfigs": (("resources", "responses"),),
    "AlterPartitionReassignments": (("topics.partitions", "responses.partitions"),),
    "AlterShareGroupOffsets": (("topics.partitions", "responses.partitions"),),
    "AlterUserScramCredentials": (("deletions", "results"), ("upsertions", "results")),
    "ConsumerGroupDescribe": (("group_ids", "groups"),),
    "CreateAcls": (("creations", "results"),),
    "CreatePartitions": (("topics", "results"),),
    "CreateTopics": (("topics", "topics"),),
    "DeleteAcls": (("filters", "filter_results"),),
    "DeleteGroups": (("groups_names", "results"),),
    "DeleteRecords": (("topics.partitions", "topics.partitions"),),
    "DeleteShareGroupOffsets": (("topics", "responses"),),
    "DeleteShareGroupState": (("topics.partitions", "results.partitions"),),
    "DeleteTopics": (("topics", "responses"), ("topic_names", "responses")),
    "DescribeConfigs": (("resources", "results"),),
    "DescribeGroups": (("groups", "groups"),),
    "DescribeProducers": (("topics.partition_indexes", "topics.partitions"),),
    "DescribeShareGroupOffsets": (("groups.topics.partitions", "groups.topics.partitions"),),
    "DescribeTopicPartitions": (("topics", "topics"),),
    "DescribeTransactions": (("transactional_ids", "transaction_states"),),
    "ElectLeaders": (("topic_partitions.partitions", "replica_election_results.partition_result"),),
    "FindCoordinator": (("coordinator_keys", "coordinators"),),
    "IncrementalAlterConfigs": (("resources", "responses"),),
    "InitializeShareGroupState": (("topics.partitions", "results.partitions"),),
    "LeaveGroup": (("members", "members"),),
    "ListOffsets": (("topics.partitions", "topics.partitions"),),
    "Metadata": (("topics", "topics"),),
    "OffsetCommit": (("topics.partitions", "topics.partitions"),),
    "OffsetDelete": (("topics.partitions", "topics.partitions"),),
    "OffsetFetch": (
        ("topics.partition_indexes", "topics.partitions"),
        ("groups.topics.partition_indexes", "groups.topics.partitions"),
    ),
    "OffsetForLeaderEpoch": (("topics.partitions", "topics.partitions"),),
    "Produce": (("topic_data.partition_data", "responses.partition_responses"),),
    "ReadShareGroupState": (("topics.partitions", "results.partitions"),),
    "ReadShareGroupStateSummary": (("topics.partitions", "results.partitions"),),
    "ShareAcknowledge": (("topics.partitions", "responses.partitions"),),
    "ShareGroupDescribe": (("group_ids", "groups"),),
    "StreamsGroupDescribe": (("group_ids", "groups"),),
    "TxnOffsetCommit": (("topics.partitions", "topics.partitions"),),
    "WriteShareGroupState": (("topics.partitions", "results.partitions"),),
}
"""By API: where a request has entries, and where its answer has those of the same order. Requests of other APIs are
served whole, and the error replaces what was answered."""

_ALWAYS_SERVED = frozenset({"Metadata", "ShareAcknowledge"})
"""APIs that are served even when nothing of the request is left: their answer says more than its entries do, or the
request counts in a session."""

Entries = Callable[[str | None, int | None], bool]
"""Whether a rule means the entry of this topic and partition; None where an entry names none."""
TopicName = Callable[[bytes], str | None]
"""The name of the topic with this id; None for an id that is unknown."""


class Level(NamedTuple):
    """A place in an answer that has an error code."""

    name: str
    """The struct that has the error code; empty for the whole answer."""
    path: tuple[Field, ...]
    """The arrays that lead there."""
    field: Field

    def struct_of(self, response: type[Response]) -> type[Struct]:
        """The struct that has the error code."""
        element = self.path[-1].type.element if self.path else None
        return response if element is None or element.struct is None else element.struct

    def has(self, name: str, response: type[Response], version: int) -> bool:
        """Whether the error has this field, too."""
        return any(field.name == name and field.exists_in(version) for field in self.struct_of(response).__fields__)

    def exists_in(self, version: int) -> bool:
        return self.field.exists_in(version) and all(field.exists_in(version) for field in self.path)

    def leads_along(self, names: tuple[str, ...]) -> bool:
        """Whether this level is found at, or above, the entries of a path."""
        return names[: len(self.path)] == tuple(field.name for field in self.path)


@cache
def levels(response: type[Response]) -> tuple[Level, ...]:
    """The levels of an answer that have an error code, the whole answer first."""
    return tuple(sorted(_levels(response, (), ""), key=lambda level: len(level.path)))


def _levels(struct: type[Struct], path: tuple[Field, ...], name: str) -> Iterator[Level]:
    for field in struct.__fields__:
        if field.name.endswith("error_code") and field.name != "topic_config_error_code":
            yield Level(name, path, field)
        element = field.type.element
        if element is not None and element.struct is not None:
            yield from _levels(element.struct, (*path, field), element.struct.__name__)


def level_of(request: type[Request], version: int, error: str, *, of_partition: bool = False) -> Level | None:
    """Where the answer of this version has an error; None if it has no error code at all.

    It is the first level for which Kafka documents the error, from the whole answer down; the last one, if the error is
    to be that of a partition. A version that has none of these levels has the error where it has one.
    """
    existing = [level for level in levels(request.response) if level.exists_in(version)]
    codes = documented(request.name)
    meant = [level for level in existing if error in codes.get(level.name, ())]
    if not existing:
        return None
    if not meant:  # an error that every API may have, or another version's level
        return existing[-1] if any(error in known for known in codes.values()) else existing[0]
    return meant[-1] if of_partition else meant[0]


class EntryError(NamedTuple):
    """An error for some entries of a request, or for the whole request."""

    code: int
    level: Level
    means: Entries | None
    """The entries that fail; None for all."""
    is_applied: bool
    """Whether the request is served first."""
    details: Mapping[str, Any] = MappingProxyType({})
    """What the error says beside its code, by the field that has it."""

    @property
    def values(self) -> dict[str, Any]:
        """The fields of an answer, or of an entry, that have the error."""
        return {self.level.field.name: self.code, **self.details}


def details_of(act: Error, level: Level, response: type[Response]) -> dict[str, Any]:
    """What an error says beside its code, as far as the answer has fields for it at this level."""
    fields = {field.name: field for field in level.struct_of(response).__fields__}
    details: dict[str, Any] = {}
    if act.message is not None and MESSAGE in fields:
        details[MESSAGE] = act.message
    if act.record_errors and RECORD_ERRORS in fields:
        element = fields[RECORD_ERRORS].type.element
        assert element is not None
        assert element.struct is not None
        details[RECORD_ERRORS] = [element.struct(index, reason) for index, reason in act.record_errors]
    return details


class FailedEntries:
    """A request with errors for some of its entries, on its way to its answer."""

    def __init__(self, request: Any, version: int, topic_name: TopicName) -> None:
        self._request = request
        self._version = version
        self._topic_name = topic_name
        self._unacknowledged: set[tuple[bytes, int]] = set()
        """The partitions, by topic id, whose acknowledgements were taken out of a ShareFetch."""

    async def answer(self, error: EntryError, serve: Callable[[], Awaitable[Any]]) -> Any:
        """Serve what the error leaves of the request; return the answer with the error in its place.

        None where the request asks for no answer.
        """
        request, level = self._request, error.level
        if not level.path and not error.is_applied:
            return _blank(request.response, **error.values)
        taken: list[tuple[str, list[Any]]] = []
        if not error.is_applied:
            taken = self._take_out(error)
            if taken and not self._has_entries() and request.name not in _ALWAYS_SERVED:
                return self._with(_blank(request.response), taken)
            if request.name in ("Fetch", "ShareFetch"):
                request.max_wait_ms = 0  # the error is there at once, not after the wait for records
            if request.name == "ShareFetch":
                self._acquire_nothing(error)
        answer = await serve()
        if answer is None:
            return None
        if not level.path:
            return _failed(answer, error)
        self._replace(answer, level.path, error, None)
        return self._with(answer, taken)

    # --- what is taken out of the request

    def _acquire_nothing(self, error: EntryError) -> None:
        """Let a ShareFetch acquire no records, which its client would not see, and acknowledge none where it fails."""
        self._request.max_records = 0
        for topic in self._request.topics:
            name = self._topic(topic)
            for asked in topic.partitions:
                if asked.acknowledgement_batches and (error.means is None or error.means(name, asked.partition_index)):
                    asked.acknowledgement_batches = []
                    self._unacknowledged.add((topic.topic_id, asked.partition_index))

    def fail_acknowledgements(self, answer: Any, error: EntryError) -> None:
        """Give the acknowledgements that were taken out of a ShareFetch the error of their partitions."""
        for topic in answer.responses if self._unacknowledged else ():
            for partition in topic.partitions:
                if (topic.topic_id, partition.partition_index) in self._unacknowledged:
                    partition.acknowledge_error_code = error.code

    def _shapes(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        for asked, answered in _ENTRIES.get(self._request.name, ()):
            first = asked.partition(".")[0]
            field = next(field for field in type(self._request).__fields__ if field.name == first)
            if field.exists_in(self._version):
                yield tuple(asked.split(".")), tuple(answered.split("."))

    def _has_entries(self) -> bool:
        return any(getattr(self._request, asked[0]) for asked, _ in self._shapes())

    def _take_out(self, error: EntryError) -> list[tuple[str, list[Any]]]:
        """Take what fails out of the request. Returns the entries that say so, by the field of the answer."""
        taken = []
        for asked, answered in self._shapes():
            if not error.level.leads_along(answered):
                continue
            depth = len(error.level.path)
            failed = self._split(self._request, asked[:depth], error.level.path, error, None)
            if failed:
                taken.append((answered[0], failed))
        return taken

    def _split(
        self, owner: Any, asked: tuple[str, ...], answered: tuple[Field, ...], error: EntryError, topic: str | None
    ) -> list[Any]:
        """Leave in the array `asked[0]` of `owner` what is served; return the failed entries of the answer."""
        kept, failed = [], []
        struct = answered[0].type.element.struct  # type: ignore[union-attr]  # a level's path leads through arrays
        assert struct is not None
        for element in getattr(owner, asked[0]) or ():
            name = topic or self._topic(element)
            if len(asked) == 1:
                if error.means is None or error.means(name, _partition(element)):
                    failed.append(_entry(struct, element, **error.values))
                else:
                    kept.append(element)
                continue
            inner = self._split(element, asked[1:], answered[1:], error, name)
            if inner:
                failed.append(_entry(struct, element, **{answered[1].name: inner}))
            if getattr(element, asked[1]) or not inner:
                kept.append(element)
        if failed:  # a null array, which asks for everything, stays null
            setattr(owner, asked[0], kept)
        return failed

    def _with(self, answer: Any, taken: list[tuple[str, list[Any]]]) -> Any:
        for name, entries in taken:
            _merge(getattr(answer, name), entries)
        return answer

    # --- what is replaced in the answer

    def _replace(self, owner: Any, path: tuple[Field, ...], error: EntryError, topic: str | None) -> None:
        array = getattr(owner, path[0].name) or []
        for index, element in enumerate(array):
            name = topic or self._topic(element)
            if len(path) > 1:
                self._replace(element, path[1:], error, name)
            elif error.means is None or error.means(name, _partition(element)):
                array[index] = _failed(element, error)

    def _topic(self, element: Any) -> str | None:
        """The topic that an element is about, if it names one."""
        for field in TOPIC_NAMES:
            name = getattr(element, field, None)
            if name:
                return str(name)
        topic_id: bytes = getattr(element, "topic_id", b"")
        return self._topic_name(topic_id) if any(topic_id) else element if isinstance(element, str) else None


def add_missing_fetches(answer: Any, fetched: Iterator[tuple[str, bytes, int]], error: EntryError) -> None:
    """Add to the answer to a fetch the failed partitions of its session: topic, topic id and partition. The answer
    names only those that have something to say."""
    topic_struct = type(answer).Topic
    present = {
        (getattr(topic, "topic", ""), topic.topic_id, partition.partition_index)
        for topic in answer.responses
        for partition in topic.partitions
    }
    for topic, topic_id, index in fetched:
        if (topic, topic_id, index) not in present:
            partition = _blank(topic_struct.Partition, partition_index=index, error_code=error.code, records=b"")
            name = {"topic": topic} if hasattr(topic_struct, "topic") else {}
            _merge(answer.responses, [topic_struct(**name, topic_id=topic_id, partitions=[partition])])


# --- structs


def _partition(element: Any) -> int | None:
    """The partition that an element is about, if it names one."""
    if isinstance(element, int):
        return element
    return next((getattr(element, name) for name in PARTITION_NAMES if hasattr(element, name)), None)


def _neutral(field: Field) -> Any:
    """A value for a field that has no default."""
    if field.type.is_nullable:
        return None
    wire = field.type.wire
    if wire is None:
        assert field.type.struct is not None
        return _blank(field.type.struct)
    return {"array": [], "string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "boolean": False}.get(
        wire.name, -1 if field.name.endswith("_id") else 0
    )


def _blank(struct: type[Any], **values: Any) -> Any:
    """A struct with these values, and nothing else to say."""
    for field in struct.__fields__:
        if field.default is REQUIRED and field.name not in values:
            values[field.name] = _neutral(field)
    return struct(**values)


def _entry(struct: type[Any], element: Any, **values: Any) -> Any:
    """The entry of an answer that is about this element of the request."""
    for field in struct.__fields__:
        if field.name in values or field.name not in _IDENTITIES:
            continue
        if isinstance(element, (int, str)):
            if field.default is REQUIRED or field.name in TOPIC_NAMES:
                values[field.name] = element
            continue
        aliases = next((names for names in _ALIASES if field.name in names), (field.name,))
        found = [getattr(element, name) for name in aliases if hasattr(element, name)]
        if not found and field.name == "user":
            found = [element.name]
        if found:
            values[field.name] = found[0]
    if "records" in struct.__slots__:
        values["records"] = b""
    return _blank(struct, **values)


def _failed(element: Any, error: EntryError) -> Any:
    """The element of an answer as an error: about the same, with nothing else to say."""
    values = error.values
    for field in type(element).__fields__:
        if field.name in values:
            continue
        if field.name == "leader_id":
            values[field.name] = -1
        elif field.default is REQUIRED or field.name in _IDENTITIES:
            values[field.name] = getattr(element, field.name)
        elif field.name == "records":
            values[field.name] = b""
    return type(element)(**values)


def _merge(entries: list[Any], more: list[Any]) -> None:
    """Add entries; what belongs to a topic or group that is there already goes into it."""
    for entry in more:
        inner = next((f for f in type(entry).__fields__ if isinstance(getattr(entry, f.name), list)), None)
        same = None
        if inner is not None:
            same = next((known for known in entries if _identity(known) == _identity(entry)), None)
        if same is None or inner is None:
            entries.append(entry)
        else:
            _merge(getattr(same, inner.name), getattr(entry, inner.name))


def _identity(entry: Any) -> tuple[Any, ...]:
    return tuple(getattr(entry, field.name) for field in type(entry).__fields__ if field.name in _IDENTITIES)
