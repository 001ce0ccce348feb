"""Exactly once: commits in one transaction, aborts, and the fencing of a service that hangs."""

import json

import pytest
from billing import ChargeRefused
from confluent_kafka import KafkaException

from kmini import KafkaError


def test_an_order_is_billed(broker, open_billing, place):
    place("42", cents=999)
    assert open_billing(broker.bootstrap_servers).bill_next() == "42"
    (invoice,) = broker.wait_for_records("invoices", 1)
    assert (invoice.key, json.loads(invoice.value)) == (b"42", {"cents": 999})


def test_a_refused_charge_takes_invoice_and_status_back(broker, open_billing, place):
    place("42", cents=0)
    with pytest.raises(ChargeRefused):
        open_billing(broker.bootstrap_servers).bill_next()
    assert broker.records("invoices") == []
    assert broker.records("status") == []
    with pytest.raises(KafkaError, match="1 more in an aborted transaction of billing-1"):
        broker.wait_for_records("invoices", 1, timeout_ms=0)  # a test that expects the invoice says where it is
    written = broker.records("invoices", isolation="all")  # the log still has it, and no consumer gets it
    assert [record.state for record in written] == ["aborted", "abort marker"]


def test_an_order_whose_charge_is_refused_is_the_next_one_again(broker, open_billing, place, monkeypatch):
    place("42", cents=0)
    billing = open_billing(broker.bootstrap_servers)
    with pytest.raises(ChargeRefused):
        billing.bill_next()
    monkeypatch.setattr("billing.charge", lambda order, cents: None)
    assert billing.bill_next() == "42"
    assert [invoice.key for invoice in broker.records("invoices")] == [b"42"]


def bill_without_commit(billing):
    order = billing.next_order()
    billing.producer.begin_transaction()
    billing.bill(order)


def test_an_invoice_is_there_once_its_transaction_is_committed_and_not_before(broker, open_billing, place):
    place("42")
    billing = open_billing(broker.bootstrap_servers)
    bill_without_commit(billing)
    assert broker.records("invoices") == []
    assert [record.state for record in broker.records("invoices", isolation="uncommitted")] == ["open"]
    billing.producer.commit_transaction()
    assert [record.key for record in broker.records("invoices")] == [b"42"]


def test_an_instance_that_hangs_is_fenced_by_the_next_one(broker, open_billing, place):
    place("42")
    hanging = open_billing(broker.bootstrap_servers)
    bill_without_commit(hanging)
    hanging.consumer.close()  # the group takes it for dead, and its transaction is open
    assert open_billing(broker.bootstrap_servers).bill_next() == "42"
    with pytest.raises(KafkaException, match="fenced"):
        hanging.producer.commit_transaction()
    assert len(broker.records("invoices")) == 1


def test_an_instance_that_takes_over_bills_no_order_again(broker, open_billing, place):
    place("1")
    place("2")
    first = open_billing(broker.bootstrap_servers)
    assert first.bill_next() == "1"
    first.close()
    assert open_billing(broker.bootstrap_servers).bill_next() == "2"


def test_orders_are_billed_once_each_over_a_restart_of_the_broker(broker, open_billing, place):
    for order in ("1", "2", "3"):
        place(order)
    billing = open_billing(broker.bootstrap_servers)
    assert billing.bill_next() == "1"
    broker.stop()
    broker.start()  # on the same port, with the same data
    assert [billing.bill_next(), billing.bill_next()] == ["2", "3"]
    assert [invoice.key for invoice in broker.records("invoices")] == [b"1", b"2", b"3"]
