"""The pipeline of paid_orders.py as tests run it, and its result in plain Python."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import ClassVar, NamedTuple

from support.running_pipeline import RunningPipeline, Sent, read_files

START = datetime(2026, 3, 1, 8, tzinfo=timezone.utc)
PAID_WITHIN = timedelta(hours=1)


class Total(NamedTuple):
    orders: int
    paid: int
    cents: int


def generate(seed: int) -> list[Sent]:
    """Orders, one a minute, and payments: some in time, some too late, some orders have none."""
    chance = random.Random(seed)
    sent: list[tuple[datetime, Sent]] = []
    for number in range(300):
        at = START + timedelta(minutes=number)
        name, customer = f"order-{number}", f"customer-{chance.randrange(20)}"
        sent.append((at, ("orders", name, {"order": name, "customer": customer, "at": at.isoformat()})))
        if chance.random() < 0.8:
            paid_at = at + PAID_WITHIN * chance.uniform(0, 1.4)
            cents = chance.randint(1, 10_000)
            sent.append((paid_at, ("payments", name, {"paid": name, "cents": cents, "paid_at": paid_at.isoformat()})))
    sent.sort(key=lambda one: one[0])
    return [record for _, record in sent]


def closing() -> list[Sent]:
    at = (START + timedelta(days=2)).isoformat()
    order = ("orders", "last", {"order": "last", "customer": "", "at": at})
    return [order, ("payments", "other", {"paid": "other", "cents": 1, "paid_at": at})]


def expected(records: list[Sent]) -> dict[str, Total]:
    """The totals of each customer."""
    payments = {value["paid"]: value for topic, _, value in records if topic == "payments"}
    found: dict[str, Total] = {}
    for topic, name, order in records:
        if topic == "orders":
            orders, paid, cents = found.get(order["customer"], Total(0, 0, 0))
            payment = payments.get(name)
            since = (
                datetime.fromisoformat(payment["paid_at"]) - datetime.fromisoformat(order["at"]) if payment else None
            )
            if payment and since is not None and since <= PAID_WITHIN:
                paid, cents = paid + 1, cents + payment["cents"]
            found[order["customer"]] = Total(orders + 1, paid, cents)
    return found


class Orders(RunningPipeline):
    file = Path(__file__).with_name("paid_orders.py")
    inputs: ClassVar[Mapping[str, int]] = {"orders": 2, "payments": 2}
    stages = ("join", "totals", "ledger")
    writes: ClassVar[Mapping[str, str]] = {"join": "outcomes", "totals": "totals", "ledger": "ledger"}
    purged: ClassVar[Mapping[str, tuple[str, ...]]] = {"outcomes": ("totals",), "totals": ("ledger",)}

    def __init__(self, servers: str, directory: Path, seed: int = 1) -> None:
        super().__init__(servers, directory, generate(seed), closing())

    def check(self) -> None:
        rows = read_files(self.directory / "ledger")
        for topic in self.purged:
            assert all(start == end > 0 for start, end in self.bounds(topic)), f"not purged to the end: {self.said()}"
        places = [(row["partition"], row["offset"]) for row in rows]
        ends = [end for _, end in self.bounds("totals")]
        assert sorted(places) == [(number, offset) for number, end in enumerate(ends) for offset in range(end)]
        last: dict[str, Total] = {}
        for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
            last[row["customer"]] = Total(row["orders"], row["paid"], row["cents"])
        assert last == expected(self.records)
