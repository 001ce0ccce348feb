"""The broker: requests → storage, several brokers in one process. DESIGN.md has its rooms, each importing from those
below it only.

Reading order: `services.py` (the parts that requests reach), `network/`, `api/`, `handlers/`, `appending.py`,
`replication/`, `log_maintenance.py` (what a change of a log leaves to be done), `purgatory.py` (what waits), then
`broker.py` (how the parts belong together) and `local_cluster.py`.

This file imports nothing: a start imports what the first answer needs.
"""
