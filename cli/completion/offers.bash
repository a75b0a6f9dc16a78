_sweepdb_offers() {
    local line="${COMP_LINE:0:COMP_POINT}" current prefix= IFS=$' \t\n'
    local -a typed
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    current="${typed[${#typed[@]} - 1]}"
    IFS=$'\n'
    COMPREPLY=($(VARIABLE=bash "$1" "${typed[@]:1}" 2>/dev/null))
    [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && prefix="${current%"${current##*:}"}"
    [[ $COMP_WORDBREAKS == *=* && $current == *=* ]] && prefix="${current%"${current##*[=:]}"}"
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=,] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _sweepdb_offers sweepdb
