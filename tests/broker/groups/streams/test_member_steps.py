"""One step of a member of a streams group: the topology that it brings."""

from __future__ import annotations

from support.broker.streams_lab import StreamsLab, subtopology, topology


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
