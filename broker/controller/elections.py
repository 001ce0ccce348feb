"""Leaders and in-sync replicas of partitions: the rules by which the controller changes them.

    what happens                    in sync afterwards                      leader
    ------------------------------  --------------------------------------  -----------------------------------------
    a broker dies or leaves         the others; the last one stays in       if it led: the first replica that is live
                                                                            and in sync, else none
    a broker comes (back)           as before: it joins when it has         as before; the newcomer, if there is none
                                    caught up                               and it is in sync
    no live one is in sync, and     only the new leader                     the first live replica: what it lacks is
    unclean elections are allowed                                           lost
    the first replica is preferred  as before                               it, if it is live and in sync

Every change of leader starts a new leader epoch (KIP-101). What the leader finds out about its followers it reports by
`alter_isr` (KIP-497).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ...protocol.topics import TopicPartition
from .controller import BrokerRegistration, Controller
from .topology import NO_LEADER, PartitionState

if TYPE_CHECKING:
    from .topology import Topic

IsUncleanAllowed = Callable[["Topic"], bool]
"""Whether `unclean.leader.election.enable` is in force for a topic."""


def never(_: Topic) -> bool:
    """Lose nothing that is committed: Kafka's default."""
    return False


def leave(controller: Controller, node_id: int, is_unclean_allowed: IsUncleanAllowed = never) -> None:
    """A broker is live no more: others lead what it led. Raises KafkaStorageError."""
    controller.fence(node_id)
    settle(controller, is_unclean_allowed)
    for registered in controller.brokers:
        if registered.broker is not None:
            registered.broker.replica_manager.broker_left(node_id)


def join(controller: Controller, broker: BrokerRegistration, is_unclean_allowed: IsUncleanAllowed = never) -> None:
    """Register a live broker, and let it lead partitions that had no live leader. Raises KafkaStorageError."""
    controller.register(broker)
    settle(controller, is_unclean_allowed)


def settle(controller: Controller, is_unclean_allowed: IsUncleanAllowed = never) -> None:
    """Have every partition led by a live broker, if one may, and no dead one in sync. Raises KafkaStorageError."""
    changes: dict[tuple[bytes, int], PartitionState] = {}
    for topic in controller.topics.values():
        for number, state in enumerate(topic.partitions):
            settled = _settled(controller, state, partial(is_unclean_allowed, topic))
            if settled != state:
                changes[topic.id, number] = settled
    controller.change_partitions(changes)


def _settled(controller: Controller, state: PartitionState, is_unclean: Callable[[], bool]) -> PartitionState:
    isr = tuple([node_id for node_id in state.isr if controller.is_live(node_id)])
    if not isr and is_unclean():
        isr = tuple([node_id for node_id in state.replicas if controller.is_live(node_id)])[:1]
    if isr and isr != state.isr:  # else all are live, or the last one in sync stays: it has every record
        state = state._replace(isr=isr)
    if controller.is_live(state.leader) and state.leader in isr:
        return state
    leader = _first(node_id for node_id in state.replicas if node_id in isr)
    return state if leader == state.leader else _led_by(leader, state)


def _first(node_ids: Iterable[int]) -> int:
    return next(iter(node_ids), NO_LEADER)


def _led_by(leader: int, state: PartitionState) -> PartitionState:
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1)


def prefer_first(controller: Controller) -> None:
    """Give every partition to its first replica that may lead it and does not (auto.leader.rebalance.enable). Raises
    KafkaStorageError."""
    controller.change_partitions({key: _led_by(state.replicas[0], state) for key, state in _imbalanced(controller)})


def may_prefer_first(controller: Controller) -> bool:
    """Whether `prefer_first` has anything to do."""
    return any(True for _ in _imbalanced(controller))


def _imbalanced(controller: Controller) -> Iterator[tuple[tuple[bytes, int], PartitionState]]:
    """The partitions whose first replica may lead and does not, by topic id and number."""
    for topic in controller.topics.values():
        for number, state in enumerate(topic.partitions):
            first = state.replicas[0]
            if state.leader != first and first in state.isr and controller.is_live(first):
                yield (topic.id, number), state


def alter_isr(controller: Controller, topic_partition: TopicPartition, leader_epoch: int, isr: tuple[int, ...]) -> None:
    """Replace the ISR, as the leader of `leader_epoch` asks. Raises UnknownTopicOrPartition, FencedLeaderEpoch,
    KafkaStorageError."""
    topic_id, state = find(controller, topic_partition)
    if state.leader_epoch != leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {leader_epoch} ended; it is {state.leader_epoch} now")
    if isr != state.isr:
        changed = progressed(controller, state._replace(isr=isr))
        controller.change_partitions({(topic_id, topic_partition.partition): changed})


def elect(
    controller: Controller, topic_partition: TopicPartition, leader: int | None = None, *, is_unclean: bool = False
) -> None:
    """Elect `leader`, the first replica if none is named, or with `is_unclean` any live replica.

    Raises UnknownTopicOrPartition; ElectionNotNeeded where it leads already (or, unclean, any replica does);
    PreferredLeaderNotAvailable where it is not live or not in sync, or EligibleLeadersNotAvailable; KafkaStorageError.
    """
    topic_id, state = find(controller, topic_partition)
    key = (topic_id, topic_partition.partition)
    if is_unclean:
        if controller.is_live(state.leader):
            raise ElectionNotNeeded(f"{topic_partition} is led by broker {state.leader}")
        elected = _settled(controller, state, lambda: True)
        if elected.leader == NO_LEADER:
            raise EligibleLeadersNotAvailable(f"no replica of {topic_partition} is live")
        controller.change_partitions({key: elected})
        return
    wanted = state.replicas[0] if leader is None else leader
    if wanted == state.leader:
        raise ElectionNotNeeded(f"{topic_partition} is led by broker {wanted} already")
    if wanted not in state.isr or not controller.is_live(wanted):
        raise PreferredLeaderNotAvailable(f"broker {wanted} is not live and in sync with {topic_partition}")
    controller.change_partitions({key: _led_by(wanted, state)})


def progressed(controller: Controller, state: PartitionState) -> PartitionState:
    """A partition that is being reassigned, with the old replicas gone once all the new ones are in sync; any other as
    it is (KIP-455)."""
    kept = tuple(node_id for node_id in state.replicas if node_id not in state.removing)
    if not state.is_reassigned or not {*state.adding} <= {*state.isr} or not {*kept} & {*state.isr}:
        return state
    isr = tuple(node_id for node_id in state.isr if node_id in kept)
    done = state._replace(replicas=kept, isr=isr, adding=(), removing=())
    return done if done.leader in isr else _settled(controller, done, lambda: False)


def find(controller: Controller, topic_partition: TopicPartition) -> tuple[bytes, PartitionState]:
    """The topic's id, and the state of one partition. Raises UnknownTopicOrPartition."""
    topic = controller.topic(topic_partition.topic)
    if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
        raise UnknownTopicOrPartition(f"there is no partition {topic_partition}")
    return topic.id, topic.partitions[topic_partition.partition]
