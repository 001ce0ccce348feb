"""Kafka's own tools, unchanged, against three brokers of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini import Cluster
from kmini.broker.settings.replica_selectors import RACK_AWARE
from support.java_peer import Finished, RunTool
from support.until import until

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
NODES = {1, 2, 3}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = {"replica.selector.class": RACK_AWARE, "auto.leader.rebalance.enable": False}
    with Cluster(brokers=3, racks={1: "a", 2: "b", 3: "c"}, config=config) as cluster:
        cluster.create_topic("t", partitions=3, replication_factor=3)
        yield cluster


@pytest.fixture
def tool(kafka_tool: RunTool, cluster: Cluster) -> RunTool:
    """Run a tool against the cluster; it must succeed."""

    def run(main: str, *arguments: object, stdin: str = "") -> Finished:
        finished = kafka_tool(main, "--bootstrap-server", cluster.bootstrap_servers, *arguments, stdin=stdin)
        assert finished.exit == 0, finished.stdout + finished.stderr
        return finished

    return run


def plan(path: Path, replicas: list[int]) -> Path:
    """A reassignment of the first partition, as the tool reads it."""
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": replicas}]}))
    return path


def test_topic_command_describes_replicas_and_which_are_out_of_sync(tool: RunTool, cluster: Cluster) -> None:
    lines = [line for line in tool("TopicCommand", "--describe", "--topic", "t").lines if "Partition: " in line]
    described = []
    for line in lines:
        found = re.search(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", line)
        assert found is not None, line
        replicas, isr = ([int(number) for number in found[group].split(",")] for group in (3, 4))
        described.append((int(found[1]), int(found[2]), replicas, set(isr)))
    assert described == [
        (number, cluster.leader("t", number), cluster.replicas("t", number), NODES) for number in range(3)
    ]
    assert {leader for _, leader, *_ in described} == NODES, "each leads one"
    assert not tool("TopicCommand", "--describe", "--under-replicated-partitions").stdout.strip()
    cluster.kill(3)
    under = tool("TopicCommand", "--describe", "--under-replicated-partitions").lines
    assert len([line for line in under if "Topic: t" in line]) == 3


def test_leader_election_command_gives_leadership_back(tool: RunTool, cluster: Cluster) -> None:
    preferred = cluster.replicas("t")[0]
    cluster.move_leader("t", to=cluster.replicas("t")[1])
    arguments = ("--election-type", "preferred", "--topic", "t", "--partition", 0)
    assert (
        "Successfully completed leader election (PREFERRED) for partitions t-0"
        in tool("LeaderElectionCommand", *arguments).stdout
    )
    assert cluster.leader("t") == preferred
    assert "Valid replica already elected for partitions t-0" in tool("LeaderElectionCommand", *arguments).stdout


def test_leader_election_command_elects_a_replica_that_lacks_records_if_it_has_to(
    tool: RunTool, cluster: Cluster
) -> None:
    cluster.create_topic("two", replication_factor=2)
    behind, last = cluster.replicas("two")
    cluster.kill(behind)
    cluster.kill(last)
    cluster.restart(behind)
    assert cluster.leader("two") == -1
    arguments = ("--election-type", "unclean", "--topic", "two", "--partition", 0)
    assert "Successfully completed leader election (UNCLEAN)" in tool("LeaderElectionCommand", *arguments).stdout
    assert (cluster.leader("two"), cluster.isr("two")) == (behind, {behind})


def test_reassign_partitions_command_moves_a_partition(tool: RunTool, cluster: Cluster, tmp_path: Path) -> None:
    assert tool("ConsoleProducer", "--topic", "t", stdin="a\nb\nc\n").exit == 0
    old = cluster.replicas("t")
    file = plan(tmp_path / "plan.json", [old[1]])
    finished = tool(REASSIGN, "--execute", "--reassignment-json-file", file)
    assert "Successfully started partition reassignment for t-0" in finished.stdout
    until(lambda: cluster.replicas("t") == [old[1]])
    finished = tool(REASSIGN, "--verify", "--reassignment-json-file", file)
    assert "Reassignment of partition t-0 is completed." in finished.stdout
    assert cluster.leader("t") == old[1]
    consumed = tool("ConsoleConsumer", "--topic", "t", "--from-beginning", "--max-messages", 3, "--timeout-ms", 30_000)
    assert sorted(consumed.lines) == ["a", "b", "c"]


def test_reassign_partitions_command_lists_and_calls_off_what_cannot_end(
    tool: RunTool, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("u")
    (old,) = cluster.replicas("u")
    new = min(NODES - {old})
    cluster.hold(new)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "u", "partition": 0, "replicas": [new]}]}))
    assert "Successfully started" in tool(REASSIGN, "--execute", "--reassignment-json-file", file).stdout
    listed = tool(REASSIGN, "--list").stdout
    assert f"u-0: replicas: {new},{old}. adding: {new}. removing: {old}." in listed
    finished = tool(REASSIGN, "--cancel", "--reassignment-json-file", file)
    assert "Successfully cancelled partition reassignment for: u-0" in finished.stdout
    assert cluster.replicas("u") == [old]


def test_metadata_quorum_command_finds_the_controller(tool: RunTool) -> None:
    status = dict(
        line.split(":", 1) for line in tool("MetadataQuorumCommand", "describe", "--status").lines if ":" in line
    )
    assert status["LeaderId"].strip() == "1"
    replication = tool("MetadataQuorumCommand", "describe", "--replication").lines
    assert [line.split()[0] for line in replication[1:] if line.split()[-1] == "Leader"] == ["1"]


def test_delete_records_command_deletes_on_every_replica(tool: RunTool, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("d", replication_factor=3)
    tool("ConsoleProducer", "--topic", "d", stdin="1\n2\n3\n4\n5\n")
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "d", "partition": 0, "offset": 3}]}))
    finished = tool("DeleteRecordsCommand", "--offset-json-file", file)
    assert "partition: d-0\tlow_watermark: 3" in finished.stdout
    assert {node_id: one.log_start_offset for node_id, one in cluster.offsets("d").items()} == dict.fromkeys(NODES, 3)


def test_a_java_consumer_reads_from_the_replica_in_its_rack(tool: RunTool, cluster: Cluster) -> None:
    cluster.create_topic("near", replication_factor=3)
    near = next(node_id for node_id in cluster.replicas("near") if node_id != cluster.leader("near"))
    values = [f"value-{number}" for number in range(50)]
    tool("ConsoleProducer", "--topic", "near", stdin="".join(f"{value}\n" for value in values))
    rack = ("--command-property", f"client.rack={'abc'[near - 1]}")
    read = ("--topic", "near", "--from-beginning", "--max-messages", 50, "--timeout-ms", 30_000)
    assert tool("ConsoleConsumer", *read, *rack).lines == values
    brokers = cluster._operations.core.brokers
    sent = {
        node_id: broker.metrics.topics["near"].bytes_out
        for node_id, broker in brokers.items()
        if "near" in broker.metrics.topics
    }
    assert sent.pop(near) > 0
    assert not any(sent.values())
