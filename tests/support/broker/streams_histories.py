"""Histories of a streams group: clients that join, leave, crash and lose answers, and which tasks each of them has.

A client has the tasks that it was answered until it reports otherwise, as Kafka Streams does: it is told fewer tasks,
closes those that are missing, and then reports what it has. When it is fenced it gives up everything, and joins again;
so it does after an answer that was lost, because a coordinator, Kafka's too, tells tasks again to members that join
only. Two clients are of one process.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Any

from kmini.broker.groups.streams.tasks import Duties, Task, each_task
from support.broker.group_histories import Client, GroupHistory
from support.broker.streams_lab import StreamsAnswer, StreamsLab, subtopology, topology

PROCESSES = ("p0", "p0", "p1", "p2", "p3")
TOPOLOGY = topology(subtopology("0", "t", writes=["r"]), subtopology("1", through={"r": 3}, keeps=["c"]))
TASKS = {("0", number) for number in range(4)} | {("1", number) for number in range(3)}
STATEFUL = {task for task in TASKS if task[0] == "1"}


class Report(Enum):
    """What a heartbeat says of the tasks that the client has."""

    NOTHING = "nothing"
    ALL = "all that it has: it has not closed what it was asked to"
    GIVEN_UP = "what it was told to have: it has closed the rest"


class Thread(Client):
    """One thread of an instance of Kafka Streams; its member id changes with every start."""

    def __init__(self, history: StreamsHistory, number: int) -> None:
        self._history = history
        self._lab = history.lab
        self._number = number
        self._starts = 0
        self.is_running = False
        self.is_member = False
        """Whether it has joined, as it sees it."""
        self.epoch = 0
        self.told = Duties()
        """The tasks that it was answered last."""
        self.active: set[Task] = set()
        """The tasks that it has active: all that it was answered, and has not reported to have given up."""
        self.standby: set[Task] = set()

    @property
    def member_id(self) -> str:
        return f"c{self._number}-{self._starts}"

    @property
    def share(self) -> object:
        return self.told

    @property
    def process(self) -> str:
        return PROCESSES[self._number]

    async def join(self) -> None:
        """Start the client if it does not run, and join; a member joins again."""
        if not self.is_running:
            self._starts += 1
            self.is_running = True
        self._give_up_all()
        await self.beat()

    async def leave(self) -> None:
        if self.is_member:
            self._give_up_all()
            await self._lab.leave(self.member_id)
        self.crash()

    def crash(self) -> None:
        """End the client without a word."""
        self.is_running = False
        self._give_up_all()

    async def beat(self, report: Report = Report.GIVEN_UP, *, is_answered: bool = True) -> None:
        """Send a heartbeat. Without `is_answered` the connection breaks before the answer comes."""
        if not self.is_running:
            return
        answer = await (self._send(report) if self.is_member else self._send_join())
        if not is_answered:
            self._give_up_all()
        elif answer.error not in ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"):
            self._take(answer)

    def _send_join(self) -> Any:
        return self._lab.join(self.member_id, TOPOLOGY, process_id=self.process)

    def _send(self, report: Report) -> Any:
        if report is Report.GIVEN_UP:
            self.active, self.standby = set(each_task(self.told.active)), set(each_task(self.told.standby))
        owned = None if report is Report.NOTHING else Duties(_grouped(self.active), _grouped(self.standby))
        return self._lab.beat(self.member_id, self.epoch, owned=owned)

    def _take(self, answer: StreamsAnswer) -> None:
        match answer.error:
            case "NONE":
                self.is_member, self.epoch = True, answer.epoch
                if answer.active is not None and answer.standby is not None:
                    self.told = Duties(answer.active, answer.standby)
                    self._history.check_free(self)
                    self.active |= set(each_task(self.told.active))
                    self.standby |= set(each_task(self.told.standby))
            case "FENCED_MEMBER_EPOCH" | "UNKNOWN_MEMBER_ID":
                self._give_up_all()
            case error:
                raise AssertionError(f"{self.member_id}: {error}: {answer.message}")

    def _give_up_all(self) -> None:
        self.is_member, self.epoch, self.told = False, 0, Duties()
        self.active, self.standby = set(), set()


class StreamsHistory(GroupHistory[StreamsLab, Thread]):
    """Threads of Kafka Streams of one group, and the steps that they take."""

    _standby_count = 0

    def _client(self, number: int) -> Thread:
        return Thread(self, number)

    def _begin(self) -> None:
        self.lab.add_topics("t")

    # --- steps

    async def _join(self, number: int) -> None:
        await self.clients[number].join()

    async def _standbys(self, count: int) -> None:
        self._standby_count = count
        await self.lab.set_group_config("streams.num.standby.replicas", str(count))

    # --- what holds

    def check_free(self, client: Thread) -> None:
        """No other client that is a member has active what this one is told, and none of its process has it at all."""
        members = self.lab.group.memberships
        active, standby = set(each_task(client.told.active)), set(each_task(client.told.standby))
        assert not active & standby
        for other in self.clients:
            if other is client or other.member_id not in members:
                continue
            assert not other.active & (active - client.active), f"{client.member_id}, {other.member_id}"
            if other.process == client.process:
                both = (other.active | other.standby) & ((active - client.active) | (standby - client.standby))
                assert not both, f"{client.member_id} and {other.member_id} of one process: {both}"

    def _check_owners(self) -> None:
        """No task is active twice, and no process has a task twice, as the coordinator sees it."""
        if "g" not in self.lab.groups.groups:
            return
        active: Counter[Task] = Counter()
        of_process: Counter[tuple[str, Task]] = Counter()
        for member_id, current in self.lab.group.currents.items():
            process = self.lab.group.memberships[member_id].process_id
            for duties in (current.assigned, current.revoking):
                active.update(each_task(duties.active))
                of_process.update((process, task) for tasks in duties for task in each_task(tasks))
        assert all(count == 1 for count in active.values()), active
        assert all(count == 1 for count in of_process.values()), of_process

    def _check_settled(self, running: list[Thread]) -> None:
        active = [set(each_task(client.told.active)) for client in running]
        assert Counter(task for tasks in active for task in tasks) == Counter(TASKS)
        processes = {client.process for client in running}
        copies = min(self._standby_count, len(processes) - 1)
        standby = Counter(task for client in running for task in each_task(client.told.standby))
        assert standby == Counter(dict.fromkeys(STATEFUL, copies) if copies else {})
        if len(processes) == len(running) and not copies:
            sizes = [len(tasks) for tasks in active]
            assert max(sizes) - min(sizes) <= 1
        for client in running:
            assert client.told == self.lab.tasks_of(client.member_id)


def _grouped(tasks: set[Task]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        grouped.setdefault(subtopology_id, []).append(partition)
    return grouped
