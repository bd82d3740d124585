#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_me built with MemorySanitizer, by clang: what is right runs as ever, and what was never initialised is told of.
Skipped where clang cannot build such programs."""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from test_check import BUILD, FOUND, SANITIZED, UROCE, check, enter_namespace, finding, results, run

SOURCES = os.path.join(os.environ["UROCE_SOURCE"], "tests", "check")
MINE = ("uninitialized-sent", "use-of-uninitialized-value")
RSOCKETS = """
#include <rdma/rsocket.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
static void *send_some(void *to)
{
	int s = rsocket(AF_INET, SOCK_STREAM, 0);
	char bytes[500] = {1};
	if (rconnect(s, to, sizeof(struct sockaddr_in)) || rsend(s, bytes, sizeof(bytes), 0) != sizeof(bytes))
		exit(1);
	while (rrecv(s, bytes, 1, 0) > 0)
		;
	rclose(s);
	return NULL;
}
int main(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer;
	socklen_t size = sizeof(own);
	int l = rsocket(AF_INET, SOCK_STREAM, 0), s, error;
	struct pollfd p;
	char *bytes = malloc(500);
	pthread_t t;
	if (rbind(l, (struct sockaddr *)&own, size) || rlisten(l, 1) || rgetsockname(l, (struct sockaddr *)&own, &size) ||
	    pthread_create(&t, NULL, send_some, &own))
		return 2;
	size = sizeof(peer);
	s = raccept(l, (struct sockaddr *)&peer, &size);
	p.fd = s;
	p.events = POLLIN;
	if (peer.sin_family != AF_INET || rpoll(&p, 1, -1) != 1 || !(p.revents & POLLIN))
		return 3;
	for (int n = 0; n < 500;)
		n += rrecv(s, bytes + n, 500 - n, 0);
	size = sizeof(error);
	if (bytes[0] != 1 || bytes[499] || rgetsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) || error)
		return 4;
	rclose(s);
	pthread_join(t, NULL);
	rclose(l);
	return 0;
}
"""


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(77)


def stay_in_place():
    """Old runtimes end by chance where addresses are random."""
    ctypes.CDLL(None).personality(0x0040000) # ADDR_NO_RANDOMIZE; where it is forbidden, the first program tells


def build(folder, name, *how):
    program = os.path.join(folder, name)
    result = subprocess.run(["clang", "-g", "-fsanitize=memory", *how, "-o", program, "-pthread"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return program, None if result.returncode == 0 else result.stdout


def machine(path):
    """Of an ELF file."""
    with open(path, "rb") as file:
        return file.read(20)[18:]


def make_first(folder):
    """One that does nothing: whether there are such programs here."""
    source = os.path.join(folder, "first.c")
    with open(source, "w") as file:
        file.write("int main(void) { return 0; }\n")
    if SANITIZED:
        skip("uroce itself is built with a sanitizer")
    if not shutil.which("clang"):
        skip("there is no clang")
    program, why = build(folder, "first", source)
    if why or subprocess.run([program]).returncode:
        skip("clang cannot build programs with MemorySanitizer here")
    if machine(program) != machine(os.path.join(BUILD, "liburoce.so.1")):
        skip("uroce is built for another machine than clang builds for")


def uroce_run(*program):
    return subprocess.run([UROCE, "run", *program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")


def all_right(me, cases):
    for case, _, _ in cases:
        for how, result in (("run", uroce_run(me, case, "right")), ("check", run(program=(me, case, "right")))):
            fine = result.returncode == 0 and "Sanitizer" not in result.stdout
            check(f"MemorySanitizer, {case}, done right under uroce {how}", fine and
                  (how == "run" or "no mistakes found" in result.stdout), result.stdout)


def each_wrong(me, cases):
    for case, name, place in cases:
        if name not in MINE: # the other rows are as in a program without it
            continue
        wrong = run(program=(me, case, "wrong"))
        if name == "uninitialized-sent":
            where = re.search(r"^        ((?!__)\S+) \((?!verbs.h:)\S+:\d+\)", finding(wrong.stdout, name), re.M)
            fine = wrong.returncode == FOUND and where and where.group(1) == place
        else:
            fine = wrong.returncode and re.search(rf"MemorySanitizer: {name}\s+#0 0x\w+ in {place} ", wrong.stdout)
        check(f"MemorySanitizer, {case}: {name} at {place}", fine, wrong.stdout)


def only_if_asked(me):
    """`uroce run` tells of nothing, and another class does not either."""
    result = uroce_run(me, "message_has_a_gap", "wrong")
    check("uroce run does not look for what is sent", result.returncode == 0 and not result.stdout, result.stdout)
    result = run("--only", "habits", program=(me, "message_has_a_gap", "wrong"))
    check("--only habits does not either", result.returncode == 0 and "no mistakes found" in result.stdout, result.stdout)


def rsockets(folder):
    source = os.path.join(folder, "rsockets.c")
    with open(source, "w") as file:
        file.write(RSOCKETS)
    program, why = build(folder, "rsockets", source, "-lrdmacm")
    check("a program of rsockets is built", not why, why)
    for how, result in (("run", uroce_run(program)), ("check", run(program=(program,)))):
        check(f"MemorySanitizer, rsockets under uroce {how}", result.returncode == 0 and "Sanitizer" not in result.stdout,
              result.stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        stay_in_place()
        make_first(folder)
        files = [file for file in glob.glob(f"{SOURCES}/*.c") if not file.endswith(("fail_me.c", "check_across.c", "ends.c", "test_unwind.c"))]
        me, why = build(folder, "check_me", *files, "-lrdmacm", "-libverbs")
        check("check_me is built", not why, why)
        listed = uroce_run(me)
        cases = [line.split() for line in listed.stdout.splitlines()]
        check("and has cases of MemorySanitizer", any(case[1:2] == [MINE[0]] for case in cases), listed.stdout)
        all_right(me, cases)
        each_wrong(me, cases)
        only_if_asked(me)
        rsockets(folder)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    enter_namespace()
    sys.exit(main())
