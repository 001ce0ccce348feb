from kmini.protocol.api_keys import API_KEYS, API_NAMES
from kmini.protocol.messages import REQUESTS


def test_names_are_those_of_kafka_python() -> None:
    from kafka.protocol.api_key import ApiKey

    for key in ApiKey:
        assert API_NAMES[key.value] == key.name


def test_names_and_keys_are_one_table() -> None:
    assert API_KEYS["DeleteRecords"] == 21
    assert len(API_KEYS) == len(API_NAMES)
    assert sorted(API_NAMES) == list(range(95))


def test_messages_are_named_as_in_the_table() -> None:
    for key, request in REQUESTS.items():
        assert request.name == API_NAMES[key]
        assert request.response.__name__ == f"{request.name}Response"
