"""Modules beside the tests that they import: what the Dockerfile says, containers, and wrappers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
