"""Progress of long work, on stderr where that is a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[..., None]


@contextmanager
def progress(what: str, *, total: int | None, in_bytes: bool = False, shown: bool = True) -> Iterator[Advance]:
    """A bar while the block runs. Gives `update(completed, total=None, what=None)`.

    A total of None is not known yet; where nothing is counted the bar shows only that the work goes on. `shown` says
    whether a bar makes sense here: beside records that go to the same terminal it does not.
    """
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
