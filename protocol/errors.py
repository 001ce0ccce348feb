"""Every error Kafka's protocol has, as an exception: raised anywhere, turned into a code at one place.

`KafkaError` and its subclasses are answers: a request was understood and the answer is no. `MalformedMessage` is not:
the peer broke the protocol itself, nothing can be answered, and its connection is closed. A program that calls us gets
answers of other kinds, too, which are a `ValueError`, a `TypeError`, a `RuntimeError` or an `AssertionError` as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

NONE = 0
"""The error code of success."""

_LONGEST_MESSAGE = 1_000
"""Characters: far below what a string of any version can hold."""


class MalformedMessage(Exception):
    """The peer sent bytes that are no message; its connection is closed. The text is short and quotes no payload."""


class FrameTooLarge(MalformedMessage):
    """The peer announced a frame above the limit. Nothing was reserved for it."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        text = f"a frame of {size_bytes} bytes is announced, {limit_bytes} are allowed"
        if size_bytes >> 8 in _TLS_HANDSHAKES:
            text = "it begins a TLS handshake, and this listener has no TLS"
        super().__init__(text)


_TLS_HANDSHAKES = (0x160300, 0x160301, 0x160302, 0x160303)
"""The first bytes of a TLS connection, read as those of a size."""


class _KafkaName:
    """Kafka's name of an error: the name of its class in capitals, with underscores."""

    def __get__(self, error: object, kind: type) -> str:
        return kind.__name__.translate(_UNDERSCORES).upper().lstrip("_")


_UNDERSCORES = {ord(letter): f"_{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class AnswerError(Exception):
    """An error that answers a caller: its text says all, and no line of ours would say more."""

    pointer: str | None = None
    """The place of the wrong value in the caller's JSON, as a JSON pointer (RFC 6901), where it is known."""


class InvalidArgument(AnswerError, ValueError):
    """A value is not one that may be given."""


class InvalidType(AnswerError, TypeError):
    """A value is not of a type that may be given."""


class InvalidState(AnswerError, RuntimeError):
    """What was asked for cannot be done now, or not here."""


class ExpectationFailed(AnswerError, AssertionError):
    """What a test expects is not so."""


class KafkaError(AnswerError):
    """A request, or a part of it, is refused; `code` is what the peer is told.

    `retriable` is what Kafka's own clients take it for: the same request may succeed later. The message is for people;
    it may be empty, is cut if it is long (it may quote the peer), and reaches the peer where the response has a field.
    """

    code: ClassVar[int]
    kafka_name: ClassVar[str] = cast(str, _KafkaName())
    retriable: ClassVar[bool]

    def __init_subclass__(cls, code: int | None = None, retriable: bool = False, kafka_name: str | None = None) -> None:
        super().__init_subclass__()
        if code is None:  # a family of errors, never raised itself
            return
        cls.code = code
        cls.retriable = retriable
        if kafka_name is not None:
            cls.kafka_name = kafka_name
        if _BY_CODE.setdefault(code, cls) is not cls:
            raise TypeError(f"error code {code} is {_BY_CODE[code].__name__}'s already")

    def __init__(self, message: str = "") -> None:
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 3] + "..."
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"{self.kafka_name}: {self.message}" if self.message else self.kafka_name


def error_for(code: int) -> type[KafkaError]:
    """The exception class of an error code; UnknownServerError for one that Kafka does not have (ours are of 4.3).

    `NONE` is no error: ValueError.
    """
    if code == NONE:
        raise ValueError("0 is success")
    return _BY_CODE.get(code, UnknownServerError)


def error_name(code: int) -> str:
    """Kafka's name of a code, "NONE" included; "UNKNOWN(n)" for a code that Kafka does not have."""
    if code == NONE:
        return "NONE"
    error = _BY_CODE.get(code)
    return error.kafka_name if error is not None else f"UNKNOWN({code})"


def error_names() -> list[str]:
    """Kafka's names of all errors, in the order of their codes."""
    return [_BY_CODE[code].kafka_name for code in sorted(_BY_CODE)]


def error_named(name: str) -> type[KafkaError]:
    """The exception class of an error that is given by Kafka's name. Raises KeyError for a name that Kafka does not
    have."""
    for error in _BY_CODE.values():
        if error.kafka_name == name:
            return error
    raise KeyError(name)


_BY_CODE: dict[int, type[KafkaError]] = {}


class RecordsRefused(KafkaError):
    """Errors of produce that can say which records they mean (KIP-467)."""

    def __init__(self, message: str = "", record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors: list[tuple[int, str]] = list(record_errors)
        """(index of the record in its batch, what is wrong with it), in the order of the batch."""


class UnknownServerError(KafkaError, code=-1):
    """The broker failed in a way it did not foresee; its log says more."""


class OffsetOutOfRange(KafkaError, code=1):
    """The offset is below the log start offset or above what this reader may see."""


class CorruptMessage(KafkaError, code=2, retriable=True):
    """The bytes of a record batch do not match their checksum, size or format."""


class UnknownTopicOrPartition(KafkaError, code=3, retriable=True):
    """The broker does not know this topic or partition, or does not hold it."""


class InvalidFetchSize(KafkaError, code=4):
    """A fetch asked for an impossible number of bytes."""


class LeaderNotAvailable(KafkaError, code=5, retriable=True):
    """No leader is elected yet; ask for metadata again."""


class NotLeaderOrFollower(KafkaError, code=6, retriable=True):
    """This broker does not lead the partition, or no longer holds a replica of it."""


class RequestTimedOut(KafkaError, code=7, retriable=True):
    """What the request waits for did not happen in time; what it did, stays done."""


class BrokerNotAvailable(KafkaError, code=8):
    """The broker is not there."""


class ReplicaNotAvailable(KafkaError, code=9, retriable=True):
    """The replica is not there for this partition."""


class MessageTooLarge(KafkaError, code=10):
    """A record batch is larger than max.message.bytes."""


class StaleControllerEpoch(KafkaError, code=11):
    """A controller with a newer epoch has spoken already."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """The metadata string of a committed offset is longer than offset.metadata.max.bytes."""


class NetworkException(KafkaError, code=13, retriable=True):
    """The peer disconnected before it answered."""


class CoordinatorLoadInProgress(KafkaError, code=14, retriable=True):
    """The coordinator still loads the group or transaction."""


class CoordinatorNotAvailable(KafkaError, code=15, retriable=True):
    """No coordinator is there for this key at the moment."""


class NotCoordinator(KafkaError, code=16, retriable=True):
    """This broker does not coordinate this group or transactional id."""


class InvalidTopic(KafkaError, code=17, kafka_name="INVALID_TOPIC_EXCEPTION"):
    """The topic name is not legal, or the operation is not allowed on this topic."""


class RecordListTooLarge(KafkaError, code=18):
    """A record batch is larger than a segment may be."""


class NotEnoughReplicas(KafkaError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""


class NotEnoughReplicasAfterAppend(KafkaError, code=20, retriable=True):
    """The records are written, but fewer replicas than min.insync.replicas have them."""


class InvalidRequiredAcks(KafkaError, code=21):
    """Acks is none of 0, 1 and -1."""


class IllegalGeneration(KafkaError, code=22):
    """The generation is not the group's current one."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """The member's protocols have nothing in common with those of the group."""


class InvalidGroupId(KafkaError, code=24):
    """The group id is empty or too long for the operation."""


class UnknownMemberId(KafkaError, code=25):
    """The group does not know this member id."""


class InvalidSessionTimeout(KafkaError, code=26):
    """The session timeout is outside the range that the broker allows."""


class RebalanceInProgress(KafkaError, code=27):
    """The group rebalances: the member must join again."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """The committed offset with its metadata is too large for a record."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """The principal may not do this to the topic."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """The principal may not do this to the group."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """The principal may not do this to the cluster."""


class InvalidTimestamp(RecordsRefused, code=32):
    """A record's timestamp is outside the range that the topic accepts."""


class UnsupportedSaslMechanism(KafkaError, code=33):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslState(KafkaError, code=34):
    """A SASL request came out of order, or any other before authentication."""


class UnsupportedVersion(KafkaError, code=35):
    """The broker does not serve this version of the request."""


class TopicAlreadyExists(KafkaError, code=36):
    """A topic of this name exists."""


class InvalidPartitions(KafkaError, code=37):
    """The number of partitions is not positive, or less than there are."""


class InvalidReplicationFactor(KafkaError, code=38):
    """The replication factor is not positive, or larger than the number of brokers."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """The list of replicas names brokers twice, unknown ones or none."""


class InvalidConfig(KafkaError, code=40):
    """A configuration key or its value is not valid."""


class NotController(KafkaError, code=41, retriable=True):
    """This broker is not the controller."""


class InvalidRequest(KafkaError, code=42):
    """The request contradicts itself, or holds a value that its fields do not allow."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The log's record format is too old for this request."""


class PolicyViolation(KafkaError, code=44):
    """The request goes against a policy of the topic or of the broker."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """The producer's sequence number does not follow the last one written."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """A batch with this sequence number was written before, too long ago to say where."""


class InvalidProducerEpoch(KafkaError, code=47):
    """A producer with a newer epoch has written."""


class InvalidTxnState(KafkaError, code=48):
    """The transaction is not in a state in which this can be done."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """The producer id does not belong to this transactional id."""


class InvalidTransactionTimeout(KafkaError, code=50):
    """The transaction timeout is larger than transaction.max.timeout.ms."""


class ConcurrentTransactions(KafkaError, code=51, retriable=True):
    """The previous transaction of this id is still being completed."""


class TransactionCoordinatorFenced(KafkaError, code=52):
    """A coordinator with a newer epoch has written a transaction marker."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """The principal may not use this transactional id."""


class SecurityDisabled(KafkaError, code=54):
    """Security features are not turned on."""


class OperationNotAttempted(KafkaError, code=55):
    """The broker did not try: another part of the request stood in the way."""


class KafkaStorageError(KafkaError, code=56, retriable=True):
    """The disk failed, or the log directory is off line."""


class LogDirNotFound(KafkaError, code=57):
    """The path is none of the broker's log directories."""


class SaslAuthenticationFailed(KafkaError, code=58):
    """The credentials are wrong."""


class UnknownProducerId(KafkaError, code=59):
    """The broker remembers nothing of this producer id in this partition."""


class ReassignmentInProgress(KafkaError, code=60):
    """The partition's replicas are being reassigned."""


class DelegationTokenAuthDisabled(KafkaError, code=61):
    """Delegation tokens are not turned on."""


class DelegationTokenNotFound(KafkaError, code=62):
    """The broker does not know this delegation token."""


class DelegationTokenOwnerMismatch(KafkaError, code=63):
    """The principal is not the owner of this delegation token."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64):
    """Delegation tokens may not be asked for over this channel."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65):
    """The principal may not do this to the delegation token."""


class DelegationTokenExpired(KafkaError, code=66):
    """The delegation token is out of date."""


class InvalidPrincipalType(KafkaError, code=67):
    """The principal type is not supported."""


class NonEmptyGroup(KafkaError, code=68):
    """The group still has members."""


class GroupIdNotFound(KafkaError, code=69):
    """There is no group of this id."""


class FetchSessionIdNotFound(KafkaError, code=70, retriable=True):
    """The broker does not know this fetch session, or has evicted it."""


class InvalidFetchSessionEpoch(KafkaError, code=71, retriable=True):
    """The epoch is not the one that the fetch session expects next."""


class ListenerNotFound(KafkaError, code=72, retriable=True):
    """The leader has no listener of the name that the request came through."""


class TopicDeletionDisabled(KafkaError, code=73):
    """delete.topic.enable is false."""


class FencedLeaderEpoch(KafkaError, code=74, retriable=True):
    """The leader epoch of the request is older than the broker's."""


class UnknownLeaderEpoch(KafkaError, code=75, retriable=True):
    """The leader epoch of the request is newer than the broker's."""


class UnsupportedCompressionType(KafkaError, code=76):
    """The client's version of the protocol cannot read records of this codec."""


class StaleBrokerEpoch(KafkaError, code=77):
    """The broker epoch is not the one registered."""


class OffsetNotAvailable(KafkaError, code=78, retriable=True):
    """The high watermark has not caught up after an election; ask again."""


class MemberIdRequired(KafkaError, code=79):
    """The member must join again with the id it has just been given."""


class PreferredLeaderNotAvailable(KafkaError, code=80, retriable=True):
    """The preferred leader is not there."""


class GroupMaxSizeReached(KafkaError, code=81):
    """The group has group.max.size members."""


class FencedInstanceId(KafkaError, code=82):
    """Another member has joined under this group instance id."""


class EligibleLeadersNotAvailable(KafkaError, code=83, retriable=True):
    """No replica is eligible to lead."""


class ElectionNotNeeded(KafkaError, code=84, retriable=True):
    """The partition has the leader it should have."""


class NoReassignmentInProgress(KafkaError, code=85):
    """The partition is not being reassigned."""


class GroupSubscribedToTopic(KafkaError, code=86):
    """A member of the group is subscribed to the topic."""


class InvalidRecord(RecordsRefused, code=87):
    """A record breaks the rules of its topic or of its batch."""


class UnstableOffsetCommit(KafkaError, code=88, retriable=True):
    """The offset is committed in a transaction that is not complete."""


class ThrottlingQuotaExceeded(KafkaError, code=89, retriable=True):
    """A quota is used up; retry after the throttle time."""


class ProducerFenced(KafkaError, code=90):
    """A newer producer with this transactional id has been initialised."""


class ResourceNotFound(KafkaError, code=91):
    """The request names a resource that does not exist."""


class DuplicateResource(KafkaError, code=92):
    """The request names a resource twice."""


class UnacceptableCredential(KafkaError, code=93):
    """The credential does not meet the requirements."""


class InconsistentVoterSet(KafkaError, code=94):
    """Sender and receiver belong to different sets of voters."""


class InvalidUpdateVersion(KafkaError, code=95):
    """The update of a feature has a version that is not allowed."""


class FeatureUpdateFailed(KafkaError, code=96):
    """The feature update could not be applied."""


class PrincipalDeserializationFailure(KafkaError, code=97):
    """The forwarded principal cannot be read."""


class SnapshotNotFound(KafkaError, code=98):
    """There is no snapshot of this id."""


class PositionOutOfRange(KafkaError, code=99):
    """The position is outside the snapshot."""


class UnknownTopicId(KafkaError, code=100, retriable=True):
    """The broker does not know this topic id."""


class DuplicateBrokerRegistration(KafkaError, code=101):
    """A live broker is registered under this id."""


class BrokerIdNotRegistered(KafkaError, code=102):
    """No broker is registered under this id."""


class InconsistentTopicId(KafkaError, code=103, retriable=True):
    """The topic id does not match the one in the log."""


class InconsistentClusterId(KafkaError, code=104):
    """The cluster id does not match the broker's."""


class TransactionalIdNotFound(KafkaError, code=105):
    """The coordinator does not know this transactional id."""


class FetchSessionTopicIdError(KafkaError, code=106, retriable=True):
    """The fetch session uses topic ids and the request names, or the other way round."""


class IneligibleReplica(KafkaError, code=107):
    """The new replica cannot join the in-sync set."""


class NewLeaderElected(KafkaError, code=108):
    """The change to the in-sync set has elected another leader."""


class OffsetMovedToTieredStorage(KafkaError, code=109):
    """The offset has moved to remote storage."""


class FencedMemberEpoch(KafkaError, code=110):
    """The member's epoch is older than the one the coordinator has for it."""


class UnreleasedInstanceId(KafkaError, code=111):
    """The instance id belongs to a member that has not left yet."""


class UnsupportedAssignor(KafkaError, code=112):
    """The group does not have this assignor."""


class StaleMemberEpoch(KafkaError, code=113):
    """The member's epoch is behind; ask for the assignment again."""


class MismatchedEndpointType(KafkaError, code=114):
    """The request came to an endpoint of the other kind, broker or controller."""


class UnsupportedEndpointType(KafkaError, code=115):
    """This kind of endpoint is not supported."""


class UnknownControllerId(KafkaError, code=116):
    """The controller id is not known."""


class UnknownSubscriptionId(KafkaError, code=117):
    """The client's telemetry subscription is out of date."""


class TelemetryTooLarge(KafkaError, code=118):
    """The telemetry payload is larger than telemetry.max.bytes."""


class InvalidRegistration(KafkaError, code=119):
    """The registration of a broker or controller is not valid."""


class TransactionAbortable(KafkaError, code=120):
    """The transaction cannot go on and must be aborted."""


class InvalidRecordState(KafkaError, code=121):
    """The record is in no state in which it can be acknowledged."""


class ShareSessionNotFound(KafkaError, code=122, retriable=True):
    """There is no share session for this member."""


class InvalidShareSessionEpoch(KafkaError, code=123, retriable=True):
    """The epoch is not the one that the share session expects."""


class FencedStateEpoch(KafkaError, code=124):
    """The share group's state has moved to a newer epoch."""


class InvalidVoterKey(KafkaError, code=125):
    """The voter's key does not match the one registered."""


class DuplicateVoter(KafkaError, code=126):
    """The voter is in the set already."""


class VoterNotFound(KafkaError, code=127):
    """The voter is not in the set."""


class InvalidRegularExpression(KafkaError, code=128):
    """The regular expression cannot be compiled."""


class RebootstrapRequired(KafkaError, code=129):
    """The client must bootstrap again: it speaks to the wrong cluster or node."""


class StreamsInvalidTopology(KafkaError, code=130):
    """The streams topology is not valid."""


class StreamsInvalidTopologyEpoch(KafkaError, code=131):
    """The epoch of the streams topology is not valid."""


class StreamsTopologyFenced(KafkaError, code=132):
    """The epoch of the streams topology is out of date."""


class ShareSessionLimitReached(KafkaError, code=133, retriable=True):
    """The broker holds as many share sessions as it may."""
