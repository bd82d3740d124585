# SPDX-License-Identifier: BSD-2-Clause
"""Programs that measure: perftest and qperf. Not how fast they say we are, but that they come to their end."""
import json
import re
import signal
import subprocess

from case import BOTH, LO, VETH, Case, each, pair, start_pair
from process import Failure, Process, expect, ports, typed


def perftest(command, **row):
    if "_lat" in command:  # both ends poll, and share their processors with whatever else runs
        command = command.replace("-n 1000", "-n 200")
    return pair(command + " -F", r"#bytes", waits=" -a" in command, **row)


def counters():
    """-W: the port's counters, which a program reads before and after. By UDP, 100 messages are 1.6 M words of 4 bytes."""
    names = ["counters/port_%s" % name for name in ("xmit_data", "rcv_data", "xmit_packets", "rcv_packets")]
    names += ["hw_counters/out_of_buffer", "hw_counters/retry_exceeded_err"]
    command = "ib_write_bw -F -n 100 -s 65536"

    def run(place, build):
        s, c = start_pair(place, build, typed(build, command) + " -W " + ",".join(names), preload=False)
        for end in c, s:
            expect(end, *["%s=[0-9]+" % name for name in names])
        value = {name: int(re.search("%s=([0-9]+)" % name, c.output)[1]) for name in names}
        if not 1638400 <= value["counters/port_xmit_data"] < 2 * 1638400:
            raise Failure("not what was sent: %s" % value)
        if value["counters/port_rcv_data"] * 10 > value["counters/port_xmit_data"] or value["hw_counters/retry_exceeded_err"]:
            raise Failure("not what has come: %s" % value)
    return Case(command + " -W ...", run, places=VETH)


def infinite(command, kills, survivor_status="", **row):
    """--run_infinitely, killed from outside at one end: the other must come to an end of its own."""
    def run(place, build):
        s, c = start_pair(place, build, "stdbuf -oL " + command + " -F --run_infinitely -D 1")
        victim, survivor = (c, s) if kills == "client" else (s, c)
        c.until_output(r"^ +\d+ +\d+ +[\d.]+")
        victim.signal(signal.SIGKILL)
        survivor.wait()
        if survivor.child.returncode < 0:
            raise Failure("the survivor died of signal %d" % -survivor.child.returncode)
        if survivor_status not in survivor.output:
            raise Failure("no %r in the survivor's output" % survivor_status)
    return Case("%s --run_infinitely, %s killed" % (command, kills), run, waits=True, **row)


def raw_ethernet(program, **row):
    """Whole Ethernet frames between two interfaces, by steering rules for their MAC addresses. Nothing holds back who sends
    them but for what the receiver's buffer takes: more than these programs send, if they do not stream for a time (-D)."""
    def run(place, build):
        def mac(end):
            text = subprocess.check_output(end.enter + ["ip", "-j", "link", "show", place.interface])
            return json.loads(text)[0]["address"]
        command = "stdbuf -oL %s --%%s -B %%s -E %%s" % program
        ends = [(place.server, "server", mac(place.server), mac(place.client)),
                (place.client, "client", mac(place.client), mac(place.server))]
        running = []
        for namespace, *words in ends:
            running.append(Process(build, namespace, command % tuple(words)))
            running[0].until_output(r"#bytes")  # its rule is there, and its receives
        for p in running:
            expect(p)
            if not re.search(r"#bytes.*\n +\d+ +[1-9]", p.output):
                raise Failure("no frame has come or gone")
    return Case(program, run, waits=" -D" in program, **row)


def qperf(tests, connect=False, **row):
    options = "-cm1 " if connect else ""
    env = () if connect else ("UROCE_ADAPTER=ib",)  # it addresses by LIDs, which RoCE refuses

    def run(place, build):
        port = next(ports)
        s = Process(build, place.server, "qperf -lp %d" % port, env)
        s.until_listening(port)
        for test in tests.split():
            # Its tests last a time, a second at least; not all of them obey -n.
            expect(Process(build, place.client, "qperf %s -lp %d -t 1 %s%s" % (place.address, port, options, test),
                           env))
    return Case("qperf " + options + tests, run, waits=True, **row)


TABLE = [
    # RC
    *each(perftest, "ib_{send,write,read}_bw -a -n 100", places=BOTH),
    # With each of its 23 sizes perftest measures the processor's frequency anew, for a time that the clock tells: -a takes 5 s,
    # and 10 s where it is about latency.
    perftest("ib_send_lat -a -n 10", places=BOTH),
    *each(perftest, "ib_{write,read}_lat -a -n 10", places=VETH),
    *each(perftest, "ib_{send,write,read}_{bw,lat} -n 1000", places=LO, quick=True),
    *each(perftest, "ib_atomic_{bw,lat} -n 1000{, -A FETCH_AND_ADD, -A CMP_AND_SWAP}", places=LO),
    *each(perftest, "ib_{send,write,read,atomic}_bw -n 1000 -b", places=BOTH),
    *each(perftest, "ib_{send,write,read,atomic}_bw -n 500 -q 16", places=LO),
    *each(perftest, "ib_{send,write}_bw -n 500 -q 16 -b", places=VETH),
    *each(perftest, "ib_{send_bw,read_bw,send_lat} -n 1000 -e", places=LO),
    *each(perftest, "ib_{send,write}_{bw,lat} -n 1000 -s 64 -I 64", places=LO),
    *each(perftest, "ib_write_bw -n 1000 -m {256,512,1024,2048,4096}", places=LO),
    *each(perftest, "ib_{send_lat,write_bw} -n 1000 -x {0,1}", places=BOTH),
    *each(perftest, "ib_{send_bw,send_lat,send_bw -b} -n 1000 --use-srq", places=LO),
    *each(perftest, "ib_send_bw -n 500 --use-srq -q 16{, -e -s 64}", places=BOTH),
    perftest("ib_send_bw -n 1000 -c RC", places=LO),
    perftest("ib_write_bw -n 20 -q 128", places=LO),
    perftest("ib_read_bw -n 5 -s 67108864 -t 2", places=LO),
    perftest("ib_send_bw -n 4800 -s 64 -l 16", places=LO),
    perftest("ib_write_bw -n 5000 -s 64 -Q 10", places=LO),
    infinite("ib_write_bw", "client"),
    infinite("ib_write_bw", "server"),
    infinite("ib_write_bw -b", "client"),
    infinite("ib_send_bw", "server", "Completion with error"),
    infinite("ib_read_bw", "server", "Completion with error"),

    # UC and UD. These wait for every message: flow control (engine/flow.c) is what makes that safe.
    *each(perftest, "ib_send_lat -c {UC,UD} -n 1000", places=BOTH, quick=True),
    *each(perftest, "ib_write_{lat,bw} -c UC -n 1000", places=BOTH),
    perftest("ib_write_bw -c UC -n 1000 -b -q 4", places=LO),
    perftest("ib_send_bw -c UC -n 1000", places=BOTH, quick=True),
    perftest("ib_send_bw -c UC -n 1000 -b", places=BOTH),
    perftest("ib_send_bw -c UC -a -n 5", places=LO),
    perftest("ib_send_bw -c UD -a -n 100", places=LO),
    *each(perftest, "ib_send_bw -c {UC,UD} -n 100 -s 1024", places=BOTH, quick=True),
    *each(perftest, "ib_send_bw -c {UC,UD} -n 1000 -s 1024 --use-srq -q {4,16}", places=BOTH),
    *each(perftest, "ib_send_bw -c {UC,UD} -n 1000 -s 1024 -q 16", places=LO),
    *each(perftest, "ib_send_bw -c {UC,UD} -n 2000 -s 64{ -e, -b -e}", places=LO),
    *each(perftest, "ib_send_bw -c {UC,UD} -n 100 -s 64{ -I 64, -b, -e}", places=LO),
    *each(perftest, "ib_send_bw -c {UC,UD} -n 20 -s 64 -q 8", places=LO),
    perftest("ib_send_lat -c UD -n 200 -x 1", places=BOTH),
    perftest("ib_write_lat -c UC -n 200 -x 1", places=BOTH),

    counters(),

    # XRC
    *each(perftest, "ib_{send,write,read}_bw -n 500 -c XRC", places=BOTH, quick=True),
    *each(perftest, "ib_{send_lat,write_lat,read_lat,atomic_bw,atomic_lat} -n 500 -c XRC", places=BOTH),
    perftest("ib_send_bw -n 200 -c XRC -a", places=VETH),
    *each(perftest, "ib_send_bw -n 200 -c XRC {-b -q 4,-e,--use_old_post_send}", places=LO),

    raw_ethernet("raw_ethernet_lat -n 200 -s 64", places=VETH, quick=True),
    *each(raw_ethernet, "raw_ethernet_bw -D 1 -s {64,1024}", places=VETH),
    *each(raw_ethernet, "raw_ethernet_bw -n 5000 -s {64,512,1500}", places=VETH),

    qperf("uc_lat ud_lat uc_rdma_write_lat", places=LO),
    qperf("uc_bw ud_bw rc_bw", places=LO),
    qperf("rc_lat", connect=True, places=LO),
    qperf("rc_lat rc_bi_bw rc_rdma_write_lat rc_rdma_read_bw ver_rc_fetch_add ver_rc_compare_swap", places=LO),
]
