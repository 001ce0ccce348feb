"""Claims about the set of messages as a whole."""

import pathlib

import pytest

from kmini.broker.api.releases import RELEASES
from kmini.protocol import messages
from kmini.protocol.messages import REQUESTS
from kmini.protocol.schema import Message, Request, structs_of


def test_versions_span_from_kafka_3_9_to_4_3() -> None:
    """From the lowest version that either release serves to the highest; the releases are tested by themselves."""
    releases = [RELEASES[name].versions for name in ("3.9", "4.3")]
    for api_key, request in REQUESTS.items():
        served = [versions[api_key] for versions in releases if api_key in versions]
        expected = (min(each.min for each in served), max(each.max for each in served))
        assert (request.min_version, request.max_version) == expected, request.name


def test_every_module_of_messages_is_listed() -> None:
    folder = pathlib.Path(messages.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__", "headers"}
    listed = {cls.__module__.rpartition(".")[2] for cls in REQUESTS.values()}
    assert modules == listed
    listed_classes = {cls for cls in vars(messages).values() if isinstance(cls, type) and issubclass(cls, Message)}
    assert listed_classes - {Request} == {cls for request in REQUESTS.values() for cls in (request, request.response)}


def test_no_two_requests_have_the_same_api_key() -> None:
    requests = {cls for cls in vars(messages).values() if isinstance(cls, type) and issubclass(cls, Request)}
    assert requests - {Request} == {*REQUESTS.values()}


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
