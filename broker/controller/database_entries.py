"""The contents of the controller's database, and the journal entries that stand for them.

An entry is a key and a value; `storage/FORMAT.md` lists them. The functions here are the one home of keys.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.messages.describe_configs import BROKER, GROUP, TOPIC
from ...protocol.uuids import format_uuid, parse_uuid
from ...storage.journal import Entries, Key
from ..security.acls import AclBinding
from .topology import PartitionState, Topic

if TYPE_CHECKING:
    from ...protocol.scram import ScramCredential
    from ..security.delegation_tokens import DelegationToken

CLIENT_QUOTA = -1
"""The resource type of client quotas in the database, where they are kept beside settings. Kafka has no such type."""

CLUSTER_ID: Key = ("cluster_id",)
NEXT_PRODUCER_ID: Key = ("next_producer_id",)
FEATURES_EPOCH: Key = ("features_epoch",)


class Stored(NamedTuple):
    """Everything in the database when it is opened."""

    cluster_id: str
    topics: list[Topic]
    broker_configs: dict[str, dict[str, str]]
    """By node id as text; empty: for all brokers."""
    group_configs: dict[str, dict[str, str]]
    """By group id."""
    client_quotas: dict[str, dict[str, str]]
    """By entity."""
    acls: list[AclBinding]
    """In the order in which they were made."""
    scram_credentials: dict[tuple[str, int], ScramCredential]
    """By user and number of the mechanism."""
    feature_levels: dict[str, int]
    features_epoch: int
    next_producer_id: int
    """The first producer id that is in no reserved block."""
    deleted_topics: dict[bytes, str]
    """Ids and names of deleted topics whose folders may still be there. The name is empty where an earlier release has
    deleted the topic."""
    delegation_tokens: dict[str, DelegationToken]
    """By token id. They hold no secret."""


def entries_of(stored: Stored) -> Entries:
    """All entries of a database."""
    entries: Entries = {
        CLUSTER_ID: stored.cluster_id,
        NEXT_PRODUCER_ID: stored.next_producer_id,
        FEATURES_EPOCH: stored.features_epoch,
    }
    entries.update(topic_entries(stored.topics))
    for resource_type, resources in (
        (BROKER, stored.broker_configs),
        (GROUP, stored.group_configs),
        (CLIENT_QUOTA, stored.client_quotas),
    ):
        entries.update({config_key(resource_type, name): dict(configs) for name, configs in resources.items()})
    entries.update({acl_key(acl): True for acl in stored.acls})
    entries.update({scram_key(*key): scram_value(one) for key, one in stored.scram_credentials.items()})
    entries.update({feature_key(name): level for name, level in stored.feature_levels.items()})
    entries.update({deleted_topic_key(topic_id): name or True for topic_id, name in stored.deleted_topics.items()})
    entries.update({token_key(one.token_id): token_value(one) for one in stored.delegation_tokens.values()})
    return entries


def stored_of(entries: Mapping[Key, Any]) -> Stored:
    """Read all entries of a database. ValueError, TypeError, LookupError or AttributeError for entries that no
    `entries_of` made."""
    names: dict[str, str] = {}
    partitions: dict[str, dict[int, PartitionState]] = {}
    configs: dict[int, dict[str, dict[str, str]]] = {TOPIC: {}, BROKER: {}, GROUP: {}, CLIENT_QUOTA: {}}
    stored = Stored(
        cluster_id=entries[CLUSTER_ID],
        topics=[],
        broker_configs=configs[BROKER],
        group_configs=configs[GROUP],
        client_quotas=configs[CLIENT_QUOTA],
        acls=[],
        scram_credentials={},
        feature_levels={},
        features_epoch=entries[FEATURES_EPOCH],
        next_producer_id=entries[NEXT_PRODUCER_ID],
        deleted_topics=deleted_topics(entries),
        delegation_tokens={},
    )
    kept: dict[tuple[int, ...], tuple[int, ...]] = {}

    def node_ids(ids: Sequence[int]) -> tuple[int, ...]:
        """The ids as a tuple, of which there is one for all partitions with the same replicas."""
        return kept.setdefault(found := tuple(ids), found)

    for key, value in entries.items():
        kind = key[0]
        if kind == "partition":
            replicas, isr, leader, leader_epoch, partition_epoch, adding, removing = value
            partitions.setdefault(key[1], {})[key[2]] = PartitionState(
                node_ids(replicas), node_ids(isr), leader, leader_epoch, partition_epoch, tuple(adding), tuple(removing)
            )
        elif kind == "topic":
            names[key[1]] = value
        elif kind == "config":
            configs[key[1]][key[2]] = dict(sorted(value.items()))
        elif kind == "acl":
            stored.acls.append(AclBinding(*key[1:]))
        elif kind == "scram":
            stored.scram_credentials[key[1], key[2]] = _scram_credential(*value)
        elif kind == "feature":
            stored.feature_levels[key[1]] = value
        elif kind == "delegation_token":
            stored.delegation_tokens[key[1]] = _delegation_token(key[1], *value)
    for topic_id, name in names.items():
        states = partitions[topic_id]
        numbered = tuple([states[number] for number in range(len(states))])
        stored.topics.append(Topic(name, parse_uuid(topic_id), numbered, configs[TOPIC].get(name, {})))
    return stored


# --- keys and values


def topic_entries(topics: Iterable[Topic]) -> Entries:
    """Topics with their partitions and settings."""
    entries: Entries = {}
    for topic in topics:
        entries[topic_key(topic.id)] = topic.name
        for number, state in enumerate(topic.partitions):
            entries[partition_key(topic.id, number)] = state
        if topic.configs:
            entries[config_key(TOPIC, topic.name)] = dict(topic.configs)
    return entries


def topic_key(topic_id: bytes) -> Key:
    """The key of a topic. The value is the topic's name."""
    return ("topic", format_uuid(topic_id))


def partition_key(topic_id: bytes, number: int) -> Key:
    """The key of a partition. The value has the fields of PartitionState."""
    return ("partition", _text_of(topic_id), number)


_text_of = lru_cache(maxsize=64)(format_uuid)
"""The id of a topic, as keys have it: a start changes all partitions of a topic, one after the other."""


def deleted_topic_key(topic_id: bytes) -> Key:
    return ("deleted_topic", format_uuid(topic_id))


def deleted_topics(entries: Mapping[Key, Any]) -> dict[bytes, str]:
    """Ids and names of the deleted topics."""
    return {
        parse_uuid(key[1]): "" if name is True else str(name)
        for key, name in entries.items()
        if key[0] == "deleted_topic"
    }


def config_key(resource_type: int, name: str) -> Key:
    """The key of a resource's settings, which are the value. The type is TOPIC, BROKER, GROUP or CLIENT_QUOTA."""
    return ("config", resource_type, name)


def acl_key(acl: AclBinding) -> Key:
    return ("acl", *acl)


def feature_key(name: str) -> Key:
    return ("feature", name)


def scram_key(user: str, mechanism: int) -> Key:
    return ("scram", user, mechanism)


def scram_value(credential: ScramCredential) -> Sequence[str | int]:
    return (
        b64encode(credential.salt).decode(),
        credential.iterations,
        b64encode(credential.stored_key).decode(),
        b64encode(credential.server_key).decode(),
    )


def _scram_credential(salt: str, iterations: int, stored_key: str, server_key: str) -> ScramCredential:
    from ...protocol.scram import ScramCredential

    return ScramCredential(b64decode(salt), iterations, b64decode(stored_key), b64decode(server_key))


def token_key(token_id: str) -> Key:
    return ("delegation_token", token_id)


def token_value(token: DelegationToken) -> Sequence[Any]:
    """The fields of a token but its id; a principal is its type and its name."""
    renewers = [[*principal] for principal in token.renewers]
    return ([*token.owner], [*token.requester], renewers, token.issued_ms, token.max_ms, token.expires_ms)


def _delegation_token(
    token_id: str,
    owner: Sequence[str],
    requester: Sequence[str],
    renewers: Sequence[Sequence[str]],
    issued_ms: int,
    max_ms: int,
    expires_ms: int,
) -> DelegationToken:
    from ..security.delegation_tokens import DelegationToken  # most clusters have no tokens
    from ..security.resources import Principal

    by = tuple(Principal(*renewer) for renewer in renewers)
    return DelegationToken(token_id, Principal(*owner), Principal(*requester), by, issued_ms, max_ms, expires_ms)
