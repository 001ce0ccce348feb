"""One instance of a service that answers each input with one output, in transactions, as a process that can be killed.

It consumes `inputs` as a member of a group, and produces to `outputs` with its offsets in the same transaction. Every
line on stdout is a JSON list: ["starts"], ["ready"], then after each step ["assigned", partitions], ["idle"] or
["transformed", count], and at last ["ends", reason]. No step takes longer than its calls are given.

It ends whenever a call fails, and now and then by itself, mostly in the middle of a transaction. It never retries:
its supervisor starts it again, under the same number. Now and then it says ["pauses"] in the middle of a transaction,
and stops as if by SIGSTOP. The supervisor sends SIGCONT when the group has given its partitions to others: it is a
zombie then, and does not know. SIGUSR1 makes it say on stderr what its threads are doing.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

CALL_S = 5
"""What every call that waits for the broker is given; an instance that is silent for much longer is stuck."""
TRANSACTION_MS = 10_000
SESSION_MS = 2_000
HEARTBEAT_MS = 300
IDLE_S = 0.2
MOST_INPUTS = 60
ODDS = 1.0 / 50
"""How probable each of its fates is, wherever it may meet one."""


class Options(NamedTuple):
    """Where an instance works, as which one, and what it draws its chances from."""

    servers: str
    group: str
    number: int
    partitions: int
    chance: random.Random


def tell(*what: object) -> None:
    print(json.dumps(what), flush=True)


def meet_fate(chance: random.Random, flush: Callable[[], object] = lambda: None) -> None:
    """In the middle of a transaction: go on, end, or pause; with its records at the broker or not."""
    drawn = chance.random()
    if drawn > 2 * ODDS:
        return
    if chance.random() < 0.5:
        flush()
    if drawn < ODDS:
        end("in the middle of a transaction")
    tell("pauses")
    os.kill(os.getpid(), signal.SIGSTOP)


def end(reason: str) -> NoReturn:
    """End at once, as a process does that is killed, with nothing closed."""
    tell("ends", reason)
    os._exit(0)


# --- confluent-kafka


class Consumed:
    """What confluent-kafka has been given since the last transaction, all of it in one generation of the group."""

    def __init__(self, options: Options) -> None:
        from confluent_kafka import Consumer

        self._messages: list[Any] = []
        self.membership: Any = None
        """As which member, and in which generation, it was given its partitions (KIP-447)."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.servers,
                "group.id": options.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(["inputs"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _assigned(self, consumer: Any, partitions: Any) -> None:
        """Begin where the group is, and say so: left to itself, librdkafka 2.16 begins with the first input of all
        where the offset is not decided yet, by a transaction of the last owner (UNSTABLE_OFFSET_COMMIT), and the group
        rebalances again meanwhile. It does so with Apache Kafka too."""
        from confluent_kafka import TopicPartition

        self.membership = consumer.consumer_group_metadata()
        committed = consumer.committed(partitions, CALL_S) if partitions else []  # it waits for what is not decided
        assert not any(one.error for one in committed), committed
        consumer.assign([TopicPartition(one.topic, one.partition, max(one.offset, 0)) for one in committed])
        tell("assigned", sorted(one.partition for one in partitions))

    def _revoked(self, consumer: Any, _: Any) -> None:
        consumer.unassign()
        self._messages.clear()  # the next owner of the partitions reads them again

    def take(self, count: int) -> list[Any]:
        """At most so many messages."""
        self._messages = []
        deadline = time.monotonic() + IDLE_S
        while len(self._messages) < count:
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                break
            if message.error() is None:
                self._messages.append(message)
        return self._messages

    def leave(self) -> None:
        self._consumer.close()


def confluent_kafka(options: Options) -> None:
    from confluent_kafka import Producer, TopicPartition

    producer = Producer(
        {
            "bootstrap.servers": options.servers,
            "transactional.id": f"transformer-{options.number}",
            "transaction.timeout.ms": TRANSACTION_MS,
            "reconnect.backoff.max.ms": 500,
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    producer.init_transactions(CALL_S)
    tell("ready")
    consumed = Consumed(options)
    chance = options.chance
    while True:
        inputs = consumed.take(chance.randrange(1, MOST_INPUTS))
        if not inputs:
            tell("idle")
            continue
        producer.begin_transaction()
        for one in inputs:
            producer.produce("outputs", one.value(), partition=chance.randrange(options.partitions))
        meet_fate(chance, lambda: producer.flush(CALL_S))
        following = {one.partition(): one.offset() + 1 for one in inputs}
        offsets = [TopicPartition("inputs", partition, offset) for partition, offset in following.items()]
        producer.send_offsets_to_transaction(offsets, consumed.membership, CALL_S)
        meet_fate(chance)
        producer.commit_transaction(CALL_S)
        tell("transformed", len(inputs))
        if chance.random() < ODDS:
            consumed.leave()
            end("in order")


# --- aiokafka


class PartitionProducers:
    """The producers of aiokafka, one for each partition that the group has given to this instance.

    aiokafka does not tell the group's generation with its offsets. As before KIP-447, a transactional id therefore
    belongs to a partition of the inputs, and the new owner of a partition fences the one before, and then asks how far
    that one got.
    """

    def __init__(self, options: Options, consumer: Any) -> None:
        from aiokafka import ConsumerRebalanceListener

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(_, revoked: Any) -> None:
                async with self.rebalancing:
                    await asyncio.wait_for(self._drop(), CALL_S)

            async def on_partitions_assigned(_, assigned: Any) -> None:
                try:
                    async with self.rebalancing:
                        await asyncio.wait_for(self._take(assigned), CALL_S)
                except Exception as error:  # which aiokafka would log and forget
                    end(repr(error))

        self._options = options
        self._consumer = consumer
        self._producers: dict[Any, Any] = {}
        self._following: dict[Any, int] = {}
        self.rebalancing = asyncio.Lock()
        """Held while the producers are used: the group rebalances beside us, not when we ask for records."""
        self.listener = Listener()

    async def _drop(self) -> None:
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            await producer.stop()

    async def _take(self, assigned: Iterable[Any]) -> None:
        from aiokafka import AIOKafkaProducer

        for place in assigned:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._options.servers,
                transactional_id=f"transformer of {place.partition}",
                transaction_timeout_ms=TRANSACTION_MS,
                retry_backoff_ms=20,
            )
            await producer.start()
            self._following[place] = await self._consumer.committed(place) or 0
            self._consumer.seek(place, self._following[place])
            self._producers[place] = producer
        tell("assigned", sorted(place.partition for place in self._producers))

    async def transform(self, place: Any, inputs: list[Any]) -> None:
        producer = self._producers.get(place)
        if producer is None:
            return  # given to us a moment ago, and read from its beginning as soon as it is ours
        assert inputs[0].offset == self._following[place], "it does not go on where it ought to"
        chance = self._options.chance
        await producer.begin_transaction()
        sent = [
            await producer.send("outputs", one.value, partition=chance.randrange(self._options.partitions))
            for one in inputs
        ]
        if chance.random() < 0.9:
            await asyncio.gather(*sent)
        meet_fate(chance)
        await producer.send_offsets_to_transaction({place: inputs[-1].offset + 1}, self._options.group)
        meet_fate(chance)
        await producer.commit_transaction()
        self._following[place] = inputs[-1].offset + 1
        tell("transformed", len(inputs))


async def aiokafka(options: Options) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.servers,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    producers = PartitionProducers(options, consumer)
    consumer.subscribe(["inputs"], listener=producers.listener)
    await asyncio.wait_for(consumer.start(), CALL_S)
    tell("ready")
    while True:
        async with producers.rebalancing:
            count = options.chance.randrange(1, MOST_INPUTS)
            batches = await consumer.getmany(timeout_ms=round(IDLE_S * 1000), max_records=count)
            for place, inputs in batches.items():
                await asyncio.wait_for(producers.transform(place, inputs), CALL_S)
        if not batches:
            tell("idle")
        if batches and options.chance.random() < ODDS:
            await asyncio.wait_for(consumer.stop(), CALL_S)
            end("in order")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=["aiokafka", "confluent-kafka"])
    parser.add_argument("servers")
    parser.add_argument("group")
    parser.add_argument("number", type=int)
    parser.add_argument("partitions", type=int)
    parser.add_argument("seed")
    given = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)
    options = Options(given.servers, given.group, given.number, given.partitions, random.Random(given.seed))
    tell("starts")
    try:
        if given.client == "aiokafka":
            asyncio.run(aiokafka(options))
        else:
            confluent_kafka(options)
    except Exception as error:  # whatever the broker's death, or the group, did to it
        end(repr(error))


if __name__ == "__main__":
    main()
