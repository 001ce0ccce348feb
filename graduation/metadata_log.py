"""The state of kmini's controller as records of Apache Kafka's metadata log.

The new cluster has one node, the only replica of every partition. The records describe a node after a clean shutdown,
as Kafka itself leaves it: fenced, without leaders, but eligible (KIP-966). When the node starts it is elected. Its
leader epochs are above those in the batches, so that consumers notice (KIP-320) and transaction markers are not taken
for those of an older coordinator. Producer ids continue above all that were given out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..broker.controller.database import Stored
from ..broker.controller.topology import NO_LEADER
from ..protocol.messages.describe_configs import BROKER, GROUP, TOPIC
from ..protocol.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    KRaftVersion,
    KRaftVoters,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ..protocol.records.control import ControlType
from ..protocol.uuids import random_uuid
from .kafka_settings import ChangedSetting, for_kafka
from .snapshot_file import ControlRecord
from .source import SourcePartition

FEATURES = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""Feature levels of Apache Kafka 4.3; 30 is 4.3-IV0. Later releases start with them too."""

CONTROLLER_LISTENER = "CONTROLLER"

BROKER_EPOCH = 0
"""Broker epoch of the node before its first start; its clean shutdown marker has the same one. Kafka takes a node
without a registration for one that has lost records (KIP-966)."""


class Node(NamedTuple):
    """The one node of the new cluster."""

    id: int
    directory_id: bytes
    controller_port: int = 9093
    """Port of the controller on localhost, as in Kafka's stock server.properties."""


class KafkaSettings(NamedTuple):
    """The dynamic settings of the new cluster."""

    topics: Mapping[str, Mapping[str, str]]
    brokers: Mapping[str, Mapping[str, str]]
    """By node id as text; the empty text: for all brokers."""
    groups: Mapping[str, Mapping[str, str]]
    """By group id."""
    changed: list[ChangedSetting]
    """The differences from kmini's settings."""


def settings_of(stored: Stored, node: Node) -> KafkaSettings:
    """Convert the dynamic settings. The settings of one broker are kept if the new node has its id."""
    changed: list[ChangedSetting] = []
    topics, brokers, groups = {}, {}, {}
    for topic in sorted(stored.topics):
        topics[topic.name], different = for_kafka(f"topic {topic.name}", topic.configs)
        changed += different
    for name, settings in sorted(stored.broker_configs.items()):
        resource = f"broker {name}" if name else "all brokers"
        if name in ("", str(node.id)):
            brokers[name], different = for_kafka(resource, settings)
            changed += different
        else:
            reason = "the new cluster has no such broker"
            changed += [ChangedSetting(resource, key, value, None, reason) for key, value in settings.items()]
    for group_id, settings in sorted(stored.group_configs.items()):
        groups[group_id], different = for_kafka(f"group {group_id}", settings)
        changed += different
    return KafkaSettings(topics, brokers, groups, changed)


def metadata_records(
    stored: Stored, partitions: Iterable[SourcePartition], settings: KafkaSettings, node: Node, *, next_producer_id: int
) -> Iterator[MetadataRecord]:
    """Yield all metadata records, in an order in which Kafka can read them. `partitions` are sorted by topic."""
    for name, level in FEATURES.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    yield _registration(node)
    topic_id = b""
    for partition in partitions:
        if partition.topic.id != topic_id:
            topic_id = partition.topic.id
            yield TopicRecord(name=partition.topic.name, topic_id=topic_id)
        yield PartitionRecord(
            partition_id=partition.number,
            topic_id=topic_id,
            replicas=[node.id],
            isr=[],
            leader=NO_LEADER,
            leader_epoch=max(partition.state.leader_epoch, partition.replica.last_epoch),
            partition_epoch=0,
            eligible_leader_replicas=[node.id],
            last_known_elr=[node.id],
            directories=[node.directory_id],
        )
    for resource_type, resources in ((TOPIC, settings.topics), (BROKER, settings.brokers), (GROUP, settings.groups)):
        for resource_name, of_resource in resources.items():
            for name, value in of_resource.items():
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    for (user, mechanism), credential in stored.scram_credentials.items():
        yield UserScramCredentialRecord(name=user, mechanism=mechanism, **credential._asdict())
    for token in stored.delegation_tokens.values():
        yield DelegationTokenRecord(
            owner=str(token.owner),
            requester=str(token.requester),
            renewers=[str(principal) for principal in token.renewers],
            issue_timestamp=token.issued_ms,
            max_timestamp=token.max_ms,
            expiration_timestamp=token.expires_ms,
            token_id=token.token_id,
        )
    for acl in stored.acls:
        yield AccessControlEntryRecord(id=random_uuid(), **acl._asdict())
    yield from _quotas(stored)
    yield ProducerIdsRecord(broker_id=node.id, broker_epoch=BROKER_EPOCH, next_producer_id=next_producer_id)


def _registration(node: Node) -> RegisterBrokerRecord:
    """The registration of the node after a clean shutdown; it registers again when it starts."""
    return RegisterBrokerRecord(
        broker_id=node.id,
        incarnation_id=random_uuid(),
        broker_epoch=BROKER_EPOCH,
        end_points=[],
        features=[
            RegisterBrokerRecord.Feature(name=name, min_supported_version=level, max_supported_version=level)
            for name, level in FEATURES.items()
        ],
        fenced=True,
        in_controlled_shutdown=True,
        log_dirs=[node.directory_id],
    )


def _quotas(stored: Stored) -> Iterator[MetadataRecord]:
    for text, quotas in stored.client_quotas.items():
        entity = [
            ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in json.loads(text).items()
        ]
        for key, value in quotas.items():
            yield ClientQuotaRecord(entity=entity, key=key, value=float(value))


def quorum_records(node: Node) -> list[ControlRecord]:
    """The records that make the node the only voter of the quorum (KIP-853), as `kafka-storage format --standalone`
    writes them."""
    voter = KRaftVoters.Voter(
        voter_id=node.id,
        voter_directory_id=node.directory_id,
        endpoints=[
            KRaftVoters.Voter.Endpoint(name=CONTROLLER_LISTENER, host="localhost", port=node.controller_port),
        ],
        kraft_version_range=KRaftVoters.Voter.KRaftVersionRange(min_supported_version=0, max_supported_version=1),
    )
    return [
        (ControlType.KRAFT_VERSION, KRaftVersion(kraft_version=1)),
        (ControlType.KRAFT_VOTERS, KRaftVoters(voters=[voter])),
    ]
