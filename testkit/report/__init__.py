"""The failure report: what a broker knows when a test has failed, and the likely reason.

- `facts`: what is known of a broker; `gathering` takes it from brokers here
- `diagnoses`: the one list of reasons, each a function of the facts; those about groups are in `group_diagnoses`
- `failure_report`: both as a text of at most 40 lines
"""
