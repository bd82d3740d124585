#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Races between requests of two processes to the memory of a third (--only races): each step is done when the one before
has been. What is told by the sockets of this test is nothing that a process hears by verbs."""
import fcntl
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

from test_check import BUILD, FOUND, UROCE, check, enter_namespace, finding, results

ME = os.path.join(BUILD, "check_across")
LENGTH = 64
OTHER = 12345
PATIENCE = 2 # seconds, of src/check/across.c


class Process:
    def __init__(self, environment):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as commands:
            with server.accept()[0] as end:
                self.child = subprocess.Popen([UROCE, "check", "--only", "races", ME], stdin=end, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
            self.commands = commands.makefile("w")
        words = [int(word) for word in self.child.stdout.readline().split()]
        self.ends = [words[i:i + 3] for i in range(0, len(words), 3)] # QPN, rkey, address
        self.peers = {}
        self.output = ""
        self.killed = False

    def do(self, *words):
        self.begin(words)
        self.end(1)

    def begin(self, *lines):
        """Gives all commands now, so that the socket tells nothing later."""
        print(*(" ".join(map(str, words)) for words in lines), sep="\n", file=self.commands, flush=True)

    def end(self, lines):
        for _ in range(lines):
            if self.child.stdout.readline() != "done\n":
                raise RuntimeError(str(self.communicate()))

    def command(self, what, at=0, end=0, region=0):
        _, rkey, address = self.peers[end].ends[region]
        return what, end, address + at, rkey

    def post(self, what, at=0, end=0, region=0):
        """To the bytes at `at` of that region of the peer."""
        self.do(*self.command(what, at, end, region))

    def poll(self, end=0):
        self.do("poll", end)

    def communicate(self):
        self.commands.close()
        return self.child.communicate()

    def kill(self):
        self.killed = True
        self.child.kill()
        self.communicate()

    def finish(self):
        self.output = self.communicate()[1]

    def found(self, other):
        """Whether it has told of a race with the other process."""
        told = finding(self.output, "race")
        return self.child.returncode == FOUND and re.search(rf"of process {other.child.pid} ", told) and "post_to (" in told


def connect(a, end_of_a, b, end_of_b):
    for one, end, other, its in ((a, end_of_a, b, end_of_b), (b, end_of_b, a, end_of_a)):
        one.do("connect", end, other.ends[its][0])
        one.peers[end] = other


class Three:
    """Two that post, each connected to a third, whose first region they access."""
    def __init__(self, environment):
        self.environment = environment
        self.a, self.b, self.target = (Process(environment) for _ in range(3))
        connect(self.a, 0, self.target, 0)
        connect(self.b, 0, self.target, 1)

    def finish(self):
        for process in self.a, self.b, self.target:
            if process.child.returncode is None:
                process.finish()


def two(first, second, at=0):
    def steps(t):
        t.a.post(first)
        t.b.post(second, at)
        t.a.poll()
        t.b.poll()
    return steps


def polled_before(t):
    t.a.post("write")
    t.a.poll()
    t.b.post("write")
    t.b.poll()


def done_but_not_told(t, told=False, noise=False, what="write"):
    """The first is polled long before the second is posted, and nothing that came to the second process says so: not a
    message that was sent before."""
    if noise:
        t.b.do("receive", 0)
    receives = [("poll", 0)] if noise else []
    t.b.begin(("pause", 400), *receives, t.b.command("write"), ("poll", 0))
    time.sleep(0.1)
    if noise:
        t.target.post("send", end=1)
    t.a.post(what)
    t.a.poll()
    if told: # by the memory of the target, which passes it on
        t.target.post("write", at=1024, end=1)
    t.b.end(3 + len(receives))
    if noise:
        t.target.poll(1)


def socket_tells(t):
    """It is not known what it says."""
    t.b.begin(("pause", 400))
    t.a.post("write")
    t.a.poll()
    t.b.begin(t.b.command("write"), ("poll", 0))
    t.b.end(3)


def never_polled(t):
    t.a.post("write")
    t.b.post("write")


def told_by_messages(t, heard=True):
    """The first is not polled: what is behind it tells the target, and that tells the second process."""
    t.target.do("receive", 0)
    t.b.do("receive", 0)
    t.a.post("write")
    t.a.post("send")
    t.target.poll(0)
    t.target.post("send", end=1)
    if heard:
        t.b.poll() # the message
    t.b.post("write")
    t.b.poll()


def messages_not_polled(t):
    told_by_messages(t, False)
    t.b.poll() # what is left
    t.a.poll()


def told_by_write(t):
    """The second process may look at the memory that the target writes to."""
    t.a.post("write")
    t.target.post("write", end=1)
    t.b.post("write")
    t.b.poll()
    t.a.poll()


def told_by_atomic(t):
    t.a.post("write")
    t.a.post("add", at=512)
    t.b.post("add", at=512)
    t.b.poll()
    t.b.post("write")
    t.b.poll()


def told_before(t):
    """What came before the first was posted says nothing of it."""
    t.b.do("receive", 0)
    t.target.post("send", end=1)
    t.b.poll()
    two("write", "write")(t)


def sent_and_written(t, polled=False):
    """The target sends what the second process writes to."""
    t.a.do("receive", 0)
    t.target.post("send")
    if polled:
        t.target.poll()
    t.b.post("write")
    t.b.poll()
    if not polled:
        t.target.poll()


def killed(t):
    t.a.post("write")
    t.a.kill()
    t.b.post("write")
    t.b.poll()


def killed_and_another(t):
    """It takes the place of the one that was killed in the table."""
    killed(t)
    t.a = Process(t.environment)
    connect(t.a, 0, t.target, 2)
    two("write", "write")(t)


# And the two that race.
CASES = (
    ("the same bytes written", two("write", "write"), "ab"),
    ("some of the same bytes written", two("write", "write", LENGTH - 1), "ab"),
    ("the same bytes written, and never polled", never_polled, "ab"),
    ("bytes written beside each other", two("write", "write", LENGTH), ""),
    ("read what is written", two("write", "read"), "ab"),
    ("written what is read", two("read", "write"), "ab"),
    ("the same bytes read", two("read", "read"), ""),
    ("done, and nothing tells", done_but_not_told, "ab"),
    ("read, and nothing tells", lambda t: done_but_not_told(t, what="read"), "ab"),
    ("done, and a message tells of what was before", lambda t: done_but_not_told(t, noise=True), "ab"),
    ("done, and a WRITE tells", lambda t: done_but_not_told(t, told=True), ""),
    ("done, and a socket may tell", socket_tells, ""),
    ("a word written, and an atomic", two("write", "add"), "ab"),
    ("a word read, and an atomic", two("read", "add"), ""),
    ("atomics at one place", two("add", "add"), ""),
    ("polled before the second is posted", polled_before, ""),
    ("ordered by messages", told_by_messages, ""),
    ("messages that are polled too late", messages_not_polled, "ab"),
    ("ordered by a WRITE", told_by_write, ""),
    ("ordered by an atomic", told_by_atomic, ""),
    ("a message before both", told_before, "ab"),
    ("written what its owner sends", sent_and_written, "tb"),
    ("written what its owner has sent", lambda t: sent_and_written(t, True), ""),
    ("the first process killed", killed, ""),
    ("the first process killed, and another one", killed_and_another, "ab"),
)


def each_case(environment):
    for name, steps, racing in CASES:
        three = Three(environment)
        steps(three)
        three.finish()
        all_three = {"a": three.a, "b": three.b, "t": three.target}
        silent = all("no mistakes found" in process.output for which, process in all_three.items()
                     if which not in racing and not process.killed)
        found = not racing or all(all_three[one].found(all_three[other]) for one, other in (racing, racing[::-1]))
        check(f"{name} {environment or ''}: {'found by both' if racing else 'silent'}", silent and found,
              "".join(process.output for process in all_three.values()))


def another_user_is_here():
    try:
        os.seteuid(OTHER)
        os.seteuid(0)
    except OSError:
        return False
    return True


def lock_as_another_user(folder, tell, end):
    """Holds the lock of each file that processes of different users can open, until told to end."""
    os.setresuid(OTHER, OTHER, OTHER)
    files = [os.open(name, os.O_RDONLY) for name in ("/proc/self/ns/net", "/proc/self/ns/user", "/dev/shm", "/tmp", folder)]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    os.write(tell, b"x")
    os.read(end, 1)


def not_held_up_by_another_user():
    """A process that waits for that lock takes longer than PATIENCE each time; on a slow machine all do."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"XDG_RUNTIME_DIR": folder + "/mine"}
        os.chmod(folder, 0o755)
        os.mkdir(folder + "/mine", 0o700)
        tell, end = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(end[1])
            try:
                lock_as_another_user(folder, tell[1], end[0])
            finally:
                os._exit(0)
        os.close(tell[1])
        check("another user has locks", os.read(tell[0], 1) == b"x")
        took = []
        while len(took) < 20 and min(took, default=PATIENCE) >= PATIENCE:
            began = time.monotonic()
            process = Process(environment)
            took.append(time.monotonic() - began)
            process.finish()
        os.close(end[1])
        os.waitpid(pid, 0)
        check("another user's locks are not waited for", min(took) < PATIENCE, took)


def main():
    if not os.path.exists(ME):
        sys.exit(77)
    enter_namespace()
    each_case({})
    each_case({"UROCE_LOCAL": "off"})
    if os.getuid() == 0 and another_user_is_here():
        not_held_up_by_another_user()
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
