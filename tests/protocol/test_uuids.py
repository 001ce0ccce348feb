import uuid

import pytest

from kmini.protocol.uuids import ZERO_UUID, format_hyphenated, format_uuid, parse_uuid, random_uuid


def test_text_and_bytes_are_two_forms_of_the_same() -> None:
    for _ in range(200):
        topic_id = random_uuid()
        assert parse_uuid(format_uuid(topic_id)) == topic_id


def test_a_random_uuid_is_one_that_kafka_would_give_out() -> None:
    for _ in range(500):
        topic_id = random_uuid()
        assert uuid.UUID(bytes=topic_id).version == 4
        assert uuid.UUID(bytes=topic_id).variant == uuid.RFC_4122
        assert not format_uuid(topic_id).startswith("-")


def test_the_zero_uuid_is_22_letters_a() -> None:
    assert format_uuid(ZERO_UUID) == "A" * 22
    assert parse_uuid("A" * 22) == ZERO_UUID


@pytest.mark.parametrize(
    "text", ["", "A", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "A" * 21 + "!", "é" * 22]
)
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="no uuid"):
        parse_uuid(text)


@pytest.mark.parametrize("length", [0, 15, 17])
def test_only_sixteen_bytes_are_a_uuid(length: int) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        format_uuid(bytes(length))


def test_hyphens_stand_where_everybody_puts_them() -> None:
    some = random_uuid()
    assert format_hyphenated(some) == str(uuid.UUID(bytes=some))
