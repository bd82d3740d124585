# SPDX-License-Identifier: BSD-2-Clause
"""What is run: one row per test. A row says which program, with which options, in which places, and what must come
out; the functions above the table say how a kind of test goes."""
import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import packets
import systems
from process import Failure, Process, Skip, expect, ports, typed

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
LO, VETH = ("lo",), ("veth1500",)
ALL = ("lo", "veth1500", "veth9000")


class Case:
    """`quick`: of the subset for sanitizer builds. `spoils`: the place is not fit for the next test."""

    def __init__(self, name, run, places=LO, quick=False, spoils=False):
        self.name, self.run, self.places, self.quick, self.spoils = name, run, places, quick, spoils


def source(build, name):
    return build.compile(os.path.join(HERE, name + ".c"))


def single(command, *patterns, status=0, name=None, **row):
    """One program, whose output matches all patterns."""
    def run(place, build):
        p = Process(build, place.server, command)
        expect(p, status)
        for pattern in patterns:
            if not re.search(pattern, p.output, re.M):
                raise Failure("no %r in its output" % pattern)
    return Case(name or command, run, **row)


def start_pair(place, build, server, client=None, env=(), port_option="-p "):
    """Both ends; the client is started when the server listens. {a} in a command becomes the server's address."""
    port = next(ports)
    where = " %s%d" % (port_option, port)
    s = Process(build, place.server, server + where, env)
    s.until_listening(port)
    c = Process(build, place.client, (client or server) + where + " " + place.address, env)
    return s, c


def pair(command, wanted, refused=r"invalid data|[Ff]ail|[Ee]rror", link_local=False, **row):
    """A program and itself as its client. `wanted` must be in the client's output, `refused` in neither's."""
    def run(place, build):
        full = command
        if link_local:
            full += " -g %d" % place.link_local
        s, c = start_pair(place, build, full)
        for p in c, s:
            expect(p)
            if p is c and not re.search(wanted, p.output):
                raise Failure("no %r in its output" % wanted)
            if refused and re.search(refused, p.output):
                raise Failure("%r in its output" % re.search(refused, p.output).group())
    return Case(command + (" -g link-local" if link_local else ""), run, **row)


def pingpong(options="", **row):
    return pair(("ibv_rc_pingpong " + options).strip(), r"iters in", **row)


def srq_pingpong(options="", **row):
    return pair(("ibv_srq_pingpong " + options).strip(), r"iters in", **row)


def xsrq_pingpong(options="", **row):
    return pair(("ibv_xsrq_pingpong " + options).strip(), r"success", **row)


def xsrq_crowd(clients, options="", **row):
    """One server, many clients: what it sends to one arrives at another's target QP, and is passed on from there."""
    def run(place, build):
        port = next(ports)
        command = "ibv_xsrq_pingpong -g 0 -p %d %s" % (port, options)
        s = Process(build, place.server, "%s -c %d" % (command, clients))
        s.until_listening(port)
        for p in [Process(build, place.client, command + " " + place.address) for _ in range(clients)] + [s]:
            expect(p)
    return Case(("ibv_xsrq_pingpong -c %d %s" % (clients, options)).strip(), run, **row)


def unreliable(transport, options="", **row):
    """The programs of UC and UD. On one host nothing is lost as long as a message or two are under way."""
    return pair(("ibv_%s_pingpong %s" % (transport, options)).strip(), r"iters in", **row)


def perftest(command, **row):
    if "_lat" in command:  # both ends poll, and share their processors with whatever else runs
        command = command.replace("-n 1000", "-n 200")
    return pair(command + " -F", r"#bytes", **row)


def infinite(command, kills, survivor_status=None, **row):
    """--run_infinitely, killed from outside at one end: the other must come to an end of its own."""
    def run(place, build):
        s, c = start_pair(place, build, "stdbuf -oL " + command + " -F --run_infinitely -D 1")
        victim, survivor = (c, s) if kills == "client" else (s, c)
        c.until_output(r"^ +\d+ +\d+ +[\d.]+")
        victim.signal(signal.SIGKILL)
        survivor.wait()
        if survivor.child.returncode < 0:
            raise Failure("the survivor died of signal %d" % -survivor.child.returncode)
        if survivor_status and survivor_status not in survivor.output:
            raise Failure("no %r in the survivor's output" % survivor_status)
    return Case("%s --run_infinitely, %s killed" % (command, kills), run, **row)


def example_single(options="", **row):
    def run(place, build):
        program = build.compile(os.path.join(EXAMPLES, "qp_single_host.c"))
        p = Process(build, place.server, program + " " + options)
        expect(p)
        if "now it is 42" not in p.output:
            raise Failure("it did not come to its last line")
    return Case(("qp_single_host " + options).strip(), run, **row)


def example_across(options="", **row):
    def run(place, build):
        program = build.compile(os.path.join(EXAMPLES, "qp_across_hosts.c"))
        s, c = start_pair(place, build, program + " " + options)
        expect(c)
        expect(s)
        if '"written by the client" and 42' not in s.output:
            raise Failure("the server did not come to its last line")
    return Case(("qp_across_hosts " + options).strip(), run, **row)


def example_cm(**row):
    def run(place, build):
        program = build.compile(os.path.join(EXAMPLES, "cm_across_hosts.c"))
        port = next(ports)
        s = Process(build, place.server, "%s -p %d" % (program, port))
        s.until_output("^waiting")
        c = Process(build, place.client, "%s -p %d %s" % (program, port, place.address))
        expect(c)
        expect(s)
        for p, text in (s, "hello"), (c, "and hello to you"):
            if 'received "%s"' % text not in p.output:
                raise Failure("no %r was received" % text)
    return Case("cm_across_hosts", run, **row)


def storm(processes, connections, lost=0, deaths=0, **row):
    def run(place, build):
        p = Process(build, place.server, [source(build, "storm")] + [str(n) for n in (processes, connections, lost, deaths)])
        expect(p)
        if "storm: %d connections" % connections not in p.output:
            raise Failure("not all connections came and went")
    name = "storm of %d connections from %d processes" % (connections, processes)
    return Case(name + ", %d %% of messages lost" % lost * bool(lost) + ", %d servers killed" % deaths * bool(deaths), run, **row)


def start_verify(place, build, gid_index=0):
    s, c = start_pair_positional(place, build, "verify", str(gid_index))
    c.until_output(r"^round")
    return s, c


def start_pair_positional(place, build, program, *words):
    """Our own programs: PROGRAM PORT WORDS [HOST]."""
    port = next(ports)
    command = [source(build, program), str(port), *words]
    s = Process(build, place.server, command)
    s.until_listening(port)
    return s, Process(build, place.client, command + [place.address])


def stop_verify(s, c, rounds=2):
    """It has gone on since, and all data were right."""
    seen = len(re.findall(r"^round", c.output, re.M))
    c.until_output(r"^round", seen + rounds)
    c.signal(signal.SIGTERM)
    expect(c)
    expect(s)


def verify(gid_index=0, **row):
    def run(place, build):
        stop_verify(*start_verify(place, build, gid_index), rounds=6)
    return Case("random requests, checked data, GID index %d" % gid_index, run, **row)


def peer_dies(how, **row):
    """Only that the status comes, and which: how soon is the engine's test, in virtual time."""
    def run(place, build):
        s, c = start_pair_positional(place, build, "peer_dies", how)
        c.until_output(r"^running")
        s.signal(signal.SIGKILL)
        expect(c)
    return Case("peer killed: %s" % how, run, **row)


def killed(rounds, **row):
    def run(place, build):
        p = Process(build, place.server, "%s %d" % (source(build, "killed"), rounds))
        expect(p)
    return Case("one stays, %d are killed" % rounds, run, **row)


def lent(how, **row):
    """Memory that the program itself shares is mapped by the peer, and given back whatever that does."""
    def run(place, build):
        expect(Process(build, place.server, "%s %s" % (source(build, "lent"), how)))
    return Case("a shared segment is lent to a peer that %s" % how, run, **row)


def kept_apart(place, build):
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
    expect(Process(build, place.server, source(build, "strangers") + " 10.78.0.1 10.78.0.2"))


def leave(rounds, **row):
    def run(place, build):
        expect(Process(build, place.server, "%s %d" % (source(build, "leave"), rounds)))
    return Case("one stays, %d leave in order" % rounds, run, **row)


def cut(rounds, **row):
    """Killed in the middle of one copy of 64 MiB: its own, or the other's out of its memory or into it."""
    def run(place, build):
        expect(Process(build, place.server, "%s %d" % (source(build, "cut"), rounds)))
    return Case("one stays, copies are cut in %d rounds" % rounds, run, **row)


def crowd(place, build):
    """Eight pairs on one address, while a ninth's server is stopped and a tenth's is killed in mid-transfer."""
    stopped, dead = start_verify(place, build), start_verify(place, build)
    pairs = []
    for i in range(8):
        events = " -e" if i % 4 else ""  # one in four polls: there are fewer processors than pairs
        pairs.append(start_pair(place, build, "ibv_rc_pingpong -c -n 1000 -s 20000" + events))
    stopped[0].signal(signal.SIGSTOP)
    dead[0].signal(signal.SIGKILL)
    for s, c in pairs:
        expect(c)
        expect(s)
        for p in s, c:
            if "invalid data" in p.output or "iters in" not in p.output:
                raise Failure("it was disturbed")
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


def stopped_goes_on(place, build):
    """SIGSTOP for less than the retries last (our verify: 7 tries of 67 ms and more) costs time, not the connection."""
    s, c = start_verify(place, build)
    for end in s, c:
        end.signal(signal.SIGSTOP)
        end.until("it stopped", lambda: open("/proc/%d/stat" % end.pid).read().rsplit(")")[1].split()[0] == "T")
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


def switches(pid):
    """Of all threads: how often each has been taken off a processor. A wake-up ends in one."""
    total = {}
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, task)) as f:
            total[task] = sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return total


def idle(how, **row):
    def run(place, build):
        s, c = start_pair_positional(place, build, "idle", how)
        for p in s, c:
            p.until_output(r"^idle")
        # The hand-over from the polling thread to the sleeping helper comes to rest by itself, soon.
        for _ in range(50):
            before = switches(s.pid), switches(c.pid)
            time.sleep(0.2)
            if before == (switches(s.pid), switches(c.pid)):
                break
        before = switches(s.pid), switches(c.pid)
        time.sleep(10)
        after = switches(s.pid), switches(c.pid)
        if before != after:
            raise Failure("woken in 10 s of idleness: context switches by thread %s, then %s" % (before, after))
    return Case("idle in %s(): no wake-up in 10 s" % how, run, **row)


def port_events(place, build):
    """ibv_asyncwatch sees addresses come and go and the link go down and up; ibv_devinfo sees the GIDs."""
    if not place.server.enter:
        raise Skip("needs a namespace of its own")
    ip = place.server.ip
    device = "-d uroce0" if place.interface == "v0" else ""
    p = Process(build, place.server, "stdbuf -oL ibv_asyncwatch " + device)
    p.until_output("async event FD")

    def event(name, count):
        p.until_output(r"event_type %s" % name, count)

    def gids(wanted):
        q = Process(build, place.server, "ibv_devinfo -v " + device)
        expect(q)
        if ("10.99.0.1" in q.output) != wanted:
            raise Failure("ibv_devinfo %s 10.99.0.1" % ("does not show" if wanted else "still shows"))

    ip("addr add 10.99.0.1/32 dev " + place.interface)
    event("IBV_EVENT_GID_CHANGE", 1)
    gids(True)
    ip("addr del 10.99.0.1/32 dev " + place.interface)
    event("IBV_EVENT_GID_CHANGE", 2)
    gids(False)
    ip("link set %s down" % place.interface)
    event("IBV_EVENT_PORT_ERR", 1)
    ip("link set %s up" % place.interface)
    event("IBV_EVENT_PORT_ACTIVE", 1)


def qperf(tests, connect=False, **row):
    def run(place, build):
        port = next(ports)
        s = Process(build, place.server, "qperf -lp %d" % port)
        s.until_listening(port)
        for test in tests.split():
            # Its tests last a time, a second at least; not all of them obey -n.
            expect(Process(build, place.client, "qperf %s -lp %d -t 1 %s%s" % (place.address, port, options, test)))
    options = "-cm1 " if connect else ""
    return Case("qperf " + options + tests, run, **row)


def connected(server, client, wanted="", refused=r"[Ee]rror|[Ff]ail|unhandled", stays=False, clients=1,
              name=None, **row):
    """Programs that connect by rdma_cm; {a} becomes the server's address, {a6} its IPv6 address, {p} a port. `stays`:
    the server goes on when its clients have gone."""
    def run(place, build):
        words = {"a": place.address, "a6": place.address6, "p": next(ports)}
        s = Process(build, place.server, server.format(**words))
        s.until_at_roce_port()
        cs = []
        for _ in range(clients):
            cs.append(Process(build, place.client, client.format(**words)))
            if clients > 1:  # rping -P loses one of two requests that come while its main thread sleeps
                cs[-1].until_output("data")
        for c in cs:
            expect(c)
            if not re.search(wanted, c.output):
                raise Failure("no %r in a client's output" % wanted)
        if not stays:
            expect(s)
        elif not s.running():
            raise Failure("the server ended")
        for p in cs + [s]:
            if refused and re.search(refused, p.output):
                raise Failure("%r in its output" % re.search(refused, p.output).group())
    return Case(name or client + (" x %d" % clients if clients > 1 else ""), run, **row)


def fio(verb, **row):
    """fio's engine: who reads is the server, whatever the verb."""
    common = " --ioengine=rdma --port={p} --bs=64k --size=4m --iodepth=8"
    return connected("fio --thread --name=server --rw=read" + common.replace("iodepth=8", "iodepth=16"),
                     "fio --thread --name=client --rw=write" + common + " --hostname={a} --verb=" + verb, r"issued rwts: total=0,64",
                     refused=r"fail|err= [^0]", **row)


def rstream(options, **row):
    return connected("rstream -p {p} " + options, "rstream -s {a} -p {p} " + options, "custom|1m_bw", **row)


def udpong(options, **row):
    """Few enough that nothing is lost; -T e asks anew each millisecond, and loses its way on a busy machine."""
    return connected("udpong -b {a} -p {p} " + options, "udpong -s {a} -p {p} " + options, "custom", stays=True, **row)


def riostream(options, **row):
    return connected("riostream -p {p} " + options, "riostream -s {a} -p {p} " + options, "custom|1m_bw", **row)


def rcopy(place, build):
    """A file of odd size, compared afterwards."""
    with tempfile.TemporaryDirectory(prefix="uroce-rcopy-") as folder:
        name, copy = (os.path.join(folder, n) for n in ("original", "copy"))
        with open(name, "wb") as f:
            f.write(os.urandom(3000001))
        s = Process(build, place.server, "rcopy")
        s.until_at_roce_port()
        expect(Process(build, place.client, "rcopy %s %s:%s" % (name, place.address, copy)))
        with open(name, "rb") as a, open(copy, "rb") as b:
            if a.read() != b.read():
                raise Failure("the copy differs")


def mckey(group, receiver, sender, **row):
    """Two receivers in a multicast group, and a sender: each gets all."""
    def run(place, build):
        command = "stdbuf -oL mckey -C 20 -m %s -b " % group
        receivers = [Process(build, place.server, command + receiver) for _ in range(2)]
        for r in receivers:
            r.until_output(r"^receiving data transfers")
        s = Process(build, place.client, command + sender + " -s")
        for p in (s, *receivers):
            expect(p)
            if "return status 0" not in p.output:
                raise Failure("it did not end well")
    return Case("mckey -m %s" % group, run, **row)


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
    return Case(program, run, **row)


def by_rsocket(build):
    """The environment of a program whose TCP connections are to go by RDMA."""
    return ["LD_PRELOAD=%s:%s" % (build.preload, os.path.join(os.path.dirname(build.library), "liburoce-rsocket.so"))]


def tcp_opens(place):
    """How many TCP connections have been opened in the client's namespace."""
    with open(place.client.proc + "snmp") as f:
        rows = [line.split() for line in f if line.startswith("Tcp:")]
    return int(dict(zip(*rows))["ActiveOpens"])


def netcat(server_rdma=True):
    """A file through nc; by TCP if the other end knows nothing of RDMA."""
    def run(place, build):
        port, before = next(ports), tcp_opens(place)
        with tempfile.TemporaryDirectory(prefix="uroce-nc-") as folder:
            name, copy = (os.path.join(folder, n) for n in ("original", "copy"))
            with open(name, "wb") as f:
                f.write(os.urandom(3000001))
            s = Process(build, place.server, ["sh", "-c", "exec nc -l %s %d > %s" % (place.address, port, copy)],
                        env=by_rsocket(build) if server_rdma else (), preload=server_rdma)
            s.until_listening(port)
            if server_rdma:
                s.until_at_roce_port()
            c = Process(build, place.client, ["sh", "-c", "exec nc -N %s %d < %s" % (place.address, port, name)],
                        env=by_rsocket(build))
            expect(c)
            expect(s)
            with open(name, "rb") as a, open(copy, "rb") as b:
                if a.read() != b.read():
                    raise Failure("the copy differs")
        if place.client.enter and tcp_opens(place) - before != (not server_rdma):
            raise Failure("it went by %s" % ("TCP" if server_rdma else "RDMA"))
    return run


def iperf3(place, build):
    port = next(ports)
    s = Process(build, place.server, "iperf3 -s -1 -p %d" % port, env=by_rsocket(build))
    s.until_at_roce_port()
    c = Process(build, place.client, "iperf3 -c %s -p %d -n 20M" % (place.address, port), env=by_rsocket(build))
    expect(c)
    expect(s)


def semantics(place, build):
    """What sockets say, by rsocket and by TCP: the same."""
    if build.sanitizer:
        raise Skip("Python is not made for sanitizers")
    script = os.path.join(HERE, "semantics.py")
    tcp = Process(build, place.server, [sys.executable, script, "tcp"], preload=False)
    expect(tcp)
    rdma = Process(build, place.server, [sys.executable, script, "rdma"], env=by_rsocket(build))
    expect(rdma)
    if rdma.output != tcp.output:
        raise Failure("\n".join(difflib.unified_diff(tcp.output.splitlines(), rdma.output.splitlines(), "tcp", "rdma", lineterm="")))


def redis(place, build):
    """Clients by RDMA and by TCP at once; the answers are checked."""
    port = next(ports)
    s = Process(build, place.server, "redis-server --port %d --save '' --bind %s --protected-mode no" %
                (port, place.address), env=by_rsocket(build))
    s.until_at_roce_port()
    script = ("for i = 1, %d do redis.call('set', 'k' .. i, i * i) end "
              "for i = 1, %d do if redis.call('get', 'k' .. i) ~= tostring(i * i) then return 'wrong' end end "
              "return 'right'" % (1000, 1000))
    load = Process(build, place.client, "redis-benchmark -h %s -p %d -q -n 5000 -t set,get,lrange_100" %
                   (place.address, port), env=by_rsocket(build))
    for preload in True, False:
        c = Process(build, place.client, ["redis-cli", "-h", place.address, "-p", str(port), "eval", script, "0"],
                    env=by_rsocket(build) if preload else (), preload=preload)
        expect(c)
        if "right" not in c.output:
            raise Failure("wrong answers")
    expect(load)
    expect(Process(build, place.client, "redis-cli -h %s -p %d shutdown nosave" % (place.address, port),
                   env=by_rsocket(build)))
    expect(s)


NGINX = """daemon off; master_process off; pid %(folder)s/pid; error_log stderr; events { }
http { access_log off; sendfile on; client_body_temp_path %(folder)s; proxy_temp_path %(folder)s; fastcgi_temp_path %(folder)s;
uwsgi_temp_path %(folder)s; scgi_temp_path %(folder)s; server { listen %(at)s; root %(folder)s; } }
"""


def readiness(place, build):
    """An event loop that takes epoll at its word."""
    p = Process(build, place.server, source(build, "ready"), env=by_rsocket(build))
    expect(p)


def nginx(place, build):
    """A server that gives files away by sendfile(), and waits by edge-triggered epoll; curl fetches them."""
    if not shutil.which("nginx"):
        raise Skip("nginx is not there")
    if build.sanitizer:
        raise Skip("curl does not come to an end under a sanitizer: with ThreadSanitizer it never leaves setlocale()")
    at = "%s:%d" % (place.address, next(ports))
    with tempfile.TemporaryDirectory(prefix="uroce-nginx-") as folder:
        name, copy, conf = (os.path.join(folder, n) for n in ("original", "copy", "conf"))
        with open(name, "wb") as f:
            f.write(os.urandom(3000001))
        with open(conf, "w") as f:
            f.write(NGINX % {"folder": folder, "at": at})
        s = Process(build, place.server, ["nginx", "-c", conf], env=by_rsocket(build))
        s.until_at_roce_port()
        before = tcp_opens(place)
        for _ in range(3):
            expect(Process(build, place.client, "curl -sS --noproxy * -o %s http://%s/original" % (copy, at), env=by_rsocket(build)))
            with open(name, "rb") as a, open(copy, "rb") as b:
                if a.read() != b.read():
                    raise Failure("the copy differs")
        if place.client.enter and tcp_opens(place) != before:
            raise Failure("it went by TCP")
        s.signal(signal.SIGTERM)
        expect(s)


def uroce_run(place, build):
    """The command that a user types, and not only the preload it makes."""
    if build.sanitizer:
        raise Skip("a sanitizer's runtime must come first")
    command = build.command + " run ibv_rc_pingpong -n 100"
    port = next(ports)
    s = Process(build, place.server, "%s -p %d" % (command, port), preload=False)
    s.until_listening(port)
    c = Process(build, place.client, "%s -p %d %s" % (command, port, place.address), preload=False)
    expect(c)
    expect(s)


def ucx(transports, test, **row):
    """UCX's own programs: nothing but our transports, so if these do not work, nothing does."""
    def run(place, build):
        # of the interface that both ends have; UCX would use the loopback's device as well
        env = ["UCX_TLS=" + transports, "UCX_NET_DEVICES=uroce0:1", "UCX_WARN_UNUSED_ENV_VARS=n"]
        port = next(ports)
        command = typed(build, "ucx_perftest -p %d" % port)
        s = Process(build, place.server, command, env, preload=False)
        s.until_listening(port)
        c = Process(build, place.client, "%s %s -t %s -w 10" % (command, place.address, test), env, preload=False)
        expect(c)
        expect(s)
        if not re.search(r"^Final:", c.output, re.M):
            raise Failure("no result in the client's output")
    return Case("UCX_TLS=%s ucx_perftest -t %s" % (transports, test), run, **row)


def io_demo(transports, **row):
    """UCX's storage-like server and client, which connect by rdma_cm; the data are checked."""
    def run(place, build):
        env = ["UCX_TLS=self," + transports, "UCX_SOCKADDR_TLS_PRIORITY=rdmacm", "UCX_NET_DEVICES=uroce0:1",
               "UCX_WARN_UNUSED_ENV_VARS=n"]
        command = typed(build, "io_demo -q -p %d" % next(ports))
        s = Process(build, place.server, command, env, preload=False)
        s.until_at_roce_port()
        c = Process(build, place.client, "%s -i 100 -o read,write %s" % (command, place.address), env, preload=False)
        expect(c)
        if "status 'OK'" not in c.output or not s.running():
            raise Failure("it did not end well")
    return Case("UCX_TLS=%s io_demo" % transports, run, **row)


def ucx_info(place, build):
    p = Process(build, place.server, typed(build, "ucx_info -d"), preload=False)
    expect(p)
    for pattern in r"Transport: rc_verbs", r"Transport: ud_verbs", r"Device: uroce0:1":
        if not re.search(pattern, p.output):
            raise Failure("no %r in its output" % pattern)


def fabric(endpoint, options="", **row):
    """libfabric's verbs provider."""
    def run(place, build):
        port = next(ports)
        command = typed(build, "fi_pingpong -p verbs -e %s -I 50 -c %s" % (endpoint, options))
        s = Process(build, place.server, "%s -B %d" % (command, port), preload=False)
        s.until_listening(port)
        c = Process(build, place.client, "%s -P %d %s" % (command, port, place.address), preload=False)
        expect(c)
        expect(s)
        if not re.search(r"Mxfers/sec\n.*\d", c.output):
            raise Failure("no result in the client's output")
    return Case(("fi_pingpong -p verbs -e %s %s" % (endpoint, options)).strip(), run, **row)


def open_mpi(**row):
    """Two ranks through UCX, in the place's two namespaces: mpirun goes there by nsenter in place of ssh."""
    def run(place, build):
        program = build.compile(os.path.join(HERE, "ranks.c"), "mpicc")
        hosts = ["--oversubscribe"]
        with tempfile.TemporaryDirectory(prefix="uroce-mpi-") as folder:
            if place.client is not place.server:
                agent = os.path.join(folder, "agent")
                with open(agent, "w") as f:  # HOST COMMAND...
                    f.write('#!/bin/sh\nns=$1; shift\nexec nsenter --net=/proc/${ns#pid}/ns/net -- sh -c "$*"\n')
                os.chmod(agent, 0o755)
                hosts = ["--mca", "plm_rsh_agent", agent, "--host",
                         "pid%d,pid%d" % (place.server.holder.pid, place.client.holder.pid)]
            # osc ucx: windows by RDMA, too; and nothing but our transports
            p = Process(build, place.server, shlex.split(typed(build, "mpirun --allow-run-as-root --bind-to none -n 2")) +
                        hosts + "--mca pml ucx --mca osc ucx -x UCX_TLS=rc_verbs,ud_verbs:aux,self".split() +
                        ["-x", "UCX_NET_DEVICES=uroce0:1", program], preload=False)
            expect(p)
        if "2 ranks agree" not in p.output:
            raise Failure("the ranks did not come to their end")
    return Case("mpirun -n 2", run, **row)


def fi_info(place, build):
    """Message endpoints need an address that is not the loopback's: libfabric leaves that out."""
    for options, pattern in ("", r"FI_PROTO_IB_UD"), ("-t FI_EP_RDM", r"verbs;ofi_rxd"):
        p = Process(build, place.server, typed(build, "fi_info -p verbs " + options), preload=False)
        expect(p)
        if not re.search(pattern, p.output):
            raise Failure("no %r in its output" % pattern)
    if place.name != "lo":
        p = Process(build, place.server, typed(build, "fi_info -p verbs -t FI_EP_MSG -n " + place.address), preload=False)
        expect(p)
        if "FI_PROTO_RDMA_CM_IB_RC" not in p.output:
            raise Failure("no message endpoint in its output")


def named_device(place, build):
    """Many programs have a device name built in."""
    env = ["UROCE_DEVICES=%s=mlx5_0" % place.interface]
    for p in start_pair(place, build, "ibv_rc_pingpong -n 100 -d mlx5_0", env=env)[::-1]:
        expect(p)


def ours(program, **row):
    """A program of ours, which has both ends."""
    def run(place, build):
        expect(Process(build, place.server, source(build, program)))
    return Case(program, run, **row)


BASIC = ["ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat"]
BW = [p for p in BASIC if p.endswith("_bw")]
ATOMIC = ["ib_atomic_bw", "ib_atomic_lat"]

TABLE = [
    single("ibv_devices", r"uroce0", quick=True),
    single("ibv_devices", r"uroce0", places=VETH),
    single("ibv_devinfo -v", r"hca_id:\s+uroce0", r"PORT_ACTIVE", r"Ethernet", r"127\.0\.0\.1", quick=True),
    single("ibv_devinfo -v", r"hca_id:\s+uroce0", r"hca_id:\s+uroce1", r"10\.77\.0\.1", r"fd77::1",
           r"fe80::77:1", places=VETH),
    single("true", name="a program without RDMA is left alone"),

    Case("uroce run ibv_rc_pingpong", uroce_run, ALL, quick=True),
    connected("rping -s -a {a} -p {p} -v -V -C 30", "rping -c -a {a} -p {p} -v -V -C 30", "rdma-ping-29", places=ALL,
              quick=True),
    connected("ucmatose -p {p} -c 20 -C 20", "ucmatose -s {a} -p {p} -c 20 -C 20", "return status 0", places=ALL),
    connected("udaddy", "udaddy -s {a}", "return status 0", places=ALL, quick=True),
    connected("rdma_server", "rdma_client -s {a}", "end 0", places=ALL),
    connected("rdma_xserver -p {p}", "rdma_xclient -p {p} -s {a}", "end 0", places=ALL),
    connected("rdma_xserver -c x -p {p}", "rdma_xclient -c x -p {p} -s {a}", "end 0", places=("lo", "veth1500")),
    connected("rping -s -q -a {a} -p {p} -C 10", "rping -c -q -a {a} -p {p} -v -C 10", "rdma-ping-9", places=("lo", "veth1500")),
    connected("rping -s -a {a} -p {p} -S 65535 -V -C 10", "rping -c -a {a} -I {a} -p {p} -v -S 65535 -V -C 10", "rdma-ping-9"),
    connected("ucmatose -P ib -p {p}", "ucmatose -P ib -s {a} -p {p} -a 14", "return status 0", places=("lo", "veth1500")),
    connected("ucmatose -f name -p {p}", "ucmatose -f name -s localhost -p {p}", "return status 0"),
    connected("ib_send_lat -R -c UD -n 200 -p {p}", "ib_send_lat -R -c UD -n 200 -p {p} {a}", "t_typical",
              places=("lo", "veth1500")),
    connected("ib_write_bw -R -q 16 -n 500 -p {p}", "ib_write_bw -R -q 16 -n 500 -p {p} {a}", "65536"),
    connected("ib_atomic_lat -R -n 200 -p {p}", "ib_atomic_lat -R -n 200 -p {p} {a}", "t_typical"),
    connected("cmtime -b {a} -p {p}", "cmtime -s {a} -p {p} -c 1000 -t 3000 -r 2", "disconnect", stays=True),
    connected("udaddy -P ipoib -C 3", "udaddy -P ipoib -s {a} -t 8 -C 3", "return status 0"),
    connected("rping -s -a {a6} -p {p} -v -V -C 10", "rping -c -a {a6} -p {p} -v -V -C 10", "rdma-ping-9", places=ALL),
    connected("rping -s -P -a {a} -p {p} -v -V", "stdbuf -oL rping -c -a {a} -p {p} -v -V -C 200", "rdma-ping-199",
              stays=True, clients=8, places=("lo", "veth1500"), quick=True),
    connected("ucmatose -f ip -b {a} -p {p} -c 10 -C 5 -S 3000", "ucmatose -f ip -s {a} -p {p} -c 10 -C 5 -S 3000 -t 8",
              "return status 0", places=("lo", "veth1500")),
    connected("ucmatose -b {a6} -p {p} -c 10 -C 5 -m", "ucmatose -s {a6} -p {p} -c 10 -C 5 -m", "return status 0",
              places=("lo", "veth1500")),
    connected("udaddy -b {a} -c 10 -C 5 -S 500", "udaddy -s {a} -c 10 -C 5 -S 500", "return status 0",
              places=("lo", "veth1500")),
    connected("udaddy -p 0x0002", "udaddy -s {a} -p 0x0002", "return status 0", name="udaddy of RDMA_PS_IPOIB"),
    connected("cmtime -p {p}", "cmtime -s {a} -p {p} -c 100", "disconnect", stays=True, places=("lo", "veth1500")),
    connected("ib_send_bw -R -c UD -n 500 -p {p}", "ib_send_bw -R -c UD -n 500 -p {p} {a}", "4096", places=LO),
    connected("ib_read_lat -R -n 200 -p {p}", "ib_read_lat -R -n 200 -p {p} {a}", "t_typical", places=("lo", "veth1500")),
    fio("write", places=("lo", "veth1500")),
    fio("read", places=LO),
    fio("send", places=LO),
    connected("ib_write_bw -R -n 500 -p {p}", "ib_write_bw -R -n 500 -p {p} {a}", "65536", places=ALL),
    connected("ib_send_lat -R -n 500 -p {p}", "ib_send_lat -R -n 500 -p {p} {a}", "t_typical", places=ALL),
    # -C: some size and count of messages, there and back
    *[rstream("-T v %s -S %d -C %d -I 3" % (how, size, count), places=ALL if size == 5000 else LO, quick=size == 5000)
      for how in ("-T b", "-T n", "-T a", "-T a -T b") for size, count in ((1, 300), (64, 300), (5000, 100), (1000003, 3))],
    rstream("-T v -T b -T r -C 10 -I 3"),
    rstream("-T v -T b -B 4096 -S 100000 -C 10"),
    rstream("-T v -T b -i 0 -C 20"),
    rstream("-T b -k 1 -C 20"),
    *[riostream("-T v %s -S %d -C 3 -I 3" % (how, size), places=("lo", "veth1500"), quick=size == 5000)
      for how in ("-T b", "-T n", "-T a") for size in (64, 5000, 100000)],
    *[udpong("%s -S %d -C 100" % (how, size), places=ALL if size == 1500 else LO, quick=size == 1500)
      for how in ("-T b", "-T n", "-T a") for size in (16, 1500, 2048)],
    Case("rcopy", rcopy, ALL, quick=True),
    raw_ethernet("raw_ethernet_lat -n 200 -s 64", places=VETH, quick=True),
    *[raw_ethernet("raw_ethernet_bw -D 1 -s %d" % s, places=VETH) for s in (64, 1024)],
    *[raw_ethernet("raw_ethernet_bw -n 5000 -s %d" % s, places=VETH) for s in (64, 512, 1500)],
    mckey("239.77.0.1", "127.0.0.1 -c 4 -S 500", "127.0.0.1 -c 4 -S 500"),
    mckey("239.77.0.3", "127.0.0.1", "127.0.0.1 -l"),
    mckey("239.77.0.4", "10.77.0.1", "10.77.0.2 -l", places=VETH),
    mckey("239.77.0.2", "10.77.0.1", "10.77.0.2 -o", places=VETH),
    mckey("ff0e::77 -p 0x0002", "fd77::1", "fd77::2", places=VETH),
    Case("nc by rsocket", netcat(), ALL),
    Case("nc by rsocket to one by TCP", netcat(server_rdma=False), ALL),
    Case("iperf3 by rsocket", iperf3, ALL),
    Case("redis by rsocket", redis, ALL),
    Case("epoll by rsocket", readiness, quick=True),
    Case("sockets by rsocket are as by TCP", semantics, ("lo",)),
    Case("nginx by rsocket", nginx, ("lo", "veth1500")),
    Case("iSER: tgt and libiscsi", systems.iser, ("lo", "veth1500")),
    Case("migration of a QEMU guest", systems.migration(pin=False), ("lo", "veth1500")),
    Case("migration of a QEMU guest, rdma-pin-all", systems.migration(pin=True)),
    Case("UROCE_DEVICES=interface=mlx5_0", named_device, ("lo", "veth1500")),
    pingpong(places=ALL, quick=True),
    pingpong("-g 0", places=ALL),
    pingpong("-g 1", places=ALL, quick=True),
    pingpong(link_local=True, places=("veth1500",)),
    pingpong("-e", places=ALL, quick=True),
    pingpong("-e -g 1", places=LO),
    pingpong("-c", places=ALL, quick=True),
    *[pingpong("-c -s %d" % s, places=("lo", "veth1500")) for s in (1, 2, 3, 63, 64, 1500, 4096, 65536)],
    pingpong("-c -s 1048576 -n 100", places=ALL, quick=True),
    pingpong("-c -s 4194304 -n 30", places=ALL),
    *[pingpong("-c -g 0 -m %d -s 10001" % m, places=LO) for m in (256, 512, 1024, 2048, 4096)],
    *[pingpong("-c -g 0 -m %d -s 10001" % m, places=VETH) for m in (256, 512, 1024)],
    *[pingpong("-c -g 1 -m %d -s 10001" % m, places=("veth9000",)) for m in (256, 4096)],
    pingpong("-N -g 0", places=LO),
    pingpong("-r 1", places=LO),
    pingpong("-n 100000 -s 64", places=LO),
    pingpong("-n 100000 -s 64", places=VETH),
    srq_pingpong("-g 0", places=ALL, quick=True),
    srq_pingpong("-g 1 -e", places=ALL),
    *[srq_pingpong("-g 0 -q %d -n 1000 -s %d" % (q, s), places=LO) for q, s in ((1, 64), (16, 1500), (32, 65536))],
    srq_pingpong("-g 0 -r 100 -n 2000 -e", places=LO),

    xsrq_pingpong("-g 0", places=ALL, quick=True),
    xsrq_pingpong("-g 1 -e", places=ALL),
    xsrq_crowd(2, places=ALL, quick=True),
    xsrq_crowd(4, "-n 50 -e"),
    *[xsrq_pingpong("-g 0 -n 100 -m %d -s %d" % (m, s), places=LO) for m, s in ((256, 10001), (4096, 65536))],

    *[unreliable(t, o, places=ALL, quick=q) for t in ("uc", "ud")
      for o, q in (("", True), ("-g 0", False), ("-g 1 -c", True), ("-e", False), ("-e -g 1 -c", False))],
    *[unreliable("uc", "-g 0 -c -m %d -s 10001" % m, places=VETH) for m in (256, 512, 1024)],
    *[unreliable("uc", "-g 0 -c -s %d" % s, places=LO) for s in (1, 63, 4096, 4097, 65536)],
    *[unreliable("ud", "-g 0 -c -s %d" % s, places=LO) for s in (1, 63, 1024, 4096)],
    unreliable("ud", "-g 0 -s 1024", places=VETH),
    unreliable("uc", "-g 0 -r 4", places=LO),
    unreliable("ud", "-g 0 -r 4", places=LO),
    unreliable("uc", link_local=True, places=("veth1500",)),
    unreliable("ud", link_local=True, places=("veth1500",)),

    # These wait for every message: flow control (engine/flow.c) is what makes that safe.
    *[perftest("ib_send_lat -c %s -n 1000" % c, places=("lo", "veth1500"), quick=True) for c in ("UC", "UD")],
    perftest("ib_write_lat -c UC -n 1000", places=("lo", "veth1500")),
    perftest("ib_write_bw -c UC -n 1000", places=("lo", "veth1500")),
    perftest("ib_write_bw -c UC -n 1000 -b -q 4", places=LO),
    perftest("ib_send_bw -c UC -n 1000", places=("lo", "veth1500"), quick=True),
    perftest("ib_send_bw -c UC -n 1000 -b", places=("lo", "veth1500")),
    perftest("ib_send_bw -c UC -a -n 5", places=LO),
    perftest("ib_send_bw -c UD -a -n 100", places=LO),
    *[perftest("ib_send_bw -c %s -n 1000 -s 1024 -q 16" % c, places=LO) for c in ("UC", "UD")],
    *[perftest("ib_send_bw -c %s -n 2000 -s 64%s" % (c, x), places=LO) for c in ("UC", "UD")
      for x in (" -e", " -b -e")],
    *[perftest("ib_send_bw -c %s -n 1000 -s 1024 --use-srq -q %d" % (c, q), places=("lo", "veth1500")) for c in ("UC", "UD")
      for q in (4, 16)],
    *[perftest("ib_send_bw -c %s -n 100 -s 1024" % c, places=("lo", "veth1500"), quick=True) for c in ("UC", "UD")],
    *[perftest("ib_send_bw -c %s -n 100 -s 64 -I 64" % c, places=LO) for c in ("UC", "UD")],
    *[perftest("ib_send_bw -c %s -n 100 -s 64 -b" % c, places=LO) for c in ("UC", "UD")],
    *[perftest("ib_send_bw -c %s -n 20 -s 64 -q 8" % c, places=LO) for c in ("UC", "UD")],
    *[perftest("ib_send_bw -c %s -n 100 -s 64 -e" % c, places=LO) for c in ("UC", "UD")],
    *[perftest("%s -c %s -n 200 -x 1" % (p, c), places=("lo", "veth1500"))
      for p, c in (("ib_send_lat", "UD"), ("ib_write_lat", "UC"))],

    *[perftest("%s -a -n 100" % p, places=("lo", "veth1500")) for p in BW],
    *[perftest("%s -a -n 10" % p, places=LO) for p in BASIC if p not in BW],
    *[perftest("%s -n 1000" % p, places=LO) for p in ATOMIC],
    *[perftest("%s -n 1000 -A %s" % (p, a), places=LO) for p in ATOMIC
      for a in ("FETCH_AND_ADD", "CMP_AND_SWAP")],
    *[perftest("%s -n 1000" % p, places=LO, quick=True) for p in BASIC],
    *[perftest("%s -n 1000 -b" % p, places=("lo", "veth1500")) for p in BW + ["ib_atomic_bw"]],
    *[perftest("%s -n 500 -q 16" % p, places=LO) for p in BW + ["ib_atomic_bw"]],
    *[perftest("%s -n 500 -q 16 -b" % p, places=VETH) for p in ("ib_send_bw", "ib_write_bw")],
    *[perftest("%s -n 1000 -e" % p, places=LO) for p in ("ib_send_bw", "ib_read_bw", "ib_send_lat")],
    *[perftest("%s -n 1000 -s 64 -I 64" % p, places=LO) for p in BASIC if "read" not in p],
    *[perftest("ib_write_bw -n 1000 -m %d" % m, places=LO) for m in (256, 512, 1024, 2048, 4096)],
    *[perftest("%s -n 1000 -x %d" % (p, x), places=("lo", "veth1500")) for x in (0, 1)
      for p in ("ib_send_lat", "ib_write_bw")],
    perftest("ib_send_bw -n 1000 -c RC", places=LO),
    perftest("ib_write_bw -n 20 -q 128", places=LO),
    *[perftest("%s -n 1000 --use-srq" % p, places=LO) for p in ("ib_send_bw", "ib_send_lat", "ib_send_bw -b")],
    *[perftest("ib_send_bw -n 500 --use-srq -q 16%s" % x, places=("lo", "veth1500")) for x in ("", " -e -s 64")],
    *[perftest("%s -n 500 -c XRC" % p, places=("lo", "veth1500"), quick=p in BW) for p in BASIC + ATOMIC],
    *[perftest("ib_send_bw -n 200 -c XRC %s" % o, places=LO) for o in ("-a", "-b -q 4", "-e", "--use_old_post_send")],
    perftest("ib_read_bw -n 5 -s 67108864 -t 2", places=LO),
    perftest("ib_send_bw -n 4800 -s 64 -l 16", places=LO),
    perftest("ib_write_bw -n 5000 -s 64 -Q 10", places=LO),
    infinite("ib_write_bw", "client"),
    infinite("ib_write_bw", "server"),
    infinite("ib_write_bw -b", "client"),
    infinite("ib_send_bw", "server", "Completion with error"),
    infinite("ib_read_bw", "server", "Completion with error"),

    example_single(quick=True),
    example_single("-g 1"),
    example_single("-d uroce0 -g 1", places=VETH),
    example_across(places=ALL, quick=True),
    example_across("-g 1", places=ALL),

    example_cm(places=ALL, quick=True),
    storm(4, 200, quick=True),
    storm(16, 800),
    storm(8, 400, lost=10),
    storm(4, 100, lost=10, deaths=2, quick=True),
    storm(8, 400, deaths=5),

    verify(0, places=ALL, quick=True),
    verify(1, places=ALL),
    peer_dies("write", places=("lo", "veth1500"), quick=True),
    peer_dies("send", places=("lo", "veth1500")),
    peer_dies("idle", places=("lo", "veth1500"), quick=True),
    killed(200, places=("lo", "veth1500"), quick=False),
    killed(20, quick=True),
    leave(100),
    leave(10, quick=True),
    cut(60),
    cut(12, quick=True),
    Case("another user is kept apart", kept_apart, LO, spoils=True),
    lent("polls"),
    lent("sleeps", quick=True),
    lent("computes"),
    Case("stopped for a moment", stopped_goes_on),
    Case("crowd: 8 pairs while a ninth is stopped and a tenth killed", crowd, quick=True),
    Case("a pair is killed, others are stopped, the last goes on", killed_among_stopped),
    Case("packets from an address that is not the peer", hostile("s.forge({qpn}, {psn})"), quick=True),
    Case("truncated packets and noise", hostile("s.spoil({qpn}, {psn}, 1)"), quick=True),
    ours("numbers", quick=True),
    ours("forks", quick=True),
    ours("full", quick=True),
    ours("threads", quick=True),
    ours("mistakes", quick=True),
    Case("addresses and link come and go", port_events, ("lo", "veth1500"), spoils=True),
    idle("pause"),
    idle("event"),
    *[io_demo(t, places=("lo", "veth1500")) for t in ("rc_verbs,ud_verbs", "ud_verbs")],
    Case("ucx_info -d", ucx_info, ("lo", "veth1500")),
    *[ucx("rc_verbs,ud_verbs", t, places=("lo", "veth1500")) for t in ("tag_lat -n 200 -s 64", "tag_bw -n 100 -s 65536")],
    *[ucx("rc_verbs,ud_verbs", t, places=LO) for t in ("ucp_put_bw -n 100 -s 4096", "ucp_get -n 100 -s 4096",
                                                       "ucp_fadd -n 100 -s 8", "ucp_am_lat -n 100 -s 2000")],
    *[ucx("ud_verbs", t, places=("lo", "veth1500")) for t in ("tag_lat -n 200 -s 64", "tag_bw -n 100 -s 65536")],
    ucx("ud_verbs", "ucp_put_bw -n 100 -s 4096", places=LO),
    open_mpi(places=("lo", "veth1500")),
    Case("fi_info -p verbs", fi_info, ("lo", "veth1500")),
    fabric("dgram", "-S 1024", places=("lo", "veth1500")),
    fabric("rdm", "-S 1024", places=("lo", "veth1500")),
    fabric("msg", "-S 1024", places=("veth1500",)),  # libfabric has none for the loopback

    qperf("uc_lat ud_lat uc_rdma_write_lat", places=LO),
    qperf("uc_bw ud_bw rc_bw", places=LO),
    qperf("rc_lat ud_lat", connect=True, places=LO),
    qperf("rc_lat rc_bi_bw rc_rdma_write_lat rc_rdma_read_bw ver_rc_fetch_add ver_rc_compare_swap", places=LO),
]
