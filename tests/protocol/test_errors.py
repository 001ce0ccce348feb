import pytest

from kmini.protocol import errors
from kmini.protocol.errors import (
    NONE,
    CorruptMessage,
    FrameTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    KafkaError,
    MalformedMessage,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RecordsRefused,
    UnknownServerError,
    error_for,
    error_name,
)

CODES = [-1, *range(1, 134)]


def test_every_code_of_kafka_has_its_own_class() -> None:
    assert [error_for(code).code for code in CODES] == CODES
    assert len({error_for(code) for code in CODES}) == len(CODES)


def test_names_are_kafkas() -> None:
    assert OffsetOutOfRange.kafka_name == "OFFSET_OUT_OF_RANGE"
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(NONE) == "NONE"


def test_the_one_name_that_ends_with_exception_is_kept() -> None:
    assert InvalidTopic.code == 17
    assert InvalidTopic.kafka_name == "INVALID_TOPIC_EXCEPTION"


OTHERWISE_IN_KAFKA_PYTHON = {
    -1: "UNKNOWN",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}


def test_codes_and_names_are_those_of_kafka_python() -> None:
    from kafka import errors as theirs

    their_errors = [error for error in vars(theirs).values() if getattr(error, "errno", 0) in CODES]
    assert len(their_errors) > 100
    for their_error in their_errors:
        code = their_error.errno
        assert OTHERWISE_IN_KAFKA_PYTHON.get(code, error_name(code)) == their_error.message


def test_a_code_that_kafka_does_not_have_is_an_unknown_server_error() -> None:
    assert error_for(9_999) is UnknownServerError
    assert error_name(9_999) == "UNKNOWN(9999)"


def test_there_is_no_exception_for_success() -> None:
    with pytest.raises(ValueError, match="success"):
        error_for(NONE)


def test_retriable_is_what_kafkas_clients_take_it_for() -> None:
    assert NotLeaderOrFollower.retriable
    assert CorruptMessage.retriable
    assert not OffsetOutOfRange.retriable


def test_an_error_says_its_name_and_its_message() -> None:
    assert str(OffsetOutOfRange()) == "OFFSET_OUT_OF_RANGE"
    assert str(OffsetOutOfRange("the log ends at 7")) == "OFFSET_OUT_OF_RANGE: the log ends at 7"
    assert OffsetOutOfRange("the log ends at 7").message == "the log ends at 7"


@pytest.mark.parametrize("error", [InvalidRecord, InvalidTimestamp])
def test_errors_of_records_say_which_records(error: type[RecordsRefused]) -> None:
    assert error("bad").record_errors == []
    assert error("bad", [(3, "no key")]).record_errors == [(3, "no key")]


def test_a_broken_protocol_is_no_kafka_error() -> None:
    assert not issubclass(MalformedMessage, KafkaError)
    assert issubclass(FrameTooLarge, MalformedMessage)


def test_a_code_cannot_be_given_twice() -> None:
    with pytest.raises(TypeError, match="OffsetOutOfRange"):
        type("Another", (KafkaError,), {}, code=1)
    assert error_for(1) is OffsetOutOfRange


def test_every_error_says_what_it_means() -> None:
    for code in CODES:
        assert error_for(code).__doc__
    assert errors.__doc__
