"""The current status of each order: a read model of the compacted topic `status`, with confluent-kafka."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from places import Kafka

TIMEOUT_S = 30


def statuses(kafka: Kafka) -> dict[str, str]:
    """The last status of each order, by its number."""
    found = {}
    for message in read(kafka, "status"):
        order = message.key().decode()
        if message.value() is None:  # a tombstone
            found.pop(order, None)
        else:
            found[order] = message.value().decode()
    return found


def read(kafka: Kafka, name: str):
    """All messages of a topic, from its beginning to its end, in the order of each partition."""
    topic = kafka.name(name)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.servers,
            "group.id": kafka.name("unused"),  # librdkafka requires one
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # it does not wait for more records: it ends
        }
    )
    try:
        unread = {*consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in unread])
        while unread:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"partitions {unread} of {topic} did not end in {TIMEOUT_S} s")
            if not message.error():
                yield message
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unread.remove(message.partition())
            else:
                raise RuntimeError(message.error())
    finally:
        consumer.close()
