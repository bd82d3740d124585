#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""README.md and docs/: each line of a block that begins with `uroce` (or a variable, or export) is run, in the order of
the pages, and ends with status 0. Words such as PROGRAM stand for what a reader puts there. docs/ci.md has a test
of its own, and test_start.py runs docs/start.md, docs/labs.md, docs/hangs.md and what README.md shows with a prompt. In a network namespace of its own."""
import glob, os, re, signal, subprocess, sys, tempfile

import alone

SOURCE, BUILD = os.environ["UROCE_SOURCE"], os.environ["UROCE_BUILD"]
OWN_TESTS = ("start.md", "labs.md", "hangs.md", "ci.md")
# what is left out, and the test that runs it
LEFT_OUT = {
    "UROCE_LINK=packet": "test_packet.py",
    "./lab_d": "test_gpu.sh",
    "uroce top": "test_stat.py; it does not end by itself",
}
# how a word is read here
STANDS_FOR = [
    (r"\bTEST\b|\./server|\./client|\bPROGRAM\b", os.path.join(BUILD, "qp_single_host")),
    (r"\bSERVER\b|\bPEER\b|\bHOST\b|\blocalhost\b", "127.0.0.1"),
    (r"-n 100\b", "-n 3"),
    (r"/var/lib/node_exporter/", ""),
    (r"\bFILE\b", "file.pcapng"),
]
SERVERS = re.compile(r"(ibv_rc_pingpong (-g 0|.* -s 1024)|ib_write_lat)$")  # they wait for the client in the next line
AT_WORK = ["ib_write_lat", *alone.ENDLESS, "-p", "18600"]  # what PID stands for: the client of two


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def commands():
    """[(page, command)]"""
    pages = [os.path.join(SOURCE, "README.md"), *sorted(glob.glob(os.path.join(SOURCE, "docs", "*.md")))]
    for path in pages:
        page = os.path.basename(path)
        with open(path) as f:
            for line in f:
                typed = re.match(r"    (?:\$ )?((?:export |(?:UROCE_\w+=\S* )*uroce (?!\w+: ))[^#]*?)(?:\s+#.*)?$", line)
                if typed and page not in OWN_TESTS and not (page == "README.md" and line.startswith("    $ ")):
                    yield from ((page, part) for part in typed[1].split("; "))


def until_listening(process, port):
    while not subprocess.check_output(["ss", "-Hltn", "sport = :%d" % port]):
        check("the server listens", process.poll() is None)


class AtWork:
    """Two programs that go on until they are ended."""

    def __init__(self):
        with open("at-work", "w") as log:
            start = lambda *more: subprocess.Popen(["uroce", "run", *AT_WORK, *more], stdout=log, stderr=log)
            self.server = start()
            until_listening(self.server, 18600)
            self.client = start("127.0.0.1")
        while "RTS" not in self.shown():
            check("they are at work", self.client.poll() is None and self.server.poll() is None, open("at-work").read())

    def shown(self):
        return subprocess.run(["uroce", "stat", str(self.client.pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout

    def end(self):
        for process in self.client, self.server:
            process.kill()
            process.wait()


def run_until_interrupted(command):
    """A capture of a process that runs: until something is in the file, then Ctrl-C."""
    grown = "seen" if "wireshark" in command else "file.pcapng"
    for name in "seen", "file.pcapng":
        if os.path.exists(name):
            os.unlink(name)
    pipe = "|" in command
    process = subprocess.Popen(command if pipe else "exec " + command, shell=True, start_new_session=True)
    with subprocess.Popen(["tail", "--pid=%d" % process.pid, "-c", "+1", "-F", grown], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as tail:
        check(command, len(tail.stdout.read(1000)) == 1000, "has ended")
        tail.kill()
    os.killpg(process.pid, signal.SIGINT)
    status = process.wait()
    return 0 if pipe and status == -signal.SIGINT else status  # it ends the pipe's shell, too


def run(command):
    if not re.search(r" PID|uroce stat", command):
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout
    work = AtWork()
    try:
        command = re.sub(r"PID(\.\.\.)?", str(work.client.pid), command)
        if " pcap " in command:
            return run_until_interrupted(command), ""
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout
    finally:
        work.end()


def main():
    if os.environ.get("UROCE_QUICK"):
        print("pages: once is enough")
        sys.exit(77)
    alone.enter(("ss", "ibv_rc_pingpong", "ib_write_lat", "rdma"))
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("wireshark", "w") as stand_in:
            stand_in.write("#!/bin/sh\ntrap '' INT\nexec cat >seen\n")
        os.chmod("wireshark", 0o755)
        os.environ["PATH"] = work + ":" + os.environ["PATH"]
        server, count, at = None, 0, None
        for page, typed in commands():
            if page != at:
                os.environ["UROCE_DEVICES"], at = "lo", page
            left_out = [why for word, why in LEFT_OUT.items() if word in typed]
            print("#", page + ":", typed, "-- left out: " + left_out[0] if left_out else "", flush=True)
            if left_out:
                continue
            count += 1
            if typed.startswith("export "):
                os.environ.__setitem__(*typed[len("export "):].split("=", 1))
                continue
            command = typed
            for word, instead in STANDS_FOR:
                command = re.sub(word, lambda _: instead, command)
            if SERVERS.search(command):
                server = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL)
                until_listening(server, 18515)
                continue
            status, output = run(command)
            check(typed, status == 0 or (status == 1 and "doctor" in typed), "status", status, output)
            if typed == "uroce link down uroce0":
                subprocess.run(["uroce", "link", "up", "uroce0"], check=True)
            if server:
                check("the server of " + typed, server.wait() == 0)
                server = None
        check("the pages have commands", count > 30, count)


if __name__ == "__main__":
    main()
