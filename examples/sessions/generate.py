"""Events of users, and erasure requests, for pipeline.py: `python generate.py [--seed 1] [--users 50] [--day 0]`.

The same seed gives the same records. Events are sent in the order of their time, except a few, which are late by less
than the pipeline waits. The last event has no user and comes a day later: it moves the watermark past all sessions. So
events of the same day that are sent again are late, and dropped; `--day 1` makes those of the next day.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

START = datetime(2026, 1, 31, 8, tzinfo=timezone.utc)
ACTIONS = ("open", "search", "look", "buy")
LATE = timedelta(minutes=4)
NO_USER = ""
"""The user of the last event."""

Record = tuple[str, str, dict[str, str]]
"""Topic, key and value."""


def generate(seed: int, users: int, hours: float, day: int = 0) -> list[Record]:
    """All records of a day, in the order in which they are sent."""
    chance = random.Random(seed)
    start = START + timedelta(days=day)
    sent: list[tuple[datetime, Record]] = []
    for number in range(users):
        user = f"user-{number}"
        for at in _times(chance, start, timedelta(hours=hours)):
            late = LATE * chance.random() if chance.random() < 0.05 else timedelta()
            sent.append((at + late, _record("events", user, at, action=chance.choice(ACTIONS))))
        if number % 5 == 0:
            at = start + timedelta(hours=hours) * chance.random()
            sent.append((at, _record("erasures", user, at)))
    sent.sort(key=lambda one: one[0])
    return [record for _, record in sent]


def closing(day: int = 0) -> Record:
    """The event without a user that ends the day."""
    return _record("events", NO_USER, START + timedelta(days=day + 1))


def _times(chance: random.Random, start: datetime, duration: timedelta) -> Iterator[datetime]:
    """The times of a user's events: some minutes in a row, then a pause of hours."""
    at = start + duration * chance.random() / 2
    while at < start + duration:
        for _ in range(chance.randint(1, 12)):
            yield at
            at += timedelta(seconds=chance.randint(1, 300))
        at += timedelta(minutes=chance.randint(35, 180))


def _record(topic: str, user: str, at: datetime, **more: str) -> Record:
    # Milliseconds are enough, and every reader of JSON agrees on them.
    return topic, user, {"user": user, **more, "at": at.isoformat(timespec="milliseconds")}


def main() -> None:
    from confluent_kafka import Producer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--bootstrap-server", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--day", type=int, default=0, help="days after the first one, 2026-01-31")
    options = parser.parse_args()
    producer = Producer({"bootstrap.servers": options.bootstrap_server})
    records = [*generate(options.seed, options.users, options.hours, options.day), closing(options.day)]
    for topic, key, value in records:
        producer.produce(topic, key=key.encode(), value=json.dumps(value).encode())
    producer.flush()
    print(f"{len(records)} records of {START + timedelta(days=options.day):%Y-%m-%d} are sent.")
    print(f"Sent again, they are late and dropped: --day {options.day + 1} makes those of the next day.")


if __name__ == "__main__":
    main()
