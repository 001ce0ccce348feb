"""`kmini doctor`: what is wrong with a Kafka of any make, asked over its protocol from where its clients are.

- `findings`: the one table of what can be found, with the level of each
- `asking`: the brokers, each with one connection, and a time limit for each question
- `examination`: all checks, one after the other
- `addresses`: the address that was given, and those that the brokers tell clients to use
- `server`, `settings`, `partitions`, `replicas`, `topics`, `groups`, `transactions`: the other checks

What the failure report finds as well is found by its functions (`kmini.testkit.report.diagnoses`), on facts that
requests tell.

It imports no broker.
"""
