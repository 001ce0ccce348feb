"""Records as Kafka stored them before record batches: messages of magic 0 and 1.

Old clients send and fetch them, old logs hold them. The rest of the package imports this room when it meets one.

- `messages`: message sets and wrappers, read and built
- `lz4_checksum`: the wrong checksum of lz4 frames in messages of magic 0
- `down_conversion`: batches made into messages for old clients
"""
