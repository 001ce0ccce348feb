"""The schema registry: Confluent's REST interface over the broker's own topic `_schemas` (extra "registry").

A request: `registry_server.py` (the table of all requests), `registry_access.py`, `registry_answers.py`, `registry.py`
and `registration.py`, `schema_log.py` (follows `_schemas`, and appends to it), `schemas_topic.py` (its records, byte by
byte), `registered.py` (the state, a fold over them).

`formats/` knows schemas: Avro, JSON Schema, Protobuf. It reads them, says when two are the same, and what keeps one
from reading what another wrote. Nothing there knows of subjects, topics or HTTP.
"""
