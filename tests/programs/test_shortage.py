#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shortage: the allocations, mappings, descriptors and threads that uroce asks for in a program of Debian's fail one by
one (shortage.c), at either end. The program works all the same, or one end says what failed and ends; none is killed by
a signal, and none hangs: where a connection ends, both ends do.

test_shortage.py [--all] [PATTERN [NUMBER]]: of many calls a sample fails; with --all each, or only the one with that
number."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lanes
from process import Build, Failure, Process, ports

KINDS = ["memory", "map", "descriptor", "thread"]
SAMPLE = 8  # calls of each cell
COUNTS = 3  # runs that count the calls of a cell
WHOLE = 256 # calls of a cell of which each fails, at most


class Program:
    """Arguments for the server and for the client. `whole`: without --all each call fails, too. `blind`: one end does not see
    that the other has gone, or that a message is lost, as it is when the two change over to UDP."""

    def __init__(self, server, client, whole=False, blind=False):
        self.arguments, self.whole, self.blind = (server, client), whole, blind


def same(arguments, **row):
    """The client is told the address as well."""
    return Program(arguments, arguments + " 127.0.0.1", **row)


PROGRAMS = {
    "ibv_rc_pingpong": same("-g 0 -n 100 -p {port}", whole=True),
    "ibv_uc_pingpong": same("-g 0 -n 100 -p {port}", whole=True, blind=True),
    "ibv_ud_pingpong": same("-g 0 -n 100 -p {port}", whole=True, blind=True),
    "ibv_srq_pingpong": same("-g 0 -n 100 -q 4 -p {port}", blind=True),  # its client reads a closed socket for ever
    "ib_send_bw": same("-n 100 -s 64 -F -x 0 -p {port}"),
    "ib_write_lat": same("-n 100 -s 64 -F -x 0 -p {port}"),
    "rping": Program("-s -a 127.0.0.1 -p {port} -C 5", "-c -a 127.0.0.1 -p {port} -C 5", whole=True),
    "ucmatose": Program("-b 127.0.0.1 -p {port}", "-s 127.0.0.1 -p {port}"),
    "udaddy": Program("-b 127.0.0.1", "-s 127.0.0.1", blind=True),
    "riostream": Program("-p {port} -T v -T b -S 5000 -C 3 -I 3", "-s 127.0.0.1 -p {port} -T v -T b -S 5000 -C 3 -I 3"),
}
# What ends a program by a signal, by its own fault: ucmatose frees its buffer twice if ibv_reg_mr() fails
OWN_FAULTS = {"ucmatose": re.compile(r"ibv_reg_mr: Cannot allocate memory(?s:.*)free\(\): double free")}
NEVER = re.compile(r"(?!)")
BY_ADDRESS = {"rping", "ucmatose", "udaddy", "riostream"}  # known by uroce, and not by TCP
REASON = re.compile(r"^(uroce: |Couldn't|Failed to|No IB|.*unable to |.*(errno|[Ee]rror|[Ff]ail|memory|open files|rconnect: Connection refused))", re.M)
GIVES_UP = re.compile(r"^connect error ", re.M)
CHANGES_OVER = re.compile(r"cannot share memory with this one, and uses UDP")
HERE = os.path.dirname(os.path.abspath(__file__))


def settings(build, library, kind, number, log):
    """After those of the build: it is preloaded before uroce."""
    return ["LD_PRELOAD=%s:%s" % (library, build.preload), "SHORTAGE=" + kind, "SHORTAGE_AT=%d" % number,
            "SHORTAGE_LOG=" + log]


def start_server(build, namespace, program, command, port, env):
    s = Process(build, namespace, command, env)
    try:
        if program in BY_ADDRESS:
            s.until_at_roce_port()
        else:
            s.until_listening(port)
    except Failure:
        if s.running():
            raise
    return s


def finish(client, server, blind):
    """The client's exit status; 1 if it says that a call failed, but waits for its other threads, as rping does; the
    server's if that has failed and the client cannot know it."""
    def over():
        if not client.running() or GIVES_UP.search(client.output):
            return True
        return blind and (not server.running() and server.wait() or CHANGES_OVER.search(server.output + client.output))
    client.until("it ended or failed", over)
    if not client.running():
        return client.wait()
    client.end()
    return server.wait() if not server.running() and server.wait() else 1


def run(build, namespace, library, program, end, kind, number):
    """Both ends do their work, or one fails and says why; the other may wait for it then. Returns the count of calls."""
    port = next(ports)
    row = PROGRAMS[program]
    commands = ["%s %s" % (program, arguments.format(port=port)) for arguments in row.arguments]
    with tempfile.NamedTemporaryFile(prefix="uroce-shortage-") as log:
        env = settings(build, library, kind, number, log.name)
        s = start_server(build, namespace, program, commands[0], port, env if end == "server" else [])
        if s.running():
            c = Process(build, namespace, commands[1], env if end == "client" else [])
            status = finish(c, s, row.blind)
            if not status and s.wait():
                raise Failure("the server failed, the client did not")
        else:
            c, status = s, s.wait()
        killed = [c] * (status < 0) + [s] * (not s.running() and s.wait() < 0)
        if killed and not all(OWN_FAULTS.get(program, NEVER).search(p.output) for p in killed):
            raise Failure("killed by a signal")
        if status and not REASON.search(s.output + c.output):
            raise Failure("status %d without a reason" % status)
        return 0 if status else int(log.read() or 0)


def chosen(count, most):
    """Which calls fail: a sample has the first and the last."""
    n = min(count, most)
    return sorted({1 + i * (count - 1) // max(n - 1, 1) for i in range(n)})


def count_calls(build, namespace, library, program, end, kind):
    """Of a row of which each call fails the least of some runs: beside processes that want the processor, too, the helper looks
    at /proc thousands of times."""
    return min(run(build, namespace, library, program, end, kind, 0) for _ in range(COUNTS if PROGRAMS[program].whole else 1))


def test(build, namespace, library, program, end, kind, every, only):
    count = only or count_calls(build, namespace, library, program, end, kind)
    if not count:
        raise Failure("it did not work with all that it asks for, or nothing was counted")
    for number in [only] if only else chosen(count, count if every else WHOLE if PROGRAMS[program].whole else SAMPLE):
        try:
            run(build, namespace, library, program, end, kind, number)
        except Failure as e:
            again = "again: %s '%s: each %s at the %s' %d" % (sys.argv[0], program, kind, end, number)
            raise Failure("call %d of %d: %s\n%s" % (number, count, e, again)) from e
        while Process.everyone:
            Process.everyone[0].end()


def main():
    build = Build(os.environ.get("UROCE_BUILD", "build"))
    programs = [program for program in PROGRAMS if shutil.which(program)]
    if build.sanitizer:
        print("1..0 # SKIP the sanitizer has allocations of its own")
        return 0
    if not lanes.possible():
        return 0
    words = [word for word in sys.argv[1:] if word != "--all"]
    wanted = words[0] if words else ""
    only = int(words[1]) if len(words) > 1 else 0
    every = "--all" in sys.argv
    with tempfile.TemporaryDirectory(prefix="uroce-shortage-") as work:
        library = os.path.join(work, "shortage.so")
        subprocess.run(["cc", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC",
                        os.path.join(HERE, "shortage.c"), "-o", library, "-ldl"], check=True)
        cells = [("%s: each %s at the %s" % (program, kind, end), library, program, end, kind, every, only)
                 for program in programs for end in ("server", "client") for kind in KINDS]
        return lanes.run(test, [cell for cell in cells if re.search(wanted, cell[0])])


if __name__ == "__main__":
    sys.exit(main())
