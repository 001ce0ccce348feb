"""`kmini completion`: shell code that completes commands and options."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell code that completes the commands and options of kmini.

    \b
    eval "$(kmini completion bash)"              in ~/.bashrc; bash 4.4 or later
    eval "$(kmini completion zsh)"               in ~/.zshrc
    kmini completion fish > ~/.config/fish/completions/kmini.fish
    """
    from click.shell_completion import get_completion_class

    parent = context.parent
    assert parent is not None
    completer = get_completion_class(shell)
    assert completer is not None
    # click looks for this name and this variable when the program `kmini` starts.
    click.echo(completer(parent.command, {}, "kmini", "_KMINI_COMPLETE").source())
