"""A log to be made by hand, for tests of the log source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.log_files import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The log of one partition, without segments."""
    from support.log_files import Log

    return Log(tmp_path / "logs")
