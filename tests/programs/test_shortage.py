#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shortage: each allocation, mapping, descriptor and thread that uroce asks for in a program of Debian's fails in turn
(shortage.c), at either end. The program works all the same, or one end says what failed and ends; none is killed by a
signal, and none hangs. test_shortage.py [PATTERN]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lanes
from process import Build, Failure, Process, ports

KINDS = ["memory", "map", "descriptor", "thread"]
# program, its arguments for the server and for the client
PROGRAMS = {
    "ibv_rc_pingpong": ("-g 0 -n 100 -p {port}", "-g 0 -n 100 -p {port} 127.0.0.1"),
    "rping": ("-s -a 127.0.0.1 -p {port} -C 5", "-c -a 127.0.0.1 -p {port} -C 5"),
}
REASON = re.compile(r"^(uroce: |Couldn't|Failed to|No IB|.*(errno|[Ee]rror|[Ff]ail|memory|open files))", re.M)
GIVES_UP = re.compile(r"^connect error ", re.M)
HERE = os.path.dirname(os.path.abspath(__file__))


def settings(build, library, kind, number, log):
    """After those of the build: it is preloaded before uroce."""
    return ["LD_PRELOAD=%s:%s" % (library, build.preload), "SHORTAGE=" + kind, "SHORTAGE_AT=%d" % number,
            "SHORTAGE_LOG=" + log]


def start_server(build, namespace, command, port, env):
    s = Process(build, namespace, command, env)
    try:
        if command.startswith("rping"):
            s.until_at_roce_port()
        else:
            s.until_listening(port)
    except Failure:
        if s.running():
            raise
    return s


def finish(client):
    """Its exit status; 1 if it says that a call failed, but waits for its other threads, as rping does."""
    client.until("it ended or failed", lambda: not client.running() or GIVES_UP.search(client.output))
    if client.running():
        client.end()
        return 1
    return client.wait()


def run(build, namespace, library, program, end, kind, number):
    """Both ends do their work, or one fails and says why; the other may wait for it then. Returns the count of calls."""
    port = next(ports)
    commands = ["%s %s" % (program, arguments.format(port=port)) for arguments in PROGRAMS[program]]
    with tempfile.NamedTemporaryFile(prefix="uroce-shortage-") as log:
        env = settings(build, library, kind, number, log.name)
        s = start_server(build, namespace, commands[0], port, env if end == "server" else [])
        if s.running():
            c = Process(build, namespace, commands[1], env if end == "client" else [])
            status = finish(c)
            if not status and s.wait():
                raise Failure("the server failed, the client did not")
        else:
            c, status = s, s.wait()
        if status < 0 or (not s.running() and s.wait() < 0):
            raise Failure("killed by a signal")
        if status and not REASON.search(s.output + c.output):
            raise Failure("status %d without a reason" % status)
        return 0 if status else int(log.read() or 0)


def test(build, namespace, library, program, end, kind):
    count = run(build, namespace, library, program, end, kind, 0)
    if not count:
        raise Failure("it did not work with all that it asks for, or nothing was counted")
    for number in range(1, count + 1):
        try:
            run(build, namespace, library, program, end, kind, number)
        except Failure as e:
            raise Failure("call %d of %d: %s" % (number, count, e)) from e
        while Process.everyone:
            Process.everyone[0].end()


def main():
    build = Build(os.environ.get("UROCE_BUILD", "build"))
    for program in PROGRAMS:
        if not shutil.which(program):
            print("1..0 # SKIP no", program)
            return 0
    if build.sanitizer:
        print("1..0 # SKIP the sanitizer has allocations of its own")
        return 0
    if not lanes.possible():
        return 0
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory(prefix="uroce-shortage-") as work:
        library = os.path.join(work, "shortage.so")
        subprocess.run(["cc", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC",
                        os.path.join(HERE, "shortage.c"), "-o", library, "-ldl"], check=True)
        cells = [("%s: each %s at the %s" % (program, kind, end), library, program, end, kind)
                 for program in PROGRAMS for end in ("server", "client") for kind in KINDS]
        return lanes.run(test, [cell for cell in cells if re.search(wanted, cell[0])])


if __name__ == "__main__":
    sys.exit(main())
