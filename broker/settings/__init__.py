"""The table of settings, and how it changes while the broker runs.

Reading order: `storage/config_key.py`, `storage/log_config.py`, `broker_config.py` (one line for each key, from which
everything about settings is read), `dynamic_config.py`, `broker/controller/config_changes.py`.
"""
