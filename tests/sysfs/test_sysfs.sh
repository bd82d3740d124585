#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Programs under `uroce run` see the adapter in /sys and /dev, and nothing else changes.
if [ -z "$UROCE_ALONE" ] && unshare -n $([ "$(id -u)" = 0 ] || echo -r) true 2>/dev/null; then
	UROCE_ALONE=1 exec unshare -n $([ "$(id -u)" = 0 ] || echo -r) sh -c 'ip link set lo up; exec "$0"' "$0"
fi
export UROCE_DEVICES=lo LC_ALL=C
n=0 failed=0

# shows "what" 'expected output' command...
shows() {
	what=$1 expected=$2
	shift 2
	n=$((n + 1))
	got=$(uroce run "$@" 2>&1)
	if [ "$got" = "$expected" ]; then
		echo "ok $n - $what"
	else
		failed=1
		echo "not ok $n - $what"
		printf '%s\n' "$got" | sed 's/^/#   /'
	fi
}

shows "cat" '4: ACTIVE' cat /sys/class/infiniband/uroce0/ports/1/state
shows "ls" 'uroce0' ls /sys/class/infiniband
shows "ls -l" 'crw-rw-rw- 1 root root 231, 192 Jan  1  1970 /dev/infiniband/uverbs0' ls -l /dev/infiniband/uverbs0
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

[ -z "$(ls /sys/class/infiniband 2>/dev/null)" ] || echo "# this machine has RDMA devices of its own"
uroce run prog_look && [ $failed = 0 ]
