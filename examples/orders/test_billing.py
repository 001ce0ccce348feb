"""Exactly once: commits in one transaction, aborts, and the fencing of a service that hangs."""

import pytest
from billing import ChargeRefused
from confluent_kafka import KafkaException

from kmini import KafkaError


def test_an_order_is_billed(kafka, topic, open_billing, place):
    with topic("invoices").expect(count=1) as invoices:
        place("42", cents=999)
        assert open_billing(kafka).bill_next() == "42"
    assert (invoices[0].key, invoices[0].json()) == (b"42", {"cents": 999})


def test_a_refused_charge_takes_invoice_and_status_back(kafka, topic, open_billing, place):
    place("42", cents=0)
    with pytest.raises(ChargeRefused):
        open_billing(kafka).bill_next()
    for name in ("invoices", "status"):
        assert topic(name).records() == []
        (written,) = topic(name).records(isolation="uncommitted")  # the log still has it, and no consumer gets it
        assert (written.key, written.state) == (b"42", "aborted")


def test_a_test_that_expects_the_invoice_of_a_refused_charge_is_told_where_it_is(kafka, topic, open_billing, place):
    place("42", cents=0)
    with pytest.raises(ChargeRefused):
        open_billing(kafka).bill_next()
    written = topic("invoices").records(isolation="all")
    assert [record.state for record in written] == ["aborted", "abort marker"]
    with pytest.raises(KafkaError, match="1 more in an aborted transaction of billing-1"):
        topic("invoices").wait_for(1, timeout_ms=0)


def test_an_order_whose_charge_is_refused_is_the_next_one_again(kafka, topic, open_billing, place, monkeypatch):
    place("42", cents=0)
    billing = open_billing(kafka)
    with pytest.raises(ChargeRefused):
        billing.bill_next()
    monkeypatch.setattr("billing.charge", lambda order, cents: None)
    assert billing.bill_next() == "42"
    assert [invoice.key for invoice in topic("invoices").wait_for(1)] == [b"42"]


def bill_without_commit(billing):
    order = billing.next_order()
    billing.producer.begin_transaction()
    billing.bill(order)


def test_an_invoice_is_there_once_its_transaction_is_committed_and_not_before(kafka, topic, open_billing, place):
    place("42")
    billing = open_billing(kafka)
    bill_without_commit(billing)
    assert topic("invoices").records() == []
    assert [record.state for record in topic("invoices").records(isolation="uncommitted")] == ["open"]
    billing.producer.commit_transaction()
    assert [record.key for record in topic("invoices").wait_for(1)] == [b"42"]


def test_an_instance_that_hangs_is_fenced_by_the_next_one(kafka, topic, open_billing, place):
    place("42")
    hanging = open_billing(kafka)
    bill_without_commit(hanging)
    hanging.consumer.close()  # the group takes it for dead, and its transaction is open
    assert open_billing(kafka).bill_next() == "42"
    with pytest.raises(KafkaException, match="fenced"):
        hanging.producer.commit_transaction()
    topic("invoices").wait_for(1)  # Apache Kafka answers a commit before its markers are written
    assert len(topic("invoices").records()) == 1


def test_an_instance_that_takes_over_bills_no_order_again(kafka, open_billing, place):
    place("1")
    place("2")
    first = open_billing(kafka)
    assert first.bill_next() == "1"
    first.close()
    assert open_billing(kafka).bill_next() == "2"


def test_orders_are_billed_once_each_over_a_restart_of_the_broker(kafka, kafka_broker, topic, open_billing, place):
    for order in ("1", "2", "3"):
        place(order)
    billing = open_billing(kafka)
    assert billing.bill_next() == "1"
    kafka_broker.stop()
    kafka_broker.start()  # on the same port, with the same data
    assert [billing.bill_next(), billing.bill_next()] == ["2", "3"]
    assert [invoice.key for invoice in topic("invoices").records()] == [b"1", b"2", b"3"]


def test_an_invoice_is_written_once_although_the_answer_of_the_commit_is_lost(
    kafka, topic, open_billing, place, kafka_faults
):
    place("42")
    billing = open_billing(kafka)
    lost = kafka_faults.commit_answer_is_lost("billing-1")
    assert billing.bill_next() == "42"
    lost.assert_hit(times=1)
    assert [invoice.key for invoice in topic("invoices").wait_for(1)] == [b"42"]
