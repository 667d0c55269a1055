"""Completion in fish and zsh of values written as `--stack=e4s`, of descriptions with a comma, and of file names.

Where cachewatch knows no name, both offer files: most arguments may be one.
"""

import re

from click.shell_completion import CompletionItem, FishComplete, ZshComplete, add_completion_class

_FISH = """\
function %(complete_func)s
    set -l found (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -ct) %(prog_name)s)
    for line in $found
        set -l parts (string split -m 1 , -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
    test -n "$found"; or __fish_complete_path (commandline -ct)
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described found
    local type key descr
    (( $+commands[%(prog_name)s] )) || return 1
    found=("${(@f)$(env %(complete_var)s=zsh_complete COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(prog_name)s)}")
    if [[ -z "$found" ]]; then
        _files
        return
    fi
    for type key descr in ${found}; do
        case $type in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain) if [[ $descr == _ ]]; then plain+=("$key"); else described+=("$key:$descr"); fi ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -U compinit && compinit; }
    compdef %(complete_func)s %(prog_name)s
fi
"""
_OPTION = re.compile(r"--[^=]+=")


def _with_option(item: CompletionItem, typed: str) -> CompletionItem:
    """Put `--stack=` back before a value: both shells replace the whole word."""
    option = _OPTION.match(typed)
    if option is not None and not item.value.startswith(option[0]):
        item.value = f"{option[0]}{item.value}"
    return item


@add_completion_class
class WholeWordsOfFish(FishComplete):
    """Answers with whole words, and the script keeps commas in descriptions."""

    source_template = _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one that is being typed."""
        words, self._typed = super().get_completion_args()
        return words, self._typed

    def format_completion(self, item: CompletionItem) -> str:
        """Return an answer for the script."""
        return super().format_completion(_with_option(item, self._typed))


@add_completion_class
class WholeWordsOfZsh(ZshComplete):
    """Answers with whole words, and the script loads what it needs of zsh."""

    source_template = _ZSH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one that is being typed."""
        words, self._typed = super().get_completion_args()
        return words, self._typed

    def format_completion(self, item: CompletionItem) -> str:
        """Return an answer for the script."""
        return super().format_completion(_with_option(item, self._typed))
