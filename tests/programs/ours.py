# SPDX-License-Identifier: BSD-2-Clause
"""Programs of our own, the examples among them: what none of the others does. They check what arrives, are stopped and killed,
overhear forged packets, and sleep."""
import glob
import os
import re
import signal
import sys
import tempfile
import time

from case import ALL, BOTH, HERE, LO, VETH, Case, each, source, start_pair
from process import Failure, Process, Skip, expect, ports

EXAMPLES = os.path.join(HERE, "..", "..", "examples")


def alone(command, wanted="", name=None, env=(), **row):
    """One program, which makes both ends."""
    def run(place, build):
        program, *words = command.split()
        expect(Process(build, place.server, [source(build, program), *words], env), wanted)
    return Case(name or command, run, **row)


def storm(processes, connections, lost=0, deaths=0, **row):
    name = "storm of %d connections from %d processes" % (connections, processes)
    name += ", %d %% of messages lost" % lost * bool(lost) + ", %d servers killed" % deaths * bool(deaths)
    return alone("storm %d %d %d %d" % (processes, connections, lost, deaths), "storm: %d connections" % connections,
                 name=name, **row)


def lent(how, **row):
    """Memory that the program itself shares is mapped by the peer, and given back whatever that does."""
    return alone("exported " + how, name="a shared segment is lent to a peer that " + how, **row)


def killed(rounds, **row):
    return alone("killed %d" % rounds, name="one stays, %d are killed" % rounds, **row)


def leave(rounds, **row):
    return alone("leave %d" % rounds, name="one stays, %d leave in order" % rounds, **row)


def cut(rounds, **row):
    """Killed in the middle of one copy of 64 MiB: its own, or the other's out of its memory or into it."""
    return alone("cut %d" % rounds, name="one stays, copies are cut in %d rounds" % rounds, **row)


def datagrams(place):
    """The UDP datagrams that have come in this namespace so far."""
    with open(place.server.proc + "snmp") as f:
        rows = [line.split() for line in f if line.startswith("Udp:")]
    return int(rows[1][rows[0].index("InDatagrams")])


def names_taken(place, build):
    """Another user has bound all names by which processes find each other, before they begin: they use those in a
    folder, and shared memory as ever."""
    if not hasattr(place.server, "ip"):
        raise Skip("needs a namespace of its own")
    squatter = Process(build, place.server, [sys.executable, os.path.join(HERE, "squatter.py"), "65534", "0"],
                       preload=False)
    if int(squatter.until_output(r"^(\d+) names").group(1)) < 2047:
        raise Failure("the squatter got too few names")
    with tempfile.TemporaryDirectory(prefix="uroce-names-") as folder:
        before = datagrams(place)
        expect(Process(build, place.server, [source(build, "churn"), "8"], ["XDG_RUNTIME_DIR=" + folder]),
               "churn: 8 connections")
        by_udp = datagrams(place) - before
    squatter.signal(signal.SIGKILL)
    squatter.wait()
    if by_udp > 256:  # of some 6,000 packets
        raise Failure("%d datagrams: they did not meet in shared memory" % by_udp)


def kept_apart(place, build, *words):
    """Root has one address of the host and another user the other."""
    if place.name != "lo" or not hasattr(place.server, "ip"):
        raise Skip("needs a namespace of its own, with shared memory")
    try:
        os.seteuid(65534)
    except OSError:
        raise Skip("there is no other user here")
    os.seteuid(0)
    for n in 1, 2:
        place.server.ip("addr add 10.78.0.%d/32 dev lo" % n)
    expect(Process(build, place.server, source(build, "strangers") + " ".join([" 10.78.0.1 10.78.0.2", *words])))


def example_single(options="", **row):
    def run(place, build):
        program = build.compile(os.path.join(EXAMPLES, "qp_single_host.c"))
        expect(Process(build, place.server, program + " " + options), "now it is 42")
    return Case(("qp_single_host " + options).strip(), run, **row)


def example_across(options="", **row):
    def run(place, build):
        s, c = start_pair(place, build, build.compile(os.path.join(EXAMPLES, "qp_across_hosts.c")) + " " + options)
        expect(c)
        expect(s, r'received: +"hello, server"\n(.*\n)*our memory: +"written by the client" and 42')
    return Case(("qp_across_hosts " + options).strip(), run, **row)


def example_cm(place, build):
    program = build.compile(os.path.join(EXAMPLES, "cm_across_hosts.c"))
    port = next(ports)
    s = Process(build, place.server, "%s -p %d" % (program, port))
    s.until_output("^waiting")
    c = Process(build, place.client, "%s -p %d %s" % (program, port, place.address))
    expect(c, 'received "and hello to you"')
    expect(s, 'received "hello"')


def start_positional(place, build, program, *words, env=()):
    """PROGRAM PORT WORDS [HOST]."""
    port = next(ports)
    command = [source(build, program), str(port), *words]
    s = Process(build, place.server, command, env)
    s.until_listening(port)
    return s, Process(build, place.client, command + [place.address], env)


def mix(seed, env, **row):
    """An odd seed has an SRQ; UROCE_ADOPT=off leaves memory where it is, as that of a program with threads is."""
    def run(place, build):
        s, c = start_positional(place, build, "mix", str(seed), env=env)
        expect(c, "each byte was there")
        expect(s, "each byte was there")
    return Case(" ".join([*env, "mix %d" % seed]), run, **row)


def peer_dies(how, **row):
    """Only that the status comes, and which: how soon is the engine's test, in virtual time."""
    def run(place, build):
        s, c = start_positional(place, build, "peer_dies", how)
        c.until_output(r"^running")
        s.signal(signal.SIGKILL)
        expect(c)
    return Case("peer killed: %s" % how, run, waits=True, **row)


def start_verify(place, build, gid_index=0):
    s, c = start_positional(place, build, "verify", str(gid_index))
    c.until_output(r"^round")
    return s, c


def stop_verify(s, c, rounds=2):
    """It has gone on since, and all data were right."""
    seen = len(re.findall(r"^round", c.output, re.M))
    c.until_output(r"^round", seen + rounds)
    c.signal(signal.SIGTERM)
    expect(c)
    expect(s)


def verify(gid_index, **row):
    def run(place, build):
        stop_verify(*start_verify(place, build, gid_index), rounds=6)
    return Case("random requests, checked data, GID index %d" % gid_index, run, **row)


def crowd(place, build):
    """Eight pairs on one address, while a ninth's server is stopped and a tenth's is killed in mid-transfer."""
    stopped, dead = start_verify(place, build), start_verify(place, build)
    pairs = []
    for i in range(8):
        events = " -e" if i % 4 else ""  # one in four polls: there are fewer processors than pairs
        pairs.append(start_pair(place, build, "ibv_rc_pingpong -g 0 -c -n 1000 -s 20000" + events))
    stopped[0].signal(signal.SIGSTOP)
    dead[0].signal(signal.SIGKILL)
    for s, c in pairs:
        for p in c, s:
            expect(p, "iters in", refused="invalid data")
    stopped[0].signal(signal.SIGCONT)


def killed_among_stopped(place, build):
    """Both ends of a pair are killed, so that nobody sends to them, and all others but one pair are stopped: packets
    that go astray now end with a process that does not hand them over. The last pair must go on by itself."""
    pairs = [start_verify(place, build) for _ in range(5)]
    for s, c in pairs[1:4]:
        for p in s, c:
            p.signal(signal.SIGSTOP)
    for p in pairs[0]:
        p.signal(signal.SIGKILL)
        p.wait()
    stop_verify(*pairs[4])


def populous(place, build):
    """More processes than there were slots when a slot was a byte."""
    if build.sanitizer:
        raise Skip("so many processes of a sanitizer take more memory than a machine may have")
    program = source(build, "populous")
    expect(Process(build, place.server, [program, "300"]), "populous: 300 processes")


def stop(end):
    end.signal(signal.SIGSTOP)
    end.until("it stopped", lambda: open("/proc/%d/stat" % end.pid).read().rsplit(")")[1].split()[0] == "T")


def stopped_goes_on(place, build):
    """SIGSTOP for less than the retries last (our verify: 7 tries of 67 ms and more) costs time, not the connection."""
    s, c = start_verify(place, build)
    for end in s, c:
        stop(end)
        end.signal(signal.SIGCONT)
    stop_verify(s, c)


def hostile(how):
    def run(place, build):
        s, c = start_verify(place, build)
        qpn, psn = (int(x, 16) for x in
                    s.until_output(r"^connected: QP (0x\w+) PSN \w+ to QP \w+ PSN (0x\w+)").groups())
        # From the same namespace, another address: 127.0.0.2 is ours as well.
        attack = "import packets; s = packets.Stranger('127.0.0.2', '127.0.0.1', 49152); " + how
        helper = Process(build, place.server, ["python3", "-c", attack.format(qpn=qpn, psn=psn)],
                         env=["PYTHONPATH=" + HERE], preload=False)
        expect(helper)
        stop_verify(s, c)
    return run


def content(path):
    with open(path) as f:
        return f.read()


def tasks(pid):
    return ["/proc/%d/task/%s/" % (pid, task) for task in os.listdir("/proc/%d/task" % pid)]


def switches(pids):
    """Of all threads: how often each has been taken off a processor. A wake-up ends in one."""
    return {task: sum(int(n) for n in re.findall(r"^\w*voluntary_ctxt_switches:\s*(\d+)", content(task + "status"), re.M))
            for pid in pids for task in tasks(pid)}


def rests(pid):
    """All threads sleep, the helper for as long as nothing comes, and no timer is set."""
    for task in tasks(pid):
        call = content(task + "syscall").split()
        if call[0] == "running":
            return False
        # epoll_pwait2() without a time, or epoll_wait() with -1
        if content(task + "comm") == "uroce\n" and call[4] not in ("0x0", "0xffffffff", "0xffffffffffffffff"):
            return False
    return not any(re.search(r"^it_value: \((?!0, 0\))", content(path), re.M) for path in glob.glob("/proc/%d/fdinfo/*" % pid))


def at_rest(pids):
    """The switches so far, if the polling threads have handed over to the helpers, and these have nothing left to do."""
    before = switches(pids)
    return before if all(map(rests, pids)) and before == switches(pids) else None


def behaviors():
    """A row for each of the program's."""
    with open(os.path.join(HERE, "behaviors.c")) as f:
        names = re.findall(r"^\tROW\((\w+)\)", f.read(), re.M)

    def row(name):
        def run(place, build):
            for p in start_positional(place, build, "behaviors", name):
                expect(p)
        return Case("goes on, or ends: " + name.replace("_", " "), run, BOTH, quick=True)
    return [row(name) for name in names]


def idle(how, **row):
    def run(place, build):
        ends = start_positional(place, build, "idle", how)
        for p in ends:
            p.until_output(r"^idle")
        pids = [p.pid for p in ends]
        before = ends[0].until("both came to rest", lambda: at_rest(pids))
        time.sleep(10)  # time is what this measures
        after = switches(pids)
        if before != after:
            raise Failure("woken in 10 s of idleness: context switches by thread %s, then %s" % (before, after))
    return Case("idle in %s(): no wake-up in 10 s" % how, run, waits=True, **row)


def rung_by_the_dead(place, build):
    """The only local peer has rung last, and is gone before anybody looks: its message, its end and the doorbell are
    seen in one look. Nothing is left that wakes the process for good."""
    s, c = start_positional(place, build, "idle", "pause")
    for p in s, c:
        p.until_output(r"^idle")
    s.until("both came to rest", lambda: at_rest([s.pid, c.pid]))
    stop(s)
    c.signal(signal.SIGUSR1)
    c.wait()
    s.signal(signal.SIGCONT)
    s.until("it came to rest", lambda: at_rest([s.pid]))


def asleep(way, rests_too=False, **row):
    """A helper between sender and sleeper would make it two wake-ups for each message, or three."""
    def run(place, build):
        ends = start_positional(place, build, "asleep", way)
        for p in ends:
            woken = float(p.until_output(r"^asleep (\S+) times").group(1))
            if woken > 1.9 and not build.sanitizer:
                raise Failure("woken %.2f times for each message" % woken)
            p.until_output(r"^idle")
        if rests_too:
            ends[0].until("both came to rest", lambda: at_rest([p.pid for p in ends]))
    return Case("asleep in %s: a wake-up for each message" % way, run, **row)


def channels(how, **row):
    def run(place, build):
        for p in start_positional(place, build, "channels", how):
            expect(p, "channels: 4000 messages")
    return Case("four channels, waited for %s" % how, run, **row)


def migrates(place, build):
    for p in start_positional(place, build, "migrate"):
        expect(p, "migrated", "and back")


EXAMPLE_TABLE = [
    example_single(quick=True),
    example_single("-g 1"),
    example_single("-d uroce0 -g 1", places=VETH),
    example_across(places=ALL, quick=True),
    example_across("-g 1", places=ALL),
    Case("cm_across_hosts", example_cm, ALL, quick=True),
]

TABLE = EXAMPLE_TABLE + [
    *each(alone, "{numbers,forks,full,threads,threads_more,mistakes,vendor}", quick=True),
    *(mix(seed, (), places=BOTH, quick=True) for seed in (1, 2)),
    *(mix(seed, ("UROCE_ADOPT=off",), quick=True) for seed in (1, 2)),
    *(alone(name, name=name + ", while a fault may strike", env=["UROCE_FAULT=out chance 1/1000: duplicate"])
      for name in ("threads", "threads_more")),
    *behaviors(),
    alone("mischief 20", name="calls of all kinds, good and bad"),
    verify(0, places=ALL, quick=True),
    verify(1, places=ALL),
    idle("pause"),
    idle("event"),
    asleep("poll", rests_too=True, places=BOTH, quick=True),
    *(asleep(way, places=BOTH) for way in ("select", "epoll", "edge")),
    asleep("get"),
    asleep("late", places=BOTH, quick=True),
    Case("a path that is dead, and an alternate one", migrates, BOTH, quick=True, waits=True),
    channels("together", places=BOTH, quick=True),
    channels("nonblocking", places=BOTH, quick=True),
    channels("apart", places=BOTH),
    alone("crowded", "crowded: slept", name="polls in vain beside a process that computes", quick=True),
    alone("churn 40", "churn: 40 connections, 1280 messages", name="40 connections by TCP and a channel of threads",
          quick=True),
    alone("churn 400", "churn: 400 connections, 12800 messages", name="400 connections by TCP and a channel of threads"),
    storm(4, 200, quick=True),
    storm(16, 800),
    storm(8, 400, lost=10),
    storm(4, 100, lost=10, deaths=2, quick=True),
    storm(8, 400, deaths=5),

    # ends that stop, leave or die
    peer_dies("write", places=BOTH, quick=True),
    peer_dies("send", places=BOTH),
    peer_dies("idle", places=BOTH, quick=True),
    killed(200, places=BOTH),
    killed(20, quick=True),
    alone("parting 127.0.0.1", name="what was sent before a disconnection is there before its event", quick=True),
    leave(100),
    leave(10, quick=True),
    cut(60),
    cut(12, quick=True),
    lent("polls"),
    lent("sleeps", quick=True),
    lent("computes"),
    Case("stopped for a moment", stopped_goes_on),
    Case("idle, rung by a peer that is gone", rung_by_the_dead, waits=True, quick=True),
    Case("crowd: 8 pairs while a ninth is stopped and a tenth killed", crowd, quick=True),
    Case("a pair is killed, others are stopped, the last goes on", killed_among_stopped),
    Case("populous: 300 processes at once", populous, LO, quick=True),

    # others on the network
    Case("packets from an address that is not the peer", hostile("s.forge({qpn}, {psn})"), quick=True),
    Case("truncated packets and noise", hostile("s.spoil({qpn}, {psn}, 1)"), quick=True),
    Case("another user is kept apart", kept_apart, LO, spoils=True),
    Case("another user whom nobody maps is kept apart", lambda place, build: kept_apart(place, build, "unmapped"), LO,
         spoils=True),
    Case("another user has taken all names", names_taken, LO, quick=True, spoils=True),
]
