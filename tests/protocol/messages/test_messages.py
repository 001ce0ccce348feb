"""Claims about the set of messages as a whole."""

import pathlib

import pytest

from kmini.protocol import messages
from kmini.protocol.messages import REQUESTS
from kmini.protocol.schema import Message, Request, structs_of

RANGES = {
    "Produce": (0, 13),
    "Fetch": (0, 18),
    "ListOffsets": (0, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (0, 10),
    "OffsetFetch": (0, 10),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "ApiVersions": (0, 4),
    "SaslHandshake": (0, 1),
    "SaslAuthenticate": (0, 2),
    "AlterUserScramCredentials": (0, 0),
    "CreateTopics": (0, 7),
    "DeleteTopics": (0, 6),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (0, 4),
    "AddPartitionsToTxn": (0, 5),
    "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 5),
    "WriteTxnMarkers": (0, 2),
    "TxnOffsetCommit": (0, 5),
    "DescribeAcls": (0, 3),
    "CreateAcls": (0, 3),
    "DeleteAcls": (0, 3),
    "DescribeConfigs": (0, 4),
    "AlterConfigs": (0, 2),
    "AlterReplicaLogDirs": (0, 2),
    "DescribeLogDirs": (0, 5),
    "CreatePartitions": (0, 3),
    "DeleteGroups": (0, 2),
    "ElectLeaders": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "OffsetDelete": (0, 0),
    "DescribeClientQuotas": (0, 1),
    "AlterClientQuotas": (0, 1),
    "DescribeUserScramCredentials": (0, 0),
    "DescribeQuorum": (0, 2),
    "UpdateFeatures": (0, 2),
    "DescribeCluster": (0, 2),
    "DescribeProducers": (0, 0),
    "UnregisterBroker": (0, 0),
    "DescribeTransactions": (0, 0),
    "ListTransactions": (0, 2),
    "ListConfigResources": (0, 1),
    "DescribeTopicPartitions": (0, 0),
}
"""From the lowest version that Apache Kafka 3.9 serves to the highest of 4.3."""


def test_versions_span_from_kafka_3_9_to_4_3() -> None:
    assert {request.name: (request.min_version, request.max_version) for request in REQUESTS.values()} == RANGES


def test_every_module_of_messages_is_listed() -> None:
    folder = pathlib.Path(messages.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__", "headers"}
    listed = {cls.__module__.rpartition(".")[2] for cls in REQUESTS.values()}
    assert modules == listed
    listed_classes = {cls for cls in vars(messages).values() if isinstance(cls, type) and issubclass(cls, Message)}
    assert listed_classes - {Request} == {cls for request in REQUESTS.values() for cls in (request, request.response)}


def test_no_two_requests_have_the_same_api_key() -> None:
    requests = {cls for cls in vars(messages).values() if isinstance(cls, type) and issubclass(cls, Request)}
    assert requests - {Request} == {*REQUESTS.values()}


@pytest.mark.parametrize("request_class", REQUESTS.values(), ids=lambda cls: cls.name)
def test_every_module_says_what_its_versions_brought(request_class: type[Request]) -> None:
    module = vars(messages)[request_class.__module__.rpartition(".")[2]]
    assert f"(key {request_class.api_key})" in module.__doc__
    for version in range(1, request_class.max_version + 1):
        assert f"v{version}" in module.__doc__, f"v{version}"


def test_fields_that_can_be_absent_have_defaults_that_fit() -> None:
    for request in REQUESTS.values():
        for cls in (request, request.response):
            for struct in structs_of(cls):
                for field in struct.__fields__:
                    if field.default is None:
                        assert field.type.is_nullable, f"{struct.__qualname__}.{field.name}"
