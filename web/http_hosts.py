"""Hosts of HTTP: whether only this machine reaches what listens at one, and what a Host header and an Origin say.

A page of a browser can reach a server on loopback under a name of its own site, whose address it changes (DNS
rebinding). So such a server serves only requests whose Host is a name of this machine: `control/access.py` and
`registry/registry_access.py` refuse others.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at a host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def names_this_machine(host: str) -> bool:
    """Whether a Host header names this machine."""
    return is_loopback(_name_of(host))


def is_other_origin(origin: str | None, host: str) -> bool:
    """Whether an Origin header, None without one, is that of a page of another server than `host` names."""
    return origin is not None and origin not in (f"http://{host}", f"https://{host}")


def _name_of(host: str) -> str:
    """The host of a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]
