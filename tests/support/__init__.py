"""Helpers that several test files share. pytest puts `tests/` on the path (`pythonpath` in pyproject.toml)."""
