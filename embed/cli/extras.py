"""Parts of kmini that need packages which not everybody installs."""

from __future__ import annotations

from importlib.util import find_spec

import click


def need_extra(extra: str, *modules: str) -> None:
    """UsageError that says what to install, unless all these modules are there. None of them is imported."""
    if missing := [module for module in modules if find_spec(module) is None]:
        raise click.UsageError(f"{', '.join(missing)} is not installed; pip install 'kmini[{extra}]' installs it")
