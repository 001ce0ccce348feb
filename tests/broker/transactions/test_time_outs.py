"""Time-outs of transactions, and the expiry of transactional ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.transactions.transaction_states import COMPLETE_ABORT, ONGOING
from kmini.protocol.errors import ProducerFenced
from support.broker.transaction_bank import PARTITIONS, Bank

OpenBank = Callable[..., Awaitable[Bank]]

DAY_MS = 86_400_000


async def test_a_partition_that_is_added_late_does_not_renew_the_time_out(bank: Bank) -> None:
    producer = await bank.init(timeout_ms=60_000)
    await bank.begin(producer, PARTITIONS[0])
    began_ms, due_ms = bank.transaction().entry.start_ms, bank.coordinator.time_outs.next_time_out_ms()
    for partition in PARTITIONS[1:]:
        await bank.clock.advance(25_000, liveness=True)
        await bank.begin(producer, partition)
    assert (bank.transaction().entry.start_ms, bank.coordinator.time_outs.next_time_out_ms()) == (began_ms, due_ms)
    await bank.clock.advance(21_000, liveness=True)
    assert bank.state() is COMPLETE_ABORT


async def test_a_transaction_is_open_for_its_whole_time_out_and_no_longer(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bank.begin(await bank.init(timeout_ms=60_000))
    due_ms = bank.transaction().began_ms + 60_000
    for now_ms, state in ((due_ms, ONGOING), (due_ms + 1, COMPLETE_ABORT)):
        monkeypatch.setattr(bank.clock, "liveness_ms", lambda now_ms=now_ms: now_ms)
        await bank.coordinator.time_outs.abort_timed_out()
        await bank.a_few_turns()
        assert bank.state() is state


async def test_an_id_is_kept_for_its_whole_time_and_no_longer(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    await bank.init()
    due_ms = bank.coordinator.time_outs.next_id_expiry_ms()
    assert due_ms is not None
    for now_ms, ids in ((due_ms - 1, {"t"}), (due_ms, set())):
        monkeypatch.setattr(bank.clock, "now_ms", lambda now_ms=now_ms: now_ms)
        await bank.coordinator.time_outs.expire_ids()
        assert bank.coordinator.transactions.keys() == ids


async def test_a_transaction_beyond_its_timeout_is_aborted_and_its_owner_fenced(bank: Bank) -> None:
    slow, quick = await bank.init("slow", 60_000), await bank.init("quick", 900_000)
    await bank.begin(slow, name="slow")
    await bank.begin(quick, name="quick")
    bank.write(slow, b"a")
    await bank.clock.advance(50_000, liveness=True)
    assert bank.state("slow") is ONGOING
    await bank.clock.advance(21_000, liveness=True)
    assert bank.state("slow") is COMPLETE_ABORT
    assert bank.state("quick") is ONGOING
    with pytest.raises(ProducerFenced):
        await bank.end(slow, name="slow")
    assert bank.last_stable_offset() == 2
    assert [one.transactional_id for one in bank.coordinator.open_transactions()] == ["quick"]


async def test_a_week_of_log_time_aborts_nothing(bank: Bank) -> None:
    producer = await bank.init(timeout_ms=1000)
    await bank.begin(producer)
    await bank.clock.advance(7 * DAY_MS)
    assert bank.state() is ONGOING


async def test_forgotten_ids_stay_forgotten(open_bank: OpenBank) -> None:
    bank = await open_bank(transactional_id_expiration_ms=DAY_MS)
    await bank.init("old")
    await bank.clock.advance(DAY_MS - 1000)
    await bank.init("young")
    await bank.clock.advance(2 * 3_600_000)
    assert set(bank.coordinator.transactions) == {"young"}
    assert bank.stored("old")[-1] is None
    await bank.restart()
    assert set(bank.coordinator.transactions) == {"young"}


async def test_open_transactions_do_not_expire_with_their_id(open_bank: OpenBank) -> None:
    bank = await open_bank(transactional_id_expiration_ms=DAY_MS)
    producer = await bank.init()
    await bank.begin(producer)
    await bank.clock.advance(3 * DAY_MS)
    assert bank.state() is ONGOING
    await bank.end(producer)


async def test_what_falls_due_of_transactions_is_known_beforehand(bank: Bank) -> None:
    """So that a clock which is moved by a month does not look every ten seconds."""
    clock, time_outs = bank.clock, bank.coordinator.time_outs
    assert (time_outs.next_time_out_ms(), time_outs.next_id_expiry_ms()) == (None, None)
    producer = await bank.init(timeout_ms=60_000)
    expiry_ms = time_outs.next_id_expiry_ms()
    assert expiry_ms is not None
    assert expiry_ms - clock.now_ms() == pytest.approx(7 * DAY_MS, abs=60_000)
    await bank.begin(producer)
    due_ms = time_outs.next_time_out_ms()
    assert due_ms is not None
    assert due_ms - clock.liveness_ms() == pytest.approx(60_000, abs=30_000)
    assert time_outs.next_id_expiry_ms() is None, "while it is open"
    await clock.advance(80_000, liveness=True)
    assert (bank.state(), time_outs.next_time_out_ms()) == (COMPLETE_ABORT, None)
