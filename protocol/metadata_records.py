"""The records of `__cluster_metadata`, the log of an Apache Kafka cluster in KRaft mode (KIP-500, KIP-631).

Each is the value of a record in Kafka's metadata log and its snapshots, behind a frame that says which type it is. This
module has those that a new cluster begins with. All are flexible from version 0 on.

The control records of the quorum have no frame: their key says their type (`ControlType`).
"""

from typing import ClassVar

from .primitives import (
    Array,
    Boolean,
    Buffer,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Timestamp,
    Uint16,
    Uuid,
    read_unsigned_varint,
    unsigned_varint,
)
from .schema import Message, Struct, field

FRAME_VERSION = 1
"""The only version of the frame."""


class MetadataRecord(Message):
    """A record of the metadata log. `class XRecord(MetadataRecord, record_type=2, versions="0")`."""

    record_type: ClassVar[int]
    """Kafka's number of the type."""

    def __init_subclass__(cls, record_type: int, versions: str) -> None:
        super().__init_subclass__(versions, flexible="0+")
        cls.record_type = record_type

    def framed(self) -> bytes:
        """The value of the record, in the newest version: frame version, type and version as unsigned varints, then
        the fields."""
        frame = unsigned_varint(FRAME_VERSION) + unsigned_varint(self.record_type) + unsigned_varint(self.max_version)
        return frame + b"".join(self.encode(self.max_version))


class RegisterBrokerRecord(MetadataRecord, record_type=0, versions="0-4"):
    """A broker has registered with the controller.

    - v1: controlled shutdown (KIP-841). v2: migration from ZooKeeper (KIP-866). v3: log directories (KIP-858).
      v4: those that take no new partitions (KIP-1066).
    """

    class Endpoint(Struct):
        name: String
        host: String
        port: Uint16
        security_protocol: Int16

    class Feature(Struct):
        name: String
        min_supported_version: Int16
        max_supported_version: Int16

    broker_id: Int32
    is_migrating_zk_broker: Boolean = field(since=2, default=False)
    incarnation_id: Uuid
    """A new id for each start of the broker."""
    broker_epoch: Int64
    """The offset of the registration in the log."""
    end_points: Array[Endpoint]
    features: Array[Feature]
    rack: NullableString = None
    fenced: Boolean = True
    """Whether the broker is fenced: metadata for clients leaves it out."""
    in_controlled_shutdown: Boolean = field(since=1, default=False)
    log_dirs: Array[Uuid] = field(since=3, default=[], tag=0)
    cordoned_log_dirs: NullableArray[Uuid] = field(since=4, default=None, tag=1)


class TopicRecord(MetadataRecord, record_type=2, versions="0"):
    """A topic. It comes before its partitions."""

    name: String
    topic_id: Uuid


class PartitionRecord(MetadataRecord, record_type=3, versions="0-2"):
    """A partition and its replicas.

    - v1: the directories of the replicas (KIP-858). v2: eligible leader replicas (KIP-966).
    """

    partition_id: Int32
    topic_id: Uuid
    replicas: Array[Int32]
    """Node ids; the first is the preferred leader."""
    isr: Array[Int32]
    removing_replicas: Array[Int32] = field(default=[])
    adding_replicas: Array[Int32] = field(default=[])
    leader: Int32
    """-1 without a leader."""
    leader_recovery_state: Int8 = field(default=0, tag=0)
    """1 after an unclean election, until the leader has recovered its log."""
    leader_epoch: Int32
    partition_epoch: Int32
    directories: Array[Uuid] = field(since=1, default=[])
    """The log directory of each of `replicas`, as its meta.properties has it."""
    eligible_leader_replicas: NullableArray[Int32] = field(since=2, default=None, tag=1)
    last_known_elr: NullableArray[Int32] = field(since=2, default=None, tag=2)


class ConfigRecord(MetadataRecord, record_type=4, versions="0"):
    """A setting of a resource."""

    resource_type: Int8
    """The number of the type in DescribeConfigs."""
    resource_name: String
    """A topic; a node id, or empty for all brokers."""
    name: String
    value: NullableString
    """Null removes the setting."""


class DelegationTokenRecord(MetadataRecord, record_type=10, versions="0"):
    """A delegation token (KIP-900), without its secret. A principal is its type and its name, as in `User:alice`."""

    owner: String
    requester: String
    renewers: Array[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class UserScramCredentialRecord(MetadataRecord, record_type=11, versions="0"):
    """The SCRAM credential of a user (KIP-900)."""

    name: String
    mechanism: Int8
    """The number of the mechanism in AlterUserScramCredentials."""
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


class FeatureLevelRecord(MetadataRecord, record_type=12, versions="0"):
    """The level of a feature (KIP-584). That of `metadata.version` comes before everything else."""

    name: String
    feature_level: Int16


class ClientQuotaRecord(MetadataRecord, record_type=14, versions="0"):
    """One quota of an entity (KIP-546)."""

    class Entity(Struct):
        entity_type: String
        entity_name: NullableString
        """Null is the default of the type."""

    entity: Array[Entity]
    key: String
    value: Float64
    remove: Boolean = False


class ProducerIdsRecord(MetadataRecord, record_type=15, versions="0"):
    """A broker got a block of producer ids (KIP-730)."""

    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64
    """The first producer id that no broker has got."""


class AccessControlEntryRecord(MetadataRecord, record_type=18, versions="0"):
    """An access rule (KIP-801)."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


METADATA_RECORDS: dict[int, type[MetadataRecord]] = {
    cls.record_type: cls
    for cls in (
        RegisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        AccessControlEntryRecord,
    )
}
"""Record classes by record type."""


def decode_framed(value: Buffer) -> MetadataRecord:
    """The record in a value. Raises MalformedMessage for malformed fields, ValueError for an unknown frame, type or
    version."""
    data = memoryview(value)
    try:
        frame_version, position = read_unsigned_varint(data, 0)
        record_type, position = read_unsigned_varint(data, position)
        version, position = read_unsigned_varint(data, position)
    except IndexError:
        raise ValueError("a metadata record ends within its frame") from None
    if frame_version != FRAME_VERSION or record_type not in METADATA_RECORDS:
        raise ValueError(f"a metadata record of frame version {frame_version} and type {record_type} is not known")
    return METADATA_RECORDS[record_type].decode(data[position:], version)


class SnapshotHeader(Message, versions="0", flexible="0+"):
    """Begins a snapshot (KIP-630)."""

    version: Int16 = 0
    last_contained_log_timestamp_ms: Timestamp = 0
    """The timestamp of the last record that the snapshot replaces."""


class SnapshotFooter(Message, versions="0", flexible="0+"):
    """Ends a snapshot. A snapshot without it is incomplete."""

    version: Int16 = 0


class KRaftVersion(Message, versions="0", flexible="0+"):
    """The level of `kraft.version`: with 1 the log names the voters, and they can change (KIP-853)."""

    version: Int16 = 0
    kraft_version: Int16


class KRaftVoters(Message, versions="0", flexible="0+"):
    """The voters that elect the controller; with `kraft.version` 1."""

    class Voter(Struct):
        class Endpoint(Struct):
            name: String
            host: String
            port: Uint16

        class KRaftVersionRange(Struct):
            min_supported_version: Int16
            max_supported_version: Int16

        voter_id: Int32
        voter_directory_id: Uuid
        endpoints: Array[Endpoint]
        kraft_version_range: KRaftVersionRange

    version: Int16 = 0
    voters: Array[Voter]
