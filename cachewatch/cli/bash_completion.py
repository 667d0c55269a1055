"""Completion in bash of words with a colon, an @ or a =, at which bash itself divides words (`HEAD:develop`, `hdf5@1.14`)."""

import os
import re

from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

_SOURCE = """\
%(complete_func)s() {
    local IFS=$'\\n' type value
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env CACHEWATCH_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -o bashdefault -o default -F %(complete_func)s %(prog_name)s
"""
_LAST_BREAK = re.compile(r".*[:@=]")


@add_completion_class
class WholeWords(BashComplete):
    """Completes by the line as it was typed, and answers with what bash does not have yet."""

    name = "bash"
    source_template = _SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one that is being typed."""
        line = os.environ.get("CACHEWATCH_LINE", "")
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        self._typed = incomplete
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return the type of an answer, and the part of it that replaces what bash takes for the current word."""
        found = _LAST_BREAK.match(self._typed)
        value = str(item.value)
        return f"{item.type},{value[found.end() :] if found and value.startswith(found[0]) else value}"
