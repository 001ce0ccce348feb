"""The topics of the cluster as consumer groups see them, and when their hash changes."""

from __future__ import annotations

from kmini.broker.groups.modern.topic_catalog import Catalog, group_hash, topic_hash
from support.broker.clusters import Clusters
from support.broker.consumer_lab import ConsumerLab


def catalog_of(lab: ConsumerLab) -> Catalog:
    return Catalog(lab.broker.controller)


async def test_topics_are_found_by_name_and_by_id(consumer_lab: ConsumerLab) -> None:
    catalog, topic_id = catalog_of(consumer_lab), consumer_lab.id_of("orders")
    assert {*catalog.names} == {"orders", "__consumer_offsets"}
    assert (catalog.id_of("orders"), catalog.name_of(topic_id), catalog.partition_count(topic_id)) == (
        topic_id,
        "orders",
        4,
    )
    assert catalog.ids(["orders", "absent"]) == {topic_id}


async def test_a_topic_that_does_not_exist_has_neither_id_nor_partitions(consumer_lab: ConsumerLab) -> None:
    catalog = catalog_of(consumer_lab)
    assert catalog.id_of("absent") is None
    assert catalog.name_of(bytes(16)) is None
    assert catalog.partition_count(bytes(16)) == 0


async def test_the_version_changes_with_every_change_of_a_topic(consumer_lab: ConsumerLab) -> None:
    catalog = catalog_of(consumer_lab)
    versions = [catalog.version]
    consumer_lab.add_topics("others")
    versions.append(catalog.version)
    await consumer_lab.add_partitions("others", 1)
    versions.append(catalog.version)
    consumer_lab.delete_topic("others")
    versions.append(catalog.version)
    assert len({*versions}) == 4
    assert catalog.version == versions[-1]


async def test_the_hash_is_that_of_the_topics_that_exist(consumer_lab: ConsumerLab) -> None:
    catalog = catalog_of(consumer_lab)
    expected = group_hash({"orders": topic_hash(consumer_lab.id_of("orders"), "orders", [[]] * 4)})
    assert catalog.hash_of(["orders"]) == catalog.hash_of(["absent", "orders"]) == expected
    assert catalog.hash_of(["absent"]) == catalog.hash_of([]) == 0


async def test_added_partitions_and_another_topic_of_the_name_change_the_hash(consumer_lab: ConsumerLab) -> None:
    catalog = catalog_of(consumer_lab)
    found = [catalog.hash_of(["orders"])]
    await consumer_lab.add_partitions("orders", 1)
    found.append(catalog.hash_of(["orders"]))
    consumer_lab.delete_topic("orders")
    consumer_lab.add_topics("orders", partitions=5)
    found.append(catalog.hash_of(["orders"]))
    assert len({*found}) == 3


async def test_replicas_that_move_to_another_rack_change_the_hash(clusters: Clusters) -> None:
    cluster = await clusters.start(2, racks={1: "a", 2: "b"})
    controller = next(iter(cluster.brokers.values())).controller
    topic = controller.new_topic("orders", [(1,), (2,)], {})
    controller.create_topics([topic])
    catalog = Catalog(controller)
    before = catalog.hash_of(["orders"])
    assert before == group_hash({"orders": topic_hash(topic.id, "orders", [["a"], ["b"]])})
    moved = topic.partitions[0]._replace(replicas=(2,), isr=(2,), leader=2)
    controller.change_partitions({(topic.id, 0): moved})
    assert catalog.hash_of(["orders"]) == group_hash({"orders": topic_hash(topic.id, "orders", [["b"], ["b"]])})


async def test_hashes_of_topics_that_are_gone_are_forgotten(consumer_lab: ConsumerLab) -> None:
    catalog = catalog_of(consumer_lab)
    expected = catalog.hash_of(["orders"])
    for _ in range(50):
        consumer_lab.add_topics("passing", partitions=1)
        catalog.hash_of(["passing"])
        consumer_lab.delete_topic("passing")
    assert len(catalog._hashes) < 10
    assert catalog.hash_of(["orders"]) == expected
