# SPDX-License-Identifier: BSD-2-Clause
"""What a row of the tables is, and the ways to run one that their subjects share."""
import os
import re

from process import Failure, Process, expect, ports

HERE = os.path.dirname(os.path.abspath(__file__))
LO, VETH, BOTH = ("lo",), ("veth1500",), ("lo", "veth1500")
ALL = ("lo", "veth1500", "veth9000")


class Case:
    """`quick`: of the subset for sanitizer builds. `waits`: for the clock most of its time, so another may run beside it.
    `spoils`: the place is not fit for the next test."""

    def __init__(self, name, run, places=LO, quick=False, waits=False, spoils=False):
        self.name, self.run, self.places, self.quick, self.waits, self.spoils = name, run, places, quick, waits, spoils


def each(make, command, **row):
    """A row for each command that the braces in this one make, as in a shell: "-c {UC,UD}"."""
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", command)
    if not braces:
        return [make(command, **row)]
    before, after = command[:braces.start()], command[braces.end():]
    return [case for word in braces.group(1).split(",") for case in each(make, before + word + after, **row)]


def source(build, name):
    return build.compile(os.path.join(HERE, name + ".c"))


def start_pair(place, build, command, env=(), client_env=(), **how):
    """Both ends of a program; the client is started when the server listens, and is given its address."""
    port = next(ports)
    command = "%s -p %d" % (command, port)
    s = Process(build, place.server, command, env, **how)
    s.until_listening(port)
    return s, Process(build, place.client, "%s %s" % (command, place.address), [*env, *client_env], **how)


def single(command, *patterns, name=None, **row):
    """One program, whose output matches all patterns."""
    def run(place, build):
        expect(Process(build, place.server, command), *patterns)
    return Case(name or command, run, **row)


def pair(command, wanted, refused=r"invalid data|[Ff]ail|[Ee]rror", link_local=False, **row):
    """A program and itself as its client. `wanted` must be in the client's output, `refused` in neither's."""
    def run(place, build):
        s, c = start_pair(place, build, command + (" -g %d" % place.link_local if link_local else ""))
        expect(c, wanted, refused=refused)
        expect(s, refused=refused)
    return Case(command + " -g link-local" * link_local, run, **row)


class RandomFile:
    """A file in `folder`, and where its copy has to arrive."""

    def __init__(self, folder, size=3000001):
        self.name, self.copy = (os.path.join(folder, n) for n in ("original", "copy"))
        with open(self.name, "wb") as f:
            f.write(os.urandom(size))

    def expect_copied(self):
        with open(self.name, "rb") as a, open(self.copy, "rb") as b:
            if a.read() != b.read():
                raise Failure("the copy differs")
