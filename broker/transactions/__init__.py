"""The transaction coordinator: producer ids, the states of transactional ids, and the ends of transactions.

Reading order: `transaction_states.py` (the tables), `transaction.py`, `producer_epochs.py` (fencing),
`transaction_coordinator.py` (requests), `completion.py` and `markers.py` (the end), `time_outs.py`. In the log:
`transaction_records.py`, `transaction_store.py`. `verification.py` is what partitions ask before an append (KIP-890).
"""
