"""`tenuto completion`: what a shell needs to complete commands, options, models, sessions."""

from __future__ import annotations

import click

__all__ = ["SHELLS", "command"]

_EXAMPLES = """\b
Examples:
  tenuto completion bash > ~/.local/share/bash-completion/completions/tenuto
  tenuto completion zsh > ~/.zfunc/_tenuto      # with ~/.zfunc in fpath before compinit
  tenuto completion fish > ~/.config/fish/completions/tenuto.fish

\b
The folder has to be there. Or, in the file that the shell reads when it starts:
  eval "$(tenuto completion bash)"              # ~/.bashrc
  eval "$(tenuto completion zsh)"               # ~/.zshrc, after compinit
  tenuto completion fish | source               # ~/.config/fish/config.fish
"""

_BASH = r"""# Completion of tenuto for bash. Keep this as ~/.local/share/bash-completion/completions/tenuto (make the folder first), or
# have ~/.bashrc say: eval "$(tenuto completion bash)"
_tenuto_completion() {
    local IFS=$'\n' rest=${COMP_LINE:0:COMP_POINT} words=() last=-1 i gap word current head='' response line
    # readline cuts words at : and =, too, which are parts of names here: put together what no space parts
    for ((i = 0; i <= COMP_CWORD; i++)); do
        gap=${rest%%[![:space:]]*}
        rest=${rest#"$gap"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$rest
        rest=${rest#"$word"}
        if ((i == 0)) || [[ -n $gap ]]; then
            words[++last]=$word
        else
            words[last]+=$word
        fi
    done
    current=${words[last]}
    [[ $current == --*=* ]] && current=${current#*=}
    # ... and leave out of the answers what it has cut off
    [[ $current != [\"\']* && $COMP_WORDBREAKS == *:* ]] && head=${current%"${current##*:}"}

    response=$(COMP_WORDS="${words[*]}" COMP_CWORD=$last _TENUTO_COMPLETE=bash_complete "${1/#\~\//$HOME/}" 2>/dev/null)
    COMPREPLY=()
    while read -r line; do
        case $line in
            plain,*) line=${line#plain,} COMPREPLY+=("${line#"$head"}") ;;
            dir,*) compopt -o dirnames 2>/dev/null || COMPREPLY+=($(compgen -d -- "$current")) ;;
            file,*) compopt -o default 2>/dev/null || COMPREPLY+=($(compgen -f -- "$current")) ;;
        esac
    done <<< "$response"
}
complete -o nosort -F _tenuto_completion tenuto 2>/dev/null || complete -F _tenuto_completion tenuto
"""

_ZSH = r"""#compdef tenuto
# Completion of tenuto for zsh. Keep this as _tenuto in a folder of $fpath, or have ~/.zshrc say, after compinit:
# eval "$(tenuto completion zsh)"
_tenuto_completion() {
    local -a response plain described anyhow=(-U)
    local kind value help
    response=("${(@f)$(COMP_WORDS="${words[1,CURRENT]}" COMP_CWORD=$((CURRENT - 1)) _TENUTO_COMPLETE=zsh_complete \
        ${words[1]/#\~\//$HOME/} 2>/dev/null)}")
    [[ ${words[CURRENT]} == --*=* ]] && compset -P '*=' && anyhow=()
    for kind value help in ${response}; do
        case $kind in
            plain) if [[ $help == _ ]]; then plain+=("$value"); else described+=("$value:$help"); fi ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described $anyhow
    (( $#plain )) && compadd $anyhow -V unsorted -a plain
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _tenuto_completion "$@"
else
    compdef _tenuto_completion tenuto
fi
"""

_FISH = r"""# Completion of tenuto for fish. Keep this as ~/.config/fish/completions/tenuto.fish, or have ~/.config/fish/config.fish say:
# tenuto completion fish | source
function _tenuto_completion
    set -l current (commandline -ct)
    set -l head (string match -r -- '^--[a-z-]+=' $current; or echo)
    set -l response (env _TENUTO_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=$current tenuto 2>/dev/null)
    for line in $response
        set -l parts (string split -m 1 , -- $line)
        switch $parts[1]
            case plain
                echo -- $head$parts[2]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
        end
    end
end
complete --no-files --keep-order --command tenuto --arguments '(_tenuto_completion)'
"""

SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""What each shell is told. It asks the command itself, by the variables that click defines for that."""


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> int:
    """Print what SHELL needs to complete what is typed: commands, options and their values, models, sessions by id and
    name, tools, providers, profiles, files.

    Keep it where the shell looks for such files, or have the shell read it when it starts; then open another terminal. It
    does not change with the version: what can be completed is asked of the command when the tab key is pressed. Nothing
    is sent anywhere for that, and nothing is written.
    """
    from tenuto.cli.screen import write_text

    write_text(SHELLS[shell])
    return 0
