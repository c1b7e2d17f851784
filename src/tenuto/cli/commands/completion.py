"""`tenuto completion`: print a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tenuto.cli.terminal.output import print_text

_EXAMPLES = """\b
Examples:
  tenuto completion bash > ~/.local/share/bash-completion/completions/tenuto
  tenuto completion zsh > ~/.zfunc/_tenuto      # with ~/.zfunc in fpath before compinit
  tenuto completion fish > ~/.config/fish/completions/tenuto.fish

\b
Create the directory first. Or add this to the shell's start-up file:
  eval "$(tenuto completion bash)"              # ~/.bashrc
  eval "$(tenuto completion zsh)"               # ~/.zshrc, after compinit
  tenuto completion fish | source               # ~/.config/fish/config.fish
"""
_BASH_COLONS = r"""
# bash splits words at ":" (ollama/llama3:8b): join them, and remove the joined part from the replies
_tenuto_join_colons() {
    local words=() last=-1 word head
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if ((last > 0)) && [[ $word == : || ${words[last]} == *: ]]; then words[last]+=$word; else words[++last]=$word; fi
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$last
    head=${words[last]%"${words[last]##*:}"}
    _tenuto_completion "$@"
    COMPREPLY=("${COMPREPLY[@]#"$head"}")
}
complete -o nosort -F _tenuto_join_colons tenuto
"""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    It completes commands, options, models, sessions, tools, providers, profiles and files. Save it where your shell loads
    completions, then open a new terminal.
    """
    completion = get_completion_class(shell)
    assert completion is not None  # click knows all of SHELLS
    script = completion(ctx.find_root().command, {}, "tenuto", "_TENUTO_COMPLETE").source()
    print_text(script + (_BASH_COLONS if shell == "bash" else ""))
