#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""README.md, docs/start.md and others: each command with a prompt is run, in the order of the page, and ends with status 0, or with
the one that a comment tells; each line that stands below it comes out, with other numbers. Of docs/hangs.md, all that stands below it
is one text, whose lines break elsewhere. In a network namespace of its own."""
import atexit, os, re, subprocess, sys, tempfile

import alone

SOURCE = os.environ["UROCE_SOURCE"]
PAGES = {"README.md": 4, "docs/start.md": 11, "docs/labs.md": 20, "docs/hangs.md": 18}  # each has so many commands, or more
LEFT_OUT = ("ibv_devices", "uroce run ./lab_d", "uroce run ./lab_d 127.0.0.1")  # the kernel's words; test_gpu.sh runs it


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def commands(page):
    """[(who, command, lines of output)]"""
    found = []
    with open(os.path.join(SOURCE, page)) as text:
        for line in text:
            typed = re.match(r"    (?:(server|client|hangs) )?\$ (.*)", line)
            if typed:
                found.append((typed[1], typed[2], []))
            elif line.startswith("    ") and found:
                found[-1][2].append(line.strip())
            elif line.startswith("#"):
                found.append((None, "", []))
    return [one for one in found if one[1] and one[1] not in LEFT_OUT]


def comes_out(line, output, between=r"[ \t]+"):
    """The words stand in a line of it; one that has a digit stands for any."""
    words = [r"\S+" if re.search(r"\d", word) else re.escape(word) for word in line.split()]
    return re.search(between.join(words), output)


def missing(page, lines, output):
    """What does not come out. Three dots stand for text that is left out."""
    if page != "docs/hangs.md":
        return [line for line in lines if not comes_out(line, output)]
    return [part for part in " ".join(lines).split("...") if not comes_out(part, output, r"\s+")]


def until_listening(server):
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)


def start(command):
    process = subprocess.Popen("exec " + command, shell=True, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def ask(page, command, lines, hanging):
    """Of a program that has just begun to wait: until it comes out."""
    tries = 1
    if hanging and "$(pidof hangs)" in command:
        command, tries = command.replace("$(pidof hangs)", str(hanging.pid)), 100
    status = re.search(r"# status (\d+)$", command)
    while tries:
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(command, done.returncode == (int(status[1]) if status else 0), done.returncode, done.stdout)
        lacks = missing(page, lines, done.stdout)
        if not lacks:
            return
        tries -= 1
    check(command, False, "does not say:", lacks, "\n" + done.stdout)


def run(page):
    typed = commands(page)
    check(page, len(typed) >= PAGES[page], "has commands")
    server = hanging = None
    for who, command, lines in typed:
        print("#", page + ":", command, flush=True)
        if who == "server":
            server = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL)
            atexit.register(server.kill)
            until_listening(server)
            continue
        if who == "hangs":
            if hanging:
                hanging.kill()
            hanging = start(command)
            check(command, hanging.stdout.readline() == "waiting\n", "waits")
            continue
        ask(page, command, lines, hanging)
        if who == "client":
            check("the server of " + command, server.wait() == 0)


def main():
    if os.environ.get("UROCE_QUICK"):
        print("a page: once is enough")
        sys.exit(77)
    alone.enter(("cc", "ss", "ibv_rc_pingpong", "ibv_devinfo"))
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        os.symlink(os.path.join(SOURCE, "examples"), "examples")
        for page in PAGES:
            run(page)


main()
