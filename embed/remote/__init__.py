"""Tests of a service against a Kafka that runs elsewhere, with the handles of `Broker` that the protocol allows."""
