"""The registry: what `@handles` binds and refuses, and the handlers of a release."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.api.registry import handles, registered, served
from kmini.broker.api.releases import RELEASES, Release, Versions
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.guarding import demands
from kmini.broker.security.permissions import OPEN, each, whole
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol import messages as m
from kmini.protocol.schema import Request


class NewcomerRequest(Request):
    """A request without an api key, so that no table has it."""

    name, api_key, min_version, max_version = "Newcomer", 999, 0, 0


def test_an_api_that_states_no_permission_cannot_be_registered() -> None:
    with pytest.raises(TypeError, match="needs"):
        handles(NewcomerRequest)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="Newcomer states no permission"):
        handles(NewcomerRequest, needs=[])


def test_an_api_whose_permissions_no_guard_asks_for_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="Newcomer needs permissions and has no guard"):
        handles(NewcomerRequest, needs=[each(AclOperation.READ, ResourceType.TOPIC)])


def test_an_api_cannot_be_handled_twice() -> None:
    with pytest.raises(ValueError, match="DeleteRecords is handled twice"):
        handles(m.DeleteRecordsRequest, needs=OPEN)(HANDLERS[m.DeleteRecordsRequest.api_key].function)


def test_a_handler_has_what_its_registration_states() -> None:
    needs = [whole(AclOperation.READ, ResourceType.GROUP)]
    guard = demands("group_id")

    async def function(request: Any, context: Any) -> None: ...

    try:
        assert handles(NewcomerRequest, needs=needs, guard=guard, versions="0-0")(function) is function
        handler = registered()[NewcomerRequest.api_key]
        assert (handler.min_version, handler.max_version, handler.advertised_min) == (0, 0, 0)
        assert (handler.function, handler.needs, handler.guard) == (function, tuple(needs), guard)
    finally:
        del registered()[NewcomerRequest.api_key]


def test_importing_the_handlers_registers_every_message() -> None:
    assert registered() is HANDLERS
    assert HANDLERS.keys() == m.REQUESTS.keys()
    assert all(HANDLERS[api_key].request is request for api_key, request in m.REQUESTS.items())


def test_a_release_without_an_api_does_not_serve_it() -> None:
    assert served(HANDLERS) is HANDLERS
    fetch = m.FetchRequest.api_key
    narrow = served(HANDLERS, Release({fetch: Versions(5, 6)}, RELEASES["4.3"].features))
    assert {key: (one.min_version, one.max_version) for key, one in narrow.items()} == {fetch: (5, 6)}
    assert narrow[fetch].needs == HANDLERS[fetch].needs
    assert narrow[fetch].guard is HANDLERS[fetch].guard
