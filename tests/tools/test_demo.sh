#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# `uroce demo` shows what it promises, cleans up, and tells of a failure. In a network namespace of its own, as it
# uses port 4791.
for program in ibv_rc_pingpong ib_write_bw ib_write_lat ib_read_lat ib_atomic_lat; do
	command -v $program >/dev/null || { echo "no $program"; exit 77; }
done
if [ "$(id -u)" = 0 ] && ip netns add "ud$$" 2>/dev/null; then
	trap 'ip netns del "ud$$"; rm -rf "$work"' EXIT
	ip -n "ud$$" link set lo up
	inside="ip netns exec ud$$"
else
	trap 'rm -rf "$work"' EXIT
	inside=
fi
work=$(mktemp -d) || exit
result=0
must_show() {
	grep -q -e "$1" "$work/out" || { echo "the demo does not show: $1"; result=1; }
}

TMPDIR=$work $inside uroce demo >"$work/out" 2>&1 || { echo "uroce demo: status $?"; result=1; }
must_show '1000 iters in'
must_show 'BW average'
must_show '^SEND of 4096 bytes'
must_show '^WRITE of 4096 bytes'
must_show '^READ of 4096 bytes'
must_show '^FETCH_ADD of 8 bytes'
must_show '|<*-* SEND ONLY -*>*|'
must_show 'receive matched'
must_show "done in the peer's memory"
must_show 'WQE POSTED'
must_show 'CQE POLLED'
must_show 'post to poll'
! grep '.\{81\}' "$work/out" || { echo "more than 80 columns"; result=1; }
must_show '^Next: uroce run PROGRAM'
tail -24 "$work/out" | tr -d '\n' | grep -q 'SEND of 4096 bytes, .* posted .* polled .*Next: ' ||
	{ echo "the last screen lacks the picture"; result=1; }
COLUMNS=132 TMPDIR=$work $inside uroce demo >"$work/out" 2>&1 || { echo "uroce demo: status $?"; result=1; }
must_show '^.\{81\}'
[ -z "$(ls "$work" | grep uroce-demo)" ] || { echo "traces were left behind"; result=1; }
[ $result = 0 ] || cat "$work/out"

# where no shell finds the command, what to type next has its path
whole=$(command -v uroce)
programs=$(dirname "$(command -v ibv_rc_pingpong)")
PATH=$(echo "$PATH" | tr : '\n' | grep -vxF "$(dirname "$whole")" | paste -sd:) TMPDIR=$work \
	$inside "$whole" demo -d "$programs" >"$work/out" 2>&1 || { echo "uroce demo by its path: status $?"; result=1; }
must_show "^Next: $whole run PROGRAM"
[ $result = 0 ] || cat "$work/out"

# traces that are kept come with a picture
TMPDIR=$work $inside uroce demo -k >"$work/out" 2>&1 || { echo "uroce demo -k: status $?"; result=1; }
must_show '/ladder.html$'
[ "$(grep -c '<h2>SEND of 4096 bytes, [AB] -&gt; [AB]</h2>' "$work"/uroce-demo*/ladder.html)" = 4 ] || { echo "no ladder diagrams"; result=1; }
rm -rf "$work"/uroce-demo*

# faults: a loss that is mended, the same twice, a port, a refusal that is not
TMPDIR=$work $inside uroce demo faults >"$work/out" 2>&1 || { echo "uroce demo faults: status $?"; result=1; }
must_show 'drop: fired 6 times of 500'
must_show '^  6 in all: each time the same'
must_show 'port-down 20ms: fired 1 time of 500'
must_show 'server .*remote access error (10)'
[ "$(grep -c 'client    500 iters' "$work/out")" = 3 ] || { echo "not three pairs go on"; result=1; }
! grep '.\{81\}' "$work/out" || { echo "more than 80 columns"; result=1; }
[ -z "$(ls "$work" | grep uroce-demo)" ] || { echo "logs were left behind"; result=1; }
[ $result = 0 ] || cat "$work/out"

# check: three mistakes, each found at its function, and none when they are mended
for columns in 80 132; do
	COLUMNS=$columns TMPDIR=$work $inside uroce demo check >"$work/out" 2>&1 || { echo "uroce demo check: status $?"; result=1; }
	[ "$(grep -c '3 letters sent, 3 arrived unchanged' "$work/out")" = 3 ] || { echo "not three runs"; result=1; }
	[ "$(grep -c '^  uroce check: [a-z]*-' "$work/out")" = 3 ] || { echo "not three findings"; result=1; }
	must_show 'process [0-9]*: 3 findings'
	must_show 'process [0-9]*: no mistakes found'
	! grep ".\{$((columns + 1))\}" "$work/out" || { echo "more than $columns columns"; result=1; }
done
for finding in 'changed-in-flight send_letter' 'destroyed-outstanding post_office_close' 'leak-cq post_office_open'; do
	awk -v name="${finding% *}:" -v place="${finding#* }" '/^  uroce check: / {here = $3 == name}
		here && $1 == place {found = 1} END {exit !found}' "$work/out" || { echo "no $finding"; result=1; }
done
[ $result = 0 ] || cat "$work/out"

# programs that fail: told, with what they said, and with a status
mkdir "$work/bin"
printf '#!/bin/sh\necho something is broken >&2\nexit 3\n' >"$work/bin/ibv_rc_pingpong"
chmod +x "$work/bin/ibv_rc_pingpong"
if TMPDIR=$work $inside uroce demo -d "$work/bin" >"$work/out" 2>&1; then
	echo "uroce demo does not notice that its server fails"
	result=1
fi
must_show 'something is broken'
must_show 'ended with status 3'

# a signal ends the demo and all that it started
TMPDIR=$work $inside uroce demo >"$work/out" 2>&1 &
demo=$!
until grep -q 'client.*\$ uroce run' "$work/out" || ! kill -0 $demo 2>/dev/null; do :; done
kill -INT $demo 2>/dev/null || kill -TERM $demo
kill -TERM $demo 2>/dev/null
wait $demo
[ $? != 0 ] || { echo "an interrupted demo ends with status 0"; result=1; }
[ -z "$(ls "$work" | grep uroce-demo)" ] || { echo "an interrupted demo leaves traces behind"; result=1; }
if [ "$inside" ]; then
	left=$(ip netns pids "ud$$")
	[ -z "$left" ] || { echo "an interrupted demo leaves processes behind: $left"; result=1; }
fi
exit $result
