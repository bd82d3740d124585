# SPDX-License-Identifier: BSD-2-Clause
"""Many short tests of pairs of programs, which mostly wait: several at a time, each lane in a namespace of its own."""
import multiprocessing
import os

from place import Namespace
from process import Build, Failure, Process, Skip, report

LANES = 4
SKIP = "# SKIP "


def attempt(test, build, namespace, arguments):
    """'' or what went wrong; or SKIP and why."""
    try:
        test(build, namespace, *arguments)
        return ""
    except Skip as e:
        return SKIP + str(e)
    except Failure as e:
        return "%s\n%s" % (e, report())
    finally:
        while Process.everyone:
            Process.everyone[0].end()


def lane(test, cells, results):
    """Cells that no other lane has taken."""
    build, namespace = Build(os.environ.get("UROCE_BUILD", "build")), Namespace()
    try:
        for title, *arguments in iter(cells.get, None):
            results.put((title, attempt(test, build, namespace, arguments)))
    finally:
        namespace.close()
        results.put(None)


def run(test, todo):
    """test(build, namespace, *arguments) of each (title, *arguments), which raises Failure. Prints TAP; the exit status."""
    processes = multiprocessing.get_context("fork")
    cells, results = processes.Queue(), processes.Queue()
    print("1..%d" % len(todo), flush=True)
    for cell in todo + LANES * [None]:
        cells.put(cell)
    for _ in range(LANES):
        processes.Process(target=lane, args=(test, cells, results), daemon=True).start()
    n = failed = ended = 0
    while ended < LANES:
        result = results.get()
        if not result:
            ended += 1
            continue
        n += 1
        if result[1].startswith(SKIP):
            print("ok %d - %s %s" % (n, *result), flush=True)
            continue
        failed += bool(result[1])
        print("%s %d - %s" % ("not ok" if result[1] else "ok", n, result[0]))
        print("".join("# %s\n" % line for line in result[1].splitlines()), end="", flush=True)
    return n != len(todo) or failed != 0


def possible():
    """False where there can be no namespaces, which is told."""
    try:
        Namespace().close()
        return True
    except PermissionError as e:
        print("1..0 # SKIP", e)
        return False
