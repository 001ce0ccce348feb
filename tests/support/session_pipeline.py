"""The pipeline of examples/sessions as tests run it, and its result in plain Python."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from support.running_pipeline import RunningPipeline, read_files

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sessions"
GAP = timedelta(minutes=30)


def generator() -> ModuleType:
    """The module generate.py of the example."""
    spec = spec_from_file_location("sessions_generator", EXAMPLE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Sessions(RunningPipeline):
    file = EXAMPLE / "pipeline.py"
    inputs: ClassVar[Mapping[str, int]] = {"events": 2, "erasures": 1}
    stages = ("sessionize", "profiles", "statistics")
    writes: ClassVar[Mapping[str, str]] = {"sessionize": "sessions", "profiles": "profiles", "statistics": "statistics"}
    purged: ClassVar[Mapping[str, tuple[str, ...]]] = {"sessions": ("profiles", "statistics")}

    def __init__(self, servers: str, directory: Path, seed: int = 1) -> None:
        made = generator()
        super().__init__(servers, directory, made.generate(seed, users=30, hours=6.0), [made.closing()])

    def check(self) -> None:
        check(self)


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def expected_sessions(records: list[Any]) -> dict[str, tuple[str, datetime, datetime, int]]:
    """By the session's name: user, begin, end and number of events, found in another way than Spark does."""
    times: dict[str, list[datetime]] = {}
    for topic, user, value in records:
        if topic == "events":
            times.setdefault(user, []).append(time_of(value["at"]))
    found = {}
    for user, events in times.items():
        events.sort()
        groups = [[events[0]]]
        for at in events[1:]:
            if at < groups[-1][-1] + GAP:
                groups[-1].append(at)
            else:
                groups.append([at])
        for group in groups:
            name = sha256(f"{user} {round(group[0].timestamp() * 1000)}".encode()).hexdigest()
            found[name] = (user, group[0], group[-1] + GAP, len(group))
    return found


def expected_profiles(records: list[Any]) -> dict[str, dict[str, Any] | None]:
    facts: dict[str, tuple[datetime, dict[str, Any] | None]] = {}
    for user, began, ended, events in expected_sessions(records).values():
        fact = (ended, {"last_session": began, "events": events})
        facts[user] = max(facts.get(user, fact), fact, key=lambda one: one[0])
    for topic, user, value in records:
        if topic == "erasures" and time_of(value["at"]) >= facts.get(user, (time_of(value["at"]),))[0]:
            facts[user] = (time_of(value["at"]), None)
    return {user: profile for user, (_, profile) in facts.items()}


def utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc)


def read_profiles(servers: str) -> dict[str, dict[str, Any] | None]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "looks", "enable.auto.commit": False, "log_level": "2"}
    )
    found: dict[str, dict[str, Any] | None] = {}
    try:
        for number in range(2):
            place = TopicPartition("profiles", number, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            deadline = time.monotonic() + 60
            while (missing := end - max(0, consumer.position([place])[0].offset)) > 0:
                assert time.monotonic() < deadline
                # A consumer that is asked for more than there is waits out its half second.
                for record in consumer.consume(min(missing, 500), 0.5):
                    assert record.error() is None
                    value = record.value()
                    key = record.key()
                    assert key is not None
                    found[key.decode()] = None if value is None else json.loads(value)
    finally:
        consumer.close()
    for profile in found.values():
        if profile is not None:
            profile["last_session"] = time_of(profile["last_session"])
    return found


def check(world: Sessions) -> None:
    """Every event is accounted for, and everything consumed is gone."""
    bounds = world.bounds("sessions")
    assert all(start == end > 0 for start, end in bounds), f"not purged to the end: {bounds}"
    check_output(world)


def check_output(world: Sessions) -> None:
    """Every event is accounted for."""
    sessions = expected_sessions(world.records)
    rows = read_files(world.directory / "statistics")
    bounds = world.bounds("sessions")
    places = [(row["partition"], row["offset"]) for row in rows]
    assert sorted(places) == [(number, offset) for number, (_, end) in enumerate(bounds) for offset in range(end)]
    found: dict[str, tuple[datetime, datetime, int]] = {}
    for row in rows:
        told = (utc(row["began"]), utc(row["ended"]), row["events"])
        assert found.setdefault(row["session"], told) == told, "a session came twice, and differently"
    assert found == {name: (began, ended, events) for name, (_, began, ended, events) in sessions.items()}
    assert sum(events for _, _, events in found.values()) == sum(topic == "events" for topic, _, _ in world.records)
    assert read_profiles(world.servers) == expected_profiles(world.records)
