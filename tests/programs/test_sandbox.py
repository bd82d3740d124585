#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sandboxes and shortages from outside: system calls that a seccomp filter refuses, limits, missing file systems, namespaces.
A pair of programs of Debian's does its work all the same, or both end and one says why. None hangs; where both only wait,
none wakes.

test_sandbox.py [--all] [PATTERN]: of the refused calls a sample runs; with --all each, at either end and at both."""
import errno
import os
import re
import socket
import subprocess
import sys

import lanes
from case import source
from ours import at_rest
from place import ByUdp
from process import Build, Failure, Process, expect, ports
from test_shortage import PROGRAMS, REASON, start_server

# Newer than Linux 5.4, or refused by profiles of container runtimes, or only of use: the work is done without.
OPTIONAL = """bpf clone3 close_range epoll_pwait2 fallocate flock get_mempolicy getdents64 getrusage getsockname io_uring_setup
ioctl kcmp madvise mbind membarrier mlock move_pages mremap msync openat2 pidfd_getfd pidfd_open prctl prlimit64
process_vm_readv process_vm_writev ptrace readlink recvmmsg rseq sched_getattr sched_setattr sched_yield sendmmsg signalfd4
statx sysinfo userfaultfd""".split()
# Without these, there is no device, and the message has the name. (Those without which no program starts are not here.)
REQUIRED = """accept4 bind clock_nanosleep connect epoll_create1 epoll_ctl epoll_pwait eventfd2 fcntl ftruncate getrandom
getsockopt listen memfd_create ppoll pwrite64 recvfrom recvmsg sendmsg sendto setsockopt socket timerfd_create
timerfd_settime""".split()
FAMILIES = {"socket(AF_NETLINK)": socket.AF_NETLINK, "socket(AF_UNIX)": socket.AF_UNIX}
# As it is, the C library makes no thread where clone3 fails with EPERM: rping says so itself.
SAYS_ITSELF = {("rping", "clone3", "EPERM"): "pthread_create: Operation not permitted",
               ("rping", "ppoll", "EPERM"): "event channel cannot be created", }
NEVER_CONNECTED = re.compile(r"refuses .*, which uroce requires|pthread_create: |thread that connections need")


def numbers():
    """{name: number} of those that this architecture has."""
    text = "#include <sys/syscall.h>\n" + "".join("@%s SYS_%s\n" % (n, n) for n in OPTIONAL + REQUIRED)
    out = subprocess.run(["cc", "-E", "-P", "-"], input=text, capture_output=True, text=True, check=True).stdout
    found = {name: number for name, number in re.findall(r"^@(\w+) (\d+)$", out, re.M)}
    found.update({name: "%s:%d" % (found["socket"], family) for name, family in FAMILIES.items()})
    return found


def refusing(build, calls, error):
    return [source(build, "refuse"), str(getattr(errno, error)), ",".join(CALLS[c] for c in calls)]


def names_refused(text, calls):
    return any(name in text for name in calls)


def run_pair(build, place, program, before):
    """The server's and the client's exit status, or None of one that waits for the other, which has ended."""
    port = next(ports)
    words = [(program + " " + arguments.format(port=port)).split() for arguments in PROGRAMS[program].arguments]
    s = start_server(build, place, program, before[0] + words[0], port, [])
    if not s.running():
        return s.wait(), None, s.output
    c = Process(build, place, before[1] + words[1])
    status = c.wait()
    waits = status > 0 and NEVER_CONNECTED.search(c.output)
    return None if waits else s.wait(), status, s.output + c.output


def refused(build, namespace, program, way, end, calls, error):
    place = ByUdp(namespace) if way == "udp" else namespace
    prefix = refusing(build, calls, error)
    status = run_pair(build, place, program, (prefix if end != "client" else [], prefix if end != "server" else []))
    said = status[2]
    if any((s or 0) < 0 for s in status[:2]):
        raise Failure("killed by a signal")
    own = SAYS_ITSELF.get((program, calls[0], error))
    if any(status[:2]) and not names_refused(said, calls) and not (own and own in said):
        raise Failure("status %s and %s, and neither end names %s" % (*status[:2], ", ".join(calls)))
    if any(status[:2]) and calls[0] in OPTIONAL and calls != ["clone3"]:
        raise Failure("it does not work without %s" % ", ".join(calls))


def start_idle(build, place, how, prefix=()):
    port = next(ports)
    command = [*prefix, source(build, "idle"), str(port), how]
    ends = [Process(build, place, command)]
    ends[0].until_listening(port)
    ends.append(Process(build, place, command + ["127.0.0.1"]))
    for p in ends:
        p.until_output("^idle")
    return ends


def come_to_rest(ends):
    ends[0].until("both came to rest", lambda: at_rest([p.pid for p in ends]))


def idle(build, namespace, way, calls, error):
    come_to_rest(start_idle(build, ByUdp(namespace) if way == "udp" else namespace, "pause", refusing(build, calls, error)))


# ---- no descriptor is left ----

def listening_names(namespace):
    """The abstract names there at which processes listen."""
    with open(namespace.proc + "unix") as f:
        lines = [line.split() for line in f]
    return [w[7] for w in lines if len(w) > 7 and w[3] == "00010000" and w[7].startswith("@uroce/")]


CALLER = """import socket, sys
for name in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("\\0" + name[1:])
    s.settimeout(%d)
    print(name, len(s.recv(4096)))
"""


def full(build, namespace, limit):
    """Any user may connect to the names of a process that has no descriptor left: the caller learns it, and the process
    sleeps on. `limit`: the spare one does not help, since the limit has been lowered below it."""
    ends = start_idle(build, namespace, "pause" if limit else "full", ["prlimit", "--nofile=512"])
    if limit:
        subprocess.run(["prlimit", "--pid", str(ends[0].pid), "--nofile=3"], check=True)
    names = listening_names(namespace)
    kinds = {re.sub(r"[\d/]+|[0-9a-f]{16}", " ", name) for name in names}
    if len(kinds) < 3:
        raise Failure("only %s listen" % names)
    if limit:
        c = Process(build, namespace, [build.command, "stat", "-p", str(ends[0].pid)])
        c.wait()
    else:
        expect(Process(build, namespace, [sys.executable, "-c", CALLER % build.guard, *names], preload=False))
    come_to_rest(ends)


HELD = """import socket, sys
crowd, name = [], "\\0uroce-test-crowded"
end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
end.bind(name)
end.listen(0)
while True:
    crowd.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
    try:
        crowd[-1].connect(name)
    except BlockingIOError:
        break
control = []
for request, wanted in (b"pcap " + name[1:].encode(), b"error "), (b"version", b"ok "):
    control.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    control[-1].settimeout(%d)
    control[-1].connect("\\0" + sys.argv[1][1:])
    control[-1].send(request)
    answer = control[-1].recv(4096)
    if not answer.startswith(wanted):
        sys.exit("%%r: %%r" %% (request, answer))
"""


def held(build, namespace):
    """A request to capture packets names a collector that takes no more connections: the helper does not wait."""
    s, _ = start_idle(build, namespace, "pause")
    name = next(n for n in listening_names(namespace) if n.startswith("@uroce/control/%d/" % s.pid))
    expect(Process(build, namespace, [sys.executable, "-c", HELD % build.guard, name], preload=False))


# ---- limits, file systems, namespaces ----

def in_mounts(script):
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script + ' && exec "$@"', "sh"]


# Before the command of each end; whether it works there. docs/ci.md has the table.
SURROUNDINGS = {
    "8 descriptors": (["prlimit", "--nofile=8"], False),
    "16 descriptors": (["prlimit", "--nofile=16"], False),
    "32 descriptors": (["prlimit", "--nofile=32"], True),
    "64 MiB of addresses": (["prlimit", "--as=%d" % (64 << 20)], True),
    "no locked memory": (["prlimit", "--memlock=0"], True),
    "files of 1 MiB": (["prlimit", "--fsize=%d" % (1 << 20)], False),
    "/dev/shm of 64 MiB": (in_mounts("mount -t tmpfs -o size=64m x /dev/shm"), True),
    "/dev/shm is full": (in_mounts("mount -t tmpfs -o size=64k x /dev/shm && "
                                   "! dd if=/dev/zero of=/dev/shm/x 2>/dev/null"), True),
    "neither /dev/shm nor /tmp": (in_mounts("mount -t tmpfs -o ro x /dev/shm && mount -t tmpfs -o ro x /tmp"), True),
    "no /proc": (in_mounts("mount -t tmpfs x /proc"), True),
    "no /sys": (in_mounts("mount -t tmpfs x /sys"), True),
    "a root that is read only": (in_mounts("mount --rbind / /mnt && mount -o remount,ro,bind /mnt && cd /mnt && "
                                           "pivot_root . . && umount -l ."), True),
    "a user namespace": (["unshare", "-Ur"], True),
    "a PID namespace": (["unshare", "-pf"], True),
    "an IPC namespace": (["unshare", "-i"], True),
}


def surroundings(build, namespace, program, way, prefix, works):
    place = ByUdp(namespace) if way == "udp" else namespace
    server, client, said = run_pair(build, place, program, (prefix, prefix))
    if (server or 0) < 0 or (client or 0) < 0:
        raise Failure("killed by a signal")
    if server or client:
        if works or not REASON.search(said):
            raise Failure("status %s and %s" % (server, client))


def cells(every):
    rows = []
    for i, call in enumerate([c for c in OPTIONAL + REQUIRED + list(FAMILIES) if c in CALLS]):
        some = [("ENOSYS", "both"), ("EPERM", ("server", "client")[i % 2])]
        for error, end in [(e, end) for e in ("ENOSYS", "EPERM") for end in ("server", "client", "both")] if every else some:
            rows += [("%s: %s at the %s: %s by %s" % (call, error, end, program, way), refused, program, way, end, [call], error)
                     for program in ("ibv_rc_pingpong", "rping") for way in ("shm", "udp")]
        rows += [("%s: EPERM: idle by %s" % (call, way), idle, way, [call], "EPERM")
                 for way in ("shm", "udp") if call in OPTIONAL and call != "clone3"]
    many = [c for c in OPTIONAL if c in CALLS]
    rows += [("many at once: ENOSYS: %s by %s" % (program, way), refused, program, way, "both", many, "ENOSYS")
             for program in ("ibv_rc_pingpong", "rping") for way in ("shm", "udp")]
    rows += [("many at once: ENOSYS: idle by %s" % way, idle, way, many, "ENOSYS") for way in ("shm", "udp")]
    rows += [("%s: %s by %s" % (what, program, way), surroundings, program, way, *row)
             for what, row in SURROUNDINGS.items() for program in ("ibv_rc_pingpong", "rping") for way in ("shm", "udp")
             if (what, program) != ("a PID namespace", "rping")]  # whose child is looked at
    rows += [("no descriptor is left: who calls learns it", full, False),
             ("no descriptor is left, nor a spare one: none wakes", full, True),
             ("a crowded collector does not hold the helper", held)]
    return rows


def test(build, namespace, run, *arguments):
    run(build, namespace, *arguments)


def main():
    global CALLS
    build = Build(os.environ.get("UROCE_BUILD", "build"))
    if build.sanitizer:
        print("1..0 # SKIP the sanitizer makes calls of its own")
        return 0
    if not lanes.possible():
        return 0
    CALLS = numbers()
    words = [word for word in sys.argv[1:] if word != "--all"]
    rows = [row for row in cells("--all" in sys.argv) if not words or re.search(words[0], row[0])]
    return lanes.run(test, rows)


if __name__ == "__main__":
    sys.exit(main())
