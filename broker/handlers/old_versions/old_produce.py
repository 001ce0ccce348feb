"""Produce, versions 0 to 2: store message sets of magic 0 and 1 as record batches.

Versions 0 and 1 were made for magic 0 and version 2 for magic 1, but a request of any of them may bring any magic,
batches too, as with every Kafka broker. A set without one whole message is no error: nothing is stored, and the offset
is -1. `message_set_validation` has the rules for messages.
"""

from ....protocol.errors import InvalidRecord
from ....protocol.primitives import Buffer
from ....protocol.records.batch import MAGIC
from ....protocol.records.compression import Codec
from ....storage.append_info import AppendInfo
from ....storage.old_formats.message_set_validation import first_message, is_cheap, validate_messages
from ....storage.validation import ValidatedRecords
from ...api.request_context import Context
from ...replication.partition import Partition

NOTHING_APPENDED = AppendInfo(-1, -1, -1)


async def append_messages(partition: Partition, records: Buffer | None, context: Context) -> AppendInfo:
    """Append the records of an old request to a partition. Raises the errors of `validate_messages`."""
    if records is None:
        raise InvalidRecord("there are no records")
    messages = memoryview(records)
    first = first_message(messages)
    if first is None:
        return NOTHING_APPENDED
    appender = context.services.appender
    if first.magic == MAGIC:
        return await appender.validate_and_append(partition, messages, context.connection)
    config = partition.log.config
    now_ms = context.services.clock.now_ms()

    def check(limit: int) -> ValidatedRecords:
        return validate_messages(messages, config, now_ms, max_decompressed_bytes=limit)

    if is_cheap(messages, first):
        validated = check(context.services.config.current.kmini_max_decompressed_message_bytes)
    else:
        is_compressed = first.codec != Codec.NONE
        validated = await appender.validate_in_thread(partition, check, context.connection, is_compressed=is_compressed)
    return await appender.append(partition, validated, now_ms, len(messages))
