# SPDX-License-Identifier: BSD-2-Clause
# Completion for bash. Commands, options and values are those that `uroce` itself tells.

# _uroce_options COMMAND: its options, each with a = behind it if it takes a value
_uroce_options() {
	uroce "$1" --help 2>/dev/null |
		sed -nE 's/^  (-[[:alnum:]]), (--[[:alnum:]-]+)(\[=[A-Z]+\])?( [A-Z]+( .*|$)| .*|$)/\1 \2\4/p' |
		awk '{ value = $3 ~ /^[A-Z]+$/ ? "=" : ""; print $1 value; print $2 value }'
}

_uroce_values() {
	case $1 in
	-a | --adapter) uroce help environment 2>/dev/null | sed -n 's/^UROCE_ADAPTER=\([^ ,]*\).*/\1/p' | tr '|' '\n' ;;
	*) return 1 ;;
	esac
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
			-*) ! grep -qxe "${COMP_WORDS[i]}=" <<<"$options" || ((i++)) ;;
			*) break ;;
			esac
		done
		if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
			_command_offset "$i"
			return
		fi ;;
	esac
	if grep -qxe "$before=" <<<"$options"; then
		mapfile -t COMPREPLY < <(compgen -W "$(_uroce_values "$before")" -- "$word")
		[ "${#COMPREPLY[@]}" != 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
	fi
	case $word in -*)
		mapfile -t COMPREPLY < <(compgen -W "--help ${options//=/}" -- "$word")
		return ;;
	esac
	case $command in
	run | check) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
	link) [ "$COMP_CWORD" = 2 ] && options="down up" || options=$(uroce link 2>/dev/null | cut -d' ' -f1)
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
	demo) mapfile -t COMPREPLY < <(compgen -W "faults check mistakes mended" -- "$word") ;;
	help) mapfile -t COMPREPLY < <(compgen -W "environment $(uroce --help | sed -n 's/^  \([a-z]\+\) .*/\1/p')" -- "$word") ;;
	pcap | stat | top) mapfile -t COMPREPLY < <(compgen -W "$(ps -o pid= -u "$(id -u)")" -- "$word") ;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	esac
}
complete -o filenames -F _uroce uroce
