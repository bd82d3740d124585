#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""UROCE_LINK=packet: Debian's programs between two network namespaces, by frames of our own at both ends or at one.
The kernel neither sees these packets twice nor answers them; and where packet sockets are not allowed, udp serves."""
import os, re, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import place

BUILD = os.environ.get("UROCE_BUILD", "build")
PRELOAD = os.environ.get("UROCE_PRELOAD", os.path.join(os.path.abspath(BUILD), "liburoce.so.1"))
LIMIT = 120  # seconds: nothing here takes as long, unless it hangs
failed = []


def check(what, holds, details=""):
    print("%s - %s" % ("ok" if holds else "not ok", what), flush=True)
    if not holds:
        print("".join("# %s\n" % line for line in str(details).splitlines()), end="", flush=True)
        failed.append(what)


def start(namespace, link, command, wrap=()):
    env = dict(os.environ, LD_PRELOAD=PRELOAD, UROCE_LINK=link, UROCE_LOG="debug")
    return subprocess.Popen(namespace.enter + list(wrap) + ["env", "LD_PRELOAD=" + PRELOAD] + command.split(),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={k: v for k, v in env.items() if k != "LD_PRELOAD"})


def await_listener(namespace, port, server):
    """Until the server listens at that TCP port; or its end."""
    while server.poll() is None:
        lines = open(namespace.proc + "tcp").readlines() + open(namespace.proc + "tcp6").readlines()
        if any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "0A" for line in lines[0:]
               if line.split()[0] != "sl"):
            return


def outputs(server, client):
    """What both say. A server whose client has failed would wait for ever."""
    says = client.communicate(timeout=LIMIT)[0]
    if client.returncode:
        server.kill()
    return server.communicate(timeout=LIMIT)[0], says


def pair(where, links, command, address, wrap=()):
    """What the server and the client say."""
    server = start(where.server, links[0], command, wrap)
    await_listener(where.server, 18515, server)
    client = start(where.client, links[1], command + " " + address, wrap)
    says = outputs(server, client)
    check("%s, %s: both ends succeed" % (command, " and ".join(links)), not server.returncode and not client.returncode,
          "\n".join(says))
    return says


def total(pattern, says):
    """A process has a link for each of its addresses."""
    rows = [tuple(map(int, row)) for row in re.findall(pattern, says)]
    return tuple(map(sum, zip(*rows))) if rows else (0, 0)


def frames(says):
    """Trains sent and received as frames."""
    return total(r"packet link: of these, sent (\d+) trains as frames, received (\d+); ", says)


def by_udp(says):
    """All trains, those that are frames too."""
    return total(r"udp link: sent \d+ packets in (\d+) trains, .* received \d+ packets in (\d+) trains", says)


def count(namespace, file, group, name):
    """A counter of /proc/net/snmp or netstat, or of snmp6."""
    if file == "snmp6":
        return sum(int(line.split()[1]) for line in open(namespace.proc + file) if line.split()[0] == name)
    rows = [line.split() for line in open(namespace.proc + file) if line.startswith(group + ":")]
    return int(rows[1][rows[0].index(name)])


def without_a_socket(where):
    """Packets for a port that nobody has; the answers themselves are no measure, as Linux limits their rate."""
    return sum(count(end, "snmp", "Udp", "NoPorts") + count(end, "snmp6", "", "Udp6NoPorts")
               for end in (where.server, where.client))


def both_families_by_frames(where):
    """After the first trains, which go by udp as the kernel has to find the neighbor, all are frames."""
    for index, family in (0, "IPv4"), (1, "IPv6"):
        for command in "ibv_rc_pingpong -n 500", "ibv_uc_pingpong -n 200", "ibv_ud_pingpong -n 500 -s 1000", \
                "ibv_srq_pingpong -n 500":
            says = pair(where, ("packet", "packet"), "%s -g %d" % (command, index), where.address)
            for end in says:
                sent, received = frames(end)
                all_sent, all_received = by_udp(end)
                check("%s: nearly all trains are frames, none comes twice" % family,
                      sent > 50 and received > 50 and all_sent - sent < 30 and all_received - received < 30, end)


def with_udp_at_the_other_end(where):
    for links in ("packet", "udp"), ("udp", "packet"):
        for index in 0, 1:
            says = pair(where, links, "ibv_rc_pingpong -n 500 -s 20000 -g %d" % index, where.address)
            check("one end sends and takes frames", frames(says[links.index("packet")])[0] > 50, "\n".join(says))


def perftest_and_connections(where):
    pair(where, ("packet", "packet"), "ib_write_bw -x 0 -n 500 -s 65536 -F", where.address)
    pair(where, ("packet", "packet"), "ib_send_lat -x 0 -n 500 -s 64 -F", where.address)
    pair(where, ("packet", "packet"), "ib_send_bw -x 0 -n 3000 -s 64 -e -F", where.address)
    pair(where, ("packet", "udp"), "ib_read_bw -x 0 -n 200 -s 65536 -F", where.address)


def two_processes_on_one_interface(where):
    """Each has the frames of its own slots; messages of rdma_cm go by the udp link, whose steering knows which process
    they are for."""
    server = start(where.server, "packet", "rping -s -C 20 -v -a " + where.address)
    while server.poll() is None and not any(":12B7 " in line for line in open(where.server.proc + "udp")):
        pass  # 4791: it listens
    says = pair(where, ("packet", "udp"), "ibv_rc_pingpong -n 300 -g 0", where.address)
    check("the second process has frames", frames(says[0])[1] > 50, says[0])
    client = start(where.client, "packet", "rping -c -C 20 -v -a " + where.address)
    says = outputs(server, client)
    check("rping succeeds", not client.returncode and "rdma-ping-19" in says[1], "\n".join(says))


def jumbo_frames():
    where = place.veth(9000)
    try:
        says = pair(where, ("packet", "packet"), "ibv_rc_pingpong -n 100 -s 20000 -g 0", where.address)
        check("frames of 4096 bytes", all(frames(end)[0] > 20 for end in says), "\n".join(says))
    finally:
        where.close()


def a_vlan(where):
    """The VLAN's interface tags what leaves and takes the tag of what comes."""
    if subprocess.run(where.server.enter + "ip link add v9 link v0 type vlan id 9".split(),
                      stderr=subprocess.DEVNULL).returncode:
        print("ok - frames of a VLAN # SKIP this kernel has no VLANs")
        return
    for end, number in (where.server, 1), (where.client, 2):
        end.ip("link add link v0 name v0.5 type vlan id 5")
        end.ip("link set v0.5 addrgenmode none")
        end.ip("link set v0.5 up")
        end.ip("addr add 10.78.0.%d/24 dev v0.5" % number)
    says = pair(where, ("packet", "packet"), "ibv_rc_pingpong -n 500 -g 0 -d " + device_of(where, "v0.5"), "10.78.0.1")
    check("frames of a VLAN", frames(says[0])[1] > 50 and frames(says[1])[1] > 50, "\n".join(says))
    for end in where.server, where.client:
        end.ip("link del v0.5")


def device_of(where, interface):
    out = subprocess.run(where.server.enter + [os.path.join(BUILD, "uroce"), "devices"], text=True,
                         stdout=subprocess.PIPE).stdout
    return next(line.split()[0] for line in out.splitlines() if line.split()[1:2] == [interface])


def a_neighbor_that_moves(where):
    """A change of the peer's MAC address reaches the sender by the kernel's table."""
    for end, mac in (where.server, "02:00:00:00:00:77"), (where.client, "02:00:00:00:00:78"):
        end.ip("link set v0 address " + mac)
    where.client.ip("neigh flush dev v0")
    where.server.ip("neigh flush dev v0")
    says = pair(where, ("packet", "packet"), "ibv_rc_pingpong -n 300 -g 0", where.address)
    check("frames go to the new address", frames(says[1])[0] > 50, "\n".join(says))


def without_the_privilege(where):
    wrap = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--")
    says = pair(where, ("packet", "packet"), "ibv_rc_pingpong -n 100 -g 0", where.address, wrap)
    for end in says:
        check("it says so once, and udp serves",
              end.count("UROCE_LINK=packet: Operation not permitted; using udp") == 1 and "packet link:" not in end, end)


def loopback(where):
    one = place.udp(where.server)
    says = pair(one, ("packet", "packet"), "ibv_rc_pingpong -n 100 -g 0 -d " + device_of(where, "lo"), "127.0.0.1")
    check("loopback is by udp, without a warning", all("packet link:" not in s and "CAP_NET_RAW" not in s for s in says),
          "\n".join(says))


def main():
    reason = place.be_root_somewhere()
    if reason:
        print("1..0 # SKIP", reason)
        return 77
    where = place.veth(1500)
    try:
        before = without_a_socket(where)
        both_families_by_frames(where)
        with_udp_at_the_other_end(where)
        perftest_and_connections(where)
        two_processes_on_one_interface(where)
        a_vlan(where)
        a_neighbor_that_moves(where)
        late = without_a_socket(where) - before  # what an end still sends when the other has ended
        check("none of these thousands of packets is answered by 'port unreachable', but a few late ones", late < 20, late)
        without_the_privilege(where)
        loopback(where)
    finally:
        where.close()
    jumbo_frames()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
