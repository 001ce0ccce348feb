"""Whether a message set of magic 0 or 1, from an old producer, may enter a log, and the batch it becomes there.

Old requests (Produce up to version 2) bring them. Logs take batches only: a set becomes one batch, whether it has
uncompressed messages or a wrapper. The checks, in the order of Kafka 3.9:

| of               | question                                                 | otherwise                         |
|------------------|----------------------------------------------------------|-----------------------------------|
| every message    | a possible size, a known magic?                          | CORRUPT_MESSAGE                   |
|                  | no larger than max.message.bytes, as sent?               | MESSAGE_TOO_LARGE                 |
|                  | checksum right?                                          | CORRUPT_MESSAGE                   |
|                  | a known codec?                                           | UNKNOWN_SERVER_ERROR, as in Kafka |
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

With the tombstone flag the conversion flags null values (tombstone_flag.py): these producers cannot do it themselves.

Bytes after the last whole message are left out; a set without a whole message is no error, and stores nothing. Offsets
have no meaning: some old clients number the messages in a wrapper wrongly, and the log assigns new ones anyway.
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
from ...protocol.records.kernels.records import encode_records
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
"""Bytes of an uncompressed set that is validated on the loop: 150 messages at most, in a millisecond. A wrapper never
is."""
_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Bytes of a message in a wrapper, decompressed, at most: the conversion holds several copies of it."""
_TOGETHER = 500
"""Uncompressed messages that become part of a batch at a time."""
_MAX_REASONS = 3
"""Reasons that an error names, at most."""


def first_message(messages: Buffer) -> BatchHeader | None:
    """Return the header of the first whole message, or batch; None if there is nothing to store. CorruptMessage for
    bytes that are neither."""
    _, header = next(iter_batches(messages), (0, None))
    return header


def is_cheap(messages: Buffer, first: BatchHeader) -> bool:
    """Whether `validate_messages` may run on the loop: these messages take a millisecond at most."""
    return len(messages) <= _CHEAP_BYTES and not first.codec


def validate_messages(
    messages: Buffer, config: LogConfig, now_ms: int, *, max_decompressed_bytes: int = DEFAULT_LIMIT
) -> ValidatedRecords:
    """Convert a set of at least one whole message to a batch; the table above says what this raises.

    `max_decompressed_bytes` and _MAX_MESSAGE_BYTES bound a message in a wrapper; a wrapper may have BATCH_FACTOR times
    as much. Memory holds some ten KiB of it, or one message, at a time.
    """
    codec = _check_messages(messages, config)
    limit = min(max_decompressed_bytes, _MAX_MESSAGE_BYTES)
    return _Conversion(messages, config, now_ms, limit).batch(stored_codec(config, codec))


def _check_messages(messages: Buffer, config: LogConfig) -> int:
    """Do the checks that need no decompression; return the codec of the set."""
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
    """The conversion of one set."""

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
        """Yield the block of the batch, some records at a time."""
        for records in self._accepted():
            first = self._count
            if not first:
                self._base_timestamp = self._max_timestamp = records[0].timestamp
            self._count += len(records)
            self._max_timestamp = max(self._max_timestamp, max(record.timestamp for record in records))
            block: Buffer = encode_records(records, range(first, self._count), self._base_timestamp)
            if self._config.kmini_tombstone_flag_enable:
                from ..tombstone_flag import flagged_messages  # few topics have it

                block = flagged_messages(block)
            yield block

    def _accepted(self) -> Iterator[list[Record]]:
        """Yield the records, some at a time. Raises for the first message with a faulty record."""
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
        """Return error and reason of a faulty record, one fault: a missing key before a timestamp."""
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
