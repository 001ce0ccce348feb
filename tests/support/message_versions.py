"""Every message in every version, for tests that try them all."""

from __future__ import annotations

import os

from kmini.protocol.messages import REQUESTS
from kmini.protocol.schema import Message

CLASSES: list[type[Message]] = [cls for request in REQUESTS.values() for cls in (request, request.response)]

EVERY_VERSION = [(cls, version) for cls in CLASSES for version in range(cls.min_version, cls.max_version + 1)]

FIRST_AND_NEWEST = [(cls, version) for cls, version in EVERY_VERSION if version in (cls.min_version, cls.max_version)]

TRIED = EVERY_VERSION if os.environ.get("KMINI_SOAK") else FIRST_AND_NEWEST
"""The versions that slow tests try."""
