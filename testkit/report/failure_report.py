"""The failure report as text: the likely reason, then what is there, in at most 40 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from kmini.broker.journal.entries import JournalEntry
from kmini.broker.network.peer_log import printable
from kmini.protocol.topics import TopicPartition
from kmini.testkit.descriptions import at_generation
from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.phrases import counted
from kmini.testkit.report.diagnoses import likely
from kmini.testkit.report.facts import ClusterFacts, Facts, TopicFacts, moved_by, record_shown

MOST_LINES = 40
MOST_WIDTH = 160
"""Characters of a line; a longer one is cut."""
WIDTH = 120
"""Characters at which a sentence goes on in the next line."""
MOST_REASONS = 4
MOST_OF_REASON = 400
"""Characters of a sentence."""
MOST_TOPICS = MOST_GROUPS = MOST_OF_CLIENT = 6
"""Lines about topics, about groups, and about the last requests of one client."""
MOST_WAITS = MOST_DEPARTURES = 2
"""Calls that waited in vain, and members of a group that have gone."""
MOST_EVENTS = 8
"""The last things that happened to the brokers of a cluster."""
MOST_CLIENTS = 4
_LABEL = 8
"""Characters of the first column."""
_DULL = {"ApiVersions", "FindCoordinator", "Heartbeat"}
"""APIs whose requests say nothing unless they fail."""


def failure_report(facts: Facts) -> str:
    """The report. What a client has sent is escaped; records are shortened."""
    reasons = [*likely(facts)][:MOST_REASONS]
    lines = [
        *_wrapped("LIKELY", reasons[:1]),
        *_wrapped("or", reasons[1:]),
        *_wrapped("waited", map(_wait_text, _waits(facts))),
        *_labelled("topics", _limited(map(_topic_line, facts.topics), MOST_TOPICS)),
        *_labelled("groups", _limited(_group_lines(facts), MOST_GROUPS)),
        *_labelled("txns", _limited(map(str, facts.transactions), MOST_GROUPS)),
        *_labelled("faults", _limited(_fault_lines(facts), MOST_GROUPS)),
        *_labelled("cluster", _cluster_lines(facts.cluster, facts.began_s) if facts.cluster else ()),
    ]
    end = [*_labelled("unknown", [_unknown(facts)])] if facts.elsewhere else [*_labelled("clock", [_clock(facts)])]
    room = MOST_LINES - len(lines) - len(end)
    return "\n".join(_cut(line) for line in [*lines, *_request_lines(facts, room), *end])


def _labelled(label: str, texts: Iterable[str]) -> Iterator[str]:
    """The texts, with the label before the first one."""
    for number, text in enumerate(texts):
        yield f"{label if number == 0 else '':{_LABEL}}{printable(text, limit=MOST_WIDTH)}"


def _wrapped(label: str, reasons: Iterable[str]) -> Iterator[str]:
    """Sentences, each in as many lines as it needs, with the label before the first one of each."""
    for reason in reasons:
        escaped = printable(reason, limit=MOST_OF_REASON)
        yield from _labelled(label, textwrap.wrap(escaped, WIDTH - _LABEL, break_on_hyphens=False))


def _limited(texts: Iterable[str], most: int) -> list[str]:
    every = [*texts]
    return every if len(every) <= most else [*every[: most - 1], f"and {len(every) - most + 1} more"]


def _cut(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= MOST_WIDTH else f"{line[: MOST_WIDTH - 3]}..."


def _waits(facts: Facts) -> list[FailedWait]:
    """The last waits in vain, each call once."""
    return [*{wait.call: wait for wait in facts.waits}.values()][-MOST_WAITS:]


def _wait_text(wait: FailedWait) -> str:
    return f"{wait.call}: {wait.message}"


def _topic_line(topic: TopicFacts) -> str:
    count = topic.partition_count
    parts = [f"{topic.name}: {counted(count, 'partition')}, {counted(topic.committed, 'record')}"]
    if topic.auto_created_by:
        parts.append(f"auto-created for {topic.auto_created_by}")
    if topic.hidden:
        parts.append(f"{topic.hidden} hidden by open or aborted transactions")
    leaderless = count - len(topic.partitions)
    if leaderless:
        parts.append(f"{leaderless} without a leader")
    for one in topic.partitions:
        if one.high_watermark:
            stable = f", last stable {one.last_stable_offset}" if one.last_stable_offset != one.high_watermark else ""
            parts.append(f"p{one.number} start {one.log_start_offset}, end {one.high_watermark}{stable}")
    last = max((one.last for one in topic.partitions if one.last is not None), key=_when, default=None)
    if last is not None:
        parts.append(f"last p{last.partition}@{last.offset} {record_shown(last)}")
    return ", ".join(parts)


def _when(record: object) -> int:
    return int(getattr(record, "timestamp", -1))


def _of_end(facts: Facts, place: TopicPartition, offset: int) -> str:
    """A committed offset and the end of its partition: "3 of 7"."""
    partition = facts.partition(place)
    return str(offset) if partition is None else f"{offset} of {partition.high_watermark}"


def _group_lines(facts: Facts) -> Iterator[str]:
    for group in facts.groups:
        described = group.description
        offsets = ", ".join(f"{place}: {_of_end(facts, place, at)}" for place, at in [*group.offsets.items()][:4])
        protocol = f", {described.protocol}" if described.protocol else ""
        committed = f"committed {offsets}" if offsets else "nothing committed"
        generation = f", {described.at}" if described.at else ""
        coordinated = "" if group.coordinator is None else f", coordinated by broker {group.coordinator}"
        committed = "" if described.kind == "share" else f", {committed}"
        yield f"{described.group}: {described.state}{generation}{protocol}{committed}{coordinated}"
        for shared in described.share_partitions[:4]:
            yield f"  {shared}"
        for member in described.members[:3]:
            has = " ".join(map(str, member.assignment[:4])) or "nothing"
            yield f"  {member.client_id} wants {' '.join(member.topics[:4]) or '?'}, has {has}"
        for gone in group.departures[-MOST_DEPARTURES:]:
            went = "was removed" if gone.is_expelled else "left"
            why = f": {gone.reason}" if gone.reason else ""
            yield f"  {gone.client_id} {went} in {at_generation(described.kind, gone.generation)}{why}"


def _fault_lines(facts: Facts) -> Iterator[str]:
    for one in facts.faults:
        by_chance = "" if one.seed is None else f", by chance (seed {one.seed})"
        acted = f"acted {counted(one.hits, 'time')}" if one.hits else "never acted"
        yield f"{one.name}: {acted}{by_chance}"


def _cluster_lines(cluster: ClusterFacts, began_s: float) -> Iterator[str]:
    """The brokers, what happened to them, and the partitions that are not led and replicated as they should be."""
    down = [cluster.fate(number) for number in cluster.numbers if number not in cluster.running]
    numbers = " ".join(map(str, cluster.running)) or "none"
    yield "; ".join([f"broker {numbers} runs" if len(cluster.running) == 1 else f"brokers {numbers} run", *down])
    for event in cluster.events[-MOST_EVENTS:]:
        when = f"{event.time_s - began_s:+.3f} " if began_s else ""
        yield f"{when}broker {event.broker} {event.what}"
    harmed = [str(one) for one in cluster.partitions if not one.is_whole]
    yield from _limited(harmed or ["every partition has a leader, and all its replicas are in sync"], MOST_GROUPS)
    if cluster.coordinators:
        yield ", ".join(f"broker {broker} coordinates {name}" for name, broker in [*cluster.coordinators.items()][:4])


def _unknown(facts: Facts) -> str:
    return f"requests, connections, members that have gone, topics auto-created: {facts.elsewhere} does not tell them"


def _clock(facts: Facts) -> str:
    moved = moved_by(facts.ahead_ms) if facts.ahead_ms else "not moved"
    if not facts.has_journal:
        return f"{moved}; no requests were written down: start the broker with journal=True"
    lost = f"{facts.lost} older ones lost" if facts.lost else "all kept"
    return f"{moved}; requests: {len(facts.requests)}, {lost}"


# --- requests


def _request_lines(facts: Facts, room: int) -> Iterator[str]:
    """The last requests of each client, the clients that were last active first."""
    clients = [*dict.fromkeys(entry.client_id for entry in reversed(facts.requests))]
    for client in clients[:MOST_CLIENTS]:
        if room < 2:
            return
        lines = _last_of([entry for entry in facts.requests if entry.client_id == client], facts)
        shown = lines[-min(MOST_OF_CLIENT, room - 1) :]
        name = "clients without an id" if client is None else client
        yield from _labelled("last", [f"of {name}:"])
        for line in shown:
            yield f"{'':{_LABEL}}{printable(line, limit=MOST_WIDTH)}"
        room -= 1 + len(shown)


def _last_of(entries: list[JournalEntry], facts: Facts) -> list[str]:
    """A line for each request; equal ones that follow each other are one line."""
    runs: list[tuple[JournalEntry, str, int]] = []
    for entry in entries:
        if entry.api in _DULL and not entry.errors and entry.closed is None:
            continue
        text = _what(entry)
        if runs and runs[-1][1] == text:
            runs[-1] = (runs[-1][0], text, runs[-1][2] + 1)
        else:
            runs.append((entry, text, 1))
    return [f"+{facts.after_s(entry):.3f} {text}" + (f"  x{count}" if count > 1 else "") for entry, text, count in runs]


def _what(entry: JournalEntry) -> str:
    """A request without its times."""
    text = str(entry)
    return text.rpartition(f" {entry.ms:.1f} ms")[0] + text.rpartition(" ms")[2] if _has_time(entry) else text


def _has_time(entry: JournalEntry) -> bool:
    return entry.ms is not None and entry.closed is None
