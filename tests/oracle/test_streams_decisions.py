"""Topologies of Kafka Streams configured, and their tasks assigned, by kmini and by Kafka's own classes (KIP-1071).

Where several processes or members are equally loaded, Kafka takes the first in the order of their hashes: the ids here
are such that this is their order, too.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.groups.streams.configured_topology import ConfiguredTopology, configure
from kmini.broker.groups.streams.sticky_assignor import Size, TaskMember, assign_tasks
from kmini.broker.groups.streams.tasks import Duties, Task, each_task
from kmini.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, topology_from
from kmini.protocol.errors import StreamsInvalidTopology
from support import apache_kafka
from support.draining import returned

CASES = 1_500


def any_case(rng: random.Random) -> dict[str, Any]:
    """A topology, topics that may or may not fit it, and members with tasks of an earlier target."""
    sources = [f"t{number}" for number in range(rng.randint(1, 3))]
    same = rng.random() < 0.6
    size = rng.randint(1, 5)
    topics = {name: size if same else rng.randint(1, 4) for name in sources if rng.random() < 0.97}
    ids = [str(number) for number in range(rng.randint(1, 4))]
    repartitions = {f"r{number}": rng.choice([0, 0, 0, size, 3]) for number in range(rng.randint(0, 3))}
    reads: dict[str, list[str]] = {each: [] for each in ids}
    writes: dict[str, list[str]] = {each: [] for each in ids}
    for name in repartitions:
        reads[rng.choice(ids)].append(name)
        if rng.random() < 0.95:
            writes[rng.choice(ids)].append(name)
    subtopologies = []
    for each in ids:
        own = rng.sample(sources, rng.randint(0 if reads[each] else 1, len(sources)))
        changelogs = [f"c{each}-{number}" for number in range(rng.choice([0, 0, 1, 2]))]
        together = [[*range(len(own))], [*range(len(reads[each]))]]
        subtopologies.append(
            {
                "id": each,
                "sources": own,
                "sinks": writes[each],
                "repartitions": {name: repartitions[name] for name in reads[each]},
                "changelogs": changelogs,
                "copartitions": [together] if rng.random() < 0.5 else [],
            }
        )
        for name in (*reads[each], *changelogs):
            if rng.random() < 0.5:
                topics[name] = rng.choice([size, size, size, 2])
    return {"topics": topics, "subtopologies": subtopologies, "standbys": rng.choice([0, 0, 1, 1]), **members(rng, ids)}


def members(rng: random.Random, ids: list[str]) -> dict[str, Any]:
    """Members whose tasks no two have active, and no process twice."""
    processes = [f"p{number}" for number in range(rng.randint(1, 4))]
    found = [
        {"id": f"m{number}", "process": rng.choice(processes), "active": {}, "standby": {}}
        for number in range(rng.randint(1, 6))
    ]
    for each in ids:
        for partition in range(4):
            holder = rng.choice(found)
            if rng.random() < 0.6:
                holder["active"].setdefault(each, []).append(partition)
            copy = rng.choice(found)
            if rng.random() < 0.4 and copy["process"] != holder["process"]:
                copy["standby"].setdefault(each, []).append(partition)
    return {"members": found}


def configured_by_kmini(case: dict[str, Any]) -> ConfiguredTopology:
    subtopologies = [
        Subtopology(
            each["id"],
            tuple(each["sources"]),
            (),
            tuple(InternalTopic(name) for name in each["changelogs"]),
            tuple(each["sinks"]),
            tuple(InternalTopic(name, count) for name, count in each["repartitions"].items()),
            tuple(CopartitionGroup(tuple(one), (), tuple(two)) for one, two in each["copartitions"]),
        )
        for each in case["subtopologies"]
    ]
    return configure(topology_from(0, subtopologies), lambda name: int(case["topics"].get(name, 0)))


def assigned_by_kmini(case: dict[str, Any], configured: ConfiguredTopology) -> dict[str, Duties]:
    assert configured.subtopologies is not None
    sizes = {name: Size(each.task_count, each.is_stateful) for name, each in configured.subtopologies.items()}
    present = {one["id"]: TaskMember(one["process"], Duties(one["active"], one["standby"])) for one in case["members"]}
    return returned(assign_tasks(present, sizes, case["standbys"]))


@pytest.mark.oracle
@pytest.mark.usefixtures("need_kafka")
def test_decisions_are_those_of_kafka() -> None:
    rng = random.Random(1071)
    cases = [any_case(rng) for _ in range(CASES)]
    given = "".join(json.dumps(case) + "\n" for case in cases)
    command = [
        *apache_kafka.java_command("-XX:TieredStopAtLevel=1"),
        str(Path(__file__).with_name("StreamsDecisions.java")),
    ]
    finished = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    statuses: Counter[object] = Counter()
    answers = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    for case, answer in zip(cases, map(json.loads, answers), strict=True):
        told = json.dumps(case)
        try:
            configured = configured_by_kmini(case)
        except StreamsInvalidTopology:
            assert "error" in answer, told
            statuses["error"] += 1
            continue
        assert "error" not in answer, (told, answer)
        status = -1 if configured.problem is None else configured.problem.status.value
        statuses[status] += 1
        assert status == answer["status"], told
        assert {name: topic.partitions for name, topic in configured.missing.items()} == answer["missing"], told
        if configured.subtopologies is None:
            assert "tasks" not in answer, told
            continue
        assert {name: each.task_count for name, each in configured.subtopologies.items()} == answer["tasks"], told
        theirs = {member_id: Duties(each["active"], each["standby"]) for member_id, each in answer["targets"].items()}
        ours = assigned_by_kmini(case, configured)
        assert as_sets(ours) == as_sets(theirs), told
    assert set(statuses) == {"error", -1, 1, 2, 3}, statuses


def as_sets(assigned: dict[str, Duties]) -> dict[str, list[set[Task]]]:
    return {member_id: [set(each_task(each)) for each in duties] for member_id, duties in assigned.items()}
