# SPDX-License-Identifier: BSD-2-Clause
"""Programs of libibverbs: ibverbs-utils, whose two ends meet by TCP, and uroce's own command in front of them."""
import os
import re
import tempfile

from case import ALL, BOTH, LO, VETH, Case, each, pair, single, start_pair
from process import Failure, Process, Skip, expect, expect_printed, ports, typed


def pingpong(options="", **row):
    return pair(("ibv_rc_pingpong " + options).strip(), r"iters in", **row)


def no_gid(place, build):
    """The beginner's first mistake: on Ethernet an address has a GID, on adapters too."""
    server, client = start_pair(place, build, "ibv_rc_pingpong")
    if client.wait() != 1 or server.wait() != 1:
        raise Failure("it does not fail")
    expect_printed(server, r"Failed to modify QP to RTR", r"has no GRH .*-g INDEX")  # the client is not told


def acquainted(options, **row):
    """On one host: the two know each other by the time that both have connected, and no message goes by UDP. (An ACK may,
    to one that has ended.)"""
    def run(place, build):
        env = "UROCE_LOCAL=on", "UROCE_LOG=debug" # also where other rows do without
        for p in reversed(start_pair(place, build, "ibv_rc_pingpong -g 0 " + options, env=env)):
            expect(p)
            sent = re.search(r"udp link: sent (\d+) packets", p.output)
            if int(sent[1]) > 1:
                raise Failure(sent[0])
    return Case("ibv_rc_pingpong %s: not by UDP" % options, run, **row)


def half_traced(place, build):
    """One end is traced, and its peer, whose requests acknowledge what they answer, is not: every step takes its time in the
    order in which they are shown."""
    with tempfile.TemporaryDirectory(prefix="uroce-trace-") as folder:
        trace = os.path.join(folder, "client")
        s, c = start_pair(place, build, "ibv_rc_pingpong -g 0", env=["UROCE_LOCAL=on"], client_env=["UROCE_TRACE=" + trace])
        expect(c)
        expect(s)
        p = Process(build, place.client, [build.command, "trace", "--summary", trace], preload=False)
        expect(p, r"^  completion written +1000 +[\d.]+ ", refused=r" -\d")


def narrow_route(place, build):
    """What the kernel has heard of the way's MTU, by ICMP messages or routes, changes nothing: the ends have agreed on theirs."""
    for end, number in (place.server, 2), (place.client, 1):
        end.ip("route add 10.77.0.%d/32 dev v0 mtu lock 600" % number)
        end.ip("route add fd77::%d/128 dev v0 mtu lock 1280" % number)
    for options in "-g 0 -m 1024", "-g 1 -m 1024 -s 65536", "-g 0 -n 100000 -s 64":
        s, c = start_pair(place, build, "ibv_rc_pingpong " + options)
        expect(c, r"iters in")
        expect(s)


def srq_pingpong(options="", **row):
    return pair(("ibv_srq_pingpong " + options).strip(), r"iters in", **row)


def xsrq_pingpong(options="", **row):
    return pair(("ibv_xsrq_pingpong " + options).strip(), r"success", **row)


def xsrq_crowd(clients, options="", **row):
    """One server, many clients: what it sends to one arrives at another's target QP, and is passed on from there."""
    def run(place, build):
        if build.memcheck:
            raise Skip("on a busy machine its retries are spent before three processes under valgrind have answered")
        port = next(ports)
        command = "ibv_xsrq_pingpong -g 0 -p %d %s" % (port, options)
        s = Process(build, place.server, "%s -c %d" % (command, clients))
        s.until_listening(port)
        for p in [Process(build, place.client, command + " " + place.address) for _ in range(clients)] + [s]:
            expect(p)
    return Case(("ibv_xsrq_pingpong -c %d %s" % (clients, options)).strip(), run, **row)


def unreliable(command, **row):
    """The programs of UC and UD. On one host nothing is lost as long as a message or two are under way."""
    return pair(command.strip(), r"iters in", **row)


def uroce_run(place, build):
    """The command that a user types, and not only the preload it makes."""
    for p in start_pair(place, build, typed(build, "ibv_rc_pingpong -g 0 -n 100"), preload=False)[::-1]:
        expect(p)


def named_device(place, build):
    """Many programs have a device name built in."""
    env = ["UROCE_DEVICES=%s=mlx5_0" % place.interface]
    for p in start_pair(place, build, "ibv_rc_pingpong -g 0 -n 100 -d mlx5_0", env=env)[::-1]:
        expect(p)


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


TABLE = [
    single("ibv_devices", r"uroce0", quick=True),
    single("ibv_devices", r"uroce0", places=VETH),
    single("ibv_devinfo -v", r"hca_id:\s+uroce0", r"PORT_ACTIVE", r"Ethernet", r"127\.0\.0\.1", quick=True),
    single("ibv_devinfo -v", r"hca_id:\s+uroce0", r"hca_id:\s+uroce1", r"10\.77\.0\.1", r"fd77::1", r"fe80::77:1",
           places=VETH),
    single("true", name="a program without RDMA is left alone"),
    Case("uroce run ibv_rc_pingpong", uroce_run, ALL, quick=True),
    Case("UROCE_DEVICES=interface=mlx5_0", named_device, BOTH),

    Case("routes of less than the path MTU", narrow_route, VETH, spoils=True),

    acquainted("-n 100", quick=True),
    acquainted("-n 100 -e"),
    Case("ibv_rc_pingpong, its client traced", half_traced, LO),
    Case("ibv_rc_pingpong without -g", no_gid),
    pingpong("-g 0", places=ALL, quick=True),
    pingpong("-g 1", places=ALL, quick=True),
    pingpong(link_local=True, places=VETH),
    pingpong("-g 0 -e", places=ALL, quick=True),
    pingpong("-e -g 1", places=LO),
    pingpong("-g 0 -c", places=ALL, quick=True),
    *each(pingpong, "-g 0 -c -s {1,2,3,63,64,1500,4096,65536}", places=BOTH),
    pingpong("-g 0 -c -s 1048576 -n 100", places=ALL, quick=True),
    pingpong("-g 0 -c -s 4194304 -n 30", places=ALL),
    *each(pingpong, "-c -g 0 -m {256,512,1024,2048,4096} -s 10001", places=LO),
    *each(pingpong, "-c -g 0 -m {256,512,1024,4096} -s 10001", places=VETH),
    *each(pingpong, "-c -g 1 -m {256,4096} -s 10001", places=("veth9000",)),
    pingpong("-N -g 0", places=LO),
    pingpong("-g 0 -r 1", places=LO),
    pingpong("-g 0 -n 20000 -s 64", places=BOTH),

    srq_pingpong("-g 0", places=ALL, quick=True),
    srq_pingpong("-g 1 -e", places=ALL),
    srq_pingpong("-g 0 -q 1 -n 1000 -s 64", places=LO),
    srq_pingpong("-g 0 -q 16 -n 1000 -s 1500", places=LO),
    srq_pingpong("-g 0 -q 32 -n 1000 -s 65536", places=LO),
    srq_pingpong("-g 0 -r 100 -n 2000 -e", places=LO),

    xsrq_pingpong("-g 0", places=ALL, quick=True),
    xsrq_pingpong("-g 1 -e", places=ALL),
    xsrq_pingpong("-g 0 -n 100 -m 256 -s 10001", places=LO),
    xsrq_pingpong("-g 0 -n 100 -m 4096 -s 65536", places=LO),
    xsrq_crowd(2, places=ALL, quick=True),
    xsrq_crowd(4, "-n 50 -e", places=LO),

    *each(unreliable, "ibv_{uc,ud}_pingpong {-g 0,-g 1 -c}", places=ALL, quick=True),
    *each(unreliable, "ibv_{uc,ud}_pingpong -e {-g 0,-g 1 -c}", places=ALL),
    *each(unreliable, "ibv_uc_pingpong -g 0 -c -m {256,512,1024} -s 10001", places=VETH),
    *each(unreliable, "ibv_uc_pingpong -g 0 -c -s {1,63,4096,4097,65536}", places=LO),
    *each(unreliable, "ibv_ud_pingpong -g 0 -c -s {1,63,1024,4096}", places=LO),
    unreliable("ibv_ud_pingpong -g 0 -s 1024", places=VETH),
    *each(unreliable, "ibv_{uc,ud}_pingpong -g 0 -r 4", places=LO),
    *each(unreliable, "ibv_{uc,ud}_pingpong", link_local=True, places=VETH),

    Case("addresses and link come and go", port_events, BOTH, spoils=True),
]
