"""Whether a message set of magic 0 or 1, from an old producer, may enter a log, and the batch it becomes there.

Old requests (Produce up to version 2) bring them. Logs take batches only: a set becomes one, uncompressed messages
together as well as those of a wrapper. Asked is, in Kafka 3.9's order:

| of               | question                                                 | otherwise                         |
|------------------|----------------------------------------------------------|-----------------------------------|
| every message    | a size and a magic that there are?                       | CORRUPT_MESSAGE                   |
|                  | no larger than max.message.bytes, as sent?               | MESSAGE_TOO_LARGE                 |
|                  | checksum right?                                          | CORRUPT_MESSAGE                   |
|                  | a codec there is?                                        | UNKNOWN_SERVER_ERROR, as in Kafka |
| the set          | one whole message at least, and no more if it is a wrapper? | INVALID_RECORD                 |
| every message    | of the magic of the first?                               | INVALID_RECORD                    |
| a wrapper        | a value that decompresses to messages, within the limits? | CORRUPT_MESSAGE, INVALID_RECORD  |
|                  | are they no wrappers themselves, and of its magic?       | INVALID_RECORD                    |
|                  | are their checksums right?                               | CORRUPT_MESSAGE                   |
|                  | does the last one's offset fit under the wrapper's?      | INVALID_RECORD                    |
| every record     | a key, if the topic is compacted?                        | INVALID_RECORD                    |
|                  | CreateTime: a timestamp near to now, if it has one?      | INVALID_TIMESTAMP                 |
|                  | otherwise: not in a message that claims log append time? | INVALID_TIMESTAMP                 |
| the batch        | no larger than max.message.bytes?                        | MESSAGE_TOO_LARGE                 |

With the tombstone flag a null value is flagged on the way (tombstone_flag.py): these producers cannot do it themselves.

What follows the last whole message is left out; a set without any is no error, and stores nothing. Offsets mean
nothing: some old clients number the messages in a wrapper wrongly, and every record gets its own anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordsRefused,
    UnknownServerError,
)
from ...protocol.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    is_crc_valid,
    iter_batches,
    rewrite_header,
)
from ...protocol.records.compression import Codec, compress_chunks
from ...protocol.records.load_kernel import encode_records
from ...protocol.records.old_formats.messages import MAX_MESSAGES, first_offset_in, messages_as_sent
from ...protocol.records.record import BATCH_FACTOR, DEFAULT_LIMIT, Record
from ..filesystem import Buffer
from ..log_config import LogConfig
from ..validation import (
    ValidatedRecords,
    accepted_timestamps,
    compression_level,
    stored_codec,
)

_CHEAP_BYTES = 4 * 1024
"""Uncompressed: a hundred and fifty messages at most, in a millisecond. Wrappers are never cheap."""
_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Of a message in a wrapper, decompressed; it is held several times over on its way into a batch."""
_TOGETHER = 500
"""Messages that are not compressed become part of a batch so many at a time."""
_MAX_REASONS = 3
"""That are told, of why messages were refused."""


def first_message(messages: Buffer) -> BatchHeader | None:
    """The first whole message, which tells whether it is a wrapper, or a batch; None if there is nothing to store.
    CorruptMessage for what is neither.
    """
    _, header = next(iter_batches(messages), (0, None))
    return header


def is_cheap(messages: Buffer, first: BatchHeader) -> bool:
    """Whether `validate_messages` may run on the loop: these messages take it a millisecond at most."""
    return len(messages) <= _CHEAP_BYTES and not first.codec


def validate_messages(
    messages: Buffer, config: LogConfig, now_ms: int, *, max_decompressed_bytes: int = DEFAULT_LIMIT
) -> ValidatedRecords:
    """The batch that a set of at least one whole message becomes; see the table above for what this raises.

    `max_decompressed_bytes` bounds a message in a wrapper, as _MAX_MESSAGE_BYTES does; a wrapper may have BATCH_FACTOR
    times as much. Not more of it is held at once than some ten KiB, or one message.
    """
    codec = _check_messages(messages, config)
    limit = min(max_decompressed_bytes, _MAX_MESSAGE_BYTES)
    return _Conversion(messages, config, now_ms, limit).batch(stored_codec(config, codec))


def _check_messages(messages: Buffer, config: LogConfig) -> int:
    """What can be asked without decompressing; returns the codec of the set."""
    count, codec = 0, int(Codec.NONE)
    for position, header in iter_batches(messages):
        count += 1
        if header.size > config.max_message_bytes:
            raise MessageTooLarge(f"a message has {header.size} bytes; max.message.bytes is {config.max_message_bytes}")
        if not is_crc_valid(messages, position, header):
            raise CorruptMessage("the checksum does not match the message")
        if header.codec > Codec.ZSTD:
            raise UnknownServerError(f"there is no codec {header.codec}")
        codec = header.codec or codec
        if count > MAX_MESSAGES:
            raise InvalidRecord(f"a set holds more than {MAX_MESSAGES} messages")
    if codec and count > 1:
        raise InvalidRecord("a wrapper is the only message of its set")
    if not count:
        raise InvalidRecord("the set holds no whole message")
    return codec


class _Conversion:
    """The messages of a set on their way into a batch."""

    def __init__(self, messages: Buffer, config: LogConfig, now_ms: int, limit: int) -> None:
        self._messages = messages
        self._config = config
        self._now_ms = now_ms
        self._limit = limit
        self._is_stamped_here = config.message_timestamp_type == "LogAppendTime"
        self._window = accepted_timestamps(config, now_ms)
        self._count = 0
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP

    def batch(self, codec: int) -> ValidatedRecords:
        config = self._config
        batch = bytearray(HEADER_SIZE)
        for piece in compress_chunks(codec, self._blocks(), compression_level(config, codec)):
            batch += piece
            if len(batch) > config.max_message_bytes:
                raise MessageTooLarge(f"as a batch, the set has more than max.message.bytes={config.max_message_bytes}")
        header = BatchHeader(
            base_offset=0,
            batch_length=len(batch) - LOG_OVERHEAD,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=codec | (LOG_APPEND_TIME if self._is_stamped_here else 0),
            last_offset_delta=self._count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._now_ms if self._is_stamped_here else self._max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=self._count,
        )
        return ValidatedRecords(
            batch, rewrite_header(batch, 0, header), self._now_ms if self._is_stamped_here else NO_TIMESTAMP
        )

    def _blocks(self) -> Iterator[Buffer]:
        """The records as a batch has them, some at a time."""
        for records in self._accepted():
            first = self._count
            if not first:
                self._base_timestamp = self._max_timestamp = records[0].timestamp
            self._count += len(records)
            self._max_timestamp = max(self._max_timestamp, max(record.timestamp for record in records))
            block = encode_records(records, range(first, self._count), self._base_timestamp)
            if self._config.kmini_tombstone_flag_enable:
                from ..tombstone_flag import flagged_messages  # few topics have it

                block = flagged_messages(block)
            yield block

    def _accepted(self) -> Iterator[list[Record]]:
        """The records, each found to be fine, some at a time. Raises for the first message that holds another."""
        magic = self._messages[MAGIC_AT]
        accepted: list[Record] = []
        for position, header in iter_batches(self._messages):
            if header.magic != magic:
                raise InvalidRecord(f"there is a message of magic {header.magic} in a set of magic {magic}")
            refused = 0
            is_timestamp_refused = False
            reasons: list[str] = []
            last = 0
            for records in messages_as_sent(
                self._messages, position, header, self._limit, self._limit * BATCH_FACTOR, is_strict=True
            ):
                for record in records:
                    refusal = self._refusal(record, header)
                    if refusal is not None:
                        refused += 1
                        is_timestamp_refused |= refusal[0] is InvalidTimestamp
                        reasons += [refusal[1]] * (refused <= _MAX_REASONS)
                last = records[-1].offset
                if not refused:
                    accepted += records
                    if header.codec or len(accepted) >= _TOGETHER:
                        yield accepted
                        accepted = []
            first_offset_in(header, last)
            if refused:
                error = InvalidTimestamp if is_timestamp_refused else InvalidRecord
                raise error(f"{refused} message{'s' * (refused > 1)} refused: {'; '.join(reasons)}")
        if accepted:
            yield accepted

    def _refusal(self, record: Record, header: BatchHeader) -> tuple[type[RecordsRefused], str] | None:
        """What is wrong with a record: at most one thing, a missing key before a timestamp."""
        timestamp = record.timestamp
        if record.key is None and self._config.is_compacted:
            return InvalidRecord, "a compacted topic takes no record without a key"
        if timestamp < NO_TIMESTAMP:
            return InvalidTimestamp, f"timestamp {timestamp} is negative"
        if not self._is_stamped_here and timestamp != NO_TIMESTAMP:
            earliest, latest = self._window
            if not earliest <= timestamp <= latest:
                return InvalidTimestamp, f"timestamp {timestamp} is not within {earliest}..{latest}"
        elif header.is_log_append_time:
            return InvalidTimestamp, "only a broker sets log append time"
        return None
