"""Claims about the set of messages as a whole."""

import pathlib

import pytest

from kmini.protocol import messages
from kmini.protocol.messages import REQUESTS
from kmini.protocol.schema import Request, structs_of

RANGES = {
    "Produce": (0, 13),
    "Fetch": (0, 18),
    "ListOffsets": (0, 11),
    "Metadata": (0, 13),
    "FindCoordinator": (0, 6),
    "ApiVersions": (0, 4),
    "CreateTopics": (0, 7),
    "DeleteTopics": (0, 6),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (0, 4),
    "DescribeConfigs": (0, 4),
    "CreatePartitions": (0, 3),
    "DescribeCluster": (0, 2),
}
"""From the lowest version that Apache Kafka 3.9 serves to the highest of 4.3."""


def test_versions_span_from_kafka_3_9_to_4_3() -> None:
    assert {request.name: (request.min_version, request.max_version) for request in REQUESTS.values()} == RANGES


def test_every_module_of_messages_is_listed() -> None:
    folder = pathlib.Path(messages.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "headers"}
    listed = {cls.__module__.rpartition(".")[2] for cls in REQUESTS.values()}
    assert modules == listed
    assert {"REQUESTS", *(c.__name__ for r in REQUESTS.values() for c in (r, r.response))} == set(messages.__all__)


@pytest.mark.parametrize("request_class", REQUESTS.values(), ids=lambda cls: cls.name)
def test_every_module_says_what_its_versions_brought(request_class: type[Request]) -> None:
    module = vars(messages)[request_class.__module__.rpartition(".")[2]]
    assert f"(key {request_class.api_key})" in module.__doc__
    for version in range(1, request_class.max_version + 1):
        assert f"v{version}" in module.__doc__, f"v{version}"


def test_fields_that_can_be_absent_have_defaults_that_fit() -> None:
    for request in REQUESTS.values():
        for cls in (request, request.response):
            for struct in structs_of(cls):
                for field in struct.__fields__:
                    if field.default is None:
                        assert field.type.is_nullable, f"{struct.__qualname__}.{field.name}"
