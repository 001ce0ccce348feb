"""Whatever the bytes: a message or MalformedMessage, records or a KafkaError."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kmini.protocol.errors import KafkaError, MalformedMessage
from kmini.protocol.framing import NEED_DATA, ClientConnection, ServerConnection, response_frame
from kmini.protocol.messages import REQUESTS
from kmini.protocol.records.batch import HEADER_SIZE, iter_batches, read_header
from kmini.protocol.records.batch_records import decode_all, decode_records, first_record_since
from kmini.protocol.records.control import parse_end_transaction_marker
from kmini.protocol.records.old_formats.down_conversion import down_convert
from kmini.protocol.schema import Request
from kmini.storage.log_config import LogConfig
from kmini.storage.old_formats.message_set_validation import first_message, validate_messages
from kmini.storage.validation import ValidatedRecords, continuing_batches, validate
from support.fuzz.mutations import (
    Names,
    every_version,
    mutated,
    mutated_batch,
    random_batch,
    random_message,
    request_frame,
    requests_and_responses,
)
from support.fuzz.old_messages import mutated_message_set, random_message_set

pytestmark = pytest.mark.deep

NOW_MS = 1_700_000_000_000
LIMIT = 1 << 20
VALID_OF_EACH = 6
Rounds = Callable[[int, int], int]


def test_a_mutated_message_is_a_message_or_malformed(rounds: Rounds) -> None:
    dice = random.Random("messages")
    valid = [
        (cls, version, b"".join(random_message(cls, version, dice, Names()).encode(version)))
        for cls, version in every_version(requests_and_responses())
        for _ in range(VALID_OF_EACH)
    ]
    longest_reason = 0
    for _ in range(rounds(40_000, 500_000)):
        cls, version, encoded = dice.choice(valid)
        frame = mutated(encoded, dice)
        try:
            cls.decode(memoryview(frame), version)
        except MalformedMessage as error:
            longest_reason = max(longest_reason, len(str(error)))
    assert longest_reason < 200


def test_a_mutated_stream_of_requests_is_frames_or_malformed(rounds: Rounds) -> None:
    dice = random.Random("streams")
    requests = [
        request_frame(random_message(cls, version, dice, Names()), version, 7)
        for cls, version in every_version(iter(REQUESTS.values()))
        for _ in range(2)
    ]
    for _ in range(rounds(6_000, 100_000)):
        connection = ServerConnection(1 << 20)
        stream = mutated(b"".join(dice.choice(requests) for _ in range(3)), dice)
        try:
            for begin in range(0, len(stream), step := dice.choice((7, 100, 10_000))):
                connection.receive_data(stream[begin : begin + step])
                while (frame := connection.next_frame()) is not NEED_DATA:
                    request = REQUESTS.get(frame.header.api_key)
                    if request and request.min_version <= frame.header.api_version <= request.max_version:
                        request.decode(frame.body, frame.header.api_version)
                    frame.release()
        except MalformedMessage:
            continue


def test_a_mutated_answer_is_a_response_or_malformed(rounds: Rounds) -> None:
    """The client's end believes a broker no more than the other way round."""
    dice = random.Random("answers")
    pairs = every_version(iter(REQUESTS.values()))
    answers = []
    for cls, version in pairs:
        assert issubclass(cls, Request)
        request = random_message(cls, version, dice, Names())
        response = random_message(cls.response, version, dice, Names())
        answers.append((request, version, b"".join(response_frame(0, response, version))))
    for _ in range(rounds(6_000, 100_000)):
        request, version, answer = dice.choice(answers)
        client = ClientConnection("fuzz", max_frame_bytes=1 << 20)
        client.request(request, version)
        try:
            list(client.receive_data(mutated(answer, dice)))
        except MalformedMessage:
            continue


CONFIGS = [
    LogConfig(),
    LogConfig.parse({"cleanup.policy": "compact"}),
    LogConfig.parse({"message.timestamp.type": "LogAppendTime"}),
    LogConfig.parse({"compression.type": "lz4", "message.timestamp.after.max.ms": "100"}),
]


def assert_can_be_stored(validated: ValidatedRecords) -> None:
    """What was accepted is what its header says, and its records are numbered from 0 without gaps."""
    header = read_header(validated.records)
    assert header == validated.header
    records = decode_records(validated.records, 0, header, limit=LIMIT)
    assert [record.offset for record in records] == list(range(header.last_offset_delta + 1))


def test_a_mutated_batch_is_validated_or_refused_with_a_kafka_error(rounds: Rounds) -> None:
    dice = random.Random("batches")
    valid = [random_batch(dice, timestamp=NOW_MS) for _ in range(300)]
    accepted = 0
    for _ in range(rounds(20_000, 200_000)):
        batch = mutated_batch(dice.choice(valid), dice)
        config = dice.choice(CONFIGS)
        try:
            validated = validate(memoryview(batch), config, NOW_MS, max_decompressed_bytes=LIMIT)
        except KafkaError:
            continue
        accepted += 1
        assert_can_be_stored(validated)
    assert accepted > 500  # or the mutations miss what is behind the first check


def test_a_mutated_message_set_is_validated_or_refused_with_a_kafka_error(rounds: Rounds) -> None:
    dice = random.Random("message sets")
    valid = [random_message_set(dice, timestamp=NOW_MS) for _ in range(200)]
    accepted = 0
    for _ in range(rounds(8_000, 100_000)):
        messages = mutated_message_set(dice.choice(valid), dice)
        try:
            if first_message(messages) is None:
                continue
            validated = validate_messages(messages, dice.choice(CONFIGS), NOW_MS, max_decompressed_bytes=LIMIT)
        except KafkaError:
            continue
        accepted += 1
        assert_can_be_stored(validated)
    assert accepted > 200  # or the mutations miss what is behind the first check


def read_without_checksum(batch: bytearray) -> None:
    """Everything that readers do with batches of a log whose checksum they do not look at."""
    for position, header in iter_batches(batch):
        first_record_since(batch, position, header, NOW_MS, header.base_offset, limit=LIMIT)
    decode_all(batch, limit=LIMIT)


def read_marker(batch: bytearray) -> None:
    if len(batch) >= HEADER_SIZE:
        parse_end_transaction_marker(batch)


BATCHES = (random_batch, mutated_batch)
MESSAGE_SETS = (random_message_set, mutated_message_set)
READERS: dict[str, Callable[[bytearray], object]] = {
    "reader": read_without_checksum,
    "follower": lambda data: continuing_batches(data, 0, None),
    "old reader": lambda data: down_convert(data, 1, 0, limit=LIMIT),
    "oldest reader": lambda data: down_convert(data, 0, 0, limit=LIMIT),
}


@pytest.mark.parametrize(
    ("read", "source"),
    [
        *(
            pytest.param(read, source, id=f"{name}-{kind}")
            for name, read in READERS.items()
            for kind, source in (("batch", BATCHES), ("message set", MESSAGE_SETS))
        ),
        pytest.param(read_marker, BATCHES, id="marker-batch"),
    ],
)
def test_what_is_mutated_is_read_or_a_kafka_error(
    read: Callable[[bytearray], object], source: tuple[Callable[..., bytes], Callable[..., bytearray]], rounds: Rounds
) -> None:
    make, mutate = source
    dice = random.Random("readers")
    valid = [make(dice) for _ in range(100)]
    for _ in range(rounds(3_000, 40_000)):
        data = mutate(dice.choice(valid), dice)
        try:
            read(data)
        except KafkaError:
            continue
