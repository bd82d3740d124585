#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""test_programs.py [--build DIR] [--quick] [--valgrind] [--check] [--place PLACE] [PATTERN...]: unmodified programs as pairs of processes, with uroce
in front of them: on one loopback, there without shared memory (what is not tested by a network anyway), and across two
network namespaces at MTU 1500 and 9000. Two lanes run at a time: what only waits runs beside what works. Prints TAP, its points
as they end. A PATTERN is part of a test's name. Without any privilege, only what loopback allows is run."""
import argparse
import itertools
import multiprocessing
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


def show_findings(found):
    """Of each program and kind how many, and the first."""
    for program, kind in sorted({each[:2] for each in found}):
        texts = [text for *which, text in found if which == [program, kind]]
        print("# uroce check: %s: %s, %d times, as:" % (program, kind, len(texts)))
        print("".join("#   %s\n" % line for line in texts[0].splitlines()), end="")


class Tally:
    """What all lanes have done so far."""

    def __init__(self):
        self.lock = multiprocessing.Lock()
        self.taken, self.told, self.failed = (multiprocessing.Value("i", 0, lock=False) for _ in range(3))

    def take(self, rows):
        """The rows that no lane has taken yet, one after the other."""
        while True:
            with self.lock:
                number = self.taken.value
                self.taken.value += 1
            if number >= len(rows):
                return
            yield rows[number]

    def tell(self, title, verdict="", note="", details=""):
        """A point of TAP if there is a verdict; its number is that of its line."""
        with self.lock:
            if verdict:
                self.told.value += 1
                self.failed.value += verdict != "ok"
                print("%s %d - %s # %s" % (verdict, self.told.value, title, note))
            print("".join("# %s\n" % line for line in details.splitlines()), end="", flush=True)


def run(rows, reason, build, tally):
    """A lane: rows in places of its own, or, for that reason, where we are."""
    make, here, spoilt = HERE if reason else MAKE, None, False
    try:
        for where, case in rows:
            title = "%s: %s" % (where, case.name.replace("#", ""))
            if where not in make:
                tally.tell(title, "ok", "SKIP " + reason)
                continue
            if build.found and case in cases.UNCHECKED:
                tally.tell(title, "ok", "SKIP a program of our own, for what is not usual")
                continue
            if here and (spoilt or here.name != where):
                here.close()
                here = None
            here = here or make[where]()
            spoilt = case.spoils
            begin = time.monotonic()
            try:
                problem = attempt(case, here, build)
                if problem:  # once more, in a new place: what others do to the machine hardly comes twice
                    again = "%s --build %s --place %s %r" % (sys.argv[0], build.folder, where, case.name)
                    tally.tell(title, details="FAILED ONCE: %s\n%s\n--- again: %s" % (title, problem, again))
                    here.close()
                    here = make[where]()
                    problem = attempt(case, here, build)
            except process.Skip as skip:
                tally.tell(title, "ok", "SKIP %s" % skip)
                continue
            tally.tell(title, "not ok" if problem else "ok", "%.2f s" % (time.monotonic() - begin), problem)
    finally:
        process.end_all()
        if here:
            here.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.environ.get("UROCE_BUILD", "build"),
                        help="the meson build directory (default: $UROCE_BUILD or build)")
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("UROCE_QUICK")),
                        help="a small subset, for sanitizer builds (default if $UROCE_QUICK is set)")
    parser.add_argument("--valgrind", action="store_true", help="each program under valgrind's memcheck")
    parser.add_argument("--check", action="store_true", help="each program by uroce check: what it finds is printed at the end")
    parser.add_argument("--place", choices=MAKE, help="only there")
    parser.add_argument("pattern", nargs="*")
    args = parser.parse_args()

    reason = place.be_root_somewhere()
    build = process.Build(args.build, args.valgrind, args.check)
    chosen = [(where, case) for where in MAKE for case in cases.TABLE
              if has_place(case, where) and args.place in (None, where) and (case.quick or not args.quick)
              and (not args.pattern or any(p in case.name for p in args.pattern))]
    print("TAP version 13\n1..%d" % len(chosen), flush=True)
    tally = Tally()
    work, waits = ([row for row in chosen if row[1].waits == waits] for waits in (False, True))
    beside = multiprocessing.get_context("fork").Process(target=lambda: run(tally.take(waits), reason, build, tally))
    if not reason:  # with one network for all, one at a time
        beside.start()
    run(itertools.chain(work, tally.take(waits)), reason, build, tally)
    if not reason:
        beside.join()
    if args.check:
        show_findings(build.findings())
    print("# %d of %d failed" % (tally.failed.value, len(chosen)))
    return tally.failed.value != 0 or tally.told.value != len(chosen)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())
