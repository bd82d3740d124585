#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# `uroce fault`: the rules of a process that runs, in a network namespace of its own.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network
command -v ibv_rc_pingpong >/dev/null || { echo "1..0 # skipped: no ibv_rc_pingpong"; exit 0; }
own_folder
shown="client server"

# until_rule NUMBER: it has fired.
until_rule() {
	until uroce fault "$client" | awk -v n="$1" '$1 == n && $3 > 0 {found = 1} END {exit !found}'; do
		kill -0 "$client" || return
	done
	uroce fault "$client"
}

# ended PID FILE: its exit status and what it said.
ended() {
	wait "$1"
	status=$?
	cat "$2"
	return $status
}

endless="ibv_rc_pingpong -g 0 -n 2000000000"
start_pair() {
	uroce run $endless >server 2>&1 &
	server=$!
	pids=$server
	until ss -Hltn 'sport = :18515' | grep -q .; do kill -0 $server || break; done
	uroce run $endless 127.0.0.1 >client 2>&1 &
	client=$!
	pids="$server $client"
	until uroce fault $client >/dev/null 2>&1; do kill -0 $client || break; done
}
start_pair

check "a process begins without rules" 0 '^no rules$' uroce fault $client
check "a rule has a number" 0 '^rule 1$' uroce fault $client add "out SEND every 30: delay 1us"
check "the list has a head" 0 '^no\. *could fire *fired *rule$' uroce fault $client
check "it fires" 0 '  out SEND every 30: delay 1us$' until_rule 1
check "a word that is none has a caret" 1 '^  *^^^^$' uroce fault $client add "out SEND evry 30: drop"
check "... and what was meant" 1 'process [0-9]*: .*did you mean every' uroce fault $client add "out SEND evry 30: drop"
check "a device that is not there has a caret" 1 '^  *^^^^^^$' uroce fault $client add "out device mlx5_9: drop"
check "... and the reason" 1 "no device 'mlx5_9', so the rule could never fire" uroce fault $client add "out device mlx5_9: drop"
check "another number" 0 '^rule 2$' uroce fault $client add "post times 1: port-down 1ms"
check "a fault of the port comes about" 0 'port-down' until_rule 2
check "a rule is removed" 0 gone sh -c "uroce fault $client remove 1 && echo gone"
check "... once" 1 "no rule in force has the number '1'" uroce fault $client remove 1
check "the others stay" 0 '^  2 ' uroce fault $client list
check "all are removed" 0 gone sh -c "uroce fault $client clear && echo gone"
check "... and none is there" 0 '^no rules$' uroce fault $client
check "the last one" 0 '^rule 3$' uroce fault $client add "post nth 1: fatal"
check "ends the program" 1 'Work Request Flushed Error' ended $client client
check "which tells the rules that it had" 0 'fault 3, post nth 1: fatal: fired 1 time of' cat client
# until_icrc PID: its device has counted packets with a wrong ICRC.
until_icrc() {
	until uroce stat -j "$1" | grep -q '"rx_icrc_errors":[[:space:]]*[1-9]'; do
		kill -0 "$1" || return
	done
	echo counted
}

export UROCE_LOCAL=off
kill $server
wait $server
start_pair
check "by UDP none has a wrong ICRC" 0 '"rx_icrc_errors":[[:space:]]*0' uroce stat -j $server
uroce fault $client add "out SEND every 30: corrupt icrc" >/dev/null
check "... until a rule of the sender says so" 0 counted until_icrc $server
uroce fault $server add "in ACK every 30: corrupt icrc" >/dev/null
uroce fault $server clear
uroce fault $client add "in ACK every 30: corrupt icrc" >/dev/null
check "... or one of the receiver" 0 counted until_icrc $client
check "... and both go on" 0 both sh -c "kill -0 $client $server && echo both"
# unchanged RULE: what a pair of which the server has the rule traces of NAKs and repetitions.
unchanged() {
	kill "$client" "$server" 2>/dev/null
	wait "$client" "$server"
	# shellcheck disable=SC2086
	uroce run -t s.trace -f "$1" ibv_rc_pingpong -g 0 -s 4096 -n 5 >server 2>&1 &
	server=$!
	until ss -Hltn 'sport = :18515' | grep -q .; do kill -0 $server || break; done
	uroce run -t c.trace ibv_rc_pingpong -g 0 -s 4096 -n 5 127.0.0.1 >client 2>&1 || cat client
	wait $server
	uroce trace s.trace c.trace | grep -E 'NAK|sent again|not used' || echo nothing
}
export UROCE_LOCAL=on
for rule in 'out SEND nth 1000000: drop' 'in SEND nth 1000000: drop'; do
	check "a rule that never fires changes nothing: $rule" 0 '^nothing$' unchanged "$rule"
done
check "nothing begins with a rule for a device that is not there" 1 "UROCE_FAULT: there is no device 'mlx5_9'" \
	uroce run -f "time device mlx5_9 after 1s: fatal" ibv_rc_pingpong -g 0
finish
