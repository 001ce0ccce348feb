"""The requests and versions that releases of Apache Kafka serve, for a broker with `kmini.as.version`.

By default kmini serves from the older release's lowest version to the newest release's highest: old clients are served,
and clients that infer a release from the highest versions infer one real release. A program that will run against one
of these releases can be tested against its exact ranges.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.api_keys import API_KEYS

METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"
"""At level 1 values in `__transaction_state` have version 1, at level 2 clients use the second version of transactions
(KIP-890)."""
GROUP_VERSION = "group.version"
"""At level 1 there are consumer groups of KIP-848."""
STREAMS_VERSION = "streams.version"
"""At level 1 there are streams groups of KIP-1071."""
SHARE_VERSION = "share.version"
"""At level 1 there are share groups of KIP-932."""


class Versions(NamedTuple):
    """The versions of an API from `min` to `max`, both served."""

    min: int
    max: int


class Feature(NamedTuple):
    """A cluster-wide feature (KIP-584): its lowest and highest level, and the level in force."""

    name: str
    min_level: int
    max_level: int
    level: int


class Release(NamedTuple):
    """A release of Apache Kafka with one broker, in KRaft mode from 3.9 on."""

    versions: dict[int, Versions]
    """The versions that a broker serves on a listener for clients, by API key; kmini may serve fewer."""
    features: tuple[Feature, ...]
    """The features of the release that kmini has.

    kmini neither supports nor finalizes the others, as in Kafka where a feature has no level above 0: they would make
    clients use requests that are not served (`kraft.version` 1 a quorum that changes).
    """


ADVERTISED_FLOORS = {API_KEYS["Produce"]: 0}
"""The lowest version in ApiVersions where it is below the lowest one served: librdkafka judges brokers by Produce 0
(KAFKA-18659)."""

_TABLE = """
    API                            2.8     3.9     4.0     4.3
    Produce                        0-9     0-11    3-12    3-13
    Fetch                          0-12    0-17    4-17    4-18
    ListOffsets                    0-6     0-9     1-10    1-11
    Metadata                       0-11    0-12    0-13    0-13
    OffsetCommit                   0-8     0-9     2-9     2-10
    OffsetFetch                    0-7     0-9     1-9     1-10
    FindCoordinator                0-3     0-6     0-6     0-6
    JoinGroup                      0-7     0-9     2-9     0-9
    Heartbeat                      0-4     0-4     0-4     0-4
    LeaveGroup                     0-4     0-5     0-5     0-5
    SyncGroup                      0-5     0-5     0-5     0-5
    DescribeGroups                 0-5     0-5     0-6     0-6
    ListGroups                     0-4     0-5     0-5     0-5
    SaslHandshake                  0-1     0-1     0-1     0-1
    ApiVersions                    0-3     0-4     0-4     0-4
    CreateTopics                   0-7     0-7     2-7     2-7
    DeleteTopics                   0-6     0-6     1-6     1-6
    DeleteRecords                  0-2     0-2     0-2     0-2
    InitProducerId                 0-4     0-5     0-5     0-5
    OffsetForLeaderEpoch           0-4     0-4     2-4     2-4
    AddPartitionsToTxn             0-3     0-5     0-5     0-5
    AddOffsetsToTxn                0-3     0-4     0-4     0-4
    EndTxn                         0-3     0-4     0-5     0-5
    WriteTxnMarkers                0-1     0-1     1-1     1-2
    TxnOffsetCommit                0-3     0-4     0-5     0-5
    DescribeAcls                   0-2     0-3     1-3     1-3
    CreateAcls                     0-2     0-3     1-3     1-3
    DeleteAcls                     0-2     0-3     1-3     1-3
    DescribeConfigs                0-4     0-4     1-4     1-4
    AlterConfigs                   0-2     0-2     0-2     0-2
    AlterReplicaLogDirs            0-2     0-2     1-2     1-2
    DescribeLogDirs                0-2     0-4     1-4     1-5
    SaslAuthenticate               0-2     0-2     0-2     0-2
    CreatePartitions               0-3     0-3     0-3     0-3
    CreateDelegationToken          0-2     0-3     1-3     1-3
    RenewDelegationToken           0-2     0-2     1-2     1-2
    ExpireDelegationToken          0-2     0-2     1-2     1-2
    DescribeDelegationToken        0-2     0-3     1-3     1-3
    DeleteGroups                   0-2     0-2     0-2     0-2
    ElectLeaders                   0-2     0-2     0-2     0-2
    IncrementalAlterConfigs        0-1     0-1     0-1     0-1
    AlterPartitionReassignments    0-0     0-0     0-0     0-1
    ListPartitionReassignments     0-0     0-0     0-0     0-0
    OffsetDelete                   0-0     0-0     0-0     0-0
    DescribeClientQuotas           0-1     0-1     0-1     0-1
    AlterClientQuotas              0-1     0-1     0-1     0-1
    DescribeUserScramCredentials   0-0     0-0     0-0     0-0
    AlterUserScramCredentials      0-0     0-0     0-0     0-0
    DescribeQuorum                 -       0-2     0-2     0-2
    UpdateFeatures                 0-0     0-1     0-2     0-2
    DescribeCluster                0-0     0-1     0-2     0-2
    DescribeProducers              0-0     0-0     0-0     0-0
    UnregisterBroker               -       0-0     0-0     0-0
    DescribeTransactions           -       0-0     0-0     0-0
    ListTransactions               -       0-1     0-1     0-2
    ConsumerGroupHeartbeat         -       0-0     0-1     0-1
    ConsumerGroupDescribe          -       0-0     0-1     0-1
    ListConfigResources            -       0-0     0-0     0-1
    DescribeTopicPartitions        -       0-0     0-0     0-0
    ShareGroupHeartbeat            -       -       -       1-1
    ShareGroupDescribe             -       -       -       1-1
    ShareFetch                     -       -       -       1-2
    ShareAcknowledge               -       -       -       1-2
    AddRaftVoter                   -       0-0     0-0     0-1
    RemoveRaftVoter                -       0-0     0-0     0-0
    InitializeShareGroupState      -       -       -       0-0
    ReadShareGroupState            -       -       -       0-0
    WriteShareGroupState           -       -       -       0-1
    DeleteShareGroupState          -       -       -       0-0
    ReadShareGroupStateSummary     -       -       -       0-1
    StreamsGroupHeartbeat          -       -       -       0-0
    StreamsGroupDescribe           -       -       -       0-0
    DescribeShareGroupOffsets      -       -       -       0-1
    AlterShareGroupOffsets         -       -       -       0-0
    DeleteShareGroupOffsets        -       -       -       0-0
"""


def _column(number: int) -> dict[int, Versions]:
    rows = [line.split() for line in _TABLE.strip().splitlines()[1:]]
    return {API_KEYS[row[0]]: Versions(*map(int, row[number].split("-"))) for row in rows if row[number] != "-"}


RELEASES = {
    "2.8": Release(_column(1), ()),
    "3.9": Release(_column(2), (Feature(METADATA_VERSION, 1, 21, 21),)),
    "4.0": Release(
        _column(3),
        (
            Feature(METADATA_VERSION, 7, 25, 25),
            Feature(TRANSACTION_VERSION, 0, 2, 2),
            Feature(GROUP_VERSION, 0, 1, 1),
        ),
    ),
    "4.3": Release(
        _column(4),
        (
            Feature(METADATA_VERSION, 7, 30, 30),
            Feature(TRANSACTION_VERSION, 0, 2, 2),
            Feature(GROUP_VERSION, 0, 1, 1),
            Feature(SHARE_VERSION, 0, 1, 1),
            Feature(STREAMS_VERSION, 0, 1, 1),
        ),
    ),
}
"""Levels of `metadata.version`: 1 is 3.0-IV1, 7 is 3.3-IV3, 21 is 3.9-IV0, 25 is 4.0-IV3, 30 is 4.3-IV0. Release
2.8, which runs with ZooKeeper, has no features."""

NEWEST = RELEASES["4.3"]
