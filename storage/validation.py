"""Whether a producer's batch may enter a log, and in which form.

`validate` may run in any thread: it changes only the bytes it was given (the header, in place), which no other code
uses meanwhile. It checks, in Kafka's order:

| of            | question                                                  | otherwise                         |
|---------------|-----------------------------------------------------------|-----------------------------------|
| the bytes     | one complete batch of magic 2, and no second one?         | INVALID_RECORD                    |
| the batch     | base offset 0?                                            | INVALID_RECORD                    |
|               | no larger than max.message.bytes, as sent?                | MESSAGE_TOO_LARGE                 |
|               | checksum right?                                           | CORRUPT_MESSAGE                   |
|               | a known codec?                                            | UNKNOWN_SERVER_ERROR, as in Kafka |
|               | as many offsets as records, at least one?                 | INVALID_RECORD                    |
|               | not a control batch?                                      | INVALID_RECORD                    |
|               | a sequence, if it has a producer id?                      | INVALID_RECORD                    |
| the block     | does it decompress?                                       | CORRUPT_MESSAGE                   |
|               | to records, as many as claimed, each within the limit?    | INVALID_RECORD                    |
| every record  | a key, if the topic is compacted?                         | INVALID_RECORD                    |
|               | CreateTime: a timestamp near to now, if it has one?       | INVALID_TIMESTAMP                 |
|               | otherwise: not in a batch that claims log append time?    | INVALID_TIMESTAMP                 |
|               | with the tombstone flag: see tombstone_flag.py            | INVALID_RECORD                    |
| the block     | offset deltas 0, 1, 2, … if nothing is compressed?        | INVALID_RECORD                    |
| the result    | no larger than max.message.bytes, if it had to be rebuilt? | MESSAGE_TOO_LARGE                |

It corrects four faults: a wrong max timestamp, attributes that only a broker may set, another codec than the topic's,
and offset deltas other than 0, 1, 2, … in a batch that is, or will be, compressed. Apache Kafka stores a batch that
stays uncompressed with the deltas it came with, so its consumers see an offset twice, or out of order.

`validate_plain` comes first: one look tells of nearly every batch that it passes all of this as it is. `validate` gets
the others.

Length, magic and codec are looked at in three places. `validate_plain` looks first and refuses nothing. For a batch
that it leaves, `_check_batch` in broker/handlers/produce.py decides: it stands before the other claims of the request
and has the errors by version. `_first_header` here repeats length and magic, because other batches come straight to
`validate`: those in requests of old versions, and those of a program that embeds the broker. A codec that does not
exist is refused there, with the claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from ..protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordsRefused,
    UnknownServerError,
)
from ..protocol.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    build_batch,
    is_crc_valid,
    iter_batches,
    read_header,
    rewrite_header,
)
from ..protocol.records.batch_records import WalkedRecords, decode_records, suspect_records, walked_records
from ..protocol.records.compression import Codec, compress_chunks
from ..protocol.records.kernels.records import fault_of_claims
from ..protocol.records.layout import (
    FOR_BROKERS_ONLY,
    NOT_FROM_ZERO,
    OVERSIZED,
    RECORD_COUNT_AT,
    UNKNOWN_CODEC,
    WRONG_CHECKSUM,
    WRONG_COUNT,
)
from ..protocol.records.load_kernel import IS_COMPILED
from ..protocol.records.record import DEFAULT_LIMIT
from .filesystem import Buffer
from .log_config import LogConfig

_CHEAP_BYTES = 1280 * 1024 if IS_COMPILED else 32 * 1024
"""Bytes of an uncompressed batch that is validated on the loop. A batch of the default max.message.bytes takes a
fraction of a millisecond, and a few milliseconds if its records are as small as possible. A thread costs more, and
keeps the receive buffer in use meanwhile."""
_CHEAP_FLAGGED_BYTES = 256 * 1024 if IS_COMPILED else 8 * 1024
"""The same for a topic whose records may get a header each, which means a new block (tombstone_flag.py)."""
_CHEAP_COMPRESSED_BYTES = 512
_CHEAP_COMPRESSED_RECORDS = 1_000
"""Bytes and records of a compressed batch that is validated on the loop: even a decompression bomb of this size takes
only some milliseconds."""
_MAX_RENUMBERED = 65_536
_MAX_RENUMBERED_BYTES = 1024 * 1024
"""Records, and their bytes if they were compressed, of a batch whose offset deltas are corrected, at most. They are
objects meanwhile: a record header of two bytes takes some sixty."""
_MAX_SUSPECTS = 100_000
"""Records of a batch that a second look examines, after the first look has found that some record must be refused."""
_FIRST_TIMESTAMP, _LAST_TIMESTAMP = -(1 << 63), (1 << 63) - 1

_STORED_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL
"""The attributes that a producer decides; the broker decides the others, or they have no meaning."""
_CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


class UnexpectedAppendOffset(UnknownServerError):
    """A leader sent batches that do not continue the follower's log."""


class ValidatedRecords(NamedTuple):
    """One batch that may be stored as it is, except for offsets and leader epoch, which the log writes into it."""

    records: bytearray | memoryview
    header: BatchHeader
    log_append_time_ms: int = NO_TIMESTAMP
    """The timestamp that the broker gave the records; -1 if they keep the producer's."""

    @property
    def record_count(self) -> int:
        return self.header.record_count

    @classmethod
    def of(cls, batch: bytearray) -> ValidatedRecords:
        """Take a batch that the broker has built, without validation: a transaction marker, a coordinator's records."""
        return cls(batch, read_header(batch))


def is_cheap(records: Buffer, has_tombstone_flag: bool = False) -> bool:
    """Whether `validate` may run on the loop: these records take about a millisecond, whatever their content."""
    size = len(records)
    if size >= HEADER_SIZE and records[ATTRIBUTES_AT] & CODEC_MASK:
        count = int.from_bytes(records[RECORD_COUNT_AT:HEADER_SIZE], "big")
        return size <= _CHEAP_COMPRESSED_BYTES and count <= _CHEAP_COMPRESSED_RECORDS
    return size <= (_CHEAP_FLAGGED_BYTES if has_tombstone_flag else _CHEAP_BYTES)


def validate_plain(records: memoryview | bytearray, config: LogConfig, now_ms: int) -> ValidatedRecords | None:
    """What `validate` returns, at one look, for nearly every batch; None for a batch that only `validate` can settle.

    Runs on the loop. Changes nothing. (The look: protocol/records/kernels/plain_batches.py.)
    """
    plain = config.plain_batches
    if plain is None or len(records) > _CHEAP_BYTES:
        return None
    header = plain.header_of(records, now_ms)
    if header is None:
        return None
    return tuple.__new__(ValidatedRecords, (records, header, NO_TIMESTAMP))  # cheap (COSTS.md)


def validate(
    records: memoryview | bytearray,
    config: LogConfig,
    now_ms: int,
    max_decompressed_bytes: int = DEFAULT_LIMIT,
) -> ValidatedRecords:
    """Return the batch in `records`, ready for a log with these settings; the table above says what this raises.

    `records` must be writable: the result is the same memory, unless the batch had to be rebuilt. Leaves out bytes
    after the batch that are no other batch. `max_decompressed_bytes` bounds a record, and a batch that has to be
    rebuilt.
    """
    header = _only_batch(records, config)
    checked = walked_records(records, 0, header, max_decompressed_bytes)
    is_stamped_here = config.message_timestamp_type == "LogAppendTime"
    if not _is_fine(header, checked, config, now_ms):
        errors = _record_errors(records, header, config, now_ms, max_decompressed_bytes)
        from .refused_records import MAX_NAMED_RECORDS, refusal  # start-up time counts

        raise refusal(list(islice(errors, MAX_NAMED_RECORDS)))

    claimed = header.attributes
    attributes = claimed & _STORED_ATTRIBUTES
    if is_stamped_here:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms = now_ms
    else:
        max_timestamp = header.max_timestamp if claimed & LOG_APPEND_TIME else checked.max_timestamp
        log_append_time_ms = NO_TIMESTAMP
    codec = stored_codec(config, claimed & CODEC_MASK)
    must_be_rebuilt = codec != claimed & CODEC_MASK or not checked.is_sequential
    if config.kmini_tombstone_flag_enable:
        from .tombstone_flag import must_be_flagged  # few topics have it

        must_be_rebuilt |= must_be_flagged(records, header, config, max_decompressed_bytes)
    if must_be_rebuilt:
        if not checked.is_sequential and codec == claimed & CODEC_MASK == Codec.NONE:
            raise InvalidRecord(
                "the offset deltas of the records are not 0, 1, 2, …: offsets would come twice or be skipped"
            )
        stored = header._replace(attributes=attributes & ~CODEC_MASK | codec, max_timestamp=max_timestamp)
        records, header = _rebuild(records, header, stored, checked, config, max_decompressed_bytes)
    elif attributes != claimed or max_timestamp != header.max_timestamp:
        header = rewrite_header(records, 0, header._replace(attributes=attributes, max_timestamp=max_timestamp))
    size = header.batch_length + LOG_OVERHEAD
    if len(records) > size:
        records = memoryview(records)[:size]
    return tuple.__new__(ValidatedRecords, (records, header, log_append_time_ms))  # cheap (COSTS.md)


def stored_codec(config: LogConfig, codec: int) -> int:
    """Return the codec in which a topic stores a batch that came in `codec`."""
    return codec if config.compression_type == "producer" else _CODECS[config.compression_type]


def compression_level(config: LogConfig, codec: int) -> int | None:
    """Return the compression level of a topic for a codec; None for a codec without levels."""
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(Codec(codec))


def accepted_timestamps(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """Return the earliest and the latest timestamp, in milliseconds, that a topic with CreateTime accepts."""
    return now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms


def _only_batch(records: Buffer, config: LogConfig) -> BatchHeader:
    """Return the header of the only batch, after the checks that need no record."""
    header = _first_header(records)
    batch = records if len(records) == header.size else memoryview(records)[: header.size]
    fault = fault_of_claims(batch, config.max_message_bytes)
    if fault:
        raise _claim_error(fault, header, config)
    return header


def _claim_error(fault: int, header: BatchHeader, config: LogConfig) -> KafkaError:
    """The error of a fault in the claims of a header."""
    if fault == NOT_FROM_ZERO:
        return InvalidRecord(f"the base offset is {header.base_offset}; a producer sends 0")
    if fault == OVERSIZED:
        return MessageTooLarge(f"the batch has {header.size} bytes; max.message.bytes is {config.max_message_bytes}")
    if fault == WRONG_CHECKSUM:
        return CorruptMessage("the checksum does not match the batch")
    if fault == UNKNOWN_CODEC:
        return UnknownServerError(f"there is no codec {header.codec}")
    if fault == WRONG_COUNT:
        offsets = header.last_offset_delta + 1
        return InvalidRecord(f"the batch claims {header.record_count} records for {offsets} offsets")
    if fault == FOR_BROKERS_ONLY:
        return InvalidRecord("producers do not write control batches")
    return InvalidRecord(f"producer {header.producer_id} gives no sequence")


def _first_header(records: Buffer) -> BatchHeader:
    if len(records) >= HEADER_SIZE:
        header = read_header(records)
        if header.magic == MAGIC and header.batch_length == len(records) - LOG_OVERHEAD:
            return header  # one batch, as nearly always
    batches = iter_batches(records)
    first = next(batches, None)
    if first is None:
        raise InvalidRecord("the records hold no complete batch")
    if first[1].magic < MAGIC:
        raise InvalidRecord(f"the records have magic {first[1].magic}, not {MAGIC}")
    if next(batches, None) is not None:
        raise InvalidRecord("a partition takes one batch at a time")
    return first[1]


def _is_fine(header: BatchHeader, checked: WalkedRecords, config: LogConfig, now_ms: int) -> bool:
    """Whether no record of the batch has to be refused."""
    if checked.null_keys and config.is_compacted:
        return False
    if header.attributes & LOG_APPEND_TIME:
        return _is_claim_fine(header, config, now_ms)
    if config.message_timestamp_type == "LogAppendTime":
        return True
    before_max_ms, after_max_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return checked.is_timely(now_ms, before_max_ms, after_max_ms)


def _is_claim_fine(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether a batch that wrongly sets the LogAppendTime bit keeps its timestamp as CreateTime."""
    earliest, latest = accepted_timestamps(config, now_ms)
    is_stamped_here = config.message_timestamp_type == "LogAppendTime"
    return not is_stamped_here and header.max_timestamp != NO_TIMESTAMP and earliest <= header.max_timestamp <= latest


def _record_errors(
    records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int, limit: int
) -> Iterator[tuple[int, type[RecordsRefused], str]]:
    """Yield number, error and reason of each faulty record, one fault each: a missing key before a timestamp."""
    earliest, latest = accepted_timestamps(config, now_ms)
    is_stamped_here = config.message_timestamp_type == "LogAppendTime"
    window = {"earliest": earliest, "latest": latest}
    if header.is_log_append_time and not _is_claim_fine(header, config, now_ms):
        window = {"earliest": _LAST_TIMESTAMP, "latest": _FIRST_TIMESTAMP}  # wrong in the header, so in every record
    elif header.is_log_append_time or is_stamped_here:
        window = {"earliest": _FIRST_TIMESTAMP, "latest": _LAST_TIMESTAMP}
    suspects = suspect_records(records, 0, header, **window, null_keys=config.is_compacted, limit=limit)
    for suspect in islice(suspects, _MAX_SUSPECTS):
        timestamp = header.max_timestamp if header.is_log_append_time else suspect.timestamp
        if suspect.key_is_null and config.is_compacted:
            yield suspect.number, InvalidRecord, "a compacted topic takes no record without a key"
        elif not is_stamped_here and timestamp != NO_TIMESTAMP:
            yield suspect.number, InvalidTimestamp, f"timestamp {timestamp} is not within {earliest}..{latest}"
        elif header.is_log_append_time:
            yield suspect.number, InvalidTimestamp, "only a broker sets log append time"


def _rebuild(
    records: Buffer, header: BatchHeader, stored: BatchHeader, checked: WalkedRecords, config: LogConfig, limit: int
) -> tuple[bytearray, BatchHeader]:
    """Return the batch with the codec of the header `stored`, and offset deltas 0, 1, 2, …

    Its records have no attributes, as in Kafka, except for the tombstone flag.
    """
    from ..protocol.records.tombstones import cleared_pieces, flagged_pieces

    if checked.is_sequential and not header.is_log_append_time:
        pieces_of = flagged_pieces if config.kmini_tombstone_flag_enable else cleared_pieces
        return _stored(pieces_of(records, 0, header, limit), stored, config)
    if header.record_count > _MAX_RENUMBERED:
        raise InvalidRecord("the offset deltas are not 0, 1, 2, …, and the records are too many to renumber")
    limit = min(limit, _MAX_RENUMBERED_BYTES)
    if not config.kmini_tombstone_flag_enable:
        batch = _renumbered(records, header, stored, stored.codec, config, limit)
        return batch, read_header(batch)
    # A decoded record has lost the flag in its attributes, and keeps the header that says the same.
    plain = header._replace(attributes=header.attributes & ~CODEC_MASK)
    records, header = _stored(flagged_pieces(records, 0, header, limit), plain, config)
    batch = _renumbered(records, header, stored, Codec.NONE, config, len(records))
    plain = read_header(batch)
    stored = plain._replace(attributes=plain.attributes | stored.codec)
    return _stored(flagged_pieces(batch, 0, plain, len(batch)), stored, config)


def _stored(block: Iterator[Buffer], header: BatchHeader, config: LogConfig) -> tuple[bytearray, BatchHeader]:
    """Return the batch with this header, which has the codec, and this block, which comes in pieces."""
    batch = bytearray(HEADER_SIZE)
    for piece in compress_chunks(header.codec, block, compression_level(config, header.codec)):
        batch += piece
        _check_size(batch, config)
    return batch, rewrite_header(batch, 0, header._replace(batch_length=len(batch) - LOG_OVERHEAD))


def _renumbered(
    records: Buffer, header: BatchHeader, stored: BatchHeader, codec: int, config: LogConfig, limit: int
) -> bytearray:
    batch = build_batch(
        [record._replace(offset=0) for record in decode_records(records, 0, header, limit=limit)],
        codec=codec,
        level=compression_level(config, codec),
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        base_sequence=stored.base_sequence,
        transactional=stored.is_transactional,
        log_append_time_ms=stored.max_timestamp if stored.is_log_append_time else None,
    )
    _check_size(batch, config)
    return batch


def _check_size(batch: Buffer, config: LogConfig) -> None:
    if len(batch) > config.max_message_bytes:
        raise MessageTooLarge(
            f"stored, the batch has more than max.message.bytes={config.max_message_bytes}: {len(batch)} so far"
        )


def continuing_batches(records: Buffer, log_end_offset: int, leader_epoch: int | None) -> list[tuple[int, BatchHeader]]:
    """Return the batches of a leader that a follower appends: complete and intact, in order, from its log end offset
    on.

    Ends before the first batch whose leader epoch is above `leader_epoch`, if that is given.
    """
    batches = []
    next_offset = log_end_offset
    found: Iterable[tuple[int, BatchHeader]] = ()
    if len(records) >= HEADER_SIZE and records[MAGIC_AT] == MAGIC:
        first = read_header(records)
        if first.size == len(records):  # the usual case is one batch
            found = ((0, first),)
    for position, header in found or iter_batches(records):
        if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
            break
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise UnexpectedAppendOffset(f"a batch of offset {header.base_offset} cannot follow {next_offset - 1}")
        if not is_crc_valid(records, position, header):
            raise CorruptMessage(f"the batch of offset {header.base_offset} does not match its checksum")
        batches.append((position, header))
        next_offset = header.base_offset + header.last_offset_delta + 1  # a third of the property's price
    return batches
