"""What has changed in a broker or a cluster since the last look: the events of the control API.

A look compares what there is with what the last one saw. Nothing here runs by itself: `events.py` looks while there is
a stream. Logs and transactions tell of their changes meanwhile; a topic, the state of a partition and the settings are
values that a change replaces, so most comparisons are those of identities. What was seen outlasts the streams: after a
pause, a look tells what has become different in it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kmini.broker.scheduler import Turn
from kmini.broker.transactions.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from kmini.control.event_ring import SERVER
from kmini.control.log_events import LogEvents
from kmini.control.request_events import RequestEvents, Tell
from kmini.protocol.records.batch import NO_TIMESTAMP
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition, is_internal
from kmini.testkit.client_connections import host_and_port

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.clock import MovableClock
    from kmini.broker.controller.controller import Controller
    from kmini.broker.controller.topology import PartitionState, Topic
    from kmini.broker.faults.active_rule import ActiveRule
    from kmini.broker.log_maintenance import LogMaintenance
    from kmini.broker.network.connection import Connection
    from kmini.broker.transactions.transaction import Transaction
    from kmini.broker.transactions.transaction_coordinator import TransactionCoordinator
    from kmini.broker.transactions.transaction_records import Entry
    from kmini.control.control_operations import Served
    from kmini.testkit.operations import Operations

DEAD = "Dead"
"""The state of a group that does not exist, as Kafka tells it."""

MOST_TRANSACTIONS = 10_000
"""Transactional ids whose last state is remembered; above that the oldest is forgotten."""

_OUTCOMES = {COMPLETE_COMMIT: "commit", COMPLETE_ABORT: "abort", PREPARE_COMMIT: "commit", PREPARE_ABORT: "abort"}


class _Watched:
    """The parts of a broker that tell of their changes."""

    def __init__(self, broker: BrokerServer) -> None:
        self.broker = broker
        self.maintenance: LogMaintenance | None = None
        self.transactions: TransactionCoordinator | None = None


class _Client(NamedTuple):
    """A connection of a client."""

    broker: int
    address: str

    @classmethod
    def of(cls, connection: Connection) -> _Client:
        return cls(connection.server.services.node_id, host_and_port(*connection.peer))


class _RuleState(NamedTuple):
    """What a look saw of a fault rule."""

    rule: ActiveRule
    hits: int
    arrived: int
    held: int


def _group_data(kind: str, state: str, generation: int, members: int) -> dict[str, Any]:
    """A group as its event tells it."""
    return {"kind": kind, "state": state, "generation": generation, "members": members}


class Changes:
    """Compares what a control server steers with what the last look saw."""

    def __init__(self, served: Served, tell: Tell) -> None:
        self._served = served
        self._tell_further = tell
        self._is_quiet = True
        """Whether nothing is told, because it is seen for the first time."""
        self._has_looked = self._has_seen_data = False
        self.reads_requests = False
        """Whether a stream asks for requests. Else they are not decoded."""
        self._watched: dict[int, _Watched] = {}
        self._logs = LogEvents(self._tell)
        self.requests = RequestEvents(tell)
        self._reset_from: Controller | None = None
        """The controller that a reset under way replaces."""
        self._topics: dict[str, Topic] = {}
        self._seen_topics: tuple[Controller, int] | None = None
        """The controller that the last look saw, and its `topic_changes`."""
        self._groups: dict[str, tuple[str, str, int, int]] = {}
        """Kind, state, generation and number of members."""
        self._transactions: dict[str, Entry] = {}
        self._moved_transactions: deque[tuple[str, Entry]] = deque()
        self._brokers: set[int] = set()
        self._clients: dict[_Client, str | None] = {}
        """The client ids of the connections that were told."""
        self._left: deque[tuple[_Client, Connection]] = deque()
        """Connections that have ended since the last look."""
        self._unnamed: set[_Client] = set()
        """Connections without a client id at the last look: they may be about to give it."""
        self._rules: dict[str, _RuleState] = {}
        self._last_move = (0.0, 0)

    def _tell(self, kind: str, name: str, data: Mapping[str, Any], topics: Collection[str] = ()) -> None:
        if not self._is_quiet:
            self._tell_further(kind, name, data, topics)

    @property
    def _operations(self) -> Operations | None:
        """None while nothing runs."""
        return self._served.operations if self._served.is_running else None

    # --- a look

    async def look(self) -> None:
        """Tell of all changes since the last look. It may take several turns of the loop."""
        turn = Turn()
        operations = self._operations
        brokers = [] if operations is None else [*operations.running]
        self._is_quiet = not self._has_looked
        self._see_brokers(brokers)
        self._see_rules()
        self._see_clients(brokers)
        self._has_looked = True
        if operations is None or not brokers:
            return
        if self._reset_from is not None:
            if any(self._reset_from is one for one in (operations._controller, *(one.controller for one in brokers))):
                return
            self._see_reset()
        self._is_quiet = not self._has_seen_data
        self._see_clock(operations.clock)
        self._see_topics(operations._controller)
        await self._logs.look(brokers, turn, lambda: self._reset_from is not None)
        if self._reset_from is None:
            self._see_groups(operations, brokers)
            self._see_transactions()
            self._has_seen_data = True
        if self.reads_requests:
            await self.requests.look(operations.clock.moves, turn)

    def end(self) -> None:
        """Have nothing tell of its changes any more; another look may follow."""
        for watched in self._watched.values():
            self._let_go(watched)
        self._watched.clear()
        self._seen_topics = None

    # --- brokers, and what they tell of by themselves

    def _see_brokers(self, brokers: Collection[BrokerServer]) -> None:
        """Tell which brokers have started and stopped, and watch those that run."""
        running = {broker.node_id: broker for broker in brokers}
        for node_id, watched in [*self._watched.items()]:
            if running.get(node_id) is not watched.broker:
                self._let_go(self._watched.pop(node_id))
                self._went_down(node_id)
        for node_id in self._brokers - running.keys():
            self._went_down(node_id)
        for node_id, broker in running.items():
            if node_id not in self._brokers:
                self._brokers.add(node_id)
                self._tell("brokers", "broker-up", {"broker": node_id, "address": broker.address})
            self._watch(self._watched.get(node_id) or self._begin_with(broker))

    def _went_down(self, node_id: int) -> None:
        if node_id in self._brokers:
            self._brokers.remove(node_id)
            self._tell("brokers", "broker-down", {"broker": node_id})

    def _begin_with(self, broker: BrokerServer) -> _Watched:
        watched = self._watched[broker.node_id] = _Watched(broker)
        broker.on_reset.append(self._reset_begins)
        broker.server.when_left.append(self._client_left)
        self.requests.use(broker.services.journal)
        return watched

    def _watch(self, watched: _Watched) -> None:
        """Watch the parts of a broker, which a reset replaces. What is new to the watch is looked at as a whole."""
        broker = watched.broker
        if self._reset_from is not None:
            return
        if watched.maintenance is not broker.maintenance:
            self._let_go_of_logs(watched)
            watched.maintenance = broker.maintenance
            broker.maintenance.on_change(self._logs.changed.add)
            self._logs.changed.update(broker.replica_manager.partitions)
        if broker.controller.topic(TRANSACTION_STATE) is None:
            return  # the coordinator is made with the first transaction
        if watched.transactions is not broker.transactions:
            self._let_go_of_transactions(watched)
            watched.transactions = broker.transactions
            broker.transactions.watchers.append(self._transaction_moved)
            for transaction in broker.transactions.transactions.values():
                self._transaction_moved(transaction)

    def _let_go(self, watched: _Watched) -> None:
        self._let_go_of_logs(watched)
        self._let_go_of_transactions(watched)
        watched.broker.on_reset.remove(self._reset_begins)
        watched.broker.server.when_left.remove(self._client_left)

    def _let_go_of_logs(self, watched: _Watched) -> None:
        if watched.maintenance is not None:
            watched.maintenance.no_more(self._logs.changed.add)
            watched.maintenance = None

    def _let_go_of_transactions(self, watched: _Watched) -> None:
        if watched.transactions is not None:
            watched.transactions.watchers.remove(self._transaction_moved)
            watched.transactions = None

    def _transaction_moved(self, transaction: Transaction) -> None:
        self._moved_transactions.append((transaction.transactional_id, transaction.entry))

    # --- resets

    def _reset_begins(self) -> None:
        """A reset, or a restore, is about to empty the brokers. Each of them calls this."""
        operations = self._operations
        if self._reset_from is None and operations is not None:
            self._reset_from = operations._controller
            if self.reads_requests:
                self.requests.look_at_once(operations.clock.moves)

    def _see_reset(self) -> None:
        """The data are others; what there is now is told as new."""
        self._reset_from = None
        self._topics, self._seen_topics = {}, None
        self._logs.forget()
        self._groups, self._transactions = {}, {}
        self._moved_transactions.clear()
        for watched in self._watched.values():
            self._let_go_of_logs(watched)
            self._let_go_of_transactions(watched)
            self._watch(watched)
        self._is_quiet = False
        self._tell(SERVER, "reset", {"time_ms": time.time_ns() // 1_000_000})

    # --- topics and partitions

    def _see_topics(self, controller: Controller) -> None:
        seen = (controller, controller.topic_changes)
        if seen == self._seen_topics:
            return
        self._seen_topics = seen
        topics, known = controller.topics, self._topics
        changed = [topic for name, topic in topics.items() if known.get(name) is not topic]
        gone = known.keys() - topics.keys()
        for name in sorted(gone):
            self._topic_went(known[name])
        for topic in changed:
            was = known.get(topic.name)
            if was is not None and was.id != topic.id:
                self._topic_went(was)
                was = None
            if was is None:
                self._topic_came(topic)
            else:
                self._see_topic(was, topic)
        self._topics = dict(topics)

    def _topic_went(self, topic: Topic) -> None:
        self._logs.forget([TopicPartition(topic.name, number) for number in range(len(topic.partitions))])
        self._tell("topics", "topic-deleted", {"topic": topic.name}, (topic.name,))

    def _topic_came(self, topic: Topic) -> None:
        data = {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "is_internal": is_internal(topic.name),
        }
        self._tell("topics", "topic-created", data, (topic.name,))

    def _see_topic(self, was: Topic, topic: Topic) -> None:
        name = topic.name
        if len(topic.partitions) != len(was.partitions):
            data = {"topic": name, "from": len(was.partitions), "to": len(topic.partitions)}
            self._tell("topics", "partitions-added", data, (name,))
        if topic.configs != was.configs:
            changed = {key for key, _ in topic.configs.items() ^ was.configs.items()}
            self._tell("topics", "topic-altered", {"topic": name, "configs": sorted(changed)}, (name,))
        for number, (before, after) in enumerate(zip(was.partitions, topic.partitions, strict=False)):
            if before is not after:
                self._see_partition(TopicPartition(name, number), before, after)

    def _see_partition(self, partition: TopicPartition, was: PartitionState, now: PartitionState) -> None:
        self._logs.changed.add(partition)  # the log may be that of another leader
        place = {"topic": partition.topic, "partition": partition.partition}
        if now.leader != was.leader:
            data = {**place, "leader": now.leader, "was": was.leader, "leader_epoch": now.leader_epoch}
            self._tell("brokers", "leader-changed", data, (partition.topic,))
        if now.isr != was.isr:
            self._tell("brokers", "isr-changed", {**place, "isr": now.isr, "was": was.isr}, (partition.topic,))
        if now.replicas != was.replicas:
            data = {**place, "replicas": now.replicas, "was": was.replicas}
            self._tell("brokers", "replicas-changed", data, (partition.topic,))

    # --- groups and transactions

    def _see_groups(self, operations: Operations, brokers: Collection[BrokerServer]) -> None:
        if not operations.has_topic(CONSUMER_OFFSETS):
            return
        seen = {
            group.group_id: (group.group_type, group.state_name, group.generation, len(group.members))
            for broker in brokers
            for group in broker.groups.shown()
            if not group.is_removed
        }
        known = self._groups
        if seen == known:
            return
        gone = known.keys() - seen.keys()
        if gone and not operations.is_led(CONSUMER_OFFSETS):  # its group may be about to be loaded elsewhere
            seen.update((group, known[group]) for group in gone)
        for group in sorted(known.keys() | seen.keys()):
            was, now = known.get(group), seen.get(group)
            if now is None and was is not None:
                now = (was[0], DEAD, -1, 0)
            if was != now and now is not None:
                before = None if was is None else _group_data(*was)
                self._tell("groups", "group", {"group": group, **_group_data(*now), "was": before})
        self._groups = seen

    def _see_transactions(self) -> None:
        while self._moved_transactions:
            transactional_id, now = self._moved_transactions.popleft()
            was = self._transactions.pop(transactional_id, None)
            self._transactions[transactional_id] = now
            if len(self._transactions) > MOST_TRANSACTIONS:
                del self._transactions[next(iter(self._transactions))]
            self._see_transaction(transactional_id, was, now)

    def _see_transaction(self, transactional_id: str, was: Entry | None, now: Entry) -> None:
        is_another = was is None or now.start_ms != was.start_ms
        about = {"transactional_id": transactional_id, "producer_id": now.producer_id, "epoch": now.producer_epoch}
        topics = {partition.topic for partition in now.partitions}
        if was is not None and was.state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT) and is_another:
            self._tell("transactions", "transaction-ended", {**about, "outcome": _OUTCOMES.get(was.state)})
        if is_another and now.start_ms != NO_TIMESTAMP:
            data = {**about, "start_ms": now.start_ms, "timeout_ms": now.timeout_ms}
            self._tell("transactions", "transaction-began", data, topics)
        if now.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and (is_another or was is None or was.state is not now.state):
            self._tell("transactions", "transaction-ended", {**about, "outcome": _OUTCOMES[now.state]}, topics)

    # --- clock, rules and clients

    def _see_clock(self, clock: MovableClock) -> None:
        moves = clock.moves
        if moves[-1] == self._last_move:
            return
        new: list[int] = []
        for move in reversed(moves):
            if move == self._last_move:
                break
            new.append(move[1])
        ahead_ms = self._last_move[1]
        for after_ms in reversed(new):
            if after_ms != ahead_ms:
                now_ms = time.time_ns() // 1_000_000 + after_ms
                data = {"by_ms": after_ms - ahead_ms, "ahead_ms": after_ms, "now_ms": now_ms}
                self._tell("clock", "clock-moved", data)
                ahead_ms = after_ms
        self._last_move = moves[-1]

    def _see_rules(self) -> None:
        rules = {active.rule.name: active for active in self._served.rules.rules}
        for name, was in [*self._rules.items()]:
            if rules.get(name) is not was.rule:
                del self._rules[name]
                data = {"rule": name, "hits": was.rule.hits, "seen": was.rule.seen}
                self._see_rule(name, was, was.rule)
                self._tell("faults", "rule-removed", data)
        for name, active in rules.items():
            known = self._rules.get(name)
            if known is None:
                known = _RuleState(active, 0, 0, 0)
                self._tell("faults", "rule-set", {"rule": name})
            self._rules[name] = self._see_rule(name, known, active)

    def _see_rule(self, name: str, was: _RuleState, active: ActiveRule) -> _RuleState:
        now = _RuleState(active, active.hits, active.arrived, len(active.held))
        if now.hits > was.hits:
            self._tell("faults", "rule-hit", {"rule": name, "hits": now.hits, "new": now.hits - was.hits})
        if now.arrived > was.arrived:
            held = [one.text for one in active.held]
            self._tell("faults", "rule-held", {"rule": name, "held": held, "new": now.arrived - was.arrived})
        if now.held < was.held + now.arrived - was.arrived:
            self._tell("faults", "rule-released", {"rule": name, "held": [one.text for one in active.held]})
        return now

    def _client_left(self, connection: Connection) -> None:
        if connection.peer[1] != 0:  # other brokers come from port 0
            self._left.append((_Client.of(connection), connection))

    def _see_clients(self, brokers: Collection[BrokerServer]) -> None:
        known, unnamed = self._clients, self._unnamed
        while self._left:
            client, connection = self._left.popleft()
            if client not in known:  # it has come since the last look
                self._client_came(client, connection)
            self._client_went(client)
        seen: set[_Client] = set()
        self._unnamed = set()
        for broker in brokers:
            for connection in broker.server.connections:
                if connection.peer[1] == 0 or connection.is_closing:
                    continue
                client = _Client.of(connection)
                seen.add(client)
                if client not in known and connection.client_id is None and client not in unnamed:
                    self._unnamed.add(client)
                elif client not in known:
                    self._client_came(client, connection)
        for client in known.keys() - seen:
            self._client_went(client)

    def _client_came(self, client: _Client, connection: Connection) -> None:
        self._clients[client] = connection.client_id
        data = {**client._asdict(), "client_id": connection.client_id, "listener": connection.listener.name}
        software = " ".join(filter(None, connection.software))
        self._tell("clients", "client-connected", {**data, "software": software})

    def _client_went(self, client: _Client) -> None:
        client_id = self._clients.pop(client)
        self._tell("clients", "client-disconnected", {**client._asdict(), "client_id": client_id})
