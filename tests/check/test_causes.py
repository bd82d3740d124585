#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each failure of fail_me names its cause on standard error, once, with its numbers; what is right says nothing, and has
no finding either. `uroce explain -p` names it of the process, `uroce explain` knows the code.
In a network namespace of its own, where it can have one: others may use port 4791 of this one."""
import os
import subprocess
import sys

from test_check import BUILD, UROCE, check, enter_namespace, results

ME = os.path.join(BUILD, "fail_me")


def call(*argv, **environment):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env={**os.environ, **environment})


def main():
    enter_namespace()
    cases = call(ME).stdout.splitlines()
    for case, code, words in (line.split("\t") for line in cases):
        result = call(UROCE, "run", ME, case, "wrong", UROCE, UROCE_KEYS="unlike")
        told, _, explained = result.stdout.partition(", now:\n")
        lines = [line for line in told.splitlines() if f"(cause {code})" in line]
        check(f"{case}: {words}", result.returncode == 0 and len(lines) == 1 and words in lines[0], result.stdout)
        check(f"{case}: uroce explain -p", f"(cause {code}). What to do: " in " ".join(explained.split()), explained)
        right = call(UROCE, "check", ME, case, "right")
        check(f"{case}, done right", right.returncode == 0 and "(cause" not in right.stdout and
              "no mistakes found" in right.stdout, right.stdout)
        explained = call(UROCE, "explain", code)
        check(f"uroce explain {code}", explained.returncode == 0 and explained.stdout.startswith(code),
              explained.stdout)
    for how in [["check"], ["run", "--hostile=3"], ["run", "--adapter", "cx5"], ["run", "--adapter", "rxe"]]:
        for case, code in ("lkey_as_rkey", "0x217"), ("rkey_as_lkey", "0x117"):
            result = call(UROCE, *how, ME, case, "wrong")
            check(f"{' '.join(how)}: {case}", result.returncode == 0 and f"(cause {code})" in result.stdout, result.stdout)
    result = call(UROCE, "run", ME, "lkey_as_rkey", "wrong")
    check("elsewhere an lkey is an rkey, too", result.returncode, result.stdout)
    result = call(UROCE, "check", ME, "beyond", "wrong")
    check("the summary of a check counts requests that failed", "no mistakes found; 1 request failed (cause 0x123)" in
          result.stdout, result.stdout)
    result = call(UROCE, "check", ME, "lost_message", "wrong")
    check("... and messages of UC that were dropped", "no mistakes found; 1 message found no receive, and was dropped (cause "
          "0x20c)" in result.stdout, result.stdout)
    result = call(UROCE, "run", ME, "beyond", "wrong", UROCE_LOG="error")
    check("UROCE_LOG=error silences it", result.returncode == 0 and result.stdout == "", result.stdout)
    result = call(UROCE, "run", ME, "nothing_to_receive_it", "wrong", UROCE_LOG="info")
    check("the end that has no receive says how many it had", "0 were posted, and all of them are consumed" in result.stdout and
          "(cause 0x20a)" in result.stdout, result.stdout)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
