"""Batches of kafka-python and aiokafka are read, and they read ours. The checksum is compared with crcmod's."""

import crcmod.predefined
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch as AiokafkaOldBatch
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaOldBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.legacy_records import LegacyRecordBatch as KafkaPythonOldBatch
from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonOldBuilder

from kmini.protocol.records.batch import build_batch, is_crc_valid, iter_batches, read_header
from kmini.protocol.records.batch_records import decode_all, decode_records
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.crc import crc32c
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record

octets = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), octets), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 2**48), octets, octets, headers), min_size=1, max_size=15
).map(lambda records: [record._replace(offset=n) for n, record in enumerate(records)])
both_libraries = pytest.mark.parametrize(
    ("builder", "batch_class"),
    [(KafkaPythonBuilder, KafkaPythonBatch), (AiokafkaBuilder, AiokafkaBatch)],
    ids=["kafka-python", "aiokafka"],
)


@both_libraries
@pytest.mark.parametrize("codec", Codec)
@settings(deadline=None, max_examples=40)
@given(records=some_records)
def test_their_batches_are_read(builder: type, batch_class: type, codec: Codec, records: list[Record]) -> None:
    building = builder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for record in records:
        building.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(building.build())
    header = read_header(batch)
    assert is_crc_valid(batch, 0, header)
    assert decode_records(batch, 0, header) == records


@both_libraries
@pytest.mark.parametrize("codec", Codec)
@settings(deadline=None, max_examples=40)
@given(records=some_records)
def test_they_read_our_batches(builder: type, batch_class: type, codec: Codec, records: list[Record]) -> None:
    theirs = batch_class(bytes(build_batch(records, codec=codec)))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


both_legacy = pytest.mark.parametrize(
    ("builder", "batch_class"),
    [(KafkaPythonOldBuilder, KafkaPythonOldBatch), (AiokafkaOldBuilder, AiokafkaOldBatch)],
    ids=["kafka-python", "aiokafka"],
)
formats = pytest.mark.parametrize(
    ("magic", "codec"),  # for lz4 in magic 0 they want another library
    [(magic, codec) for magic in (0, 1) for codec in Codec if codec != Codec.ZSTD and (magic, codec) != (0, Codec.LZ4)],
)


def as_old(records: list[Record], magic: int) -> list[Record]:
    """What messages of magic 0 or 1 can say of them."""
    return [record._replace(headers=(), **{} if magic else {"timestamp": -1}) for record in records]


@both_legacy
@formats
@settings(deadline=None, max_examples=20)
@given(records=some_records)
def test_their_messages_are_read(
    builder: type, batch_class: type, magic: int, codec: Codec, records: list[Record]
) -> None:
    building = builder(magic, int(codec), 1 << 20)
    for record in records:
        building.append(record.offset, record.timestamp, record.key, record.value, [])
    messages = bytes(building.build())
    assert all(is_crc_valid(messages, position, header) for position, header in iter_batches(messages))
    assert decode_all(messages) == as_old(records, magic)


@both_legacy
@formats
@settings(deadline=None, max_examples=20)
@given(records=some_records, first=st.sampled_from([0, 1, 100, 2**40]))
def test_they_read_our_messages(
    builder: type, batch_class: type, magic: int, codec: Codec, records: list[Record], first: int
) -> None:
    records = [record._replace(offset=record.offset + first) for record in records]
    if codec == Codec.NONE:
        sets = [bytes(build_messages([record], magic)) for record in records]
    else:
        sets = [build_wrapper([records], magic, codec)]
    read = []
    for messages in sets:
        theirs = batch_class(messages, magic)
        assert theirs.validate_crc()
        read += [Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in theirs]
    assert read == as_old(records, magic)


@given(data=st.binary(max_size=500), cut=st.integers(0, 500))
def test_the_checksum_is_crcmods_in_one_piece_and_in_two(data: bytes, cut: int) -> None:
    expected = crcmod.predefined.mkPredefinedCrcFun("crc-32c")(data)
    assert crc32c(data) == expected
    assert crc32c(data[cut:], crc32c(data[:cut])) == expected
