"""The registry: what `@handles` binds and refuses, and the handlers of a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.broker.api.registry import Handler, handles, registered, served
from kmini.broker.api.releases import RELEASES, Release, Versions
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.guarding import demands
from kmini.broker.security.permission_kinds import OPEN, each, whole
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol import messages as m
from kmini.protocol.schema import Request


class NewcomerRequest(Request):
    """A request that no table has."""

    name, api_key, min_version, max_version = "Newcomer", 999, 0, 0


async def answer_nothing(request: Any, context: Any) -> None:
    """A handler."""


Listing = Callable[[Versions], Handler]


@pytest.fixture
def newcomer(monkeypatch: pytest.MonkeyPatch) -> Listing:
    """List NewcomerRequest as served in some versions, until the test ends."""

    def listing(versions: Versions) -> Handler:
        handler = Handler(__name__, NewcomerRequest.api_key, versions, versions.min)
        monkeypatch.setitem(registered(), NewcomerRequest.api_key, handler)
        return handler

    return listing


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
        handles(m.DeleteRecordsRequest, needs=OPEN)(HANDLERS[m.DeleteRecordsRequest.api_key].load().function)


def test_a_handler_has_what_its_registration_states(newcomer: Listing) -> None:
    needs = [whole(AclOperation.READ, ResourceType.GROUP)]
    guard = demands("group_id")
    handler = newcomer(Versions(0, 0))

    assert handles(NewcomerRequest, needs=needs, guard=guard)(answer_nothing) is answer_nothing
    assert (handler.min_version, handler.max_version, handler.advertised_min) == (0, 0, 0)
    assert (handler.function, handler.needs, handler.guard) == (answer_nothing, tuple(needs), guard)
    assert handler.request is NewcomerRequest


def test_an_api_that_is_not_listed_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="Newcomer is not in the list of handlers"):
        handles(NewcomerRequest, needs=OPEN)(answer_nothing)


def test_an_api_cannot_be_listed_in_versions_that_its_message_does_not_have(newcomer: Listing) -> None:
    newcomer(Versions(0, 1))
    with pytest.raises(ValueError, match="NewcomerRequest has versions 0 to 0, not 1"):
        handles(NewcomerRequest, needs=OPEN)(answer_nothing)


def test_a_handler_has_what_its_module_registers_once_it_is_loaded() -> None:
    handler = HANDLERS[m.DeleteRecordsRequest.api_key]
    same = handler.in_versions(Versions(1, 1), 1)
    assert not same.is_bound
    assert not hasattr(same, "function")
    assert same.load() is same
    assert same.is_bound
    assert (same.function, same.request) == (handler.function, m.DeleteRecordsRequest)
    assert (same.min_version, same.max_version) == (1, 1)


def test_every_message_is_listed_and_its_module_registers_a_handler_for_it() -> None:
    assert registered() is HANDLERS
    assert HANDLERS.keys() == m.REQUESTS.keys()
    assert all(HANDLERS[api_key].load().request is request for api_key, request in m.REQUESTS.items())


def test_a_release_without_an_api_does_not_serve_it() -> None:
    assert served(HANDLERS) is HANDLERS
    fetch = m.FetchRequest.api_key
    narrow = served(HANDLERS, Release({fetch: Versions(5, 6)}, RELEASES["4.3"].features))
    assert {key: (one.min_version, one.max_version) for key, one in narrow.items()} == {fetch: (5, 6)}
    narrow[fetch].load()
    assert narrow[fetch].function is HANDLERS[fetch].function
    assert narrow[fetch].needs == HANDLERS[fetch].needs
    assert narrow[fetch].guard is HANDLERS[fetch].guard
