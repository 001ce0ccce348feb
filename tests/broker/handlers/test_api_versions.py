"""ApiVersions: the registry, told to clients. That an unknown version is answered: `network/test_dispatch.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.api.registry import loaded
from kmini.broker.api.releases import NEWEST, RELEASES
from kmini.broker.broker import BrokerServer
from kmini.broker.handlers import HANDLERS
from kmini.broker.handlers.api_versions import unsupported_version_answer
from kmini.protocol.errors import NONE, InvalidRequest, UnsupportedVersion
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Ask = Callable[..., Awaitable[Any]]

CLIENT = ApiVersionsRequest(client_software_name="kmini-tests", client_software_version="1.0-SNAPSHOT")


@pytest.mark.parametrize("version", range(5))
async def test_every_registered_api_is_advertised_and_no_other(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, CLIENT, version)
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert told == {key: (handler.advertised_min, handler.max_version) for key, handler in HANDLERS.items()}
    assert answer.error_code == NONE


async def test_by_default_the_floors_are_those_of_3_9_and_the_tops_those_of_4_3() -> None:
    """So what a client infers from the tops is one real release, and old clients are served. Some floors are higher."""
    for api_key, handler in loaded(HANDLERS).items():
        tops = NEWEST.versions[api_key]
        floors = RELEASES["3.9"].versions.get(api_key, tops)
        assert floors.min <= handler.advertised_min <= handler.min_version, handler
        assert handler.max_version == tops.max, handler


async def test_clients_that_send_no_name_before_version_3_are_fine(broker: BrokerServer, ask: Ask) -> None:
    assert (await ask(broker, ApiVersionsRequest(), 2)).error_code == NONE


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("text", ["", "a b", "-a", "a-", ".a", "é", "a\n"])
@pytest.mark.parametrize("field", ["client_software_name", "client_software_version"])
async def test_a_malformed_software_name_or_version_is_an_invalid_request(
    broker: BrokerServer, ask: Ask, version: int, text: str, field: str
) -> None:
    request = ApiVersionsRequest(**{"client_software_name": "a", "client_software_version": "1", field: text})
    answer = await ask(broker, request, version)
    assert (answer.error_code, answer.api_keys) == (InvalidRequest.code, [])


async def test_features_tell_the_release_and_nothing_that_is_not_served(broker: BrokerServer, ask: Ask) -> None:
    answer = await ask(broker, CLIENT)
    assert [(f.name, f.min_version_level, f.max_version_level) for f in answer.finalized_features] == [
        ("metadata.version", 30, 30),
        ("transaction.version", 2, 2),
        ("group.version", 1, 1),
        ("share.version", 1, 1),
        ("streams.version", 1, 1),
    ]
    assert [(f.name, f.min_version, f.max_version) for f in answer.supported_features] == [
        ("metadata.version", 7, 30),
        ("transaction.version", 0, 2),
        ("group.version", 0, 1),
        ("share.version", 0, 1),
        ("streams.version", 0, 1),
    ]
    assert answer.finalized_features_epoch >= 0


def test_the_answer_to_an_unknown_version_has_the_one_range_that_matters() -> None:
    """`network/test_dispatch.py` tests that it is sent, and in version 0."""
    answer = ApiVersionsResponse.decode(b"".join(unsupported_version_answer(HANDLERS).encode(0)), 0)
    assert answer.error_code == UnsupportedVersion.code
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
