"""Brokers inside a program: `Broker` and `Cluster`, their handles, and the report of a failed test.

Each handle is a table of coroutines (`topic_handle.py`), of which `handle.py` makes methods that block and methods to
await. `argument_checks.py` refuses arguments, `waiting.py` is how they wait, and `contents.py` says which records they
show. Fault rules: `fault_handle.py`, `fault_stories.py`, `fault_draft.py`. The journal: `journal_handle.py`.
"""
