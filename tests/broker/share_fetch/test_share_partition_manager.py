"""Members of a share group acquire and acknowledge records (KIP-932): what is delivered again, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.share_fetch.share_partition import Acknowledgement
from kmini.broker.share_state.persister import PAUSE_MS, SharePartitionKey
from kmini.protocol.errors import CoordinatorLoadInProgress, NotLeaderOrFollower
from support.broker.share_readers import ACCEPT, GAP, REJECT, RELEASE, RENEW, ShareReaders
from support.until import until_async

LOCK_MS = 30_000


async def test_records_are_delivered_once_to_two_members(lab: ShareReaders) -> None:
    lab.append(2, 2)
    assert await lab.fetch("m", max_records=2) == ("NONE", [(0, 1, 1)], [0, 1], "NONE")
    assert (await lab.fetch("n")).acquired == [(2, 3, 1)]
    assert (await lab.fetch("m")).acquired == (await lab.fetch("n")).acquired == []


async def test_what_is_accepted_rejected_or_no_record_never_comes_again(lab: ShareReaders) -> None:
    lab.append(4)
    await lab.fetch()
    assert await lab.acknowledge("m", (0, 1, ACCEPT), (2, 3, [REJECT, GAP])) == "NONE"
    await lab.advance(LOCK_MS)
    assert (await lab.fetch("n")).acquired == []
    assert lab.updates()[-1] == (0, 4, [(0, 1, 2, 1), (2, 3, 4, 1)])


async def test_a_released_record_comes_again_with_a_later_fetch_and_counts(lab: ShareReaders) -> None:
    lab.append(3)
    await lab.fetch()
    assert await lab.fetch(acks=[(0, 0, ACCEPT), (1, 1, RELEASE)]) == ("NONE", [], [], "NONE")
    assert (await lab.fetch("n")).acquired == [(1, 1, 2)]


async def test_a_record_whose_lock_ends_comes_again(lab: ShareReaders) -> None:
    lab.append(2)
    await lab.fetch()
    await lab.advance(LOCK_MS - 1)
    assert (await lab.fetch("n")).acquired == []
    await lab.advance(1)
    assert (await lab.fetch("n")).acquired == [(0, 1, 2)]
    assert await lab.acknowledge("m", (0, 1, ACCEPT)) == "INVALID_RECORD_STATE"
    assert await lab.acknowledge("n", (0, 1, ACCEPT)) == "NONE"


async def test_a_lock_that_is_renewed_begins_anew(lab: ShareReaders) -> None:
    lab.append(2)
    await lab.fetch()
    await lab.advance(LOCK_MS - 1)
    renewed = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    assert await lab.fetch(acks=[(0, 1, RENEW)], **renewed) == ("NONE", [], [], "NONE")
    await lab.advance(LOCK_MS - 1)
    assert await lab.acknowledge("m", (0, 1, ACCEPT)) == "NONE"


async def test_locks_are_renewed_only_by_requests_that_say_so_and_where_the_group_allows_it(lab: ShareReaders) -> None:
    lab.append(2)
    await lab.fetch()
    assert await lab.acknowledge("m", (0, 1, RENEW)) == "INVALID_REQUEST"
    assert (await lab.fetch(acks=[(0, 1, RENEW)], is_renew_ack=True)).error == "INVALID_REQUEST"
    await lab.set(share_renew_acknowledge_enable="false")
    assert await lab.acknowledge("m", (0, 1, RENEW), is_renew_ack=True) == "INVALID_RECORD_STATE"


async def test_a_record_is_archived_after_its_last_delivery(lab: ShareReaders) -> None:
    await lab.set(share_delivery_count_limit=2)
    lab.append(1)
    for count in (1, 2):
        assert (await lab.fetch()).acquired == [(0, 0, count)]
        assert await lab.acknowledge("m", (0, 0, RELEASE)) == "NONE"
    assert (await lab.fetch()).acquired == []
    assert lab.updates()[-1] == (0, 1, [(0, 0, 4, 2)])


async def test_a_session_that_ends_releases_what_its_member_has(lab: ShareReaders) -> None:
    lab.append(3)
    await lab.fetch()
    assert await lab.fetch(epoch=-1, acks=[(0, 0, ACCEPT)]) == ("NONE", [], [], "NONE")
    await lab.settled()
    assert (await lab.fetch("n")).acquired == [(1, 2, 2)]


async def test_a_connection_that_ends_releases_what_its_member_has(lab: ShareReaders) -> None:
    lab.append(2)
    await lab.fetch()
    lab.connection("m").close()
    await lab.settled()
    assert (await lab.fetch("n")).acquired == [(0, 1, 2)]
    assert await lab.acknowledge("m", (0, 1, ACCEPT)) == "SHARE_SESSION_NOT_FOUND"


async def test_acknowledgements_of_others_records_and_of_unknown_ones_are_refused(lab: ShareReaders) -> None:
    lab.append(2, 2)
    await lab.fetch("m", max_records=2)
    await lab.fetch("n")
    assert await lab.acknowledge("n", (0, 1, ACCEPT)) == "INVALID_RECORD_STATE"
    assert await lab.acknowledge("m", (0, 4, ACCEPT)) == "INVALID_REQUEST"
    assert await lab.acknowledge("m", (5, 6, ACCEPT)) == "INVALID_REQUEST"
    assert await lab.acknowledge("m", (0, 1, ACCEPT)) == "NONE"
    assert await lab.acknowledge("m", (0, 1, ACCEPT)) == "NONE", "what is below the window is done"


async def test_one_refused_batch_takes_back_all_of_its_partition(lab: ShareReaders) -> None:
    lab.append(2, 2)
    await lab.fetch("m", max_records=2)
    assert await lab.acknowledge("m", (0, 0, ACCEPT), (1, 3, ACCEPT)) == "INVALID_REQUEST"
    assert await lab.acknowledge("m", (0, 1, ACCEPT)) == "NONE"


async def test_the_limit_of_records_is_exact_only_where_that_is_asked_for(lab: ShareReaders) -> None:
    lab.append(5, 5)
    assert (await lab.fetch("m", max_records=3, share_acquire_mode=1)).acquired == [(0, 2, 1)]
    assert (await lab.fetch("n", max_records=3)).acquired == [(3, 4, 1), (5, 9, 1)]


async def test_acquired_ranges_are_cut_at_batches(lab: ShareReaders) -> None:
    lab.append(2, 2, 2, 2)
    assert (await lab.fetch(batch_size=3)).acquired == [(0, 3, 1), (4, 7, 1)]


async def test_a_full_window_gives_nothing_but_what_comes_again(lab: ShareReaders) -> None:
    await lab.set(share_partition_max_record_locks=100)
    lab.append(*[50] * 4)
    assert (await lab.fetch("m", max_records=50)).acquired == [(0, 49, 1)]
    assert (await lab.fetch("n")).acquired == [(50, 99, 1)]
    assert (await lab.fetch("o")).acquired == []
    assert await lab.acknowledge("n", (50, 99, RELEASE)) == "NONE"
    assert (await lab.fetch("o")).acquired == [(50, 99, 2)]
    assert await lab.acknowledge("m", (0, 49, ACCEPT)) == "NONE"
    assert (await lab.fetch("n")).acquired == [(100, 149, 1)]


async def test_a_batch_that_was_delivered_often_comes_in_pieces_and_alone(lab: ShareReaders) -> None:
    lab.append(8, 1)
    for count in (1, 2, 3):
        assert (await lab.fetch("m", max_records=8)).acquired == [(0, 7, count)]
        assert await lab.acknowledge("m", (0, 7, RELEASE)) == "NONE"
    assert (await lab.fetch("m")).acquired == [(0, 3, 4)]
    assert await lab.acknowledge("m", (0, 3, RELEASE)) == "NONE"
    assert (await lab.fetch("m")).acquired == [(0, 0, 5)], "the last attempt is of one record"
    assert await lab.acknowledge("m", (0, 0, RELEASE)) == "NONE"
    assert (await lab.fetch("m")).acquired == [(1, 1, 5)]


async def test_a_group_begins_where_it_is_told(lab: ShareReaders) -> None:
    lab.append(3)
    for group, reset, first in (("e", "earliest", 0), ("l", "latest", 3)):
        await lab.set(group, share_auto_offset_reset=reset)
        assert await lab.initialize(group, start_offset=-1) == "NONE"
        await lab.fetch(group, group=group)
        (led,) = lab.broker.services.share_partitions.of_group(group)
        assert led.window is not None
        assert led.window.start_offset == first


async def test_a_group_begins_so_long_ago(lab: ShareReaders) -> None:
    lab.append(2)
    await lab.clock.advance("1h")
    lab.append(2)
    await lab.set(share_auto_offset_reset="by_duration:PT10M")
    assert await lab.initialize(start_offset=-1, state_epoch=2) == "NONE"
    assert (await lab.fetch()).acquired == [(2, 3, 1)]


async def test_records_that_were_deleted_are_not_waited_for(lab: ShareReaders) -> None:
    lab.append(2, 2)
    await lab.fetch()
    partition = lab.broker.services.share_partitions.of_group("g")[0].partition
    partition.delete_records(3, lambda _: None)
    assert (await lab.fetch("n")).acquired == []
    assert await lab.acknowledge("m", (0, 3, ACCEPT)) == "NONE"
    assert lab.updates()[-1] == (3, 1, [(3, 3, 2, 1)])


async def test_after_a_restart_what_was_stored_holds_and_what_was_acquired_comes_again(
    make_share_readers: Callable[..., Awaitable[ShareReaders]],
) -> None:
    lab = await make_share_readers()
    await lab.initialize()
    lab.append(6)
    await lab.fetch()
    assert await lab.acknowledge("m", (0, 0, ACCEPT), (2, 2, ACCEPT), (3, 3, RELEASE)) == "NONE"
    await lab.broker.stop()
    again = await make_share_readers()
    assert (await again.fetch()).acquired == [(1, 1, 1), (3, 3, 2), (4, 5, 1)]


async def test_a_state_that_begins_anew_takes_the_place_of_the_one_in_use(lab: ShareReaders) -> None:
    lab.append(4)
    await lab.fetch()
    assert await lab.initialize(start_offset=2, state_epoch=2) == "NONE"
    assert await lab.acknowledge("m", (0, 3, ACCEPT)) == "NOT_LEADER_OR_FOLLOWER"
    assert (await lab.fetch("n")).acquired == [(2, 3, 1)]


async def test_records_of_transactions_come_as_the_group_is_set_to_read_them(lab: ShareReaders) -> None:
    await lab.set("c", share_isolation_level="read_committed")
    for group in ("c", "u"):
        await lab.initialize(group)
    lab.append(2, producer_id=7)
    lab.append(1)
    assert (await lab.fetch("u", group="u")).acquired == [(0, 2, 1)], "the transaction is open"
    assert (await lab.fetch("c", group="c")).acquired == []
    await lab.end_transaction(7, is_commit=False)
    lab.append(1, producer_id=8)
    await lab.end_transaction(8, is_commit=True)
    assert (await lab.fetch("c", group="c")).acquired == [(2, 5, 1)], "0 and 1 were aborted; 3 and 5 are markers"
    assert await lab.acknowledge("c", (2, 5, [ACCEPT, GAP, ACCEPT, GAP]), group_id="c") == "NONE"
    assert (2, 4, [(2, 2, 2, 1), (3, 3, 4, 1), (4, 4, 2, 1), (5, 5, 4, 1)]) in lab.updates()


async def test_a_fetch_of_no_records_and_a_nameless_group_do_no_harm(lab: ShareReaders) -> None:
    lab.append(1)
    assert (await lab.fetch(max_records=0, max_wait_ms=1 << 30)).acquired == []
    assert await lab.initialize("") == "INVALID_REQUEST"
    assert await lab.initialize("g" * 40_000) == "INVALID_REQUEST"


async def test_a_change_whose_write_is_tried_again_does_not_undo_a_later_one(
    lab: ShareReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.append(1, 1)
    await lab.fetch("m", max_records=1)
    await lab.fetch("n", max_records=1)
    coordinator = lab.broker.share_coordinator
    write, refused = coordinator.write, []

    async def refuse_once(key: SharePartitionKey, **fields: Any) -> None:
        if not refused:
            refused.append(key)
            raise CoordinatorLoadInProgress("the state is being loaded")
        await write(key, **fields)

    monkeypatch.setattr(coordinator, "write", refuse_once)
    first = asyncio.ensure_future(lab.acknowledge("m", (0, 0, ACCEPT)))
    second = asyncio.ensure_future(lab.acknowledge("n", (1, 1, ACCEPT)))
    await until_async(lambda: refused)
    await lab.advance(PAUSE_MS)
    assert (await first, await second) == ("NONE", "NONE")
    assert lab.updates()[-1] == (1, 1, [(1, 1, 2, 1)])


async def test_a_share_partition_whose_place_was_taken_writes_nothing_more(lab: ShareReaders) -> None:
    lab.append(1)
    await lab.fetch()
    share_partitions, written = lab.broker.services.share_partitions, lab.updates()
    former = share_partitions.open(SharePartitionKey("g", lab.topic_id, 0))
    share_partitions.drop(former)
    with pytest.raises(NotLeaderOrFollower):
        await former.acknowledge("m", [Acknowledgement(0, 0, [ACCEPT])])
    assert lab.updates() == written
    assert (await lab.fetch("n", max_wait_ms=60_000)).acquired == [(0, 0, 1)]
