"""The one list of diagnoses: what commonly goes wrong with a client of Kafka, each as a function of the facts.

A diagnosis returns a sentence, or None if the facts do not show its fault. The first ones of `DIAGNOSES` leave the
least doubt. The failure report has them all; what shows a running broker may use the same list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from kmini.testkit.phrases import counted, nearest
from kmini.testkit.report.facts import Facts, TopicFacts, client_called, client_of, moved_by
from kmini.testkit.report.group_diagnoses import (
    assigned_after_produce,
    fetched_and_never_committed,
    fetched_beyond_what_is_committed,
    group_at_the_end,
    group_never_joined,
    left_without_partition,
    leftover_member,
    member_expelled,
    more_members_than_partitions,
    never_assigned,
    partitions_not_given_up,
)

if TYPE_CHECKING:
    from kmini.broker.journal.entries import JournalEntry

Diagnosis = Callable[[Facts], "str | None"]

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
    """No request at all has come, and the test has clients: it has asked where the broker listens, or has waited for
    more than the records that it writes itself."""
    if not facts.has_journal or facts.requests or facts.lost:
        return None
    written = {topic.name for topic in facts.topics if topic.was_written}
    if not facts.is_address_known and all(wait.topic in written for wait in facts.waits):
        return None
    return (
        f"no client sent a request to {', '.join(facts.addresses)}: check bootstrap.servers of your service, and that "
        "it was started"
    )


def advertised_address_never_reached(facts: Facts) -> str | None:
    """Clients asked for the addresses of the brokers, and came to none of them."""
    if not facts.told or not facts.requests:
        return None
    if any(entry.api not in _BEFORE_USE for entry in facts.of_kafka) or not facts.asked("Metadata"):
        return None
    return (
        f"clients bootstrapped at {', '.join(facts.addresses)} and never connected to the advertised address "
        f"{', '.join(sorted({*facts.told}))}, which they were told to use: set advertised.listeners to an address that "
        "they can reach"
    )


def version_or_codec_refused(facts: Facts) -> str | None:
    """A client asks for what this broker does not serve."""
    for entry in reversed(facts.requests):
        refused = [error for error in entry.errors if error in _REFUSED]
        if refused and entry.api != "ApiVersions":
            return f"{client_of(entry)} was refused {entry.api} v{entry.version}: {refused[0]}"
        if entry.closed is not None and entry.closed.startswith(("not served", "served in versions")):
            return f"{client_of(entry)} asked for {entry.api} v{entry.version}, which is {entry.closed}"
    return None


# --- several brokers


def without_leader(facts: Facts) -> str | None:
    """No broker leads a partition."""
    cluster = facts.cluster
    for one in cluster.partitions if cluster is not None else ():
        if cluster is not None and one.leader < 0:
            fates = "; ".join(map(cluster.fate, one.replicas))
            return f"no broker leads {one.place}, so clients wait: {fates} (in sync: {', '.join(map(str, one.isr))})"
    return None


def too_few_in_sync(facts: Facts) -> str | None:
    """Records were refused, because too few replicas are in sync."""
    cluster = facts.cluster
    for entry in reversed(facts.asked("Produce")):
        errors = [error for error in entry.errors if error.startswith("NOT_ENOUGH_REPLICAS")]
        if cluster is None or not errors:
            continue
        for one in cluster.partitions:
            lost = [number for number in one.replicas if number not in one.isr]
            if lost and (one.place.topic, one.place.partition) in {(at.topic, at.partition) for at in entry.partitions}:
                fates = "; ".join(map(cluster.fate, lost))
                return f"the Produce of {client_of(entry)} was refused with {errors[0]}: {one}; {fates}"
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
                        f"which does not exist{nearest(topic, _names(facts))}"
                    )
    missing: Counter[tuple[str, str]] = Counter()
    for entry in facts.requests:
        if entry.errors and {*entry.errors} & {*_UNKNOWN_TOPIC}:
            for topic in entry.topics:
                if topic and facts.topic(topic) is None:
                    missing[client_of(entry), topic] += 1
    if missing:
        (client, topic), times = missing.most_common(1)[0]
        return (
            f"{client} asked {_times(times)} for topic {topic!r}, which does not exist{nearest(topic, _names(facts))}"
        )
    for wait in facts.waits:
        if wait.topic and facts.topic(wait.topic) is None:
            return f"the test waited for topic {wait.topic!r}, which does not exist{nearest(wait.topic, _names(facts))}"
    return None


def wrong_topic(facts: Facts) -> str | None:
    """The first of `wrong_topics`."""
    return next(wrong_topics(facts), None)


def wrong_topics(facts: Facts) -> Iterator[str]:
    """Records went to one topic, and a topic with a similar name was never written to: one of the names is wrong, most
    likely that of a topic that a client's request created."""
    waited = {wait.topic for wait in facts.waits}
    names = tuple(topic.name for topic in facts.topics if topic.was_written)
    for empty in facts.topics:
        if empty.was_written:
            continue
        name = closest(empty.name, names)
        if name is not None:
            topic = facts.topic(name)
            assert topic is not None
            if _are_siblings(empty.name, name):
                continue
            if empty.auto_created_by and not topic.auto_created_by:
                yield (
                    f"{empty.name!r} is not {name!r}: {_auto_created(facts, empty)}, and nothing was ever written to "
                    f"it; {name!r} has {counted(topic.committed + topic.hidden, 'record')}"
                )
                continue
            first = next((entry for entry in facts.requests if name in entry.topics), None)
            by = f", which {client_of(first)} was the first to name, at +{facts.after_s(first):.2f} s" if first else ""
            if topic.auto_created_by:
                by = f"; {_auto_created(facts, topic)}"
            waited_for = ", for which the test waited" if empty.name in waited else ""
            yield (
                f"the records went to another topic: {name!r} has "
                f"{counted(topic.committed + topic.hidden, 'record')}{by}; "
                f"nothing was ever written to {empty.name!r}{waited_for}"
            )


def auto_created_by_mistake(facts: Facts) -> str | None:
    """A client's request created a topic whose name is close to that of a topic that was made on purpose, and both have
    records, or neither has; else it is `wrong_topic`."""
    for topic in facts.topics:
        if not topic.auto_created_by:
            continue
        meant = tuple(
            one.name for one in facts.topics if not one.auto_created_by and one.was_written == topic.was_written
        )
        near = closest(topic.name, meant)
        if near is not None and not _are_siblings(topic.name, near):
            return f"{topic.name!r} may be a misspelled {near!r}: {_auto_created(facts, topic)}"
    return None


@lru_cache(maxsize=1_000)
def closest(name: str, names: tuple[str, ...]) -> str | None:
    """The name that is most similar to this one, if one is at least as similar as CLOSE.

    Of names that are equally similar it is the first. A page asks again and again about the same hundreds of names: the
    answers are kept, and a name is compared whole only if its letters allow it to be the most similar one.
    """
    from difflib import SequenceMatcher  # not needed before

    matcher = SequenceMatcher()
    matcher.set_seq2(name)
    found, most = None, CLOSE
    for one in names:
        matcher.set_seq1(one)
        bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
        if all(most < bound() or (found is None and most == bound()) for bound in bounds):
            found, most = one, matcher.ratio()
    return found


def _auto_created(facts: Facts, topic: TopicFacts) -> str:
    """How a topic came to be: with the time, if the request is still known."""
    named = [entry for entry in facts.asked("Metadata") if topic.name in entry.topics]
    first = next((entry for entry in named if client_called(entry.client_id) == topic.auto_created_by), None)
    when = f" at +{facts.after_s(first):.2f} s" if first is not None else ""
    return f"the broker created it{when}, because {topic.auto_created_by} asked for it (auto.create.topics.enable)"


def _are_siblings(one: str, other: str) -> bool:
    """Whether two names were likely made to be similar: "orders" and "orders-dlt", "orders-1" and "orders-2",
    "shop.orders.created" and "shop.orders.cancelled"."""
    shorter, longer = sorted((_words(one), _words(other)), key=len)
    if len(shorter) < len(longer):
        return longer[: len(shorter)] == shorter
    different = [(here, there) for here, there in zip(shorter, longer, strict=True) if here != there]
    return bool(different) and not any(_is_misspelled(here, there) for here, there in different)


def _words(name: str) -> list[str]:
    return re.split(r"[-._]", name)


def _is_misspelled(one: str, other: str) -> bool:
    """Whether two words differ a little, and not in their numbers only, as "v1" and "v2" do."""
    return closest(one, (other,)) is not None and re.sub(r"[0-9]+", "0", one) != re.sub(r"[0-9]+", "0", other)


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
            return (
                f"the last Produce of {client_of(failed[0])} to {', '.join(failed[0].topics)} failed "
                f"{_times(len(failed))}: {failed[0].errors[0]}{_acted(failed[0])}"
            )
    return None


def older_than_retention(facts: Facts) -> str | None:
    """Records were written and retention deleted them."""
    if facts.asked("DeleteRecords"):
        return None
    for topic in facts.topics:
        gone = [one for one in topic.partitions if one.log_start_offset == one.high_watermark > 0]
        if gone and not topic.committed + topic.hidden:
            moved = f"; the clock was {moved_by(facts.ahead_ms)}" if facts.ahead_ms > 0 else ""
            by = "retention" if facts.has_journal and not facts.elsewhere else "a DeleteRecords or retention"
            return (
                f"{by} deleted what was written to {topic.name!r}: partition {gone[-1].number} now starts at its "
                f"end, offset {gone[-1].high_watermark}{moved}"
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
        why = f"{client_of(others[-1])} took its id over by InitProducerId" if others else "its time-out passed"
        return (
            f"transaction {name!r} of {client_of(entry)} was aborted, because {why}; the {entry.api} of "
            f"{client_of(entry)} came after that and was answered {fenced[0]}{_hidden(facts)}"
        )
    return None


def transaction_left_open(facts: Facts) -> str | None:
    """A transaction is open, so consumers at read_committed wait."""
    if not facts.transactions:
        return None
    one = facts.transactions[0]
    places = ", ".join(map(str, one.partitions[:3])) or "no partition yet"
    return (
        f"transaction {one.transactional_id!r} has been open for {one.age_ms / 1_000:.1f} s in {places}: consumers at "
        f"read_committed get nothing from its first record on until it commits or aborts{_hidden(facts)}"
    )


def _hidden(facts: Facts) -> str:
    hidden = [f"{topic.hidden} of {topic.name}" for topic in facts.topics if topic.hidden]
    return f" (records hidden from consumers at read_committed: {', '.join(hidden)})" if hidden else ""


# --- faults that a test asked for


def rule_never_hit(facts: Facts) -> str | None:
    """A fault rule never acted."""
    return next((one.why_not for one in facts.faults if one.why_not), None)


def acted_too_late(facts: Facts) -> str | None:
    """A call had waited in vain before a fault rule acted for the first time."""
    for wait in facts.waits:
        for rule in facts.faults:
            first = next((entry for entry in facts.requests if rule.name in entry.faults), None)
            after_s = 0.0 if first is None else first.time_ms / 1_000 - wait.ended_s
            if first is not None and after_s > 0:
                return (
                    f"{wait.call} ended {after_s:.1f} s before fault rule {rule.name!r} first acted, on {first.api} of "
                    f"{client_of(first)}. Wait longer, or for the rule itself (wait_hit)"
                )
    return None


def written_after_the_wait(facts: Facts) -> str | None:
    """A call had waited in vain for records of a topic, and then one came."""
    for wait in facts.waits:
        for entry in facts.asked("Produce"):
            after_s = entry.time_ms / 1_000 - wait.ended_s
            if wait.topic in entry.topics and not entry.errors and after_s > 0:
                return (
                    f"{wait.call} ended {after_s:.1f} s before {client_of(entry)} wrote to {wait.topic}: wait longer "
                    "(timeout_ms)"
                )
    return None


# --- the schema registry


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


DIAGNOSES: tuple[Diagnosis, ...] = (
    no_client_came,
    advertised_address_never_reached,
    version_or_codec_refused,
    topic_does_not_exist,
    schema_refused,
    leftover_member,
    partitions_not_given_up,
    member_expelled,
    acted_too_late,
    rule_never_hit,
    without_leader,
    too_few_in_sync,
    aborted_or_fenced,
    transaction_left_open,
    last_produce_failed,
    registry_failed,
    wrong_topic,
    older_than_retention,
    never_assigned,
    assigned_after_produce,
    more_members_than_partitions,
    left_without_partition,
    group_at_the_end,
    fetched_and_never_committed,
    group_never_joined,
    written_after_the_wait,
    fetched_beyond_what_is_committed,
    auto_created_by_mistake,
)
"""All of them, the likeliest first."""


def _names(facts: Facts) -> list[str]:
    return [topic.name for topic in facts.topics]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
