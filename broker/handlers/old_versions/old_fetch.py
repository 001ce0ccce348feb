"""Fetch, versions 0 to 3: convert the log to messages, as Kafka 3.9 does, for readers older than record batches.

Versions 0 and 1 read magic 0, versions 2 and 3 read magic 1; `down_convert` says what the conversion loses. Up to
version 2 the limits are hard. A topic with compression.type zstd, and a zstd batch in any topic, is
UNSUPPORTED_COMPRESSION_TYPE.

Readers of Kafka 3.9 hang in two cases; these readers do not. Where a partition's limit has no room for a batch, the
answer is the beginning of a message instead of nothing: the reader asks for more, or reports why it cannot continue.
Where the conversion leaves nothing, the broker reads on behind the transaction markers, and the reader gets, or waits
for, the records after them.
"""

from collections.abc import Iterable

from ....protocol.errors import NONE, UnsupportedCompressionType
from ....protocol.messages.fetch import FetchRequest, FetchResponse
from ....protocol.records.batch import iter_batches
from ....protocol.records.old_formats.down_conversion import Converted, down_convert, sign_of_a_larger_batch
from ...api.error_mapping import kafka_error
from ...api.request_context import Context
from ...replication.delayed_fetch import DelayedFetch
from ...replication.fetch_byte_limits import count_fetched
from ...replication.fetch_partition import FetchedData, FetchPartition, Reader
from ...scheduler import Turn
from ..fetch import resolve
from ..fetch_response import response

MAGIC_1_SINCE = 2
FIRST_BATCH_WHOLE_SINCE = 3
"""KIP-74: the first version whose responses have their first batch whole, whatever the limits."""

_CHEAP_BYTES = 8 * 1024
"""Bytes of uncompressed batches that are converted in less than a millisecond, and therefore on the event loop."""
_READ_BYTES = 1024 * 1024
"""Bytes of a partition that are converted for one answer, or one batch if that is larger."""


async def fetch_messages(request: FetchRequest, context: Context) -> FetchResponse:
    """Read before the wait, too: only the conversion says how many bytes there are for this reader."""
    wanted = await resolve(request, Reader.of(request, names_topics_by_id=False, access=context.access), context)
    answers = await _read_all(wanted, request, context)
    if request.max_wait_ms > 0 and wanted and not _is_enough(answers, request.min_bytes):
        await context.wait(DelayedFetch(wanted, request.min_bytes), timeout_ms=request.max_wait_ms)
        answers = await _read_all(wanted, request, context)
    count_fetched(context.services.metrics, wanted, answers)
    return response(wanted, answers, context.version)


def _is_enough(answers: Iterable[FetchedData], min_bytes: int) -> bool:
    """Whether there is nothing to wait for: as much as was asked for, or an error."""
    return any(answer.error_code for answer in answers) or sum(len(answer.records) for answer in answers) >= min_bytes


async def _read_all(wanted: list[FetchPartition], request: FetchRequest, context: Context) -> list[FetchedData]:
    """Read the partitions in the order of the request, within its limits."""
    left = max(min(request.max_bytes, context.services.config.current.fetch_max_bytes), 0)
    whole_first_batch = context.version >= FIRST_BATCH_WHOLE_SINCE
    turn = Turn()
    answers = []
    for one in wanted:
        if turn.is_over:
            await turn.next()
        answer = await _read(one, left, whole_first_batch, context)
        if answer.records:
            whole_first_batch = False
            left = max(left - len(answer.records), 0)
        answers.append(answer)
    return answers


async def _read(one: FetchPartition, left: int, whole_first_batch: bool, context: Context) -> FetchedData:
    """The messages of one partition for this reader. `one.asked` moves past the records that it will never get."""
    asked, led = one.asked, one.partition
    if led is not None and led.log.config.compression_type == "zstd":
        return FetchedData(UnsupportedCompressionType.code)
    answer = _read_some(one, left, whole_first_batch)
    while answer.records:
        try:
            has_flag = led is not None and led.log.config.kmini_tombstone_flag_enable
            converted = await _convert(answer.records, asked.fetch_offset, context, has_flag)
        except Exception as error:
            return FetchedData(kafka_error(error, f"converting {one.topic_partition} at {asked.fetch_offset}").code)
        if converted.records or converted.next_offset <= asked.fetch_offset:
            return FetchedData(NONE, converted.records)
        asked.fetch_offset = converted.next_offset
        answer = _read_some(one, left, whole_first_batch)
    if led is None or answer.error_code or asked.fetch_offset >= one.limit_offset() or asked.partition_max_bytes > left:
        return answer
    return FetchedData(NONE, sign_of_a_larger_batch(asked.partition_max_bytes))


def _read_some(one: FetchPartition, left: int, whole_first_batch: bool) -> FetchedData:
    answer = one.read(min(left, _READ_BYTES), whole_first_batch=whole_first_batch)
    if answer.records or answer.error_code or left <= _READ_BYTES:
        return answer
    return one.read(left, whole_first_batch=whole_first_batch)  # there may be a batch that is larger


async def _convert(batches: bytes | memoryview, offset: int, context: Context, has_flag: bool) -> Converted:
    """Convert batches; in a thread where it may take long, one after the other. These readers know tombstones by null
    values: where the topic has the flag, explicit tombstones (KIP-87) get one."""
    magic = int(context.version >= MAGIC_1_SINCE)

    def work(limit: int) -> Converted:
        return down_convert(batches, magic, offset, limit=limit, without_flagged_values=has_flag)

    limit = context.services.config.current.kmini_max_decompressed_message_bytes
    if len(batches) > _CHEAP_BYTES or any(header.codec for _, header in iter_batches(batches)):
        return await context.services.long_work.run(work, limit, context.connection)
    return work(limit)
