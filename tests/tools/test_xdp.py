#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""UROCE_LINK=xdp: as test_packet.py, by AF_XDP at both ends or at one. Where it cannot be had the packet link serves,
and a warning says why; the program on the interface ends with its process, however that ends."""
import json, os, resource, signal, subprocess, sys

import test_packet as by_packet
from test_packet import await_listener, by_udp, check, failed, frames, outputs, pair, place, start, without_a_socket

BOTH = ("xdp", "xdp")


def why_not(where):
    """Why this machine has no AF_XDP for us; None: it has."""
    said = subprocess.run(where.server.enter + [os.path.join(by_packet.BUILD, "uroce"), "devices"], text=True,
                          stdout=subprocess.PIPE, env=dict(os.environ, UROCE_LINK="xdp")).stdout
    line = next((line for line in said.splitlines() if line.startswith("Between hosts: ")), said)
    return None if "(UROCE_LINK=xdp)" in line else line


def has_program(namespace):
    out = subprocess.run(namespace.enter + ["ip", "-j", "-d", "link", "show", "v0"], text=True, check=True,
                         stdout=subprocess.PIPE).stdout
    return "xdp" in json.loads(out)[0]


def hold(where):
    """A process that has the server's interface: it waits for rping's client."""
    holder = start(where.server, "xdp", "rping -s -C 20 -v -a " + where.address)
    while holder.poll() is None and not has_program(where.server):
        pass
    while holder.poll() is None and not any(":12B7 " in line for line in open(where.server.proc + "udp")):
        pass  # 4791: it listens
    return holder


def both_families(where):
    for index, family in (0, "IPv4"), (1, "IPv6"):
        for command in "ibv_rc_pingpong -n 500", "ibv_uc_pingpong -n 200", "ibv_ud_pingpong -n 500 -s 1000":
            says = pair(where, BOTH, "%s -g %d" % (command, index), where.address)
            for end in says:
                sent, received = frames(end)
                all_sent, all_received = by_udp(end)
                check("%s: nearly all trains are frames, none comes twice" % family,
                      sent > 50 and received > 50 and all_sent - sent < 30 and all_received - received < 30, end)


def with_another_link_at_the_other_end(where):
    for other in "udp", "packet":
        for links in ("xdp", other), (other, "xdp"):
            for index in 0, 1:
                says = pair(where, links, "ibv_rc_pingpong -n 300 -s 20000 -g %d" % index, where.address)
                check("one end sends and takes frames", frames(says[links.index("xdp")])[0] > 50, "\n".join(says))
    pair(where, ("udp", "xdp"), "ib_read_bw -x 0 -n 200 -s 65536 -F", where.address)


def perftest_and_connections(where):
    pair(where, BOTH, "ib_write_bw -x 0 -n 300 -s 65536 -F", where.address)
    pair(where, BOTH, "ib_send_lat -x 0 -n 300 -s 64 -F", where.address)
    pair(where, BOTH, "ib_send_bw -x 0 -n 3000 -s 64 -e -F", where.address)


def two_processes_on_one_interface(where):
    """The second one has packet sockets, and its packets pass the program of the first, as all else does: ARP, TCP,
    messages of connection management."""
    holder = hold(where)
    says = pair(where, ("xdp", "udp"), "ibv_rc_pingpong -n 300 -g 0", where.address)
    check("the second process says why it has packet sockets",
          says[0].count("UROCE_LINK=xdp: Device or resource busy; using packet") == 1 and
          "packet link: of these" in says[0] and frames(says[0])[1] > 50, "\n".join(says))
    client = start(where.client, "xdp", "rping -c -C 20 -v -a " + where.address)
    says = outputs(holder, client)
    check("the first one is still served, by rdma_cm", not client.returncode and "rdma-ping-19" in says[1] and
          "xdp link: of these" in says[0], "\n".join(says))


def ended_by_a_signal(where):
    holder = hold(where)
    check("the program is there", has_program(where.server), "")
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    while has_program(where.server):  # the kernel takes it away a little later
        pass
    print("ok - the program ends with a process that is killed")


def without_a_privilege(where):
    for gone, used in (("net_admin", "sys_admin", "bpf"), "packet"), (("net_raw",), "udp"):
        wrap = ("setpriv", "--bounding-set=" + ",".join("-" + c for c in gone),
                "--inh-caps=" + ",".join("-" + c for c in gone), "--")
        says = pair(where, BOTH, "ibv_rc_pingpong -n 100 -g 0", where.address, wrap)
        for end in says:
            check("it says so once, and %s serves" % used,
                  end.count("UROCE_LINK=xdp: Operation not permitted; using " + used) == 1 and "xdp link:" not in end and
                  ("packet link:" in end) == (used == "packet"), end)


def frames_that_are_too_long():
    where = place.veth(9000)
    try:
        says = pair(where, BOTH, "ibv_rc_pingpong -n 100 -g 0", where.address)
        check("an MTU of 9000 is the packet link's", all("UROCE_LINK=xdp: Message too long; using packet" in end and
                                                         frames(end)[0] > 20 for end in says), "\n".join(says))
    finally:
        where.close()


# ETHTOOL_SCHANNELS by SIOCETHTOOL: so many rx and tx queues of v0
SET_QUEUES = """
import array, fcntl, socket, struct, sys
n = int(sys.argv[1])
channels = array.array("I", [0x3d, 0, 0, 0, 0, n, n, 0, 0])
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP", b"v0", channels.buffer_info()[0]))
"""


def several_rx_queues():
    """Each has memory and sockets; which of them a frame takes the sender's processor decides."""
    where = place.veth(1500)
    try:
        for end in where.server, where.client:
            if subprocess.run(end.enter + [sys.executable, "-c", SET_QUEUES, "2"], stderr=subprocess.DEVNULL).returncode:
                print("ok - several rx queues # SKIP this veth has one")
                return
        for index in 0, 1:
            says = pair(where, BOTH, "ibv_rc_pingpong -n 500 -s 20000 -g %d" % index, where.address)
            check("by two rx queues", all(frames(end)[1] > 50 for end in says), "\n".join(says))
        pair(where, BOTH, "ib_send_bw -x 0 -n 3000 -s 64 -q 4 -F", where.address)
    finally:
        where.close()


def loopback(where):
    one = place.udp(where.server)
    says = pair(one, BOTH, "ibv_rc_pingpong -n 100 -g 0 -d " + by_packet.device_of(where, "lo"), "127.0.0.1")
    check("loopback is by udp, without a warning", all("UROCE_LINK=xdp" not in end or "no Ethernet interface" in end
                                                       for end in says), "\n".join(says))


def main():
    reason = place.be_root_somewhere()
    if reason:
        print("1..0 # SKIP", reason)
        return 77
    try:  # kernels before 5.11 count maps as locked memory
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError:
        pass
    where = place.veth(1500)
    try:
        reason = why_not(where)
        if reason:
            print("1..0 # SKIP", reason)
            return 77
        before = without_a_socket(where)
        both_families(where)
        with_another_link_at_the_other_end(where)
        perftest_and_connections(where)
        two_processes_on_one_interface(where)
        late = without_a_socket(where) - before  # what an end still sends when the other has ended
        check("none of these thousands of packets is answered by 'port unreachable', but a few late ones", late < 20, late)
        ended_by_a_signal(where)
        without_a_privilege(where)
        loopback(where)
    finally:
        where.close()
    several_rx_queues()
    frames_that_are_too_long()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
