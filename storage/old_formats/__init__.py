"""Message sets of magic 0 and 1, which only old clients send. Nothing else in storage/ knows how to validate them.

- `message_set_validation`: whether a set may enter a log, and the batch that it becomes
"""
