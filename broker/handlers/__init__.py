"""One module for each API: data sheet, permissions, guard and handler.

A module is imported, and registers its handler, when the first request for it arrives. `api/served_versions.py` lists
the modules. The docstring of a module is the data sheet: versions, behaviour, differences from Apache Kafka.
"""

from ..api.registry import listed
from ..api.served_versions import SERVED_VERSIONS

HANDLERS = listed(__name__, SERVED_VERSIONS)
"""The handler of every API, by API key."""
