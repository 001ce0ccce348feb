"""The purge rule, with consumers and a broker that say what a test wants them to say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from kmini.pipeline.admin import AdminError, DeletedRecords
from kmini.pipeline.stages import purge
from kmini.pipeline.stages.purge import GroupConsumer, Purger, StageConsumer, TopicConsumer, TopicPurge
from kmini.pipeline.stages.spark_checkpoint import LocalFiles, read_planned

Offsets = dict[tuple[str, int], int]


class Broker:
    """Deletes records, and refuses to."""

    def __init__(self, end: int = 1000) -> None:
        self.end = end
        self.starts: Offsets = {}
        self.requests: list[Offsets] = []
        self.refusal: AdminError | None = None
        self.refused: set[int] = set()
        self.commits: dict[str, dict[int, int]] = {}
        self.fault: AdminError | None = None

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        if self.fault is not None:
            raise self.fault
        return dict.fromkeys(range(partitions), self.end)

    def delete_before(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], DeletedRecords]:
        self.requests.append(dict(offsets))
        return {partition: self._delete(partition, offset) for partition, offset in offsets.items()}

    def _delete(self, partition: tuple[str, int], offset: int) -> DeletedRecords:
        if self.refusal is not None and (not self.refused or partition[1] in self.refused):
            return DeletedRecords(None, self.refusal)
        if offset > self.end:
            return DeletedRecords(None, AdminError("OFFSET_OUT_OF_RANGE", "Offset out of range", "t-0"))
        self.starts[partition] = max(offset, self.starts.get(partition, 0))
        return DeletedRecords(self.starts[partition])

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        if group not in self.commits:
            raise AdminError("GROUP_AUTHORIZATION_FAILED", f"group {group}: Group authorization failed")
        return {number: offset for number, offset in self.commits[group].items() if number in partitions}


class Reader:
    """A consumer that has processed what it is told to say."""

    def __init__(self, name: str, **offsets: int) -> None:
        self.name = name
        self.offsets = {int(partition[1:]): offset for partition, offset in offsets.items()}
        self.made_durable = 0
        self.fault: Exception | None = None

    def processed(self, topic: str) -> Mapping[int, int]:
        return self.offsets

    def look_again(self) -> None:
        """It is asked each time."""

    def make_durable(self) -> None:
        if self.fault is not None:
            raise self.fault
        self.made_durable += 1


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def topic(*consumers: TopicConsumer, partitions: int = 2) -> TopicPurge:
    return TopicPurge("t", range(partitions), consumers)


def test_a_partition_is_purged_up_to_the_consumer_that_is_furthest_behind(broker: Broker) -> None:
    purged = topic(Reader("fast", p0=90, p1=40), Reader("slow", p0=50, p1=70))
    assert Purger(broker, [purged]).purge() == 2
    assert broker.starts == {("t", 0): 50, ("t", 1): 40}
    assert purged.low_watermarks == {0: 50, 1: 40}


def test_a_consumer_that_has_said_nothing_about_a_partition_keeps_it(broker: Broker) -> None:
    purged = topic(Reader("stage a", p0=90, p1=40), Reader("group b", p1=40))
    Purger(broker, [purged]).purge()
    assert broker.starts == {("t", 1): 40}
    assert purged.waits_for == {0: "group b"}


def test_a_topic_without_consumers_is_never_purged(broker: Broker) -> None:
    assert Purger(broker, [topic()]).purge() == 0
    assert broker.requests == []


def test_what_was_purged_is_not_asked_for_again(broker: Broker) -> None:
    reader = Reader("a", p0=50, p1=0)
    purger = Purger(broker, [topic(reader)])
    purger.purge()
    purger.purge()
    reader.offsets[1] = 10
    purger.purge()
    assert broker.requests == [{("t", 0): 50}, {("t", 1): 10}]


def test_a_consumer_that_goes_back_brings_nothing_back_and_purges_nothing(broker: Broker) -> None:
    reader = Reader("a", p0=50)
    purged = topic(reader, partitions=1)
    purger = Purger(broker, [purged])
    purger.purge()
    reader.offsets = {0: 20}
    assert purger.purge() == 0
    assert purged.low_watermarks == {0: 50}


def test_a_log_that_begins_beyond_what_was_asked_for_is_purged_enough(broker: Broker) -> None:
    """Retention deletes too."""
    broker.starts["t", 0] = 70
    purged = topic(Reader("a", p0=50), partitions=1)
    assert Purger(broker, [purged]).purge() == 1
    assert purged.low_watermarks == {0: 70}
    assert purged.problem == ""


def test_a_refusal_is_told_and_tried_again_later_and_later(broker: Broker, clock: Clock) -> None:
    purged = topic(Reader("a", p0=50), partitions=1)
    purger = Purger(broker, [purged], now=clock)
    broker.refusal = AdminError("TOPIC_AUTHORIZATION_FAILED", "t-0: Topic authorization failed")
    for tries in (1, 2, 3):
        assert purger.purge() == 0
        assert purger.purge() == 0
        assert len(broker.requests) == tries
        assert "TOPIC_AUTHORIZATION_FAILED" in purged.problem
        clock.now = purged.retry_at
    broker.refusal = None
    assert purger.purge() == 1
    assert (purged.problem, purged.refusals) == ("", 0)


def test_pauses_after_refusals_grow_up_to_a_bound(broker: Broker, clock: Clock) -> None:
    purged = topic(Reader("a", p0=50), partitions=1)
    purger = Purger(broker, [purged], now=clock)
    broker.refusal = AdminError("REQUEST_TIMED_OUT", "t-0: no answer")
    pauses = []
    for _ in range(10):
        purger.purge()
        pauses.append(purged.retry_at - clock.now)
        clock.now = purged.retry_at
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (purge.FIRST_PAUSE_S, purge.LONGEST_PAUSE_S)


def test_a_refusal_of_one_partition_or_topic_is_none_of_another(broker: Broker, clock: Clock) -> None:
    broker.refusal, broker.refused = AdminError("NOT_LEADER_OR_FOLLOWER", "t-1: not the leader"), {1}
    first, second = topic(Reader("a", p0=50, p1=60)), TopicPurge("u", [0], [Reader("a", p0=5)])
    assert Purger(broker, [first, second], now=clock).purge() == 2
    assert broker.starts == {("t", 0): 50, ("u", 0): 5}
    assert "t-1 up to 60" in first.problem
    assert second.problem == ""


def test_an_offset_beyond_the_log_is_refused_and_explained(broker: Broker) -> None:
    broker.end = 10
    purged = topic(Reader("a", p0=50), partitions=1)
    Purger(broker, [purged]).purge()
    assert "OFFSET_OUT_OF_RANGE" in purged.problem
    assert "the log ends before what was processed" in purged.problem


def test_nothing_is_purged_before_what_was_made_of_it_is_durable(broker: Broker, clock: Clock) -> None:
    reader = Reader("a", p0=50)
    reader.fault = OSError("no space left")
    purged = topic(reader, partitions=1)
    purger = Purger(broker, [purged], now=clock)
    purger.purge()
    assert broker.requests == []
    assert "no space left" in purged.problem
    reader.fault, clock.now = None, purged.retry_at
    assert purger.purge() == 1
    assert reader.made_durable == 1


def plan(checkpoint: Path, batch_id: int, offset: int) -> None:
    (checkpoint / "offsets" / str(batch_id)).write_text(f'v1\n{{}}\n{{"t":{{"0":{offset}}}}}')


def commit(checkpoint: Path, batch_id: int) -> None:
    (checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")


def test_a_stage_has_processed_what_it_committed_and_not_what_it_planned(checkpoint: Path, broker: Broker) -> None:
    """The planted bug is to read `offsets/` alone. A driver that is killed between the two would go on with batch 1,
    from 50; purged up to 90, it could not."""
    purger = Purger(broker, [topic(StageConsumer("s", LocalFiles(checkpoint)), partitions=1)])
    plan(checkpoint, 0, 50)
    assert purger.purge() == 0
    commit(checkpoint, 0)
    plan(checkpoint, 1, 90)
    assert purger.purge() == 1
    assert broker.starts == {("t", 0): 50}
    planned = read_planned(LocalFiles(checkpoint))
    assert planned is not None
    assert planned.offsets == {("t", 0): 90}  # what the bug would purge
    commit(checkpoint, 1)
    purger.purge()
    assert broker.starts == {("t", 0): 90}


def test_a_checkpoint_that_is_not_understood_stops_its_purges_only(checkpoint: Path, broker: Broker) -> None:
    plan(checkpoint, 0, 50)
    (checkpoint / "commits" / "0").write_text("v9\n{}")
    purged = topic(StageConsumer("s", LocalFiles(checkpoint)), partitions=1)
    other = TopicPurge("u", [0], [Reader("a", p0=5)])
    Purger(broker, [purged, other]).purge()
    assert "commits/0 begins with b'v9'" in purged.problem
    assert broker.starts == {("u", 0): 5}


def test_a_checkpoint_is_synced_once_a_commit_before_its_purge(checkpoint: Path, broker: Broker) -> None:
    synced: list[int] = []
    consumer = StageConsumer("s", LocalFiles(checkpoint), lambda: synced.append(len(broker.requests)))
    purger = Purger(broker, [topic(consumer, partitions=1), TopicPurge("u", [0], [Reader("a", p0=5)])])
    for batch_id in range(3):
        plan(checkpoint, batch_id, 10 * (batch_id + 1))
        commit(checkpoint, batch_id)
        purger.purge()
        purger.purge()
    assert synced == [0, 2, 3]  # there is one request of the other topic, after the first


def test_a_group_is_waited_for_where_it_has_committed_nothing(broker: Broker, clock: Clock) -> None:
    broker.commits["billing"] = {0: 30}
    purged = topic(Reader("stage s", p0=50, p1=60), GroupConsumer("billing", [0, 1], broker, now=clock))
    Purger(broker, [purged], now=clock).purge()
    assert broker.starts == {("t", 0): 30}
    assert purged.waits_for == {1: "group billing"}


def test_a_group_that_goes_on_has_more_purged(broker: Broker, clock: Clock) -> None:
    broker.commits["billing"] = {0: 30}
    purger = Purger(
        broker, [topic(Reader("s", p0=50), GroupConsumer("billing", [0], broker, now=clock), partitions=1)], now=clock
    )
    purger.purge()
    broker.commits["billing"] = {0: 45}
    clock.now += purge.ASK_GROUPS_EVERY_S
    purger.purge()
    assert broker.starts == {("t", 0): 45}


def test_a_group_that_cannot_be_asked_keeps_everything(broker: Broker, clock: Clock) -> None:
    purged = topic(Reader("s", p0=50), GroupConsumer("secret", [0], broker, now=clock), partitions=1)
    Purger(broker, [purged], now=clock).purge()
    assert broker.requests == []
    assert "GROUP_AUTHORIZATION_FAILED" in purged.problem


def stage_at(checkpoint: Path, committed: int) -> StageConsumer:
    """A stage that has processed so many records of t-0."""
    (checkpoint / "offsets" / "0").write_text(f'v1\n{{}}\n{{"t":{{"0":{committed}}}}}')
    (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return StageConsumer("s", LocalFiles(checkpoint))


def test_a_topic_has_room_while_it_holds_few_records(broker: Broker, checkpoint: Path) -> None:
    broker.end = 100
    purger = Purger(broker, [topic(stage_at(checkpoint, 0), partitions=1)])
    assert purger.has_room("t", 100)
    assert not purger.has_room("t", 99)
    assert purger.has_room("another", 0), "a topic that is not purged"


def test_a_topic_that_holds_too_many_records_is_purged_at_once(broker: Broker, checkpoint: Path) -> None:
    broker.end = 100
    purger = Purger(broker, [topic(stage_at(checkpoint, 60), partitions=1)])
    assert purger.has_room("t", 50)
    assert broker.starts == {("t", 0): 60}


@pytest.mark.parametrize("why", ["refused", "a group"])
def test_records_that_are_processed_and_kept_by_others_let_a_stage_write(
    broker: Broker, checkpoint: Path, why: str
) -> None:
    broker.end = 100
    consumers: list[TopicConsumer] = [stage_at(checkpoint, 60)]
    if why == "refused":
        broker.refusal = AdminError("POLICY_VIOLATION", "Policy violation", "t-0")
    else:
        broker.commits["g"] = {}
        consumers.append(GroupConsumer("g", [0], broker))
    purger = Purger(broker, [topic(*consumers, partitions=1)])
    assert purger.has_room("t", 40)
    assert not purger.has_room("t", 39)


def test_a_stage_that_began_at_the_end_of_a_topic_leaves_room_in_it(broker: Broker, checkpoint: Path) -> None:
    """As with startingOffsets=latest. It has no batch before there is something new."""
    broker.end = 100
    (checkpoint / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":100}}')
    purger = Purger(broker, [topic(StageConsumer("s", LocalFiles(checkpoint)), partitions=1)])
    assert purger.has_room("t", 10)


def test_where_room_cannot_be_known_a_stage_writes(broker: Broker, checkpoint: Path) -> None:
    broker.fault = AdminError("REQUEST_TIMED_OUT", "no answer")
    assert Purger(broker, [topic(stage_at(checkpoint, 0), partitions=1)]).has_room("t", 0)


class Taken:
    """Topics that another pipeline owns."""

    def other_owner(self, topic: str) -> str:
        return "pipeline 'other'"


def test_a_topic_that_another_pipeline_has_taken_over_is_not_purged(broker: Broker) -> None:
    purged = topic(Reader("a", p0=50), partitions=1)
    assert Purger(broker, [purged], ownership=Taken()).purge() == 0
    assert broker.requests == []
    assert purged.problem == "pipeline 'other' has taken it over"


class Counted:
    """A checkpoint elsewhere, which counts how often its commits are looked at."""

    def __init__(self, checkpoint: Path) -> None:
        self._files = LocalFiles(checkpoint)
        self.looks = 0

    def names(self, folder: str) -> list[str]:
        self.looks += folder == "commits"
        return self._files.names(folder)

    def read(self, name: str) -> bytes:
        return self._files.read(name)


def test_a_checkpoint_elsewhere_is_looked_at_once_a_second_and_at_the_end(
    broker: Broker, checkpoint: Path, clock: Clock
) -> None:
    stage_at(checkpoint, 60)
    files = Counted(checkpoint)
    purger = Purger(broker, [topic(StageConsumer("s", files, now=clock), partitions=1)], now=clock)
    purger.purge()
    assert broker.starts == {("t", 0): 60}
    looks = files.looks
    for _ in range(20):
        purger.purge()
    assert files.looks == looks
    clock.now += purge.LOOK_ELSEWHERE_EVERY_S
    purger.purge()
    assert files.looks == looks + 1
    purger.purge(at_once=True)
    assert files.looks == looks + 2
