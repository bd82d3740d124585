#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages are sound, and name every command, option and environment variable that there is.
cd "$UROCE_SOURCE" || exit
command -v mandoc >/dev/null || { echo "no mandoc"; exit 77; }
result=0
fail() {
	echo "$*"
	result=1
}
for page in man/*.[1-8]; do
	mandoc -T lint -W warning "$page" || fail "$page: see above"
done
for command in $(uroce --help | awk '/^  [a-z]/ { print $1 }'); do
	grep -q "^\.Ss $command\|^\.It Cm $command\|^\.Nm Cm $command" man/uroce.1 || fail "uroce.1 lacks $command"
	for option in $(uroce "$command" --help | grep -o -- '--[a-z]*' | sed 's/^--//'); do
		grep -q -- "Fl -$option" man/uroce.1 || fail "uroce.1 lacks $command --$option"
	done
	# the synopsis has each option by its letter, or by its name if it has none
	synopsis=$(sed '/^\.Sh DESCRIPTION/q' man/uroce.1 | sed -n "/^\.Cm $command\$/,/^\.Nm\$/p")
	for option in $(uroce "$command" --help | sed -n 's/^  -\([a-zA-Z0-9]\),.*/\1/p; s/^      -\(-[a-z]*\).*/\1/p'); do
		case $option in
		-*) echo "$synopsis" | grep -q -- "Fl $option\b" ;;
		*) echo "$synopsis" | grep -qE -- "Fl ([a-zA-Z0-9]*$option[a-zA-Z0-9]*\b|([a-z] \| )*$option\b)" ;;
		esac || fail "the synopsis of $command in uroce.1 lacks $option"
	done
done
# Each variable's line in uroce.7, and the next, are those of the table (src/base/config.def), in its order.
uroce help environment | awk '
	/^UROCE_/ { at = index($0, "="); print ".It Ev " substr($1, 1, at - 1) " Ns = Ns " substr($1, at + 1) " Pq default: " $2 }
	/^ / { sub(/^ +/, ""); print }' >"${TMPDIR:-/tmp}/table.$$"
grep -A1 '^\.It Ev UROCE_' man/uroce.7 | grep -v '^--$' | diff "${TMPDIR:-/tmp}/table.$$" - ||
	fail "uroce.7 lacks the lines marked <, and has those marked >"
rm -f "${TMPDIR:-/tmp}/table.$$"
for call in $(sed -n 's/^CALL(\(.*\))$/\1/p' src/fault/calls.def); do
	grep -q "^\.Cm .*$call [,.]" man/uroce-fault.5 || fail "uroce-fault.5 lacks the call $call"
done
# Whatever reads a variable, tests too, reads one that is in the table; src/ reads them by base/config.h alone.
for variable in $(grep -rhoE '(getenv\("|environ[^a-z"]*"|environ\.get\("|\$\{?)UROCE_[A-Z_]+' src tests tools bench interop fuzz |
	grep -o 'UROCE_[A-Z_]*' | sort -u); do
	uroce help environment --all | grep -q "^$variable=" || fail "src/base/config.def lacks $variable"
done
! grep -rnE 'getenv\("UROCE_' src || fail "src/ calls getenv() for these"
exit $result
