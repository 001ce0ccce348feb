"""Tests of a service against a Kafka that runs elsewhere, with the handles of `Broker` that the protocol allows.

Reading order: `remote_broker.py`, `remote_operations.py`, `needs_kmini.py` (what is refused), `remote_facts.py` (for
the failure report).
"""
