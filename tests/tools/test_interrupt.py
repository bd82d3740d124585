#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Ctrl-C ends a program that hangs, and says first what it waits for: at a terminal under `uroce run`, and under `uroce check`; not
where the program has a handler of its own, nor in a script. In a network namespace of its own, as it uses port 4791."""
import os, pty, re, signal, subprocess, sys

import alone

SOURCE = os.environ["UROCE_SOURCE"]
HANDLER = """#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void end(int number) { _exit(7); }
int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	signal(SIGINT, end);
	ibv_open_device(list[0]);
	puts("waiting");
	fflush(stdout);
	for (;;)
		pause();
}
"""


SLEEPER = """#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct ibv_context *c = ibv_open_device(*ibv_get_device_list(NULL));

	ibv_create_cq(c, 1, NULL, NULL, 0);
	puts("waiting");
	fflush(stdout);
	if (!strcmp(argv[1], "sleep"))
		sleep(100);
	else if (!strcmp(argv[1], "pause"))
		pause();
	else
		poll(NULL, 0, 100000);
	puts("came back");
	return 0;
}
"""


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def ended_by_keys(keys, *command, sleeps=False):
    """(status as of subprocess, what was shown) of a command at a terminal; the keys are typed when it says that it waits,
    and, if it sleeps then, does so."""
    child, fd = pty.fork()
    if not child:
        os.environ["COLUMNS"] = "80"
        os.execvp(command[0], command)
    shown, typed = b"", False
    while True:
        try:
            more = os.read(fd, 4096)
        except OSError:  # the end, on Linux
            more = b""
        if not more:
            break
        shown += more
        if not typed and b"waiting" in shown:
            while sleeps and not re.search(r"^State:\s+S", open("/proc/%d/status" % child).read(), re.M):
                pass
            os.write(fd, keys)
            typed = True
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(fd)
    return status, " ".join(shown.decode().split())


def test_run():
    status, said = ended_by_keys(b"\3", "uroce", "run", "./hangs", "unsignalled")
    check("it is ended by the signal", status == -signal.SIGINT, status, said)
    check("it says why", "Its last send request is complete, and unsignalled" in said, said)
    status, said = ended_by_keys(b"\3\3", "uroce", "run", "./hangs", "unsignalled")
    check("a second Ctrl-C ends it", status == -signal.SIGINT, status, said)
    status, said = ended_by_keys(b"\3", "uroce", "run", "./handler")
    check("its own handler", status == 7 and "Queue pair" not in said, status, said)
    for call in "sleep", "pause", "poll":
        status, said = ended_by_keys(b"\3", "uroce", "run", "./sleeper", call, sleeps=True)
        check("a call that waits does not return: " + call, status == -signal.SIGINT and "came back" not in said, status, said)
        check("and it is explained", "no queue pair" in said.lower(), said)


def test_check():
    """ThreadSanitizer in uroce does not follow its copy by clone(2), which reports."""
    if "libtsan" in os.environ["UROCE_PRELOAD"]:
        return
    process = subprocess.Popen(["uroce", "check", "-o", "habits", "./hangs", "no-receive"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    check("it waits", process.stdout.readline() == "waiting\n")
    process.send_signal(signal.SIGINT)
    said = " ".join(process.communicate()[0].split())
    check("it is ended by the signal", process.returncode == -signal.SIGINT, process.returncode, said)
    check("why, and its mistakes", re.search("that program has to post one.* uroce check: process [0-9]*: no mistakes", said), said)


def test_script():
    process = subprocess.Popen(["uroce", "run", "./hangs", "no-receive"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    check("it waits", process.stdout.readline() == "waiting\n")
    process.send_signal(signal.SIGINT)
    check("no terminal", process.communicate()[0] == "" and process.returncode == -signal.SIGINT)


def build():
    subprocess.run(["cc", "-g", os.path.join(SOURCE, "examples/hangs.c"), "-o", "hangs", "-libverbs"], check=True)
    for name, text in ("handler", HANDLER), ("sleeper", SLEEPER):
        with open(name + ".c", "w") as f:
            f.write(text)
        subprocess.run(["cc", name + ".c", "-o", name, "-libverbs"], check=True)


if __name__ == "__main__":
    alone.run(("cc",), build, test_run, test_check, test_script)
