"""The one list of diagnoses: what commonly goes wrong with a client of Kafka, each as a function of the facts.

A diagnosis returns a sentence, or None if the facts do not show its fault. The first ones of `DIAGNOSES` leave the
least doubt. The failure report has them all; what shows a running broker may use the same list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from kmini.broker.clock import milliseconds
from kmini.broker.journal.entries import JournalEntry
from kmini.report.facts import Facts, GroupFacts

Diagnosis = Callable[[Facts], "str | None"]

LATEST = -1
"""The timestamp with which ListOffsets asks for the end of a partition."""

CLOSE = 0.75
"""How similar two names of topics are, at least, for one to be taken for the other (`difflib`)."""

_UNKNOWN_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
_FENCED = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE")
_REFUSED = (
    "UNSUPPORTED_VERSION",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "UNSUPPORTED_SASL_MECHANISM",
)
_BEFORE_USE = {"ApiVersions", "Metadata", "SaslHandshake", "SaslAuthenticate"}
"""What a client asks the address that it was given; for the rest it connects to the addresses that it is told."""


def likely(facts: Facts) -> Iterator[str]:
    """The sentences of all diagnoses that the facts show, the likeliest first."""
    for diagnosis in DIAGNOSES:
        found = diagnosis(facts)
        if found is not None:
            yield found


# --- clients that never came


def no_client_came(facts: Facts) -> str | None:
    """No request at all has come."""
    if not facts.has_journal or facts.requests or facts.lost:
        return None
    return f"no client sent a request to {', '.join(facts.addresses)}: check bootstrap.servers of your service"


def advertised_address_never_reached(facts: Facts) -> str | None:
    """Clients asked for the addresses of the brokers, and came to none of them."""
    if not facts.told or not facts.requests:
        return None
    if any(entry.api not in _BEFORE_USE for entry in facts.requests) or not facts.asked("Metadata"):
        return None
    return (
        f"clients bootstrapped at {', '.join(facts.addresses)} and never came to the advertised address "
        f"{', '.join(sorted({*facts.told}))}, which they are told to use (advertised.listeners)"
    )


def version_or_codec_refused(facts: Facts) -> str | None:
    """A client asks for what this broker does not serve."""
    for entry in reversed(facts.requests):
        refused = [error for error in entry.errors if error in _REFUSED]
        if refused and entry.api != "ApiVersions":
            return f"{_client(entry)} was refused {entry.api} v{entry.version}: {refused[0]}"
        if entry.closed is not None and entry.closed.startswith(("not served", "served in versions")):
            return f"{_client(entry)} asked for {entry.api} v{entry.version}, which is {entry.closed}"
    return None


# --- topics


def topic_does_not_exist(facts: Facts) -> str | None:
    """A group subscribes to a topic that does not exist, or clients ask for one."""
    for group in facts.groups:
        for member in group.description.members:
            for topic in member.topics:
                if facts.topic(topic) is None:
                    return (
                        f"consumer {member.client_id!r} of group {group.description.group} subscribed to {topic!r}, "
                        f"which does not exist{_near(facts, topic)}"
                    )
    missing: Counter[tuple[str, str]] = Counter()
    for entry in facts.requests:
        if entry.errors and {*entry.errors} & {*_UNKNOWN_TOPIC}:
            for topic in entry.topics:
                if topic and facts.topic(topic) is None:
                    missing[_client(entry), topic] += 1
    if not missing:
        return None
    (client, topic), times = missing.most_common(1)[0]
    return f"{client} asked {_times(times)} for topic {topic!r}, which does not exist{_near(facts, topic)}"


def wrong_topic(facts: Facts) -> str | None:
    """Records went to one topic, and a topic with a similar name was never written to."""
    for empty in facts.topics:
        if empty.was_written:
            continue
        written = [topic for topic in facts.topics if topic.was_written]
        for name in get_close_matches(empty.name, [topic.name for topic in written], n=1, cutoff=CLOSE):
            topic = facts.topic(name)
            assert topic is not None
            first = next((entry for entry in facts.requests if name in entry.topics), None)
            by = f", which {_client(first)} was the first to name, at +{facts.after_s(first):.2f} s" if first else ""
            return (
                f"the records went to another topic: {name!r} has {topic.committed + topic.hidden}{by}; "
                f"nothing was ever written to {empty.name!r}"
            )
    return None


def last_produce_failed(facts: Facts) -> str | None:
    """The last Produce of a client failed."""
    for client in dict.fromkeys(entry.client_id for entry in facts.asked("Produce")):
        sent = [entry for entry in facts.asked("Produce") if entry.client_id == client and not entry.is_in_service]
        failed = []
        for entry in reversed(sent):
            if not entry.errors:
                break
            failed.append(entry)
        if failed and not {*failed[0].errors} & {*_FENCED, *_REFUSED}:
            acted = f" (fault rule {failed[0].faults[-1]!r} acted)" if failed[0].faults else ""
            return (
                f"the last Produce of {_client(failed[0])} to {', '.join(failed[0].topics)} failed "
                f"{_times(len(failed))}: {failed[0].errors[0]}{acted}"
            )
    return None


def older_than_retention(facts: Facts) -> str | None:
    """Records were written and retention deleted them."""
    if facts.asked("DeleteRecords"):
        return None
    for topic in facts.topics:
        gone = [one for one in topic.partitions if one.log_start_offset == one.high_watermark > 0]
        if gone and not topic.committed + topic.hidden:
            moved = f"; the clock was moved ahead by {duration(facts.ahead_ms)}" if facts.ahead_ms else ""
            return (
                f"retention deleted what was written to {topic.name!r}: log start offset and high watermark are both "
                f"{gone[-1].high_watermark} in partition {gone[-1].number}{moved}"
            )
    return None


# --- transactions


def aborted_or_fenced(facts: Facts) -> str | None:
    """A producer was refused because its transaction was ended, or another producer has its id."""
    for entry in reversed(facts.requests):
        fenced = [error for error in entry.errors if error in _FENCED]
        if not fenced:
            continue
        name = next(iter(entry.transactional_ids), "of an idempotent producer")
        others = [
            one
            for one in facts.asked("InitProducerId")
            if name in one.transactional_ids and one.client_id != entry.client_id and one.number < entry.number
        ]
        why = f"{_client(others[-1])} took the id over by InitProducerId" if others else "its time-out passed"
        return (
            f"transaction {name!r} of {_client(entry)} was aborted, because {why}; its {entry.api} came after that and "
            f"was answered {fenced[0]}{_hidden(facts)}"
        )
    return None


def transaction_left_open(facts: Facts) -> str | None:
    """A transaction is open, so consumers at read_committed wait."""
    if not facts.transactions:
        return None
    one = facts.transactions[0]
    places = ", ".join(map(str, one.partitions[:3])) or "no partition yet"
    return (
        f"transaction {one.transactional_id!r} is open since {one.age_ms / 1_000:.1f} s in {places}: consumers at "
        f"read_committed get nothing from its first record on until it commits or aborts{_hidden(facts)}"
    )


def _hidden(facts: Facts) -> str:
    hidden = [f"{topic.hidden} of {topic.name}" for topic in facts.topics if topic.hidden]
    return f" (records hidden from consumers at read_committed: {', '.join(hidden)})" if hidden else ""


# --- groups


def leftover_member(facts: Facts) -> str | None:
    """A member joins, and the group waits for another one that does not."""
    for group in facts.groups:
        described = group.description
        joining = [
            entry for entry in facts.asked("JoinGroup") if entry.is_in_service and described.group in entry.groups
        ]
        if not joining or described.state != "PreparingRebalance":
            continue
        clients = {entry.client_id for entry in joining}
        others = [member for member in described.members if member.client_id not in clients]
        if others:
            return (
                f"group {described.group} waits for {others[0].client_id!r}, which is still a member and does not join "
                f"again (a consumer of an earlier test?); {_client(joining[-1])} gets no partition until it "
                "joins, leaves or times out"
            )
    return None


def never_assigned(facts: Facts) -> str | None:
    """A group has members, and its assignment never came to its end."""
    for group in facts.groups:
        described = group.description
        without = [member for member in described.members if not member.assignment]
        if without and described.state != "Stable":
            listed = " and ".join(repr(member.client_id) for member in without[:3])
            return f"group {described.group} is {described.state}: {listed} never got a partition, and fetches nothing"
    return None


def more_members_than_partitions(facts: Facts) -> str | None:
    """A member has no partition, because there are too few."""
    for group in facts.groups:
        described = group.description
        idle = [member for member in described.members if not member.assignment]
        topics = {topic for member in described.members for topic in member.topics}
        known = [topic for name in topics if (topic := facts.topic(name)) is not None]
        partitions = sum(topic.partition_count for topic in known)
        if described.state == "Stable" and idle and known and len(described.members) > partitions:
            return (
                f"group {described.group} has {len(described.members)} members and {', '.join(sorted(topics))} has "
                f"{counted(partitions, 'partition')}: {idle[0].client_id!r} has none"
            )
    return None


def assigned_after_produce(facts: Facts) -> str | None:
    """A consumer asked for the end of a partition, after records had been written there."""
    for entry in facts.asked("ListOffsets"):
        for one in entry.partitions:
            if one.offset != LATEST or _has_committed(facts, one.topic, one.partition):
                continue
            before = [
                written
                for written in facts.asked("Produce")
                if written.number < entry.number
                and not written.errors
                and (one.topic, one.partition) in _places(written)
            ]
            if before and any(_reads(later, one.topic) for later in facts.requests if later.number > entry.number):
                place, after_s = f"{one.topic}-{one.partition}", facts.after_s(entry)
                return (
                    f"{_client(entry)} began at the end of {place} at +{after_s:.2f} s "
                    f"(auto.offset.reset=latest, nothing committed), after the record of "
                    f"+{facts.after_s(before[-1]):.2f} s: produce after the assignment, or read from the earliest"
                )
    return None


def group_at_the_end(facts: Facts) -> str | None:
    """The group has committed everything that there is, before a consumer came that was to read it."""
    for group in facts.groups:
        behind = [*_committed_ends(facts, group)]
        if not behind or not all(at_end for _, at_end in behind):
            continue
        name = group.description.group
        commits = [one.number for one in facts.asked("OffsetCommit", "TxnOffsetCommit") if name in one.groups]
        began = [one for one in facts.asked("OffsetFetch") if name in one.groups]
        if began and began[-1].number > max(commits, default=0):
            topic = behind[0][0]
            return (
                f"group {name} had committed the end of {topic} before {_client(began[-1])} asked where to begin: it "
                "gets only what is written from then on. Use another group, or set its offsets back"
            )
    return None


def _committed_ends(facts: Facts, group: GroupFacts) -> Iterator[tuple[str, bool]]:
    """Each topic with a committed offset, and whether that is the end of a partition with records."""
    for place, offset in group.offsets.items():
        topic = facts.topic(place.topic)
        for one in topic.partitions if topic is not None else ():
            if one.number == place.partition and one.high_watermark:
                yield place.topic, offset >= one.high_watermark


# --- faults that a test asked for


def rule_never_hit(facts: Facts) -> str | None:
    """A fault rule never acted."""
    return next((one.why_not for one in facts.faults if one.why_not), None)


DIAGNOSES: tuple[Diagnosis, ...] = (
    advertised_address_never_reached,
    version_or_codec_refused,
    topic_does_not_exist,
    leftover_member,
    rule_never_hit,
    aborted_or_fenced,
    transaction_left_open,
    last_produce_failed,
    wrong_topic,
    older_than_retention,
    never_assigned,
    assigned_after_produce,
    more_members_than_partitions,
    group_at_the_end,
    no_client_came,
)
"""All of them, the likeliest first."""


def _client(entry: JournalEntry) -> str:
    return f"client {entry.client_id!r}" if entry.client_id is not None else f"the client at {entry.connection}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _near(facts: Facts, name: str) -> str:
    names = [topic.name for topic in facts.topics]
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"; nearest: {near[0]!r}"
    return f"; there are: {', '.join(names[:5])}" if names else "; there are none"


def _places(entry: JournalEntry) -> set[tuple[str, int | None]]:
    return {(one.topic, one.partition) for one in entry.partitions}


def _reads(entry: JournalEntry, topic: str) -> bool:
    return entry.api == "Fetch" and topic in entry.topics


def _has_committed(facts: Facts, topic: str, partition: int | None) -> bool:
    return any((topic, partition) in group.offsets for group in facts.groups)


def counted(count: int, what: str) -> str:
    """As "1 record" or "3 records"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def duration(ms: int) -> str:
    """Milliseconds in the largest units, as "7d" or "1h30m"; above a minute in whole seconds."""
    left, parts = ms if ms < 60_000 else round(ms, -3), []
    for unit in ("d", "h", "m", "s", "ms"):
        size = milliseconds(f"1{unit}")
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0ms"
