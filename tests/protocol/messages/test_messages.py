"""Claims about the set of messages as a whole."""

import pathlib
from collections.abc import Iterable
from importlib import import_module

import pytest

from kmini.broker.api.releases import RELEASES
from kmini.protocol import messages
from kmini.protocol.function_source import holds_records
from kmini.protocol.messages import MODULES, REQUESTS
from kmini.protocol.schema import Message, Request, structs_of
from support.for_each import for_each


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
    assert modules == listed == {*MODULES.values()}
    assert messages_in(modules) == {cls for request in REQUESTS.values() for cls in (request, request.response)}


def messages_in(modules: Iterable[str]) -> set[type[Message]]:
    """The requests and responses that these modules define."""
    names = [f"{messages.__name__}.{module}" for module in modules]
    found = {cls for name in names for cls in vars(import_module(name)).values() if isinstance(cls, type)}
    return {cls for cls in found if issubclass(cls, Message) and cls.__module__ in names}


def test_no_two_requests_have_the_same_api_key() -> None:
    assert {cls for cls in messages_in(MODULES.values()) if issubclass(cls, Request)} == {*REQUESTS.values()}
    assert all(request.api_key == api_key for api_key, request in REQUESTS.items())


def test_the_package_has_every_message_by_name_and_no_other_names() -> None:
    for cls in messages_in(MODULES.values()):
        assert getattr(messages, cls.__name__) is cls
    with pytest.raises(AttributeError, match="no attribute 'DeleteRecordRequest'"):
        messages.DeleteRecordRequest  # noqa: B018


@for_each("request_class", REQUESTS.values(), ids=lambda cls: cls.name)
def test_a_request_says_whether_it_has_views_of_its_bytes(request_class: type[Request]) -> None:
    versions = range(request_class.min_version, request_class.max_version + 1)
    assert request_class.holds_views == any(holds_records(request_class, version) for version in versions)


@for_each("request_class", REQUESTS.values(), ids=lambda cls: cls.name)
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
