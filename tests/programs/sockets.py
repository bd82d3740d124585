# SPDX-License-Identifier: BSD-2-Clause
"""Programs that know nothing but TCP sockets, whose connections go by RDMA: `uroce run --rsocket`."""
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from case import ALL, BOTH, HERE, LO, VETH, Case, RandomFile, source
from process import Failure, Process, Skip, expect, ports


def by_rsocket(build):
    """The environment of a program whose TCP connections are to go by RDMA."""
    return ["LD_PRELOAD=%s:%s" % (build.preload, os.path.join(os.path.dirname(build.library), "liburoce-rsocket.so"))]


def tcp_opens(place):
    """How many TCP connections have been opened in the client's namespace."""
    with open(place.client.proc + "snmp") as f:
        rows = [line.split() for line in f if line.startswith("Tcp:")]
    return int(dict(zip(*rows))["ActiveOpens"])


def netcat(server_rdma):
    """A file through nc; by TCP if the other end knows nothing of RDMA."""
    def run(place, build):
        port, before = next(ports), tcp_opens(place)
        with tempfile.TemporaryDirectory(prefix="uroce-nc-") as folder:
            file = RandomFile(folder)
            s = Process(build, place.server, ["sh", "-c", "exec nc -l %s %d > %s" % (place.address, port, file.copy)],
                        env=by_rsocket(build) if server_rdma else (), preload=server_rdma)
            s.until_listening(port)
            if server_rdma:
                s.until_at_roce_port()
            c = Process(build, place.client, ["sh", "-c", "exec nc -N %s %d < %s" % (place.address, port, file.name)],
                        env=by_rsocket(build))
            expect(c)
            expect(s)
            file.expect_copied()
        if place.client.enter and tcp_opens(place) - before != (not server_rdma):
            raise Failure("it went by %s" % ("TCP" if server_rdma else "RDMA"))
    return run


def silent(place, build):
    """A host that knows nothing of RDMA is asked once, not for each connection."""
    port, count = next(ports), 40  # its kernel says of some of them that it knows nothing of RDMA
    Process(build, place.server, ["nc", "-lk", place.address, str(port)], preload=False).until_listening(port)
    connect = "import socket\nfor _ in range(%d): socket.create_connection((%r, %d))" % (count, place.address, port)
    c = Process(build, place.client, [sys.executable, "-c", connect], env=[*by_rsocket(build), "UROCE_LOG=debug"])
    expect(c)
    sent = re.search(r"udp link: sent (\d+) packets", c.output)
    if not 0 < int(sent[1]) < count:
        raise Failure(sent[0])


def absent(place, build):
    """No host: who waits for the connection hears what TCP says, not what becomes of the attempt by RDMA meanwhile."""
    nobody = place.address.rpartition(".")[0] + ".99"
    expect(Process(build, place.client, ["sh", "-c", "! nc -v -w 60 %s %d" % (nobody, next(ports))], env=by_rsocket(build)),
           "No route to host")


def ended(end, *env, slow=True):
    """A program that has sent and ended, also on a link that takes seconds for what it sent: all of that arrives."""
    def run(place, build):
        port = next(ports)
        link = "tc qdisc add dev %s root tbf rate 256kbit burst 10k limit 20k" % place.interface
        if slow and subprocess.run(place.client.enter + link.split(), stderr=subprocess.DEVNULL).returncode:
            raise Skip("no links that are slow")
        send = ("import os, socket, sys\ns = socket.create_connection((%r, %d))\ns.sendall(open(sys.argv[1], 'rb').read())\n%s" %
                (place.address, port, end))
        with tempfile.TemporaryDirectory(prefix="uroce-ended-") as folder:
            file = RandomFile(folder, 100000)
            s = Process(build, place.server, ["sh", "-c", "exec nc -l %s %d > %s" % (place.address, port, file.copy)],
                        env=by_rsocket(build))
            s.until_at_roce_port()
            expect(Process(build, place.client, [sys.executable, "-c", send, file.name], env=[*by_rsocket(build), *env]))
            expect(s)
            file.expect_copied()
    return run


def iperf3(place, build):
    port = next(ports)
    s = Process(build, place.server, "iperf3 -s -1 -p %d" % port, env=by_rsocket(build))
    s.until_at_roce_port()
    c = Process(build, place.client, "iperf3 -c %s -p %d -n 20M" % (place.address, port), env=by_rsocket(build))
    expect(c)
    expect(s)


def redis_server(build):
    """The program of redis-tools that is the server when called by that name: redis-server would bring a service of the system."""
    link = os.path.join(build.programs.name, "redis-server")
    if not os.path.lexists(link):
        os.symlink(shutil.which("redis-check-rdb"), link)
    return link


def redis(place, build):
    """Clients by RDMA and by TCP at once; the answers are checked."""
    port = next(ports)
    s = Process(build, place.server, "%s --port %d --save '' --bind %s --protected-mode no" %
                (redis_server(build), port, place.address), env=by_rsocket(build))
    s.until_at_roce_port()
    script = ("for i = 1, %d do redis.call('set', 'k' .. i, i * i) end "
              "for i = 1, %d do if redis.call('get', 'k' .. i) ~= tostring(i * i) then return 'wrong' end end "
              "return 'right'" % (1000, 1000))
    load = Process(build, place.client, "redis-benchmark -h %s -p %d -q -n 5000 -t set,get,lrange_100" %
                   (place.address, port), env=by_rsocket(build))
    for preload in True, False:
        c = Process(build, place.client, ["redis-cli", "-h", place.address, "-p", str(port), "eval", script, "0"],
                    env=by_rsocket(build) if preload else (), preload=preload)
        expect(c, "right")
    expect(load)
    expect(Process(build, place.client, "redis-cli -h %s -p %d shutdown nosave" % (place.address, port),
                   env=by_rsocket(build)))
    expect(s)


NGINX = """daemon off; master_process off; pid %(folder)s/pid; error_log stderr; events { }
http { access_log off; sendfile on; client_body_temp_path %(folder)s; proxy_temp_path %(folder)s; fastcgi_temp_path %(folder)s;
uwsgi_temp_path %(folder)s; scgi_temp_path %(folder)s; server { listen %(at)s; root %(folder)s; } }
"""


def nginx(place, build):
    """A server that gives files away by sendfile(), and waits by edge-triggered epoll; curl fetches them."""
    if not shutil.which("nginx"):
        raise Skip("nginx is not there")
    if build.sanitizer:
        raise Skip("curl does not come to an end under a sanitizer: with ThreadSanitizer it never leaves setlocale()")
    at = "%s:%d" % (place.address, next(ports))
    with tempfile.TemporaryDirectory(prefix="uroce-nginx-") as folder:
        file, conf = RandomFile(folder), os.path.join(folder, "conf")
        with open(conf, "w") as f:
            f.write(NGINX % {"folder": folder, "at": at})
        s = Process(build, place.server, ["nginx", "-c", conf], env=by_rsocket(build))
        s.until_at_roce_port()
        before = tcp_opens(place)
        for _ in range(3):
            expect(Process(build, place.client, "curl -sS --noproxy * -o %s http://%s/original" % (file.copy, at),
                           env=by_rsocket(build)))
            file.expect_copied()
        if place.client.enter and tcp_opens(place) != before:
            raise Failure("it went by TCP")
        s.signal(signal.SIGTERM)
        expect(s)


def readiness(place, build):
    """An event loop that takes epoll at its word."""
    expect(Process(build, place.server, source(build, "ready"), env=by_rsocket(build)))


def servers(way, count=3):
    """Connections that the C library, a child or another program reads and writes."""
    def run(place, build):
        port = next(ports)
        s = Process(build, place.server, [source(build, "servers"), str(port), way, str(count)], env=by_rsocket(build))
        s.until_at_roce_port()
        before = tcp_opens(place)
        expect(Process(build, place.client, [source(build, "servers"), str(port), place.address, str(count)],
                       env=by_rsocket(build)), "all came back")
        expect(s)
        if place.client.enter and tcp_opens(place) != before:
            raise Failure("it went by TCP")
    return run


def acquainted(place, build):
    """On one host: messages of connection management go by UDP until the two know each other, which the first connection sees to.
    On a busy machine that takes as long as some connections (21 packets were seen), so there are many more of these. At the end
    each connection may cost one more: an answer to the server, which has ended. By UDP alone it would be 3 for each, 2 of the server."""
    port, count = next(ports), 50
    env = [*by_rsocket(build), "UROCE_LOCAL=on", "UROCE_LOG=debug"]
    s = Process(build, place.server, [source(build, "servers"), str(port), "fork", str(count)], env=env)
    s.until_at_roce_port()
    c = Process(build, place.client, [source(build, "servers"), str(port), place.address, str(count)], env=env)
    for p in c, s:
        expect(p)
        sent = re.search(r"udp link: sent (\d+) packets", p.output)
        if int(sent[1]) >= 2 * count:
            raise Failure(sent[0])


def keepalive(place, build):
    """A peer on another host that is killed, which nobody tells of: a probe later, which takes as long as its attributes say."""
    port = next(ports)
    s = Process(build, place.server, [source(build, "servers"), str(port), "never", "2"],
                env=[*by_rsocket(build), "UROCE_GUARDIAN=off"])
    s.until_at_roce_port()
    c = Process(build, place.client, [source(build, "servers"), str(port), place.address, "0"], env=by_rsocket(build))
    s.until_output("accepted")
    s.signal(signal.SIGKILL)
    expect(c, r"gone: (.*\n)+gone: ")


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


TABLE = [
    Case("nc by rsocket", netcat(server_rdma=True), ALL),
    Case("nc by rsocket to one by TCP", netcat(server_rdma=False), ALL),
    Case("a host that knows no rsockets", silent, VETH),
    Case("a host that is not there, by rsocket", absent, VETH, waits=True),
    Case("a program that has ended, by rsocket on a slow link", ended("s.close()"), VETH, waits=True, spoils=True),
    Case("a program that has ended, by rsocket on a link that breaks off",
         ended("s.close()", "UROCE_FAULT=packet repeats between 1s..6s: partition"), VETH, waits=True, spoils=True),
    Case("a program that calls _exit(), by rsocket", ended("os._exit(0)", slow=False), BOTH),
    Case("iperf3 by rsocket", iperf3, ALL),
    Case("redis by rsocket", redis, ALL),
    Case("nginx by rsocket", nginx, BOTH),
    Case("epoll by rsocket", readiness, quick=True),
    Case("files by rsocket", servers("files", 1), BOTH),
    *[Case(way + " by rsocket", servers(way), BOTH) for way in ("fork", "fork-files", "fork-exec", "vfork-exec")],
    Case("connections by rsocket, not by UDP", acquainted, LO),
    Case("keepalive by rsocket", keepalive, VETH, waits=True),
    Case("sockets by rsocket are as by TCP", semantics, LO),
]
