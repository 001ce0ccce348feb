"""A client that looks for the coordinator of a group again and again, and never joins, is named in the log once."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.coordinator_searches import OFTEN, WITHIN_MS, CoordinatorSearches
from kmini.broker.network.peer_log import MAX_CLIENTS
from kmini.protocol.messages.find_coordinator import GROUP, FindCoordinatorRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from support.broker.asking import ask_handler


class StillClock:
    """A clock that moves when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 0

    def liveness_ms(self) -> int:
        return self.now_ms


async def search(broker: BrokerServer, group: str, times: int = OFTEN) -> None:
    for _ in range(times):
        await ask_handler(broker, FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group]))


async def test_a_group_that_is_never_joined_gets_one_hint(
    broker: BrokerServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kmini.client")
    await search(broker, "readers", OFTEN - 1)
    assert "coordinator of group" not in caplog.text
    await search(broker, "readers")
    (hint,) = [one for one in caplog.messages if "coordinator of group" in one]
    assert "has asked 10 times in 0 s for the coordinator of group readers, and no client has joined it" in hint
    assert "client test at 192.0.2.7" in hint


async def test_a_group_that_exists_gets_none(broker: BrokerServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kmini.client")
    await search(broker, "readers", OFTEN - 1)
    topics.create(broker, "orders")
    Topic = OffsetCommitRequest.Topic
    partitions = [Topic.Partition(partition_index=0, committed_offset=0, committed_metadata=None)]
    commit = OffsetCommitRequest(group_id="readers", topics=[Topic(name="orders", partitions=partitions)])
    (answer,) = (await ask_handler(broker, commit, 8)).topics[0].partitions
    assert answer.error_code == 0
    await search(broker, "readers", 2 * OFTEN)
    assert "coordinator of group" not in caplog.text


def test_rare_searches_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kmini.client")
    clock = StillClock()
    searches = CoordinatorSearches(clock)  # type: ignore[arg-type]
    for _ in range(3 * OFTEN):
        clock.now_ms += WITHIN_MS // 5
        searches.note("readers", "a", "h", exists=False)
    for number in range(2 * MAX_CLIENTS):
        searches.note(f"group-{number}", "a", "h", exists=False)
    assert "coordinator of group" not in caplog.text
    assert len(searches._searched) == MAX_CLIENTS


def test_long_names_are_remembered_by_their_beginnings() -> None:
    searches = CoordinatorSearches(StillClock())  # type: ignore[arg-type]
    searches.note("g" * 30_000, "c" * 30_000, "h", exists=False)
    ((group, client, _),) = searches._searched
    assert (len(group), len(client)) == (200, 200)
