"""What to do about a port that `kmini serve` cannot listen on."""

from __future__ import annotations

import errno


def remedy(error: Exception, port_option: str, host_option: str) -> str:
    """The remedy for a PortTaken error, with the options that name the port and the address."""
    number = getattr(error.__cause__, "errno", None)
    if number == errno.EADDRINUSE:
        return f"stop the program that listens there, or choose another port with {port_option} (0 takes any free one)"
    if number == errno.EACCES:
        return f"ports below 1024 are the administrator's, choose another one with {port_option}"
    return f"choose an address of this machine with {host_option}"
