#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What test-results says at the end of a run: first what failed, then what passed only when it was repeated, and the counts.
results=$UROCE_SOURCE/tools/test-results
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/some/meson-logs"

# entry TEST RESULT STDOUT STDERR, as JSON has them: \n is a new line
entry() {
	printf '{"name": "uroce:%s", "result": "%s", "returncode": 1, "stdout": "%s", "stderr": "%s"}\n' "$@"
}

{
	entry 'loop / test_loop' FAIL 'TAP version 13\n1..2\nok 1 - sound\nnot ok 2 - idle\n# 3 != 4\n' 'a report\n'
	entry 'programs / test_programs.py' OK \
		'1..2\n# FAILED ONCE: veth9000: fi_pingpong -p verbs -e rdm -S 1024\n# exit status 1\nok 1 - first\nok 2 - second # 1 s\n' ''
	entry 'tools / test_man.sh' FAIL 'a wrong page\n' ''
	entry 'wire / test_crc' OK '1..1\nok 1 - crc\n' ''
} >"$work/some/meson-logs/testlog.json"
{
	entry 'loop / test_loop' OK '1..2\nok 1 - sound\nok 2 - idle\n' ''
	entry 'tools / test_man.sh' FAIL 'a wrong page\n' ''
} >"$work/some/meson-logs/again-1.json"
printf '1..1\n# FAILED ONCE: 6.1/case\n# client: exit status 1\nok 1 - 6.1/case\n' >"$work/log"

cat >"$work/wanted" <<'EOF'
== Failed:
  some: test_man.sh
      FAIL, exit status 1
      a wrong page
  none: no tests were run
== Passed only when repeated:
  some: test_loop: idle
    NEW: not in tests/flaky.txt
      not ok 2 - idle
      # 3 != 4
      a report
  some: test_programs.py: veth9000: fi_pingpong -p verbs -e rdm -S 1024
    known: CAUSE
      # FAILED ONCE: veth9000: fi_pingpong -p verbs -e rdm -S 1024
      # exit status 1
  interop: 6.1/case
    NEW: not in tests/flaky.txt
      # FAILED ONCE: 6.1/case
      # client: exit status 1
EOF
"$results" --summary "$work/some" "$work/none" "$work/log" | sed 's/known: .*/known: CAUSE/' | diff "$work/wanted" - || exit
[ "$("$results" --failed "$work/some")" = test_man.sh ] || exit
[ "$("$results" "$work/some" "$work/log")" = "6 1 0" ] || exit

# of what was run again, the last run counts
entry 'tools / test_man.sh' OK '' '' >"$work/some/meson-logs/again-2.json"
[ "$("$results" "$work/some")" = "6 0 0" ] || exit
"$results" --summary "$work/some" | grep -q '^== Failed' && exit 1

[ "$(grep -vc '^#' "$UROCE_SOURCE/tests/flaky.txt")" -le 5 ] || { echo "tests/flaky.txt has more than five rows"; exit 1; }
