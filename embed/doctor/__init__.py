"""`kmini doctor`: what is wrong with a Kafka of any make, asked over its protocol from where its clients are.

- `findings`: the one table of what can be found, with the level of each
- `asking`: the brokers, each with one connection, and a time limit for each question
- `addresses`: the address that was given, and those that the brokers tell clients to use
- `examination`: all checks, one after the other

It imports no broker.
"""
