"""The progress of long work, on stderr if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[..., None]


@contextmanager
def progress(what: str, *, total: int | None, in_bytes: bool = False, shown: bool = True) -> Iterator[Advance]:
    """Show a bar while the block runs. Yields `update(completed, total=None, what=None)`. A total of None is unknown
    yet; without counts the bar only shows that the work goes on. `shown` is False where a bar would disturb records on
    the same terminal."""
    if not shown or not sys.stderr.isatty():
        yield lambda completed, total=None, what=None: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import TransferSpeedColumn as Speed
    from rich.text import Text

    class Rate(Speed):
        def render(self, task: Any) -> Text:
            return Text(f"{task.speed or 0:,.0f}/s")

    columns: tuple[ProgressColumn, ...] = ()  # work that counts nothing
    if in_bytes:
        columns = (DownloadColumn(binary_units=True), Speed())
    elif total is not None:
        columns = (MofNCompleteColumn(), Rate())
    name = TextColumn("{task.description}", markup=False)
    with Progress(
        name, BarColumn(), *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=total)

        def update(completed: int, total: int | None = None, what: str | None = None) -> None:
            bar.update(task, completed=completed, total=total, description=what)

        yield update
