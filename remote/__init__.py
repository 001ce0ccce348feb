"""Tests of a service against any Kafka elsewhere, over Kafka's protocol, with the handles of `Broker` that it allows.

Reading order: `remote_broker.py`, `remote_operations.py`, `needs_kmini.py` (what is refused), `remote_facts.py` (for
the failure report).
"""
