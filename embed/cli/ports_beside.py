"""`kmini serve`: the ports beside Kafka's, that of the control API (`--http`) and that of the schema registry
(`--registry`). Nothing of this is imported where neither is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kmini.cli.environment import Environment

if TYPE_CHECKING:
    from kmini.cli.http_port import HttpPort
    from kmini.cli.init_directory import InitDirectory
    from kmini.cli.registry_port import RegistryPort
    from kmini.control.steered import Steered
    from kmini.registry.schema_log import Served

LOOPBACK = "127.0.0.1"


class _Kind(NamedTuple):
    """A port that may be wanted."""

    option: str
    what: str


_HTTP = _Kind("http", "control API")
_REGISTRY = _Kind("registry", "schema registry")


class PortsBeside:
    """The wanted ports, which listen from the beginning, and their servers."""

    def __init__(
        self,
        http: HttpPort | None,
        registry: RegistryPort | None,
        files: Mapping[str, str | None],
        write: Callable[[str, str], None],
    ) -> None:
        """`files` has the file for the port of each, by its option; `write` writes a text to one."""
        self.http = http
        self._registry = registry
        self._files = files
        self._write = write

    @property
    def runs_files(self) -> bool:
        """Whether there is an init directory: `serve` says when its files have been run."""
        return self.http is not None and self.http.init is not None

    async def serve(self, served: Served | Steered, say_ready: Callable[[], None]) -> None:
        """Serve what is wanted in front of what runs, and tell where. The control API comes last: when it says that all
        is ready, the registry is. `say_ready` is called when the files of the init directory have been run, if there
        is one."""
        if self._registry is not None:
            click.echo(f"schema registry {await self._registry.serve(served)}")
            self._tell(_REGISTRY, self._registry.port)
            if self.http is not None:
                self.http.tell_of_registry(self._registry)
        if self.http is not None:
            click.echo(await self.http.serve(say_ready))
            self._tell(_HTTP, self.http.port)

    def _tell(self, kind: _Kind, port: int) -> None:
        file = self._files[kind.option]
        if file is not None:
            self._write(file, f"{port}\n")

    async def stop(self) -> None:
        """End all connections, and remove the files."""
        for file in filter(None, self._files.values()):
            with suppress(FileNotFoundError):
                os.remove(file)
        if self.http is not None:
            await self.http.stop()
        if self._registry is not None:
            await self._registry.stop()


@contextmanager
def open_ports(
    environment: Environment, given: Mapping[str, Any], init: InitDirectory | None, write: Callable[[str, str], None]
) -> Iterator[PortsBeside]:
    """The ports that options or the environment ask for, which listen from now on. The start runs the files of `init`;
    `write` writes a text to a file. Raises click.UsageError."""
    with ExitStack() as stack:
        http = registry = None
        place = _place(_HTTP, given, environment.http_port, environment.http_host, environment)
        if place is None and init is not None:
            raise click.UsageError(
                "the files of an init directory need the control API, which says when they are done: add --http PORT, "
                "or set KMINI_HTTP"
            )
        if place is not None:
            from kmini.cli.http_port import HttpPort
            from kmini.cli.listening_port import opened

            http = stack.enter_context(opened(lambda: HttpPort(*place, init), "--http"))
        registry_place = _place(_REGISTRY, given, environment.registry_port, environment.registry_host, environment)
        if registry_place is not None:
            from kmini.cli.listening_port import opened
            from kmini.cli.registry_port import RegistryPort

            registry = stack.enter_context(opened(lambda: RegistryPort(*registry_place), "--registry"))
        files = {kind.option: given[f"{kind.option}_port_file"] for kind in (_HTTP, _REGISTRY)}
        yield PortsBeside(http, registry, files, write)


def _place(
    kind: _Kind, given: Mapping[str, Any], port_of_environment: int | None, host: str, environment: Environment
) -> tuple[str, int] | None:
    """The host and the port of a wanted server; None if it is not wanted. Raises click.UsageError."""
    port = port_of_environment if given[kind.option] is None else given[kind.option]
    if port is not None:
        return given[f"{kind.option}_host"] or (host if environment.is_read else LOOPBACK), port
    for name in ("host", "port_file"):
        if given[f"{kind.option}_{name}"] is not None:
            option = f"--{kind.option}-{name.replace('_', '-')}"
            raise click.UsageError(f"{option}: there is no {kind.what} without --{kind.option} PORT")
    return None
