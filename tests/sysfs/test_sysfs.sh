#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs under `uroce run` see the adapter in /sys and /dev, and nothing else changes.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network or_here
export UROCE_DEVICES=lo LC_ALL=C

# shows "what" 'expected output' command...
shows() {
	what=$1 expected=$2
	shift 2
	got=$(uroce run "$@" 2>&1)
	[ "$got" = "$expected" ]
	result $? "$what" - <<<"$got"
}

shows "cat" '4: ACTIVE' cat /sys/class/infiniband/uroce0/ports/1/state
shows "ls" 'uroce0' ls /sys/class/infiniband
shows "ls -l" 'crw-rw-rw- 1 root root 231, 192 Jan  1  1970 /dev/infiniband/uverbs0' ls -l /dev/infiniband/uverbs0
shows "the way out of what only we have" '/sys/class/infiniband/../net/lo' ls -d /sys/class/infiniband/../net/lo
shows "ls -a of it, and ls -l finds nothing missing" '0' sh -c 'ls -la /sys/class/infiniband >/dev/null; echo $?'
shows "ls -R" '/sys/class/infiniband_verbs:
abi_version
uverbs0

/sys/class/infiniband_verbs/uverbs0:
abi_version
dev
ibdev' ls -R /sys/class/infiniband_verbs
shows "find" '/sys/class/infiniband/uroce0/device
/sys/class/infiniband/uroce0/device/driver
/sys/class/infiniband/uroce0/device/local_cpulist
/sys/class/infiniband/uroce0/device/local_cpus
/sys/class/infiniband/uroce0/device/net
/sys/class/infiniband/uroce0/device/net/lo
/sys/class/infiniband/uroce0/device/numa_node' find /sys/class/infiniband/uroce0/device
shows "counters" 'port_rcv_data port_rcv_errors port_rcv_packets port_xmit_data port_xmit_discards port_xmit_packets
duplicate_request local_ack_timeout_err out_of_buffer out_of_sequence packet_seq_err
rcvd_pkts retry_exceeded_err retry_rnr_exceeded_err rnr_nak_retry_err rx_icrc_encapsulated sent_pkts
0' sh -c 'cd /; port=/sys/class/infiniband/uroce0/ports/1
	echo $(ls $port/counters); echo $(ls $port/hw_counters | head -5); echo $(ls $port/hw_counters | tail -6)
	cat $port/counters/port_xmit_data'
shows "the shell's patterns" '/sys/class/infiniband/uroce0/ports/1/rate' \
	sh -c 'echo /sys/class/infiniband/*/ports/*/rate'
shows "test" 'there, not there' sh -c '[ -c /dev/infiniband/uverbs0 ] && echo -n there
	[ -e /dev/infiniband/uverbs1 ] || echo , not there'
shows "readlink -f" '/sys/devices/virtual/net/lo' readlink -f /sys/class/infiniband/uroce0/device/net/lo
shows "python3" "['lo'] 1 True" python3 -c 'import os, pathlib
net = "/sys/class/infiniband/uroce0/device/net"
print(os.listdir(net), open(net + "/lo/ifindex").read().strip(), pathlib.Path("/dev/infiniband/uverbs0").is_char_device())'
# trailing blanks are rdma's own
shows "rdma link" 'link uroce0/1 state ACTIVE physical_state LINK_UP netdev lo ' rdma link
shows "rdma link show -j" "[('uroce0', 'lo', 1)]" python3 -c 'import json, subprocess
links = json.loads(subprocess.check_output(["rdma", "link", "show", "-j"]))
print([(link["ifname"], link["netdev"], link["netdev_index"]) for link in links])'
shows "rdma dev" '1: uroce0: node_type ca fw 0.1.0 node_guid 0200:00ff:fe00:0000 sys_image_guid 0200:00ff:fe00:0000 ' \
	rdma dev show uroce0
shows "rdma system" 'netns exclusive copy-on-fork on' rdma system
shows "rdma link add" 'error: Operation not supported' rdma link add rxe0 type rxe netdev lo
shows "rdma resource" '1: uroce0: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0 ' rdma resource
# -95: EOPNOTSUPP, -22: EINVAL; 2: an error or an acknowledgement; what is for another netlink goes there as ever
shows "netlink by hand" '[(2, -95), (2, -22), (5121, None), (2, 0)] 24 routes, refused' python3 -c 'import socket, struct
def ask(fd, kind, flags, body=b""):
    return fd.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 7, 0) + body)
def kind(fd):
    data = fd.recv(8192)
    got = struct.unpack_from("=IHHIIi", data)
    assert got[0] == len(data) and got[3:5] == (7, fd.getsockname()[0])
    return got[1], got[5] if got[1] == 2 else None
fd = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
ask(fd, (5 << 10) + 3, 5)
ask(fd, (5 << 10) + 1, 5, struct.pack("=HHI", 8, 1, 99))
ask(fd, 2 << 10, 4)  # not a request: no answer
size = ask(fd, (5 << 10) + 1, 5, struct.pack("=HHI", 8, 1, 1))
answers = [kind(fd) for _ in range(4)]
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
ask(route, 18, 0x301, bytes(16))
assert struct.unpack_from("=IH", route.recv(65536))[1] == 16
user = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2)
try:
    user.sendto(bytes(16), (1 << 31, 0))
except ConnectionRefusedError:
    print(answers, size, "routes, refused")'

# a working directory that only we have: the shell's own, its subshells', and that of programs that it executes
shows "cd" '/sys/class/infiniband/uroce0/ports/1 4: ACTIVE' sh -c 'cd /sys/class/infiniband/uroce0/ports/1
	echo $(pwd) $(cat state)'
shows "the shell's patterns there" 'uroce0' sh -c 'cd /sys/class/infiniband; echo *'
shows "ls there" 'uroce0' sh -c 'cd /sys/class/infiniband; ls'
shows "out of it" '/sys/class net' sh -c 'cd /sys/class/infiniband/uroce0; cd ../..; echo $(pwd) $(ls -d net)'
shows "what is beside it" '../net/lo' sh -c 'cd /sys/class/infiniband; ls -d ../net/lo'
shows "python3 there" "['uroce0'] /sys/class/infiniband / False" python3 -c 'import os
os.chdir("/sys/class/infiniband")
names, here = os.listdir("."), os.getcwd()
os.fchdir(os.open("/", os.O_RDONLY))
print(names, here, os.getcwd(), os.path.exists("uroce0"))'
if command -v ibstatus >/dev/null; then
	shows "ibstatus" "Infiniband device 'uroce0' port 1 status:" sh -c 'ibstatus | head -1'
	# management datagrams, which RoCE has none of
	shows "ibaddr" 'GID fe80::7fff:fe00:1 LID start 0x1 end 0x1' --adapter=ib ibaddr
	shows "ibaddr by LID" 'GID fe80::7fff:fe00:1 LID start 0x1 end 0x1' --adapter=ib ibaddr 1
	shows "smpquery" 'Lid:.............................1
LinkState:.......................Active
NeighborMTU:.....................4096
LinkSpeedExtActive:..............53.125 Gbps' --adapter=ib sh -c '
		smpquery portinfo -D 0 | grep -E "^(Lid|LinkState|NeighborMTU|LinkSpeedExtActive):"'
	shows "smpquery of a port that is not here" '255' --adapter=ib sh -c 'smpquery nodeinfo -t 100 7 >/dev/null 2>&1; echo $?'
	shows "ibstat" '1' --adapter=ib sh -c 'ibstat | grep -c "Link layer: InfiniBand"'
	shows "no umad of RoCE" 'uverbs0' ls /dev/infiniband
fi

[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] || echo "# this machine has RDMA devices of its own"
uroce run prog_look && [ $failed = 0 ]
