# SPDX-License-Identifier: BSD-2-Clause
# Completion for bash. Commands, options and values are those that `uroce` itself tells.

# _uroce_options COMMAND: its options, each with a = and the value's word behind it if it takes one
_uroce_options() {
	uroce "$1" --help 2>/dev/null |
		sed -nE 's/^  (-[[:alnum:]],|   ) (--[[:alnum:]-]+)(\[=[A-Z]+\])?( [A-Z]+)?( .*)?$/\1 \2\4/p' |
		awk '{ value = $NF ~ /^[A-Z]+$/ ? "=" $NF : ""; sub(",", "", $1); print $1 value; if ($2 ~ /^-/) print $2 value }'
}

# _uroce_values COMMAND WORD BEFORE: what the value may be; false: a file
_uroce_values() {
	case $1:$2:$3 in
	*:NAME:-a | *:NAME:--adapter)
		uroce help environment 2>/dev/null | sed -n 's/^UROCE_ADAPTER=\([^ ,]*\).*/\1/p' | tr '|' '\n' ;;
	trace:NAME:*) uroce trace -o . 2>&1 | sed -n 's/.*these are://p' ;;
	conform:NAME:*) uroce link 2>/dev/null | cut -d' ' -f1 ;;
	check:CLASS:*) echo leaks habits buffers mappings races all ;;
	check:DEVICE:*) ls /sys/class/infiniband 2>/dev/null ;;
	conform:RULE:*) uroce conform --list 2>/dev/null | grep '^[a-z]' ;;
	*:FILE:* | *:DIR:* | *:RULES:*) return 1 ;;
	esac
}

_uroce_pids() {
	ps -o pid= -u "$(id -u)"
}

_uroce() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} i options
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(uroce --help | sed -n 's/^  \([a-z]\+\) .*/\1/p') help --help --version" -- "$word")
		return
	fi
	options=$(_uroce_options "$command")
	# the program of run and check, which has a completion of its own
	case $command in run | check)
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			--) ((i++)); break ;;
			-*) ! grep -qe "^${COMP_WORDS[i]}=" <<<"$options" || ((i++)) ;;
			*) break ;;
			esac
		done
		if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
			_command_offset "$i"
			return
		fi ;;
	esac
	if i=$(grep -e "^$before=" <<<"$options"); then
		if i=$(_uroce_values "$command" "${i#*=}" "$before"); then
			mapfile -t COMPREPLY < <(compgen -W "$i" -- "$word")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
		fi
		return
	fi
	case $word in -*)
		mapfile -t COMPREPLY < <(compgen -W "--help $(cut -d= -f1 <<<"$options")" -- "$word")
		return ;;
	esac
	case $command in
	run | check) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
	link) [ "$COMP_CWORD" = 2 ] && options="down up" || options=$(uroce link 2>/dev/null | cut -d' ' -f1)
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
	demo) mapfile -t COMPREPLY < <(compgen -W "faults check mistakes mended" -- "$word") ;;
	help) mapfile -t COMPREPLY < <(compgen -W "environment $(uroce --help | sed -n 's/^  \([a-z]\+\) .*/\1/p')" -- "$word") ;;
	fault) [ "$COMP_CWORD" = 2 ] && options=$(_uroce_pids) || options="list add remove clear"
		[ "$COMP_CWORD" -gt 3 ] || mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
	pcap | stat | top) mapfile -t COMPREPLY < <(compgen -W "$(_uroce_pids)" -- "$word") ;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	esac
}
complete -o filenames -F _uroce uroce
