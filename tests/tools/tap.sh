# SPDX-License-Identifier: BSD-2-Clause
# For tests that are scripts of bash: they source it, and end with `finish`.
# shellcheck shell=bash
n=0 failed=0 pids= shown=

# Begins again in a network namespace of its own. Where none can be made the test is skipped; `or_here`: it goes on.
own_network() {
	local root
	[ -z "$UROCE_ALONE" ] || return 0
	[ "$(id -u)" = 0 ] || root=-r
	if unshare -n $root true 2>/dev/null; then
		UROCE_ALONE=1 exec unshare -n $root bash -c 'ip link set lo up; exec bash "$0"' "$0"
	fi
	[ "$1" = or_here ] || { echo "1..0 # skipped: no namespace"; exit 0; }
}

# Goes to an empty folder, $work, which is removed at the end, as the processes $pids end then.
own_folder() {
	work=$(mktemp -d) || exit
	trap 'kill $pids 2>/dev/null; rm -rf "$work"' EXIT
	cd "$work" || exit
}

# result STATUS "what is to hold" FILE...: they are shown if it does not
result() {
	local status=$1 what=$2
	shift 2
	n=$((n + 1))
	[ "$status" = 0 ] && echo "ok $n - $what" && return
	failed=$((failed + 1))
	echo "not ok $n - $what"
	sed 's/^/#   /' "$@"
}

# check "what is to hold" EXPECTED-STATUS 'pattern of the output' command...: the output is in $work/out. If it does not
# hold, that is shown, and the files $shown.
check() {
	local what=$1 expected=$2 pattern=$3 status
	shift 3
	"$@" >"$work/out" 2>&1
	status=$?
	[ "$status" = "$expected" ] && { [ -z "$pattern" ] || grep -q -e "$pattern" "$work/out"; }
	# shellcheck disable=SC2086 # names of files
	result $? "$what" <(echo "status $status, output:") "$work/out" $shown
}

# await FILE PATTERN [PID]: the file has a line with this pattern, now or later, as long as that process runs.
await() {
	exec 3< <(exec tail ${3:+--pid=$3} -n +1 -f "$1")
	local tail=$!
	grep -q -m 1 -e "$2" <&3
	kill $tail 2>/dev/null
	exec 3<&-
}

finish() {
	echo "1..$n"
	exit $((failed > 0))
}
