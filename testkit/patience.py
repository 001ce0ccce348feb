"""How long a call waits for clients where the test does not say it.

This module imports nothing: every pytest run that has kmini installed loads it.
"""

DEFAULT_MS = 10_000
"""The `timeout_ms` of most waits."""

factor = 1.0
"""By which the default of each wait is multiplied: the plugin sets it (`kafka_timeout`, `pytest -n`)."""
