# SPDX-License-Identifier: BSD-2-Clause
"""A program under test: started in a namespace with uroce in front of it, watched, and never left behind."""
import contextlib
import glob
import itertools
import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
import time

OURS = re.compile(r"/src/\w+/\w+\.c:\d+\)|liburoce")  # of a stack
HERE = os.path.dirname(os.path.abspath(__file__))
GUARD = 120  # seconds, against a hang: no test is about time
REPORTS = re.compile(r"ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:|LeakSanitizer:")

ports = itertools.count(10000 + os.getpid() % 20000)  # a TCP port of its own for each pair, below those that clients get


class Failure(Exception):
    pass


class Skip(Exception):
    pass


class Build:
    """What is tested. A sanitizer's runtime must be the first of all libraries. `valgrind`: memcheck looks at each program.
    `checks`: uroce check does."""

    def __init__(self, folder, valgrind=False, checks=False):
        def find(name):
            found = sorted(glob.glob(os.path.join(folder, "**", name), recursive=True), key=len)
            if not found:
                raise SystemExit("%s: no %s there: build first" % (folder, name))
            return os.path.abspath(found[0])

        self.folder, self.guard = folder, (6 if valgrind or checks else 1) * GUARD
        self.library = find("liburoce.so.1")
        self.command = find("uroce")
        linked = subprocess.run(["ldd", self.library], capture_output=True, text=True).stdout
        runtime = re.findall(r"lib(?:a|t|ub)san\.so\S* => (\S+)", linked)
        self.sanitizer = "libtsan" in linked and "thread" or runtime and "address" or None
        self.preload = ":".join(runtime + [self.library])
        self.settings = ["LD_PRELOAD=" + self.preload]
        if self.sanitizer:
            # The programs leak and race of their own, and some open files in signal handlers; only what our library does
            # counts. ThreadSanitizer would have each wait a second at its end, for races that its threads may still have.
            self.settings += ["ASAN_OPTIONS=detect_leaks=0", "UBSAN_OPTIONS=print_stacktrace=1",
                              "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:atexit_sleep_ms=50:"
                              "report_signal_unsafe=0"]
        self.prefix = ["setarch", "-R"] if self.sanitizer == "thread" else []
        self.memcheck = []
        if valgrind:
            self.sanitizer = "valgrind"
            self.memcheck = ["valgrind", "-q", "--fair-sched=yes", "--trace-children=yes", "--leak-check=full",
                             "--show-leak-kinds=definite", "--fullpath-after=",
                             "--suppressions=" + os.path.join(HERE, "valgrind.supp")]
        self.programs = tempfile.TemporaryDirectory(prefix="uroce-programs-")
        self.found = None  # where uroce check says what it finds, by program and process
        if checks:
            self.found = tempfile.TemporaryDirectory(prefix="uroce-found-")
            os.chmod(self.found.name, 0o1777)  # some programs become another user

    def log_of(self, words):
        program = next(word for word in words if word != "stdbuf" and word[0] != "-")
        return "%s/%s.%%p" % (self.found.name, os.path.basename(program))

    def findings(self):
        """[(program, kind, text)] of what uroce check has found so far."""
        found = []
        for name in sorted(os.listdir(self.found.name)):
            with open(os.path.join(self.found.name, name), errors="replace") as f:
                texts = re.findall(r"^uroce check: ((?!process )[a-z-]+): (.*\n(?:  .*\n)*)", f.read(), re.M)
            found += [(name.rsplit(".", 1)[0], kind, text) for kind, text in texts]
        return found

    def compile(self, source, compiler="cc"):
        """With nothing but -libverbs (and what the source includes), as any user would. Once."""
        out = os.path.join(self.programs.name, os.path.basename(source)[:-2] + ("" if compiler == "cc" else "-" + compiler))
        if not os.path.exists(out):
            with open(source) as f:
                text = f.read()
            libraries = ["-lrdmacm"] * ("<rdma/" in text) + ["-lmlx5"] * ("mlx5dv.h" in text)
            part = "%s.%d" % (out, os.getpid())  # of one lane: the other may compile it, too
            subprocess.run([compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror", source, "-o", part, *libraries,
                            "-libverbs"], check=True)
            os.rename(part, out)
        return out


class Process:
    everyone = []

    def __init__(self, build, namespace, command, env=(), preload=True):
        self.build, self.namespace = build, namespace
        words = shlex.split(command) if isinstance(command, str) else list(command)
        settings = (build.settings if preload else []) + list(env)
        if build.found and preload:  # what `uroce check` sets
            settings += ["UROCE_CHECK=leaks,habits,buffers", "UROCE_CHECK_LOG=" + build.log_of(words)]
        self.notes = tempfile.TemporaryDirectory(prefix="uroce-notes-")  # of memcheck
        memcheck = build.memcheck and preload and [*build.memcheck, "--log-file=%s/%%p" % self.notes.name] or []
        self.argv = (namespace.enter + build.prefix + (["env"] + settings if settings else []) + memcheck + words)
        self.log = tempfile.TemporaryFile(prefix="uroce-log-")
        self.child = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                      start_new_session=True)
        self.pidfd = os.pidfd_open(self.child.pid)
        Process.everyone.append(self)

    @property
    def pid(self):
        return self.child.pid

    @property
    def output(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")

    @property
    def reports(self):
        """What a sanitizer or memcheck says of the program and of its children, or ''."""
        reports = self.output if REPORTS.search(self.output) else ""
        for name in sorted(os.listdir(self.notes.name)):
            with open(os.path.join(self.notes.name, name), errors="replace") as f:
                blocks = re.split(r"(?m)^==\d+== \n", "".join(line for line in f if re.match(r"==\d+== ", line)))
            reports += "".join(block for block in blocks if self.counts(block))
        return reports

    def counts(self, block):
        """Whether what memcheck says is about uroce. A program's own leaks are not, nor is, where local peers write to its memory,
        which memcheck does not see, what it reads there."""
        shares = self.namespace.shares and "uninitialised" in block
        return block and (OURS.search(block.split("  Address ")[0]) or not (shares or "lost in loss record" in block))

    def running(self):
        return self.child.poll() is None

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, guard=None):
        """The exit status (negative: the signal that killed it)."""
        guard = guard or self.build.guard
        if not select.select([self.pidfd], [], [], guard)[0]:
            raise Failure("pid %d still runs after %d s" % (self.pid, guard))
        return self.child.wait()

    def until(self, what, condition, guard=None):
        """Waits for something that only looking can tell."""
        guard = guard or self.build.guard
        end = time.monotonic() + guard
        while True:
            value = condition()
            if value:
                return value
            if select.select([self.pidfd], [], [], 0.005)[0]:
                value = condition()
                if value:
                    return value
                raise Failure("it ended (status %s) before %s" % (self.child.wait(), what))
            if time.monotonic() > end:
                raise Failure("%d s passed before %s" % (guard, what))

    def until_output(self, pattern, count=1):
        """The count-th match of pattern in what the program has printed."""
        def seen():
            found = list(itertools.islice(re.finditer(pattern, self.output, re.M), count))
            return found[-1] if len(found) == count else None
        return self.until("it printed %r" % pattern, seen)

    def until_listening(self, port):
        wanted = ":%04X" % port

        def listening():
            for table in "tcp", "tcp6":
                with open(self.namespace.proc + table) as f:
                    for line in f:
                        word = line.split()
                        if word[3] == "0A" and word[1].endswith(wanted):
                            return True
            return False
        self.until("it listened on TCP port %d" % port, listening)

    def until_listening_at(self, path):
        """At a Unix socket, whose file is there before."""
        def listening():
            with open(self.namespace.proc + "unix") as f:
                return any(line.split()[3] == "00010000" and line.split()[-1] == path for line in f)
        self.until("it listened at %s" % path, listening)

    def until_at_roce_port(self):
        """Until the program itself has bound UDP port 4791, which is when those that connect by rdma_cm find it."""
        def bound():
            sockets = set()
            for fd in glob.glob("/proc/%d/fd/*" % self.pid):
                with contextlib.suppress(OSError):
                    sockets.add(os.readlink(fd))
            for table in "udp", "udp6":
                with open(self.namespace.proc + table) as f:
                    for line in f:
                        word = line.split()
                        if word[1].endswith(":12B7") and "socket:[%s]" % word[9] in sockets:
                            return True
            return False
        self.until("it had bound UDP port 4791", bound)

    def end(self):
        """Kills it if need be; what it printed stays readable."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        os.close(self.pidfd)
        self.notes.cleanup()
        Process.everyone.remove(self)


def expect(process, *patterns, refused=None):
    """That it ends well, and what it has printed."""
    status = process.wait()
    if status:
        raise Failure("%s: status %d, not 0" % (process.argv[-1], status))
    expect_printed(process, *patterns, refused=refused)


def expect_printed(process, *patterns, refused=None):
    """That something so far matches each pattern, and nothing `refused`."""
    for pattern in patterns:
        if not re.search(pattern, process.output, re.M):
            raise Failure("no %r in its output" % pattern)
    if refused and re.search(refused, process.output):
        raise Failure("%r in its output" % re.search(refused, process.output).group())


def typed(build, command):
    """As a user types it: these look for the device in /sys and /dev, too."""
    if build.sanitizer:
        raise Skip("a sanitizer's runtime must come first")
    how = " check -e 0 -l %s " % build.log_of(command.split()) if build.found else " run "
    return build.command + how + command


def report():
    """Both ends' command and output, for a failure."""
    text = []
    for p in Process.everyone:
        status = "running" if p.running() else "status %d" % p.child.returncode
        text.append("--- %s\n--- pid %d, %s, said:" % (shlex.join(p.argv), p.pid, status))
        text.append(p.output[-4000:].rstrip())
        text.append(p.reports[:4000].rstrip() if p.build.memcheck else "")
    return "\n".join(text)


def end_all():
    """Ends what the test has started; True if a sanitizer had something to say."""
    bad = any(p.reports for p in Process.everyone)
    for p in list(Process.everyone):
        p.end()
    return bad
