function __sweepdb_offers
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l found (env VARIABLE=fish $typed[1] $typed[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c sweepdb -f -a '(__sweepdb_offers)'
