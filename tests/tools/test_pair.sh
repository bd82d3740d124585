#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# `uroce pair`: when the client begins, what is printed, the exit status, and that nothing is left running. In a network
# namespace of its own.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network
own_folder
mkfifo begun ended

# A server that prints, waits for its client and ends with status $1, and a client that ends with status $2.
both() {
	uroce pair "${@:3}" "echo here; read x <begun; exit $1" "printf there; echo >begun; exit $2"
}
# Holds if both lines are there, and only these.
lines() {
	both "$@" >lines && sort lines | tr '\n' ','
}
# The process that wrote its id to a file runs no more; its parent may not know yet.
is_gone() {
	! grep -q '^State:.*[^Z] (' "/proc/$(cat "$1")/status" 2>/dev/null && echo gone
}

check "the lines of both, with their names" 0 '^client | there,server | here,$' lines 0 0
check "the client's status" 7 'the client ended with status 7' both 0 7
check "the server's" 3 'the server ended with status 3' both 3 0
check "the client's, of both" 7 'the client ended with status 7' both 3 7
check "a client that a signal ends" 137 'the client was ended by signal 9' uroce pair 'echo; read x <ended' 'kill -9 $$'
check "a server that ends first" 5 'the server ended with status 5 before its client' uroce pair 'exit 5' 'echo begun'
check "... with status 0" 1 'the server ended with status 0 before its client' uroce pair 'exit 0' 'echo begun'
check "a server that says nothing" 124 'neither listened nor printed in 1 s' uroce pair -t 1 'read x <ended' 'echo begun'
# both at a time, with a limit that a slow machine does not miss
uroce pair -t 20 'echo $$ >client; echo; read x <ended' 'echo $$ >pid; read x <ended' >said 2>&1 &
client=$!
check "a server that does not end" 124 'the server had not ended after 20 s; -s ends' uroce pair -t 20 'echo $$ >pid-of-server; echo; read x <ended' true
check "... is ended" 0 '^gone$' is_gone pid-of-server
wait $client
[ $? = 124 ] && grep -q 'the client had not ended after 20 s$' said
result $? "a client that does not end" said
check "... is ended" 0 '^gone$' is_gone pid
check "... with its server" 0 '^gone$' is_gone client
check "a server that serves for ever" 0 '^server | $' uroce pair -s 'sh -c "echo \$\$ >pid; echo; read x <ended"; exit 1' true
check "... is ended, with its processes" 0 '^gone$' is_gone pid
check "two commands" 2 'which server, and which client' uroce pair true
check "a time" 2 "'0' is no time" uroce pair -t 0 true true
check "rules that are none" 2 'did you mean drop' uroce pair -f 'out SEND nth 1: dro' 'echo begun' true

uroce pair 'echo $$ >pid; echo; read x <ended' 'echo; read x <ended' >said 2>&1 &
pair=$!
await said client $pair && kill $pair
wait $pair
[ $? = 143 ] && is_gone pid >/dev/null
result $? "SIGTERM ends both" said

if cc -g "$UROCE_SOURCE/examples/hangs.c" -o hangs -libverbs 2>/dev/null; then
	check "what a program waits for that does not end" 124 '^hangs, process [0-9]*, now:' uroce pair -t 5 './hangs no-receive' true
fi
if command -v ibv_rc_pingpong >/dev/null; then
	one='ibv_rc_pingpong -g 0 -n 100'
	check "a server that listens by TCP" 0 '^client | 100 iters' uroce pair "$one" "$one 127.0.0.1"
	uroce pair -f 'out SEND nth 9: drop' "$one" "$one 127.0.0.1" >said 2>&1 &&
		grep -q '^client | uroce: fault 1, .*: fired 1 time' said && ! grep '^server | uroce: fault' said
	result $? "faults of the client only" said
	check "behind check: a mistake of the client" 98 '^client | uroce check: written-in-flight' \
		uroce check uroce pair "$one -c" "$one -c 127.0.0.1"
fi
if command -v rping >/dev/null; then
	check "a server that listens by rdma_cm" 0 '^client | ping data: rdma-ping-2' \
		uroce pair 'rping -s -C 3' 'rping -c -a 127.0.0.1 -C 3 -v'
fi
finish
