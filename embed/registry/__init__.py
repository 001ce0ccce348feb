"""The schema registry: Confluent's REST interface over the broker's own topic `_schemas` (extra "registry").

`formats/` knows schemas: Avro, JSON Schema, Protobuf. It reads them, says when two are the same, and what keeps one
from reading what another wrote. Nothing there knows of subjects, topics or HTTP.
"""
