#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Eight adapters on one machine, of addresses of loopback: what programs see of them, and what follows when the port of
# one is taken down and up. In a network namespace of its own: the state of ports is that of a namespace.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network
own_folder
export UROCE_DEVICES='127.0.0.1..127.0.0.8=mlx5_0@0..1'
sys=/sys/class/infiniband

await_both() {
	await both "$1"
	cat client server
}

# For commands that say nothing.
saying_so() {
	"$@" && echo
}

# start FILE command...: in the background, its output in the file
start() {
	file=$1
	shift
	: >"$file"
	"$@" >>"$file" 2>&1 &
	pids="$pids $!"
}

# pair CLIENT-DEVICE SERVER-DEVICE SERVER-ADDRESS MESSAGES: a ping-pong, the output of both ends in the file `both`. Where the
# path fails, the end that has sent something says so, and the other may wait for it for ever.
pair() {
	: >both
	start server uroce run stdbuf -oL ibv_rc_pingpong -d "$2" -g 0 -n "$4" -p "$port"
	server=$!
	until ss -Hltn "sport = :$port" | grep -q .; do kill -0 $server || break; done
	start client uroce run stdbuf -oL ibv_rc_pingpong -d "$1" -g 0 -n "$4" -p "$port" "$3"
	client=$!
	await client 'remote address'
	start both tail -q -n +1 -f server client
	port=$((port + 1))
}
port=18600

check "eight devices of eight addresses" 0 '^mlx5_7 .*127.0.0.8 ' uroce devices
check "... each with a GUID of its own" 0 '^8$' sh -c "uroce run ibv_devices | grep -c ':\|00000' | grep . ; true"
check "the second four are on NUMA node 1" 0 '^0 0 0 0 1 1 1 1 $' \
	sh -c "for i in 0 1 2 3 4 5 6 7; do uroce run cat $sys/mlx5_\$i/device/numa_node; done | tr '\n' ' '"
check "a PCI path for each" 0 '^/sys/devices/pcif0ce:00/f0ce:06:00.0$' uroce run readlink -f $sys/mlx5_5/device
check "... that leads back to the device" 0 '^mlx5_5$' uroce run ls /sys/devices/pcif0ce:00/f0ce:06:00.0/infiniband
check "an InfiniBand port that is not there: the line to type" 255 \
	'uroce run --adapter=ib ibv_devinfo -d mlx5_ib0 -i 1$' env UROCE_DEVICES=lo uroce run ibv_devinfo -d mlx5_ib0 -i 1
check "... which works" 0 'hca_id:.*mlx5_ib0' env UROCE_DEVICES=lo uroce run --adapter=ib ibv_devinfo -d mlx5_ib0 -i 1
check "... but not where UROCE_DEVICES has names" 255 'UROCE_DEVICES=lo=mlx5_ib0' uroce run ibv_devinfo -d mlx5_ib0
check "a device that is not there: the setting that makes it" 255 'UROCE_DEVICES=lo=mlx5_9' \
	uroce run ibv_devinfo -d mlx5_9

# A rule that names a device: only its port goes down.
start events uroce run --fault 'call ibv_alloc_pd nth 9: refuse EIO; time device mlx5_3 after 1ms: port-down' stdbuf -oL \
	ibv_asyncwatch -d mlx5_3
check "a fault of one port: its event" 0 '^$' saying_so await events IBV_EVENT_PORT_ERR
kill "$!"
start events uroce run --fault 'time device mlx5_3 after 1ms: port-down; time device mlx5_4 after 2ms: port-down' stdbuf -oL \
	ibv_asyncwatch -d mlx5_4
check "... and that of another, at its time" 0 '^$' saying_so await events IBV_EVENT_PORT_ERR
kill "$!"
# pair_with RULE MESSAGES
pair_with() {
	export UROCE_FAULT=$1
	pair mlx5_1 mlx5_2 127.0.0.3 "$2"
	unset UROCE_FAULT
}
pair_with 'post device mlx5_3 nth 1: port-down' 500
check "a rule of another device hits nothing" 0 'post device mlx5_3.*: fired 0 times of 0' await_both 'fired [0-9]* times'
pair_with 'post device mlx5_1 nth 50: port-down' 10000000
check "one of this device does" 0 'transport retry counter exceeded' await_both 'Failed status'

check "link lists them" 0 '^mlx5_3  *up$' uroce link
check "link of no device" 1 'there is no device mlx5_9' uroce link down mlx5_9
check "link of no state" 2 'is neither down nor up' uroce link sideways mlx5_3
start events uroce run stdbuf -oL ibv_asyncwatch -d mlx5_3
await events 'event FD'
check "link down" 0 '^$' saying_so uroce link down mlx5_3
check "... a running program has the event" 0 '^$' saying_so await events IBV_EVENT_PORT_ERR
check "... sysfs" 0 '^1: DOWN$' uroce run cat $sys/mlx5_3/ports/1/state
check "... ibv_devinfo" 0 'state:.*PORT_DOWN (1)' uroce run ibv_devinfo -d mlx5_3
check "... and no other" 0 'state:.*PORT_ACTIVE (4)' uroce run ibv_devinfo -d mlx5_4
check "link up" 0 '^$' saying_so uroce link up mlx5_3
check "... a running program has the event" 0 '^$' saying_so await events IBV_EVENT_PORT_ACTIVE
check "... sysfs" 0 '^4: ACTIVE$' uroce run cat $sys/mlx5_3/ports/1/state
check "... and nothing is left of it" 0 '^0$' sh -c 'uroce link down mlx5_3; uroce link up mlx5_3
	uroce link | grep -c down; true'

for local in on off; do
	export UROCE_LOCAL=$local
	for device in mlx5_1 mlx5_2; do
		pair mlx5_1 mlx5_2 127.0.0.3 1000000000
		uroce link down $device
		check "shared memory $local, the port of $device down: the path fails" 0 '^$' \
			saying_so await both 'transport retry counter exceeded'
		uroce link up $device
		kill $server $client 2>/dev/null
		wait $server $client
	done
	pair mlx5_1 mlx5_2 127.0.0.3 100
	wait $server $client
	check "shared memory $local, up again: it works" 0 '100 iters' cat client
	pair mlx5_1 mlx5_0 127.0.0.1 100 # the only address that the interface lists
	await both 'iters\|exceeded'
	kill $server $client 2>/dev/null
	wait $server $client
	check "shared memory $local, with the first device: it works" 1 '^0$' grep -c exceeded both
done
unset UROCE_LOCAL
finish
