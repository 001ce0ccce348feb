"""Commands that need packages of an extra, which `pip install .` alone does not bring."""

from __future__ import annotations

import click

from kmini.testkit.installed import missing


def need_extra(extra: str, *modules: str) -> None:
    """Raise a UsageError that says what to install, unless all these modules can be imported. Imports none of them."""
    if absent := missing(modules):
        raise click.UsageError(
            f"{', '.join(absent)} is not installed; pip install '.[{extra}]' in a clone of kmini installs it,"
            f" or pip install 'FILE[{extra}]' with the FILE of its wheel"
        )
