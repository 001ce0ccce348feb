"""One step of a member of a streams group: its topology and its tasks, and the statuses that it is told."""

from __future__ import annotations

from kmini.broker.groups.streams.tasks import Duties
from support.broker.streams_lab import COUNTS_T, StreamsLab, subtopology, topology


async def test_a_member_with_an_older_topology_is_told_and_one_with_another_is_refused(
    quick_lab: StreamsLab,
) -> None:
    lab = quick_lab
    await lab.join("m1", topology(subtopology("0", "t"), epoch=3))
    stale = await lab.join("m2", topology(subtopology("0", "u"), epoch=2))
    assert (stale.error, stale.statuses) == ("NONE", ["STALE_TOPOLOGY"])
    assert (await lab.join("m3", topology(subtopology("0", "t"), epoch=4))).error == "INVALID_REQUEST"
    assert (await lab.join("m3", topology(subtopology("0", "u"), epoch=3))).error == "INVALID_REQUEST"
    assert (await lab.join("m3", topology(subtopology("0", "t"), epoch=3))).statuses == []


async def test_a_task_that_the_topology_does_not_have_is_an_invalid_request(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m")
    for owned in (Duties({"9": [0]}), Duties({"0": [4]}), Duties({}, {"0": [-1]})):
        assert (await lab.beat("m", 2, owned=owned)).error == "INVALID_REQUEST"
    assert (await lab.beat("m", 2, owned=Duties({"0": [3]}))).error == "NONE"


async def test_missing_source_topics_are_told_until_they_exist(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    answer = await lab.join("m", topology(subtopology("0", "t", "late")))
    assert (answer.statuses, answer.active, lab.state) == (["MISSING_SOURCE_TOPICS"], {}, "NotReady")
    assert "late" in answer.details[0]
    lab.add_topics("late", partitions=6)
    answer = await lab.beat("m", 2)
    assert (answer.statuses, answer.active, lab.state) == ([], {"0": [0, 1, 2, 3, 4, 5]}, "Stable")


async def test_an_internal_topic_of_another_size_is_told(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    lab.add_topics("counts", partitions=3)
    assert (await lab.join("m", COUNTS_T)).statuses == ["INCORRECTLY_PARTITIONED_TOPICS"]
    assert lab.state == "NotReady"


async def test_tasks_are_taken_when_a_source_topic_goes(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m")
    lab.delete_topic("t")
    answer = await lab.beat("m", 2, owned=Duties({"0": [0, 1, 2, 3]}))
    assert (answer.statuses, answer.active, lab.state) == (["MISSING_SOURCE_TOPICS"], {}, "NotReady")
    answer = await lab.beat("m", 2, owned=Duties())
    assert answer.epoch == 3


async def test_partitions_that_a_source_topic_gets_are_in_the_way_of_its_changelog(
    quick_lab: StreamsLab,
) -> None:
    lab = quick_lab
    await lab.join("m", COUNTS_T)
    await lab.beat("m", 2)
    await lab.add_partitions("t", 1)
    assert (await lab.beat("m", 3)).statuses == ["INCORRECTLY_PARTITIONED_TOPICS"]
