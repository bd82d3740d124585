#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""test_programs.py [--build DIR] [--quick] [--place PLACE] [PATTERN...]: unmodified programs as pairs of processes, with uroce
in front of them: on one loopback, there without shared memory (what is not tested by a network anyway), and across two
network namespaces at MTU 1500 and 9000. Prints TAP. A PATTERN is
part of a test's name. Without any privilege, only what loopback allows is run."""
import argparse
import os
import sys
import time
import traceback

import cases
import place
import process

MAKE = {"lo": place.loopback, "udp": place.udp, "veth1500": lambda: place.veth(1500), "veth9000": lambda: place.veth(9000)}

HERE = {"lo": place.host, "udp": lambda: place.udp(place.Host())}  # without any privilege


def has_place(case, where):
    return where in case.places or (where == "udp" and case.places == ("lo",))


def attempt(case, where, build):
    """'' or what went wrong."""
    try:
        case.run(where, build)
        problem = ""
    except process.Failure as failure:
        problem = str(failure)
    except process.Skip:
        raise
    except Exception:
        problem = traceback.format_exc()
    finally:
        details = process.report()
        spoken = process.end_all()
    if spoken and not problem:
        problem = "a sanitizer reports"
    return problem and problem + "\n" + details


def tell(text):
    print("\n".join("# " + line for line in text.splitlines()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.environ.get("UROCE_BUILD", "build"),
                        help="the meson build directory (default: $UROCE_BUILD or build)")
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("UROCE_QUICK")),
                        help="a small subset, for sanitizer builds (default if $UROCE_QUICK is set)")
    parser.add_argument("--place", choices=MAKE, help="only there")
    parser.add_argument("pattern", nargs="*")
    args = parser.parse_args()

    reason = place.be_root_somewhere()
    build = process.Build(args.build)
    chosen = [(where, case) for where in MAKE for case in cases.TABLE
              if has_place(case, where) and args.place in (None, where) and (case.quick or not args.quick)
              and (not args.pattern or any(p in case.name for p in args.pattern))]
    print("TAP version 13\n1..%d" % len(chosen), flush=True)
    failed, here, spoilt, number = 0, None, False, 0
    try:
        for where, case in chosen:
            number += 1
            title = "%d - %s: %s" % (number, where, case.name.replace("#", ""))
            if reason and where not in HERE:
                print("ok %s # SKIP %s" % (title, reason), flush=True)
                continue
            if here and (spoilt or here.name != where):
                here.close()
                here = None
            here = here or (HERE[where]() if reason else MAKE[where]())
            spoilt = case.spoils
            begin = time.monotonic()
            try:
                problem = attempt(case, here, build)
                if problem:  # once more, in a new place: what others do to the machine hardly comes twice
                    again = "%s --build %s --place %s %r" % (sys.argv[0], args.build, where, case.name)
                    tell("FAILED ONCE: %s: %s\n--- again: %s" % (title, problem, again))
                    here.close()
                    here = place.host() if reason else MAKE[where]()
                    problem = attempt(case, here, build)
            except process.Skip as skip:
                print("ok %s # SKIP %s" % (title, skip), flush=True)
                continue
            failed += bool(problem)
            print("%s %s # %.2f s" % ("not ok" if problem else "ok", title, time.monotonic() - begin), flush=True)
            if problem:
                tell(problem)
    finally:
        process.end_all()
        if here:
            here.close()
    print("# %d of %d failed" % (failed, len(chosen)))
    return failed != 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())
