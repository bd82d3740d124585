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
done
for variable in $(grep -rhoE 'getenv\("UROCE_[A-Z_]+"' src | sed 's/.*"\(.*\)"/\1/' | sort -u); do
	grep -q "$variable" man/uroce.7 || fail "uroce.7 lacks $variable"
done
exit $result
