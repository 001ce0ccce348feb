"""Replicas: partitions without a leader, with too few replicas, or with replicas that are not in sync."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kmini.doctor.findings import Finding
from kmini.doctor.partitions import PartitionState
from kmini.doctor.settings import TopicSettings
from kmini.testkit.phrases import counted

SHOWN = 3
"""Most partitions of a finding that are named."""


def replicas(
    states: Sequence[PartitionState], topics: Mapping[str, TopicSettings], live: Sequence[int]
) -> Iterator[Finding]:
    """What is the matter with leaders and replicas. A partition is told once, for the worst."""
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    missing: defaultdict[str, set[int]] = defaultdict(set)
    for state in states:
        settings = topics.get(state.place.topic)
        value = settings.values.get("min.insync.replicas", "1") if settings is not None else "1"
        least = int(value) if value.isdigit() else 1
        in_sync = f"{state.place} ({len(state.in_sync)} of {len(state.replicas)} replicas in sync"
        if state.leader < 0:
            kind, text = "leaderless", f"{state.place} (replicas {', '.join(map(str, state.replicas))})"
        elif len(state.in_sync) < (bound := min(least, len(state.replicas))):
            kind, text = "under-min-isr", f"{in_sync}, {bound} wanted)"
        elif len(state.replicas) < least:
            kind, text = "too-few-replicas", f"{state.place} (replication factor {len(state.replicas)}, {least} wanted)"
        elif len(state.in_sync) < len(state.replicas):
            kind, text = "under-replicated", f"{in_sync})"
        else:
            continue
        kinds[kind].append(text)
        missing[kind] |= {*state.replicas} - ({*live} if state.leader < 0 else {*state.in_sync})
    for kind, found in kinds.items():
        effect, change = _EFFECTS[kind]
        lost = ", ".join(map(str, sorted(missing[kind])))
        yield Finding(kind, f"{_listed(found)}: {effect}", change.format(lost=lost or "those of the replicas"))
    if not kinds and states:
        names = {state.place.topic for state in states}
        text = f"{counted(len(states), 'partition')} of {counted(len(names), 'topic')}: each has a leader, and all its"
        yield Finding("replicas-in-sync", f"{text} replicas are in sync")


_EFFECTS = {
    "leaderless": (
        "no leader, so nothing can be read or written there (LEADER_NOT_AVAILABLE)",
        "start the brokers that are missing: {lost}; if their data are lost, elect another replica "
        "(kafka-leader-election --election-type unclean)",
    ),
    "too-few-replicas": (
        "a smaller replication factor than min.insync.replicas, so acks=all needs all replicas in sync; before Apache "
        "Kafka 3.7 it can never succeed (NOT_ENOUGH_REPLICAS)",
        "lower min.insync.replicas of the topic (kmini topic alter NAME -c min.insync.replicas=1 -b HOST:PORT), or add "
        "replicas (kafka-reassign-partitions)",
    ),
    "under-min-isr": (
        "fewer replicas in sync than min.insync.replicas, so acks=all fails at present (NOT_ENOUGH_REPLICAS)",
        "look at the brokers of the other replicas: {lost}",
    ),
    "under-replicated": (
        "replicas are behind or down; one more failure may stop producers, or lose records",
        "look at the brokers of the other replicas: {lost}",
    ),
}


def _listed(found: Sequence[str]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"{', '.join(found[:SHOWN])}{more}"
