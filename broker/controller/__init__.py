"""The controller: what the cluster agrees on, and the database that keeps it. All brokers of a process share one.

Reading order: `topology.py` (brokers, topics, replicas), `controller.py`, `elections.py` (leaders, in-sync replicas),
`database.py` with `database_entries.py` and `old_sqlite_database.py`, `topics.py` (creating and deleting) with
`topic_plans.py` and `placement.py`, `config_changes.py` and `stored_config.py`; `reassignments.py`, `client_quotas.py`
and `topic_descriptions.py` serve the requests that their names say; `peers.py` reaches the other brokers.
"""
