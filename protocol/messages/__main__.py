"""Print the functions that encode and decode a message: `python -m kmini.protocol.messages DeleteRecordsRequest 2`."""

from __future__ import annotations

import sys

from .. import messages
from ..compile import source_of


def main(arguments: list[str]) -> int:
    """Print the source of a message class in a version, or how to call this; return the exit code."""
    try:
        cls, version = getattr(messages, arguments[0]), int(arguments[1])
        cls.check_version(version)
    except (IndexError, AttributeError, ValueError) as error:
        print(f"usage: python -m kmini.protocol.messages <message class> <version>   ({error})")
        return 2
    print(source_of(cls, version), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
