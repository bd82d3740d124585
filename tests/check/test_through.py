#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce check --through` in front of another provider, which here is uroce's own library behind libibverbs' names: what
can be had is found there as well, and what is right stays without a finding. interop/check does the same with the kernel's
rxe; `test_through.py --rows` prints for it what has to be found."""
import os
import re
import subprocess
import sys

from test_check import FOUND, ME, SANITIZED, STOPPED, UROCE, check, enter_namespace, finding, racing, results, sanitized

DEVICE = "through0"
# What is not told of other adapters: docs/check.md.
NEEDS_OURS = ("lost-wakeup", "written-in-flight", "touched-in-flight", "grh-as-payload", "race", "used-destroyed", "outside-object", "data-race", "leak-thread-domain",
              "leak-parent-domain", "leak-dm", "leak-xrcd", "leak-counters", "leak-wq", "leak-wq-table")
# By functions of objects that are not followed.
NOT_SEEN = ("limit_event_is_not_acknowledged", "thread_domain_goes_first", "work_queue_goes_first", "domain_of_srq_goes_first",
            "qp_leaves_no_group", "region_outlived_by_window")
ASKED_FOR = {"unmapped-registered": ("--only", "mappings")}


def cases():
    """(case, finding, place), and whether it can be had."""
    listed = subprocess.run([ME], stdout=subprocess.PIPE, text=True, check=True).stdout
    for case, name, place in map(str.split, listed.splitlines()):
        yield case, name, place, name not in NEEDS_OURS and case not in NOT_SEEN


def through(*words, how="right", device=DEVICE):
    """uroce check, with what is behind it preloaded."""
    environment = {**os.environ, **racing(how), "UROCE_DEVICES": f"lo={DEVICE}", "LD_PRELOAD": os.environ["UROCE_PRELOAD"]}
    return subprocess.run([UROCE, "check", "--through", device, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=environment)


def each_case():
    for case, name, place, can_be_had in cases():
        if SANITIZED and (case in STOPPED or name == "peer-race"):
            continue
        options = ASKED_FOR.get(name, ())
        if can_be_had:
            wrong = through(*options, ME, case, "wrong", how="wrong")
            found = re.search(rf"^        {place} \(", finding(wrong.stdout, name), re.M)
            check(f"through another adapter, {case}: {name} at {place}", wrong.returncode == FOUND and found, wrong.stdout)
        right = through(*options, ME, case, "right")
        check(f"through another adapter, {case}, done right", right.returncode == 0 and "no mistakes found" in right.stdout, right.stdout)


def sayings():
    for words in (("--pages", ME), ("-S", ME), ("--only", "races", ME)):
        result = through(*words)
        check(f"--through with {words[-2]} is refused", result.returncode == 2 and "cannot be checked" in result.stdout, result.stdout)
    result = through(ME, "leak_cq", "wrong", device="other0")
    check("a device that the program does not open", result.returncode == 0 and
          "the program has opened no device 'other0'" in result.stdout, result.stdout)
    result = through("--only", "leaks", ME, "send_changes", "wrong", how="wrong")
    check("--only leaks", result.returncode == 0 and "no mistakes found" in result.stdout, result.stdout)


def thread_sanitizer():
    """It is not told which memory of another adapter a post uses."""
    me, rows = sanitized("tsan")
    for case in [case for case, name, _ in rows if name == "data-race"]:
        right = through(me, case, "right")
        check(f"ThreadSanitizer, through another adapter, {case}, done right", right.returncode == 0 and
              "no mistakes found" in right.stdout and "WARNING" not in right.stdout, right.stdout)


def main():
    if sys.argv[1:] == ["--rows"]:
        for case, name, place, can_be_had in cases():
            print(case, name if can_be_had else "-", place, *ASKED_FOR.get(name, ()))
        return 0
    if not os.path.exists(ME):
        sys.exit(77)
    enter_namespace()
    each_case()
    sayings()
    if not SANITIZED:
        thread_sanitizer()
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
