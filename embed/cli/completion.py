"""`kmini completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete the commands and options of kmini.

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
    # The name and the variable are those that click looks for when the program `kmini` starts.
    click.echo(completer(parent.command, {}, "kmini", "_KMINI_COMPLETE").source())
