# SPDX-License-Identifier: BSD-2-Clause
"""One end of a connection ends in some way, and the other is told: on one host, at one address and at two, with shared
memory and without, and across two network namespaces, where the guardian of the process that ended tells."""
import glob
import os
import select
import signal

from case import Case, source
from process import Failure, Process, Skip, expect

EVERYWHERE = "lo", "udp", "veth1500"
WAYS = ("exit", "_exit", "quick_exit", "SIGINT", "SIGTERM", "abort", "SIGSEGV", "SIGKILL", "execve", "SIGKILL-with-child",
        "waiting-in-vain")
QUICK = "_exit", "SIGKILL", "execve", "waiting-in-vain"
TWO = ["UROCE_DEVICES=127.0.0.1..127.0.0.2"]


def addresses(place):
    """(the server's address, the client's if it chooses one, settings)."""
    if place.server is place.client:
        return (place.address, [], []), (place.address6, [], []), ("127.0.0.1", ["127.0.0.2"], TWO)
    return (place.address, [], []), (place.address6, [], [])


def start(place, build, ways, host, bound, env, around=()):
    """Both ends, of which the ways are given: server, client, which is started by `around`."""
    if build.memcheck and not (place.client.shares and place.server.shares):
        raise Skip("there is no guardian under valgrind")
    s = Process(build, place.server, [source(build, "ends"), ways[0], "server", host], env)
    s.until_output("^listening")
    return s, Process(build, place.client, [*around, source(build, "ends"), ways[1], "client", host, *bound], env)


def ends(way):
    def run(place, build):
        for where in addresses(place):
            s, c = start(place, build, ("stays", way), *where)
            expect(s, "^told")
            c.end()
    return Case("an end ends by " + way, run, EVERYWHERE, quick=way in QUICK, waits=True)


def pending(place, build):
    """A server is killed while it has a request that it has not answered."""
    for where in addresses(place):
        s, c = start(place, build, ("pending", "asks"), *where)
        expect(c, "^told")
        c.end()


def restarts(place, build):
    """A server that is killed, and the next one in its place at once: it is found, and nobody holds its port."""
    for _ in range(5):
        s, c = start(place, build, ("SIGKILL", "stays"), place.address, [], [])
        s.wait()
        again, d = start(place, build, ("SIGKILL", "stays"), place.address, [], [])
        expect(c, "^told")
        expect(d, "^told")
        for p in s, again:
            p.end()


def namespace_of(pid):
    try:
        return os.readlink("/proc/%s/ns/net" % pid)
    except OSError:
        return None  # it has ended


def guardians(namespace):
    """Those of a network namespace that live."""
    here, found = namespace_of(namespace.holder.pid), []
    for name in glob.glob("/proc/[0-9]*/comm"):
        pid = int(name.split("/")[2])
        try:
            with open(name) as f:
                if f.read() == "uroce-guardian\n" and namespace_of(pid) == here:
                    found.append(pid)
        except OSError:
            pass
    return found


def status_of(pid, key):
    with open("/proc/%d/status" % pid) as f:
        return next(line.split()[1] for line in f if line.startswith(key + ":"))


def await_end(pids, build):
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([fd], [], [], build.guard)[0]:
            raise Failure("guardian %d still runs" % pid)
        os.close(fd)


def check_guardian(pid, program):
    for kept, what in (
            (sorted(os.listdir("/proc/%d/fd" % pid)) != ["0", "1", "2"], "descriptors"),
            ([os.readlink("/proc/%d/fd/%d" % (pid, n)).split(":")[0] for n in range(3)] != ["pipe", "socket", "socket"],
             "other descriptors than its own"),
            (os.readlink("/proc/%d/cwd" % pid) != "/", "a directory"),
            (os.getsid(pid) != pid or os.getpgid(pid) != pid, "a session"),
            (int(status_of(pid, "RssAnon")) > 64, "memory: %s kB" % status_of(pid, "RssAnon")),
            (open("/proc/%d/cmdline" % pid).read(), "a command line"),
            (int(status_of(pid, "PPid")) == program, "a parent")):
        if kept:
            raise Failure("the guardian has kept " + what)


def kills_a_container(place, build):
    """pid 1 of a PID namespace is killed, as by `docker kill`: the kernel ends the guardian right after it, on a busy
    machine before it has acted (docs/connections.md). So of some peers one is told."""
    for _ in range(8):
        s, c = start(place, build, ("stays", "others"), place.address, [], [],
                     ["unshare", "--pid", "--fork", "--kill-child"])
        c.until_output("^ends")
        mine = guardians(getattr(place.client, "namespace", place.client))
        c.signal(signal.SIGKILL)
        c.end()
        await_end(mine, build)  # what it has sent is there
        try:
            s.until("it was told", lambda: "told" in s.output, 5)
        except Failure:
            s.signal(signal.SIGKILL)
            s.wait()
            continue
        s.end()
        return
    raise Failure("no peer was told")


def guardian_is_alone(place, build):
    """It has nothing of the program's, ends after it, and is made only where there is somebody to tell."""
    client = getattr(place.client, "namespace", place.client)
    for env, wanted in ([], not place.client.shares), (["UROCE_GUARDIAN=off"], False):
        await_end(guardians(client), build)  # of the test before
        s, c = start(place, build, ("stays", "others"), place.address, [], env)
        c.until_output("^ends")
        # on one host, each end has one
        mine = guardians(client)
        if bool(mine) != wanted:
            raise Failure("there are %d guardians" % len(mine))
        for pid in mine:
            check_guardian(pid, c.pid)
        c.signal(signal.SIGKILL)
        if wanted:
            expect(s, "^told")
        for p in c, s:
            p.end()
        await_end(mine, build)


TABLE = [*(ends(way) for way in WAYS),
         Case("a server is killed before it answers", pending, EVERYWHERE, quick=True, waits=True),
         Case("a server is killed, and starts again at once", restarts, EVERYWHERE, waits=True),
         Case("pid 1 of a container is killed", kills_a_container, EVERYWHERE[1:], waits=True),
         Case("a guardian has nothing of its program's", guardian_is_alone, EVERYWHERE, quick=True, waits=True)]
