#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Faults: each kind x each link x a program of Debian's, with what follows. Each cell runs with two seeds twice; the logs
of a seed are equal. Without --all, a cell in which nothing is left to chance runs with one seed, twice."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lanes
from case import HERE
from middleware import ucx_settings
from place import ByUdp
from process import Failure, Process, ports, typed

PINGPONG = "ibv_rc_pingpong -g 0 -n 100 -p {port}"
EVENTS = "ibv_rc_pingpong -e -g 0 -n 100 -p {port}"
ENDLESS = "ibv_rc_pingpong -g 0 -n 100000000 -p {port}"
LONG = "ibv_rc_pingpong -g 0 -n 5 -s 100000 -c -p {port}"
WRITE = "ib_write_bw -n 100 -s 64 -F -x 0 -p {port}"
MANY = "ib_write_bw -n 5000 -s 64 -F -x 0 -p {port}"
RPING = "rping -S 64 -C 10"
UCX = "ucx_perftest -t tag_lat -n 50 -w 0 -p {port}"
UDADDY = "udaddy -C 1 -S 64"
PYVERBS = "/usr/bin/python3 " + os.path.join(HERE, "exchange.py") + " 100"  # both ends are one process

# program, rules, statuses of server and client, a pattern in what one of them prints, and who has the rules, if not both.
# Of the pairs that fail, one end sees the fault and the other what follows from it. Without statuses, the server is ended when
# the client has ended: it may wait for ever, as it would on hardware. What takes longest comes first.
ROWS = [
    (RPING, "out SEND every 7: drop", None, ""),
    (RPING, "mad out REQ nth 1: drop; mad out REP nth 1: drop", None, ""),
    (RPING, "mad in REQ nth 1: reject 28", None, "reject|REJECT"),
    (PINGPONG, "out SEND chance 4%: drop", (0, 0), "100 iters"),
    (PINGPONG, "in SEND every 30: drop", (0, 0), "100 iters"),
    (PINGPONG, "out SEND chance 5%: duplicate", (0, 0), "100 iters"),
    (PINGPONG, "out SEND chance 5%: delay 100us..2ms", (0, 0), "100 iters"),
    (PINGPONG, "in SEND chance 5%: delay 1ms", (0, 0), "100 iters"),
    (PINGPONG, "out SEND chance 5%: reorder", (0, 0), "100 iters"),
    (PINGPONG, "post SEND chance 5%: delay 200us..2ms", (0, 0), "100 iters"),
    (EVENTS, "call ibv_req_notify_cq chance 50%: wake", (0, 0), "100 iters"),
    (PINGPONG, "in SEND every 40: corrupt icrc", (0, 0), "100 iters"),
    (PINGPONG, "in SEND every 40: rnr 5", (0, 0), "100 iters"),
    (PINGPONG, "in SEND nth 9: nak sequence", (0, 0), "100 iters"),
    (PINGPONG, "in SEND nth 9: nak access", (1, 1), "remote access error"),
    (PINGPONG, "in SEND nth 9: nak operation", (1, 1), "remote operation error"),
    (PINGPONG, "complete SEND nth 9: status LOC_PROT_ERR", (1, 1), "local protection error"),
    (ENDLESS, "post nth 50: fatal", None, "Work Request Flushed Error", "client"),
    (PINGPONG, "out nth 50: port-down 50ms", (0, 0), "100 iters"),
    (PINGPONG, "call ibv_reg_mr nth 1: refuse ENOMEM", (1, 1), "Couldn't register MR"),
    (PINGPONG, "in SEND nth 9: truncate 100", None, ""),
    (PINGPONG, "out SEND nth 5..40: rate 10M", (0, 0), "100 iters"),
    (PINGPONG, "out SEND while RTS every 20: drop", (0, 0), "100 iters"),
    (PINGPONG, "out device uroce0 SEND every 20: drop", (0, 0), "100 iters"),
    (PINGPONG, "in SEND: partition", None, "transport retry counter exceeded", "server"),
    (PINGPONG, "out SEND nth 50: stop 20ms", (0, 0), "100 iters", "client"),
    (PINGPONG, "out SEND nth 50: kill", None, "", "client"),
    (PINGPONG, "post nth 50: gid-gone 20ms", (0, 0), "100 iters"),
    (RPING, "mad device uroce0 out REQ nth 1: drop", None, ""),
    *((RPING, "mad %s nth 1: %s" % (kind, what), (0, 0), "", "client")
      for kind in ("out REQ", "in REP", "out RTU", "out DREQ") for what in ("drop", "duplicate")),
    (UDADDY, "mad in SIDR_REQ nth 1: drop", (0, 0), ""),
    (UDADDY, "mad out SIDR_REP nth 1: drop", (0, 0), ""),
    (UCX, "out RC SEND nth 20: drop", (0, 0), "Final:"),
    (UCX, "in RC SEND every 15: duplicate", (0, 0), "Final:"),
    (UCX, "in RC SEND nth 9: nak operation", None, "remote operation error", "server"),
    (PYVERBS, "out SEND every 9: drop", (0, 0), "100 messages"),
    (PYVERBS, "in SEND nth 7: rnr 1", (0, 0), "100 messages"),
    (PYVERBS, "in SEND nth 7: corrupt payload bit 3", (1, 1), "other bytes"),
    (PYVERBS, "complete SEND nth 9: status REM_OP_ERR", (1, 1), "status 11"),
    (PYVERBS, "call ibv_reg_mr nth 1: refuse EIO", (1, 1), "Input/output error"),
    (PINGPONG, "memory local READ nth 30: delay 1ms", (0, 0), "100 iters"),
    (PINGPONG, "memory local WRITE nth 30: refuse", None, "remote operation error|remote invalid request", "server"),
    (PYVERBS, "memory READ nth 9: refuse", (1, 1), "status 4"),
    (WRITE, "memory remote WRITE nth 30: delay 1ms", (0, 0), "MB/sec", "server"),
    (WRITE, "memory remote WRITE nth 30: refuse", None, "Failed status 10", "server"),
    # by shared memory alone; how soon the peer's memory can be reached depends on time
    (MANY, "onesided WRITE nth 3: refuse", (0, 0), "MB/sec", "client"),
    (MANY, "onesided WRITE nth 3: stop 20ms", (0, 0), "MB/sec", "client"),
    (WRITE, "out WRITE every 30: drop", (0, 0), "MB/sec"),
    (WRITE, "post nth 50: gid-gone 20ms", (0, 0), "MB/sec"),
    (WRITE, "out WRITE nth 5..40: rate 1M", (0, 0), "MB/sec"),
    (WRITE, "post nth 50: stop 20ms", (0, 0), "MB/sec", "client"),
    (WRITE, "post nth 50: kill", None, "", "client"),
    (WRITE, "in WRITE nth 9: truncate 10", None, ""),
    (WRITE, "in WRITE chance 5%: last-first 200us..1ms", (0, 0), "MB/sec"),
    (WRITE, "post chance 5%: delay 200us..1ms", (0, 0), "MB/sec"),
    (PINGPONG, "post SEND nth 50: revoke", None, "local protection error", "client"),
    # perftest makes them by the extended calls
    (WRITE, "call ibv_create_qp nth 1: refuse ENOMEM", None, "Unable to create QP", "client"),
    (WRITE, "call ibv_create_cq nth 1: refuse ENOMEM", None, "Couldn't create CQ", "client"),
    (WRITE, "post nth 50: revoke", None, "Failed status 4", "client"),
    (WRITE, "in WRITE nth 30: revoke", None, "Failed status 10"),
    # what the initiator does not know of
    (WRITE, "in WRITE every 30: drop", (0, 0), "MB/sec", "server"),
    (WRITE, "in WRITE nth 30: nak access", None, "Failed status 10", "server"),
    (LONG, "in SEND_FIRST nth 2: corrupt payload bit 0", (0, 0), "invalid data in page", "client"),
]
# Each kind of fault with each of four programs, at each link: those after which all goes on as if nothing had been, and
# those that end the connection: one end fails, with that status. `nth` counts for each
# queue pair, and the same for all programs.
SEND = "ib_send_bw -n 100 -s 64 -F -x 0 -p {port}"
PROGRAMS = {RPING: "", SEND: "BW average", UCX: "Final:", PYVERBS: "100 messages"}
PASSED = [
    "out RC SEND nth 5: drop",
    "in RC SEND nth 5: duplicate",
    "out RC SEND nth 5: delay 1ms..2ms",
    "out RC SEND nth 5: reorder",
    "in RC SEND nth 5: corrupt icrc",
    "in RC SEND nth 5: corrupt header bit 88",  # of the PSN
    "in RC SEND nth 5: rnr 1",
    "in RC SEND nth 5: nak sequence",
    "in RC SEND nth 5: last-first 200us..1ms",
    "out RC SEND nth 3..8: rate 1M",
    "post nth 5: delay 200us..1ms",
    "memory local READ nth 5: delay 200us..1ms",
    "memory local WRITE nth 2: delay 200us..1ms",
    "post nth 5: port-down 20ms",
    "post nth 5: gid-gone 20ms",
]
ENDED = {  # what the two programs say, and pyverbs, in whose one process either end may be told first
    "in RC SEND nth 5: nak access": ("cause 0x123", "status (5|10)"),
    "in RC SEND nth 5: nak operation": ("cause 0x125", "status (5|11)"),
    "in RC SEND nth 5: nak invalid": ("cause 0x124", "status (5|9)"),
    "post nth 5: revoke": ("ailed status 4", "status 4"),
    "post nth 5: refuse EIO": ("failed: 5|Couldn't post send", "Errno: 5"),
    "memory local READ nth 5: refuse": ("ailed status 4", "status 4"),
    "complete nth 5: status GENERAL_ERR": ("ailed status 21", "status 21"),
    "call ibv_reg_mr nth 1: refuse ENOMEM": ("reg_mr failed|create MR", "Errno: 12"),
}
FAILS = "one end fails"
# Of UCX's queue pairs those for datagrams post as time wants it, and it waits for ever when a connection has failed.
MATRIX = [(program, rules, (0, 0), says) for rules in PASSED for program, says in PROGRAMS.items()
          if program != UCX or " RC " in rules]
MATRIX += [(program, rules, FAILS, says[program == PYVERBS], "server" if rules.startswith("in") else "client")
           for rules, says in ENDED.items() for program in PROGRAMS if program != UCX]
SEEDS = [11, 12]


class Cell:
    """One program with its rules at one link."""

    def __init__(self, build, namespace, link, row, work):
        self.build, self.namespace, self.row, self.work = build, namespace, row, work
        self.udp = link == "udp"

    def start(self, end, command, rules, seed):
        log = os.path.join(self.work, end)
        if os.path.exists(log):
            os.unlink(log)
        where = ByUdp(self.namespace) if self.udp else self.namespace
        settings = ["UROCE_FAULT=" + rules, "UROCE_FAULT_SEED=%d" % seed, "UROCE_FAULT_LOG=" + log] if rules else []
        if command.startswith("ucx"):
            settings += ucx_settings("rc_verbs,ud_verbs:aux")
            return Process(self.build, where, typed(self.build, command), settings, preload=False)
        return Process(self.build, where, command, settings)

    def log(self, end):
        path = os.path.join(self.work, end)
        return open(path).read() if os.path.exists(path) else ""

    def commands(self):
        command = self.row[0]
        if command == RPING:
            return "rping -s -S 64 -C 10 -a 127.0.0.1", "rping -c -S 64 -C 10 -a 127.0.0.1", None
        if command == UDADDY:
            return "udaddy -C 1 -S 64", "udaddy -C 1 -S 64 -s 127.0.0.1", None
        port = next(ports)
        command = command.format(port=port)
        return command, command + " 127.0.0.1", port

    def run(self, rules, seed):
        """The logs of both ends."""
        program, _, statuses, pattern = self.row[:4]
        if program == PYVERBS:
            return self.run_alone(rules[0] or rules[1], seed)
        first, second, port = self.commands()
        server = self.start("server", first, rules[0], seed)
        if statuses == (1, 1) and "reg_mr" in rules[0]:
            port = None  # it ends before it listens
            server.wait()
        elif port:
            server.until_listening(port)
        else:
            server.until_at_roce_port()
        client = self.start("client", second, rules[1], seed)
        status = client.wait()
        if statuses == FAILS:
            self.check_failed(server, client, status)
        elif statuses:
            status = server.wait(), status
        if statuses and statuses != FAILS and status != statuses:
            raise Failure("statuses %s, not %s" % (status, statuses))
        if not re.search(pattern, server.output + client.output):
            raise Failure("no %r in the output" % pattern)
        client.end()
        server.end()
        return self.log("server"), self.log("client")

    def check_failed(self, server, client, status):
        """Its exit status tells, or what one of them has said."""
        if status == 0 and not re.search(r"(?i)fail|error|couldn't|abort", server.output + client.output):
            raise Failure("the client ends with status 0, and neither end tells of an error")

    def run_alone(self, rules, seed):
        both = self.start("both", self.row[0], rules, seed)
        if self.row[2] == FAILS:
            if both.wait() == 0 or not re.search(self.row[3], both.output):
                raise Failure("status 0, or no %r in the output" % self.row[3])
            return self.log("both"), ""
        if both.wait() != self.row[2][0] or not re.search(self.row[3], both.output):
            raise Failure("no status %d, or no %r in the output" % (self.row[2][0], self.row[3]))
        return self.log("both"), ""

    def check(self, seed):
        rules = [self.row[1] if end in self.row[4:] or len(self.row) == 4 else "" for end in ("server", "client")]
        one = self.run(rules, seed)
        two = self.run(rules, seed)
        if steady(self.row[1], one) != steady(self.row[1], two):
            raise Failure("seed %d: the logs differ:\n%s\n%s" % (seed, one, two))
        if not any(one):
            raise Failure("seed %d: no fault" % seed)
        return one


def steady(rules, logs):
    """What does not depend on time: how often a packet is sent again into a partition does, and how often a CQ is armed."""
    by_time = "partition" in rules or "wake" in rules
    return [set(re.sub(r" nth \d+", "", log).splitlines()) for log in logs] if by_time else logs


def test(build, namespace, row, link, seeds):
    with tempfile.TemporaryDirectory(prefix="uroce-faults-") as work:
        cell = Cell(build, namespace, link, row, work)
        for seed in seeds:
            cell.check(seed)


def seeds_of(row, seeds):
    by_chance = re.search(r"chance|\.\.|hostile", row[1])
    return seeds if by_chance or "--all" in sys.argv else seeds[:1]


def name_of(program):
    return "pyverbs" if program == PYVERBS else program.split()[0]


def is_here(program):
    """The three that main() looks for are."""
    if program == PYVERBS:
        return not subprocess.call(["/usr/bin/python3", "-c", "import pyverbs"], stderr=subprocess.DEVNULL)
    return shutil.which(program.split()[0])


def main():
    for program in "ibv_rc_pingpong", "ib_write_bw", "rping":
        if not shutil.which(program):
            print("1..0 # SKIP no", program)
            return 0
    if not lanes.possible():
        return 0
    seeds, rows = SEEDS, ROWS + MATRIX
    if os.environ.get("UROCE_QUICK"):  # each kind with one of the programs
        seeds, rows = SEEDS[:1], ROWS + [row for i, row in enumerate(MATRIX) if i % 4 == i // 4 % 4]
    wanted = ([word for word in sys.argv[1:] if word != "--all"] + [""])[0]
    cells = [("%s, %s, by %s" % (name_of(row[0]), row[1], link), row, link, seeds_of(row, seeds))
             for row in rows if is_here(row[0]) for link in ("shm", "udp") if link == "shm" or "onesided" not in row[1]]
    return lanes.run(test, [cell for cell in cells if wanted in cell[0]])


if __name__ == "__main__":
    sys.exit(main())
