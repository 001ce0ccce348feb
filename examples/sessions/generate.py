"""Events of users, and wishes to be forgotten, for pipeline.py: `python generate.py [--seed 1] [--users 50]`.

The same seed gives the same records. Events are sent in the order of their time, all but a few, which are late by less
than the pipeline waits. The last event is that of nobody, a day later: it tells the pipeline that the day is over.
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
NOBODY = ""
"""The user of the last event."""

Record = tuple[str, str, dict[str, str]]
"""Topic, key and value."""


def generate(seed: int, users: int, hours: float) -> list[Record]:
    """All records, in the order in which they are sent."""
    chance = random.Random(seed)
    sent: list[tuple[datetime, Record]] = []
    for number in range(users):
        user = f"user-{number}"
        for at in _times(chance, timedelta(hours=hours)):
            late = LATE * chance.random() if chance.random() < 0.05 else timedelta()
            sent.append((at + late, _record("events", user, at, action=chance.choice(ACTIONS))))
        if number % 5 == 0:
            at = START + timedelta(hours=hours) * chance.random()
            sent.append((at, _record("erasures", user, at)))
    sent.sort(key=lambda one: one[0])
    return [record for _, record in sent]


def closing() -> Record:
    """What ends the day: an event of nobody."""
    return _record("events", NOBODY, START + timedelta(days=1))


def _times(chance: random.Random, duration: timedelta) -> Iterator[datetime]:
    """When a user does something: some minutes in a row, then nothing for hours."""
    at = START + duration * chance.random() / 2
    while at < START + duration:
        for _ in range(chance.randint(1, 12)):
            yield at
            at += timedelta(seconds=chance.randint(1, 300))
        at += timedelta(minutes=chance.randint(35, 180))


def _record(topic: str, user: str, at: datetime, **more: str) -> Record:
    # Milliseconds are enough, and what every reader of JSON agrees on.
    return topic, user, {"user": user, **more, "at": at.isoformat(timespec="milliseconds")}


def main() -> None:
    from confluent_kafka import Producer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--bootstrap-server", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--hours", type=float, default=8.0)
    options = parser.parse_args()
    producer = Producer({"bootstrap.servers": options.bootstrap_server})
    records = [*generate(options.seed, options.users, options.hours), closing()]
    for topic, key, value in records:
        producer.produce(topic, key=key.encode(), value=json.dumps(value).encode())
    producer.flush()
    print(f"{len(records)} records")


if __name__ == "__main__":
    main()
