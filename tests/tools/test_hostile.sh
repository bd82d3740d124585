#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# `uroce hostile`: what its seeds stand for, and what it tells of programs that fail. In a network namespace of its own.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network
own_folder

# Each rule of the first 100 seeds parses, and each manner of docs/hostile.md is among them.
seeds_parse() {
	for seed in $(seq 100); do
		uroce hostile -p -s "$seed" >rules || return
		cat rules >>all
		uroce run -f @rules true || return
	done
	# shellcheck disable=SC2016 # backticks of the document
	sed -n 's/^| `\(.*\)` | \(.*\) |$/\1	# \2/p' "$UROCE_SOURCE/docs/hostile.md" >manners
	sed 's/{[0-9]*\.\.[0-9]*}/[0-9]*/g; s/{[a-z]*,[a-z]*}/[a-z]*/g; s/^UROCE/# &/; s/^/^/; s/$/$/' manners | while read -r manner; do
		grep -q -e "$manner" all || { echo "no seed has $manner"; return 1; }
	done && echo "$(wc -l <manners) manners"
}

same_again() {
	[ "$(uroce hostile -p -s 7)" = "$(uroce hostile -p -s 7)" ] && [ "$(uroce hostile -p -s 7)" != "$(uroce hostile -p -s 8)" ] &&
		echo same
}

check "the rules of seeds parse, and are those of the document" 0 '^19 manners$' seeds_parse
check "a seed stands for the same rules each time" 0 same same_again
check "a program that passes" 0 '^3 of 3 seeds passed$' uroce hostile -n 3 true
check "one that fails" 1 'seed 4.*: the program ended with status 3' uroce hostile -n 1 -s 4 sh -c 'echo it says; exit 3'
check "... what it said" 1 '^  | it says$' uroce hostile -n 1 -s 4 sh -c 'echo it says; exit 3'
check "... and how to repeat it" 1 "uroce hostile -n 1 -s 4 -- sh -c 'exit 3'" uroce hostile -n 1 -s 4 sh -c 'exit 3'
check "... and that no rule is to blame" 1 '^  it fails without these rules, too' uroce hostile -n 1 -s 4 false
check "one that dies" 1 'was ended by signal 9' uroce hostile -n 1 sh -c 'kill -9 $$'
check "one that hangs" 1 'had not ended after 1 s' uroce hostile -n 1 -t 1 sh -c 'sleep 1000 & sleep 1000'
# The rules of a seed as `uroce run --hostile` sets them, and as `uroce hostile -p` shows them.
# shellcheck disable=SC2016 # a shell of its own
one_end() {
	uroce run "$@" sh -c 'echo "$UROCE_FAULT_SEED $UROCE_PATIENCE"; echo "$UROCE_FAULT"
		echo "${UROCE_TIMERS:+# UROCE_TIMERS=$UROCE_TIMERS}"' 2>said >set || return
	seed=$(sed -n 's/.*--hostile=\([0-9]*\) repeats this.*/\1/p' said)
	uroce hostile -p -s "$seed" | sed '1d; s/\t.*//' | cat <(echo "$seed off") - | diff - <(sed '/^$/d' set) && echo "seed $seed"
}
check "one end under a seed" 0 '^seed 7$' one_end --hostile=7
check "... which sets a variable" 0 '^seed 2$' one_end --hostile=2
check "... under any" 0 '^seed [1-9]' one_end --hostile
check "... behind other rules" 0 'in nth 9: drop$' uroce run -f 'in nth 9: drop' --hostile=7 printenv UROCE_FAULT
check "... with a seed that is none" 2 "'many' is not a number" uroce run --hostile=many true
check "a program is named" 2 'which program' uroce hostile -n 3
check "a number is one" 2 "'many' is not a number" uroce hostile -n many true
if command -v ibv_rc_pingpong >/dev/null; then
	check "a program that stands it" 0 '^6 of 6 seeds passed$' uroce hostile -n 6 uroce pair 'ibv_rc_pingpong -g 0 -n 300' 'ibv_rc_pingpong -g 0 -n 300 127.0.0.1'
	check "one that takes UD for reliable" 1 'this alone does it:  out UD REQUEST chance 1/[0-9]*: drop' \
		uroce hostile -n 1 -s 3 -t 3 uroce pair 'ibv_ud_pingpong -g 0 -n 501' 'ibv_ud_pingpong -g 0 -n 501 127.0.0.1'
	check "... of which nothing runs on" 1 '' pgrep -f '[i]bv_ud_pingpong -g 0 -n 501'
fi
finish
