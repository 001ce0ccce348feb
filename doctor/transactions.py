"""Open transactions that hold back what consumers at read_committed may read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence

from kmini.client.errors import error_of
from kmini.doctor.asking import Brokers
from kmini.doctor.findings import Finding, command
from kmini.doctor.partitions import PartitionState, offsets_of
from kmini.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kmini.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kmini.protocol.topics import TopicPartition
from kmini.testkit.descriptions import OpenTransaction
from kmini.testkit.phrases import counted
from kmini.testkit.report.diagnoses import transaction_left_open
from kmini.testkit.report.facts import Facts, PartitionFacts

OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""The states of a transaction that has begun and not ended."""
SHOWN = 3
"""Most partitions of a finding that are named."""
LONG_MS = 5_000
"""Milliseconds for which a transaction is open when it is worth a warning."""
MOST_TRANSACTIONS = 1_000
"""Open transactions that are examined, at most."""


async def open_transactions(brokers: Brokers) -> list[OpenTransaction]:
    """The open transactions that coordinators tell, the oldest first. Their age is by the clock of this machine."""

    async def at(node_id: int) -> list[OpenTransaction]:
        listed: ListTransactionsResponse | None = await brokers.ask(
            node_id, ListTransactionsRequest(state_filters=[*OPEN]), "transactions"
        )
        if listed is None:
            return []
        error = error_of(listed.error_code)
        if error is not None:
            brokers.refused(error, "transactions", f"broker {node_id}")
        names = [one.transactional_id for one in listed.transaction_states][:MOST_TRANSACTIONS]
        if not names:
            return []
        described: DescribeTransactionsResponse | None = await brokers.ask(
            node_id, DescribeTransactionsRequest(transactional_ids=names), "transactions"
        )
        now_ms = time.time_ns() // 1_000_000
        return [
            OpenTransaction(
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                one.transaction_state,
                tuple(TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions),
                max(now_ms - one.transaction_start_time_ms, 0),
                one.transaction_timeout_ms,
            )
            for one in (described.transaction_states if described is not None else ())
            if not one.error_code and one.transaction_state in OPEN
        ]

    found = await asyncio.gather(*map(at, [*brokers.routes]))
    return sorted((one for some in found for one in some), key=lambda one: -one.age_ms)


def pinning(facts: Facts, partitions: Mapping[TopicPartition, PartitionFacts]) -> Iterator[Finding]:
    """Transactions that have been open for long, with the places where consumers wait behind them."""
    for one in facts.transactions:
        if one.age_ms < LONG_MS:
            continue
        sentence = transaction_left_open(facts._replace(transactions=(one,), topics=()))
        held = [
            f"{place} at {partitions[place].last_stable_offset}"
            for place in one.partitions
            if place in partitions and partitions[place].last_stable_offset < partitions[place].high_watermark
        ]
        pins = f" It pins {', '.join(held[:3])}." if held else ""
        ends = f" The broker aborts it when it is {one.timeout_ms / 1_000:g} s old."
        yield Finding(
            "transaction-left-open",
            f"{sentence}.{pins}{ends}",
            f"have its producer commit or abort; or: {command('txn', 'abort', one.transactional_id)}",
        )


async def unexplained(
    brokers: Brokers,
    transactions: Sequence[OpenTransaction],
    partitions: Mapping[TopicPartition, PartitionFacts],
    states: Sequence[PartitionState],
) -> list[Finding]:
    """Partitions whose last stable offset is behind and stays there, without an open transaction that a coordinator
    knows."""
    known = {place for one in transactions for place in one.partitions}
    suspects = [
        state
        for state in states
        if (one := partitions.get(state.place)) is not None
        and one.last_stable_offset < one.high_watermark
        and state.place not in known
    ]
    again = await offsets_of(brokers, suspects) if suspects else {}
    behind = [
        (place, one) for place, one in again.items() if one.last_stable_offset == partitions[place].last_stable_offset
    ]
    if not behind:
        return []
    places = [f"{place} at {one.last_stable_offset} of {one.high_watermark}" for place, one in behind[:SHOWN]]
    more = f" and {len(behind) - SHOWN} more" if len(behind) > SHOWN else ""
    place, one = behind[0]
    words = ("txn", "abort", "--partition", f"{place.topic}:{place.partition}", "--offset")
    return [
        Finding(
            "transaction-not-known",
            f"the last stable offset of {counted(len(behind), 'partition')} is behind ({', '.join(places)}{more}), "
            "and no coordinator tells an open transaction there: it is hidden from this user, or hangs",
            f"if it stays so: {command(*words, str(one.last_stable_offset))}",
        )
    ]
