#compdef sweepdb
_sweepdb() {
    local line
    local -a offers behind
    for line in "${(@f)$(VARIABLE=zsh "${(Q)words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && offers+=("${${line%%$'\t'*}//:/\\:}${${(M)line:#*$'\t'*}:+:${line#*$'\t'}}")
        [[ ${line%%$'\t'*} == *: ]] && behind=(-S '')
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
