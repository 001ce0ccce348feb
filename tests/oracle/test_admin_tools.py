"""Kafka's administrative tools, unchanged, and what user interfaces ask, against the server under test."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest

from support import apache_kafka
from support.java_peer import RunTool
from support.server_process import ServerProcess, StartServer

TopicNames = Callable[[str], str]


@pytest.fixture
def topic(tool: RunTool, topic_names: TopicNames) -> str:
    """A topic with two partitions and three records in the first."""
    name = topic_names("admin")
    assert tool("TopicCommand", "--create", "--topic", name, "--partitions", 2).exit == 0
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    assert tool("ConsoleProducer", "--topic", name, *keyed, stdin="k:1\nk:2\nk:3\n").exit == 0
    return name


# --- tools


def test_log_dirs_command_tells_the_size_of_each_replica(tool: RunTool, topic: str) -> None:
    finished = tool("LogDirsCommand", "--describe", "--topic-list", topic, "--broker-list", 1)
    assert finished.exit == 0, finished.stderr
    told = json.loads(finished.lines[-1])
    ((directory,),) = (broker["logDirs"] for broker in told["brokers"])
    assert directory["error"] is None
    assert {p["partition"] for p in directory["partitions"]} == {f"{topic}-0", f"{topic}-1"}
    assert sum(p["size"] for p in directory["partitions"]) > 0
    assert all((p["offsetLag"], p["isFuture"]) == (0, False) for p in directory["partitions"])


def test_cluster_tool_knows_the_cluster(kafka_tool: RunTool, server: ServerProcess) -> None:
    finished = kafka_tool("ClusterTool", "cluster-id", "--bootstrap-server", server.bootstrap_servers)
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", finished.stdout.strip()), finished.stderr
    finished = kafka_tool("ClusterTool", "list-endpoints", "--bootstrap-server", server.bootstrap_servers)
    assert finished.exit == 0, finished.stderr
    assert finished.lines[1].split()[:3] == ["1", "127.0.0.1", str(server.port)]


def test_cluster_tool_unregisters_no_broker_that_does_not_exist(kafka_tool: RunTool, server: ServerProcess) -> None:
    arguments = ("--bootstrap-server", server.bootstrap_servers, "--id", 7)
    finished = kafka_tool("ClusterTool", "unregister", *arguments)
    assert finished.exit == 1
    assert "BrokerIdNotRegisteredException" in finished.stderr


def test_broker_api_versions_command_finds_nothing_unusable(tool: RunTool, server: ServerProcess) -> None:
    finished = tool("BrokerApiVersionsCommand")
    assert finished.exit == 0, finished.stderr
    assert finished.lines[0].startswith(f"127.0.0.1:{server.port} (id: 1 ")
    assert "Fetch(1): " in finished.stdout
    assert "[usable: 18]" in finished.stdout
    assert not [line for line in finished.lines if "UNKNOWN" in line]
    assert not [line for line in finished.lines if "NOT USABLE" in line]


def test_feature_command_knows_the_release_and_does_not_lower_it(tool: RunTool) -> None:
    finished = tool("FeatureCommand", "describe")
    assert finished.exit == 0, finished.stderr
    (line,) = (line for line in finished.lines if line.startswith("Feature: metadata.version"))
    assert re.findall(r"(\w+): (\S+)", line)[1:4] == [
        ("SupportedMinVersion", "3.3-IV3"),
        ("SupportedMaxVersion", "4.3-IV0"),
        ("FinalizedVersionLevel", "4.3-IV0"),
    ]
    finished = tool("FeatureCommand", "upgrade", "--feature", "metadata.version=30")
    assert (finished.exit, finished.stdout.strip()) == (0, "metadata.version was upgraded to 30.")
    finished = tool("FeatureCommand", "downgrade", "--feature", "metadata.version=29")
    assert finished.exit == 1
    assert "Could not downgrade metadata.version to 29" in finished.stdout


def test_metadata_quorum_command_finds_one_voter(tool: RunTool) -> None:
    finished = tool("MetadataQuorumCommand", "describe", "--status")
    assert finished.exit == 0, finished.stderr
    status = dict(line.split(":", 1) for line in finished.lines)
    assert (status["LeaderId"].strip(), status["MaxFollowerLag"].strip()) == ("1", "0")
    finished = tool("MetadataQuorumCommand", "describe", "--replication")
    assert finished.exit == 0, finished.stderr
    node_id, *_, role = finished.lines[1].split()
    assert (node_id, role) == ("1", "Leader")


def test_leader_election_command_finds_every_leader_elected(tool: RunTool, topic: str) -> None:
    preferred = ("--election-type", "preferred")
    finished = tool("LeaderElectionCommand", *preferred, "--topic", topic, "--partition", 0)
    assert (finished.exit, finished.stdout.strip()) == (0, f"Valid replica already elected for partitions {topic}-0")
    assert tool("LeaderElectionCommand", *preferred, "--all-topic-partitions").exit == 0


def test_reassign_partitions_command_finds_nothing_to_do(tool: RunTool, topic: str, tmp_path) -> None:
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    finished = tool(command, "--list")
    assert (finished.exit, finished.stdout.strip()) == (0, "No partition reassignments found.")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    finished = tool(command, "--execute", "--reassignment-json-file", plan)
    assert finished.exit == 0, finished.stdout + finished.stderr
    assert f"Successfully started partition reassignment for {topic}-0" in finished.stdout
    finished = tool(command, "--verify", "--reassignment-json-file", plan)
    assert finished.exit == 0, finished.stdout + finished.stderr
    assert f"Reassignment of partition {topic}-0 is completed." in finished.stdout


def test_transactions_command_describes_producers(tool: RunTool, topic: str) -> None:
    listed = []
    for partition in (0, 1):
        finished = tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", partition)
        assert finished.exit == 0, finished.stderr
        listed += [line.split() for line in finished.lines[1:]]
    ((producer_id, epoch, _, last_sequence, _, transaction),) = listed
    assert (int(producer_id) >= 0, epoch, last_sequence, transaction) == (True, "0", "2", "None")


def test_config_command_keeps_quotas(tool: RunTool, topic_names: TopicNames) -> None:
    user = ("--entity-type", "users", "--entity-name", topic_names("user"))
    finished = tool("kafka.admin.ConfigCommand", "--alter", *user, "--add-config", "producer_byte_rate=1024")
    assert finished.exit == 0, finished.stderr
    assert "producer_byte_rate=1024.0" in tool("kafka.admin.ConfigCommand", "--describe", *user).stdout
    assert tool("kafka.admin.ConfigCommand", "--alter", *user, "--delete-config", "producer_byte_rate").exit == 0
    assert "producer_byte_rate" not in tool("kafka.admin.ConfigCommand", "--describe", *user).stdout


def test_acl_command_says_that_there_is_no_authorizer(tool: RunTool) -> None:
    finished = tool("org.apache.kafka.tools.AclCommand", "--list")
    assert "SecurityDisabledException" in finished.stdout + finished.stderr


def test_what_the_verifiable_producer_writes_the_verifiable_consumer_reads(
    tool: RunTool, server: ServerProcess, topic_names: TopicNames
) -> None:
    name = topic_names("verifiable")
    assert tool("TopicCommand", "--create", "--topic", name, "--partitions", 2).exit == 0
    events = verifiable_producer(server, "--topic", name, "--max-messages", "50", "--acks", "-1")
    assert [event["name"] for event in events].count("producer_send_success") == 50
    assert {name: events[-1][name] for name in ("name", "sent", "acked")} == {
        "name": "tool_data",
        "sent": 50,
        "acked": 50,
    }
    group = ("--group-id", name, "--reset-policy", "earliest", "--session-timeout", 10_000)
    finished = tool("VerifiableConsumer", "--topic", name, *group, "--max-messages", 50)
    assert finished.exit == 0, finished.stderr
    events = [json.loads(line) for line in finished.lines]
    consumed = [event for event in events if event["name"] == "records_consumed"]
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert sum(partition["count"] for event in consumed for partition in event["partitions"]) == 50
    assert committed
    assert all(event["success"] for event in committed)
    assert events[-1]["name"] == "shutdown_complete"


def verifiable_producer(server: ServerProcess, *arguments: str) -> list[dict[str, object]]:
    """Run the tool in a JVM of its own: it reports at the JVM's end."""
    command = apache_kafka.java_command("-XX:TieredStopAtLevel=1", "-Xmx128m")
    command += ["org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", server.bootstrap_servers, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


# --- user interfaces


def administer(kafka_tool: RunTool, server: ServerProcess, topic: str, group: str) -> dict[str, str]:
    """Ask what AKHQ and Kafka-UI ask, through the Java client; the answer to each call, "!" before a failure."""
    settings = (
        f"bootstrap.servers={server.bootstrap_servers}",
        "request.timeout.ms=9000",
        "default.api.timeout.ms=10000",
    )
    finished = kafka_tool("administer", topic, group, *settings)
    assert finished.exit == 0, finished.stderr
    return dict(line.split("\t", 1) for line in finished.lines)


def test_no_call_of_a_user_interface_is_unsupported(
    kafka_tool: RunTool, tool: RunTool, server: ServerProcess, topic: str
) -> None:
    reader = ("--group", topic, "--from-beginning", "--max-messages", 3, "--timeout-ms", 15_000)
    finished = tool("ConsoleConsumer", "--topic", topic, *reader)
    assert "Processed a total of 3 messages" in finished.stderr
    answers = administer(kafka_tool, server, topic, topic)
    assert len(answers) >= 45
    failures = {call: answer for call, answer in answers.items() if answer.startswith("!")}
    assert set(failures) == {"describeAcls"}, failures
    assert failures["describeAcls"].startswith("!SecurityDisabledException")
    assert topic in answers["listTopics"]
    assert "offset=3" in answers["listOffsetsLatestSpec"] + answers["endOffsets"].replace(f"{topic}-0=", "offset=")
    assert topic in answers["listConsumerGroups"]
    assert topic in answers["listGroups"]
    assert f"groupId={topic}" in answers["describeConsumerGroups"]
    assert "offset=3" in answers["listConsumerGroupOffsets"]


NOBODY = "GroupIdNotFoundException"
UNSUPPORTED = "UnsupportedVersionException"


@pytest.mark.parametrize(
    ("release", "failing"),
    [
        # before DescribeGroups 6, a group that is not there is described as dead
        ("4.3", {"describeConsumerGroups": NOBODY, "describeClassicGroups": NOBODY}),
        # other resources than client metrics can be asked for since 4.1, fenced brokers since 4.0
        (
            "4.0",
            {"listConfigResources": UNSUPPORTED, "describeConsumerGroups": NOBODY, "describeClassicGroups": NOBODY},
        ),
        ("3.9", {"controller": UNSUPPORTED, "listConfigResources": UNSUPPORTED}),
        # quorums came with 2.8's successors, and offsets by the kinds of their ends with 3.0, 3.4 and 3.9
        (
            "2.8",
            dict.fromkeys(
                (
                    "controller",
                    "describeMetadataQuorum",
                    "listConfigResources",
                    "listOffsetsMaxTimestampSpec",
                    "listOffsetsEarliestLocalSpec",
                    "listOffsetsLatestTieredSpec",
                ),
                UNSUPPORTED,
            ),
        ),
    ],
)
def test_where_one_release_is_served_only_what_it_lacks_is_unsupported(
    kafka_tool: RunTool, start_server: StartServer, release: str, failing: dict[str, str], against_kafka: bool
) -> None:
    if against_kafka:
        pytest.skip("Apache Kafka is what it is")
    server = start_server(kmini_as_version=release)
    arguments = ("--bootstrap-server", server.bootstrap_servers)
    assert kafka_tool("TopicCommand", *arguments, "--create", "--topic", "t").exit == 0
    assert kafka_tool("ConsoleProducer", *arguments, "--topic", "t", stdin="one\ntwo\n").exit == 0
    reader = ("--group", "g", "--from-beginning", "--max-messages", 2, "--timeout-ms", 15_000)
    assert kafka_tool("ConsoleConsumer", *arguments, "--topic", "t", *reader).lines == ["one", "two"]
    answers = administer(kafka_tool, server, "t", "nobody")
    failures = {call: answer.split()[0][1:] for call, answer in answers.items() if answer.startswith("!")}
    assert failures == {"describeAcls": "SecurityDisabledException", **failing}
