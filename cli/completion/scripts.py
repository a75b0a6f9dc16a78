"""Shell scripts that ask for completions.

Each sets VARIABLE, passes the words typed, and reads a candidate a line with its meaning behind a tab. Without one the
shell completes files."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "_SWEEPDB_COMPLETE"

# Bash splits words at `:` and `=` itself, which would tear probes and `--option=value` apart: the line is read instead.
_BASH = """_sweepdb_offers() {
    local line="${COMP_LINE:0:COMP_POINT}" current prefix= IFS=$' \\t\\n'
    local -a typed
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    current="${typed[${#typed[@]} - 1]}"
    IFS=$'\\n'
    COMPREPLY=($(VARIABLE=bash "$1" "${typed[@]:1}" 2>/dev/null))
    [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && prefix="${current%"${current##*:}"}"
    [[ $COMP_WORDBREAKS == *=* && $current == *=* ]] && prefix="${current%"${current##*[=:]}"}"
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=,] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _sweepdb_offers sweepdb
"""
_ZSH = """#compdef sweepdb
_sweepdb() {
    local line
    local -a offers behind
    for line in "${(@f)$(VARIABLE=zsh "${(Q)words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && offers+=("${${line%%$'\\t'*}//:/\\\\:}${${(M)line:#*$'\\t'*}:+:${line#*$'\\t'}}")
        [[ ${line%%$'\\t'*} == *: ]] && behind=(-S '')
    done
    if (( ${#offers} )); then
        _describe sweepdb offers "${behind[@]}"
    else
        _files
    fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _sweepdb "$@"
else
    compdef _sweepdb sweepdb
fi
"""
_FISH = """function __sweepdb_offers
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l found (env VARIABLE=fish $typed[1] $typed[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c sweepdb -f -a '(__sweepdb_offers)'
"""
SCRIPTS: Mapping[str, str] = {
    shell: script.replace("VARIABLE", VARIABLE) for shell, script in (("bash", _BASH), ("zsh", _ZSH), ("fish", _FISH))
}
