"""Topics, settings, rules and producer ids survive whatever happens to the disk: all that was answered, at most the
change besides that was being made, and nothing that was refused before an answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.controller.controller import (
    PRODUCER_ID_BLOCK,
    BrokerRegistration,
    Controller,
    ControllerError,
    PartitionState,
    Topic,
)
from kmini.broker.controller.database import read_database
from kmini.broker.security.acls import AclBinding
from kmini.broker.security.delegation_tokens import DelegationToken
from kmini.broker.security.resources import Principal
from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.scram import ScramCredential
from kmini.storage.filenames import DATABASE
from kmini.storage.filesystem.faults import PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support import sqlite_databases

PATH = f"/data/{DATABASE}"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

Change = Callable[[Controller], None]
Facts = tuple[Any, ...]


def facts(controller: Controller) -> Facts:
    """Everything that a restart has to bring back, but for producer ids."""
    return (
        controller.cluster_id,
        controller.topics,
        controller.deleted_topics(1),
        {name: controller.broker_configs(name) for name in ("", "1", "2") if controller.broker_configs(name)},
        controller.group_configs,
        controller.client_quotas,
        {rule for rule in RULES if rule in controller.acls},
        controller.scram_credentials,
        controller.delegation_tokens,
        dict(controller.feature_levels),
        controller.features_epoch,
    )


class Machine:
    """A controller on a disk, and the changes that its clients were answered."""

    def __init__(self) -> None:
        self.filesystem = MemoryFileSystem()
        self.answered: list[Change] = []
        self.unanswered: Change | None = None
        """The last change, if it was refused or never answered."""
        self.producer_ids: list[int] = []
        self.initial: dict[str, bytes] = {}
        """Files that are there before the first start, by path."""
        self.controller: Controller

    def put(self, path: str, content: bytes) -> None:
        self.initial[path] = content
        self.filesystem.make_directory("/data")
        file = self.filesystem.open(path, create=True)
        file.append(content)
        file.sync()
        file.close()
        self.filesystem.sync_directory("/data")
        self.filesystem.sync_directory("/")

    def start(self) -> None:
        self.controller = start(self.filesystem)

    def restart(self) -> None:
        """A shutdown in order and a start; a second one if the disk refuses in the first."""
        self.controller.close()
        try:
            self.start()
        except OSError:
            self.start()

    def ask(self, *changes: Change) -> None:
        for change in changes:
            self.unanswered = change
            with contextlib.suppress(KafkaStorageError):
                change(self.controller)
                self.answered.append(change)
                self.unanswered = None

    def ask_for_producer_ids(self, count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(KafkaStorageError):
                self.producer_ids.append(self.controller.next_producer_id())

    def check(self) -> None:
        """What the disk has is what was answered, with or without the last change; and the next changes can be made."""
        found = facts(self.controller)
        expected = [self._after(self.answered)]
        if self.unanswered is not None:
            expected.append(self._after([*self.answered, self.unanswered]))
        assert found in expected, f"found {found}, expected one of {expected}"
        producer_id = self.controller.next_producer_id()
        assert producer_id > max(self.producer_ids, default=-1), "a producer id is given out twice"
        self.controller.set_broker_configs("2", {"afterwards": "1"})
        found = facts(self.controller)
        self.filesystem = self.filesystem.crash(seed=len(self.answered))
        self.start()
        assert facts(self.controller) == found
        assert self.controller.next_producer_id() > producer_id

    def _after(self, changes: list[Change]) -> Facts:
        """The facts that these changes make, on a disk without faults."""
        twin = Machine()
        for path, content in self.initial.items():
            twin.put(path, content)
        twin.start()
        for change in changes:
            change(twin.controller)
        return facts(twin.controller)


def start(filesystem: MemoryFileSystem) -> Controller:
    controller = Controller.open("/data", node_ids=[1, 2, 3], cluster_id=CLUSTER_ID, filesystem=filesystem)
    for node_id in sorted(controller.node_ids):
        controller.register(BrokerRegistration(node_id))
    return controller


Story = Callable[[Machine], None]


@pytest.fixture
def survive(survive_from: Callable[..., int]) -> Callable[..., int]:
    """`survive_from` for a controller, after a story that nothing disturbs."""

    def run(story: Story, *, before: Story = Machine.start) -> int:
        def begin() -> Machine:
            machine = Machine()
            before(machine)
            return machine

        return survive_from(begin, story)

    return run


# --- changes: always the same, so that a twin of the machine can make them too


ORDERS = Topic("orders", bytes(range(1, 17)), (PartitionState((1,), (1,), 1),) * 3, {"retention.ms": "5"})
USERS = Topic("users", bytes(range(2, 18)), (PartitionState((1, 2), (1, 2), 1),), {})
RULES = [AclBinding(2, 3, f"topic-{number}", "User:alice", "*", 3, 3) for number in range(3)]
ALICE, BOB = ("alice", 1), ("bob", 2)


def create(*topics: Topic) -> Change:
    return lambda controller: controller.create_topics([topic for topic in topics if not controller.topic(topic.name)])


def delete(name: str) -> Change:
    def change(controller: Controller) -> None:
        if topic := controller.topic(name):
            controller.delete_topics([topic])

    return change


def configure(name: str, configs: dict[str, str]) -> Change:
    def change(controller: Controller) -> None:
        if topic := controller.topic(name):
            controller.set_topic_configs(topic, configs)

    return change


def grow(name: str) -> Change:
    def change(controller: Controller) -> None:
        if topic := controller.topic(name):
            controller.add_partitions(topic, [(1, 2), (2, 3)])

    return change


def reassign(name: str) -> Change:
    def change(controller: Controller) -> None:
        if topic := controller.topic(name):
            state = topic.partitions[0]._replace(replicas=(1, 2, 3), adding=(3,), leader_epoch=7)
            controller.change_partitions({(topic.id, 0): state})

    return change


def credential(salt: bytes) -> ScramCredential:
    return ScramCredential(salt, 4096, b"stored", b"server")


# --- stories


def test_created_topics_survive(survive: Callable[..., int]) -> None:
    def story(machine: Machine) -> None:
        machine.ask(create(ORDERS), create(USERS), grow("orders"), reassign("users"))

    assert survive(story) > 4


def test_topics_that_were_created_together_survive_together(survive: Callable[..., int]) -> None:
    survive(lambda machine: machine.ask(create(ORDERS, USERS)))


def test_deleted_topics_stay_deleted_and_their_folders_have_to_go(survive: Callable[..., int]) -> None:
    def before(machine: Machine) -> None:
        machine.start()
        machine.ask(create(ORDERS), create(USERS))

    def story(machine: Machine) -> None:
        machine.ask(delete("orders"), create(ORDERS._replace(id=bytes(range(5, 21)), configs={})), delete("users"))
        machine.ask(lambda controller: [controller.gone_from(node_id, [USERS.id]) for node_id in (1, 2, 3)] and None)

    survive(story, before=before)


def test_altered_configs_and_quotas_survive(survive: Callable[..., int]) -> None:
    def before(machine: Machine) -> None:
        machine.start()
        machine.ask(create(ORDERS))

    def story(machine: Machine) -> None:
        machine.ask(
            configure("orders", {"retention.ms": "6", "cleanup.policy": "compact"}),
            lambda controller: controller.set_broker_configs("", {"log.retention.ms": "7"}),
            configure("orders", {}),
            lambda controller: controller.set_broker_configs("1", {"log.roll.ms": "8"}),
            lambda controller: controller.set_broker_configs("", {}),
            lambda controller: controller.set_client_quotas("alice", {"producer_byte_rate": "9.0"}),
            lambda controller: controller.set_group_configs("g", {"consumer.heartbeat.interval.ms": "500"}),
            lambda controller: controller.set_group_configs("h", {"share.isolation.level": "read_committed"}),
            lambda controller: controller.set_group_configs("g", {}),
            lambda controller: controller.set_feature_levels({"metadata.version": 20}),
        )

    survive(story, before=before)


def test_access_rules_and_credentials_survive(survive: Callable[..., int]) -> None:
    def story(machine: Machine) -> None:
        machine.ask(
            lambda controller: controller.create_acls(RULES),
            lambda controller: controller.alter_scram_credentials({ALICE: credential(b"1"), BOB: credential(b"2")}, []),
            lambda controller: controller.delete_acls(RULES[1:]),
            lambda controller: controller.alter_scram_credentials({ALICE: credential(b"\xff")}, [BOB]),
        )

    survive(story)


def test_delegation_tokens_survive(survive: Callable[..., int]) -> None:
    alice = Principal.user("alice")
    first = DelegationToken("first", alice, alice, (Principal.user("bob"),), 1, 3, 2)

    def story(machine: Machine) -> None:
        machine.ask(
            lambda controller: controller.put_delegation_token(first),
            lambda controller: controller.put_delegation_token(first._replace(token_id="second")),
            lambda controller: controller.put_delegation_token(first._replace(expires_ms=3)),
            lambda controller: controller.remove_delegation_tokens(["first", "second"]),
        )

    survive(story)


def test_a_producer_id_is_never_given_out_twice(survive: Callable[..., int]) -> None:
    def story(machine: Machine) -> None:
        machine.ask_for_producer_ids(2 * PRODUCER_ID_BLOCK + 1)
        machine.ask(create(ORDERS))

    survive(story)


def test_a_start_leaves_nothing_that_the_next_one_refuses(survive: Callable[..., int]) -> None:
    def story(machine: Machine) -> None:
        with contextlib.suppress(OSError):
            machine.start()
            machine.ask(create(ORDERS))
            machine.restart()
            machine.ask(create(USERS))

    assert survive(story, before=lambda machine: None) > 6


def test_what_a_start_finds_survives_it_and_the_shutdown(survive: Callable[..., int]) -> None:
    def before(machine: Machine) -> None:
        machine.start()
        machine.ask(create(ORDERS), configure("orders", {"a": "b"}))
        machine.filesystem = machine.filesystem.kill()

    def story(machine: Machine) -> None:
        with contextlib.suppress(OSError):
            machine.start()
            machine.ask(delete("orders"))
            machine.restart()

    survive(story, before=before)


def test_nothing_is_lost_where_the_file_is_written_anew_because_it_grew(survive: Callable[..., int]) -> None:
    def before(machine: Machine) -> None:
        machine.start()
        machine.ask(create(ORDERS), configure("orders", {"large": "x" * (250 << 10)}))

    def story(machine: Machine) -> None:
        for number in range(3):
            machine.ask(configure("orders", {"large": str(number) * (300 << 10)}))

    survive(story, before=before)


@pytest.fixture(params=sqlite_databases.FORMATS)
def old_files(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, bytes]:
    """A database of an earlier kmini with its write-ahead log, by path."""
    sqlite_databases.write_sqlite_database(tmp_path / DATABASE, request.param, cluster_id=CLUSTER_ID)
    return {f"/data/{path.name}": path.read_bytes() for path in tmp_path.iterdir()}


def test_a_database_of_an_earlier_kmini_survives_being_taken_over(
    survive: Callable[..., int], old_files: dict[str, bytes]
) -> None:
    def before(machine: Machine) -> None:
        for path, content in old_files.items():
            machine.put(path, content)

    def story(machine: Machine) -> None:
        with contextlib.suppress(OSError):
            machine.start()
            machine.ask(delete("orders"), create(ORDERS._replace(name="new", id=bytes(range(5, 21)))))

    assert survive(story, before=before) > 3


def test_a_database_of_an_earlier_kmini_is_never_half_taken_over(outage: Any, old_files: dict[str, bytes]) -> None:
    """Whatever goes wrong, the directory holds the old database or the new one, and both say the same."""
    for n in range(1, 100):
        machine = Machine()
        for path, content in old_files.items():
            machine.put(path, content)
        expected = read_database(machine.filesystem, PATH)
        faults = machine.filesystem.faults = outage.arm(n)
        with contextlib.suppress(PowerLoss, OSError, ControllerError):
            machine.start()
        left = outage.after(machine.filesystem, n)
        found = read_database(left, PATH)
        assert found._replace(topics=sorted(found.topics)) == expected._replace(topics=sorted(expected.topics))
        if not faults.is_spent:
            break
    else:
        raise AssertionError("the take-over never ends")
