# SPDX-License-Identifier: BSD-2-Clause
# Completion for fish. Commands, options and values are those that `uroce` itself tells.

function __uroce_commands
    uroce --help | string match -rg '^  ([a-z]+ +[^ ].*)' | string replace -r ' +' \t
end

# Whether the command line is at one's options or arguments: its command, and before a program of run or check.
function __uroce_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and echo $words[2]
end

function __uroce_options
    set -l command (__uroce_command); or return
    uroce $command --help 2>/dev/null | string match -rg '^  -[[:alnum:]], (--[[:alnum:]-]+(?: [A-Z]+(?= |$))?.*)' |
        string replace -r '^(--[[:alnum:]-]+)(?: [A-Z]+(?= |$))? *' '$1\t'
    uroce $command --help 2>/dev/null | string match -rg '^  (-[[:alnum:]]), '
    echo --help
end

function __uroce_adapters
    uroce help environment | string match -rg '^UROCE_ADAPTER=([^ ,]*)' | string split '|'
end

complete -c uroce -n 'not __uroce_command' -f -a '(__uroce_commands)'
complete -c uroce -n '__uroce_command; and string match -q -- "-*" (commandline -ct)' -f -a '(__uroce_options)'
complete -c uroce -n 'contains -- (commandline -opc)[-1] -a --adapter' -f -a '(__uroce_adapters)'
complete -c uroce -n 'contains -- (__uroce_command) run check; and not contains -- (commandline -opc)[-1] -a --adapter' -a '(__fish_complete_subcommand --fcs-skip=2)'
complete -c uroce -n 'contains -- (__uroce_command) link; and test (count (commandline -opc)) = 2' -f -a 'down up'
complete -c uroce -n 'contains -- (__uroce_command) link; and test (count (commandline -opc)) -gt 2' -f -a '(uroce link | string split -f1 " ")'
complete -c uroce -n 'contains -- (__uroce_command) demo; and not string match -q -- "-*" (commandline -ct)' -f -a 'faults check mistakes mended'
complete -c uroce -n 'contains -- (__uroce_command) help' -f -a 'environment (__uroce_commands)'
complete -c uroce -n 'contains -- (__uroce_command) check; and contains -- (commandline -opc)[-1] -o --only' -f -a 'leaks habits buffers mappings races all'
complete -c uroce -n 'contains -- (__uroce_command) fault; and test (count (commandline -opc)) = 3' -f -a 'list add remove clear'
