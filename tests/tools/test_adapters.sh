#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Devices like other adapters: `ibv_devinfo -v` has each line that tests/tools/adapters/ has of a published output, the
# adapter refuses what it refuses, and programs work. In a network namespace of its own.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network
own_folder

# pair READY command...: as a server, until its output has READY; then as a client to 127.0.0.1. The client's output is
# in the file `client`.
pair() {
	ready=$1
	shift
	: >server
	uroce run stdbuf -oL "$@" >server 2>&1 &
	server=$!
	pids="$pids $server"
	await server "$ready"
	uroce run "$@" 127.0.0.1 >client 2>&1
	status=$?
	wait $server
	return $status
}

for file in "$UROCE_SOURCE"/tests/tools/adapters/*; do
	name=${file##*/}
	uroce run --adapter "$name" ibv_devinfo -v 2>&1 | sed 's/^[[:space:]]*//; s/:[[:space:]]\+/: /' >out
	grep -v -x -F -f out "$file" >lacks
	[ -s out ] && ! [ -s lacks ]
	result $? "$name: ibv_devinfo -v as published" lacks
	export UROCE_ADAPTER=$name
	device=$(uroce run ibv_devinfo -l | sed -n '2s/[[:space:]]//gp')
	kind=rc
	case $name in # which have no RC
	efa) kind=ud ;;
	apple) kind=uc ;;
	esac
	pair 'local address' ibv_${kind}_pingpong -d "$device" -g 0
	result $? "$name: a ping-pong on $device" client
	unset UROCE_ADAPTER
done

for name in cx4lx cx5 cx6lx cx7 mlx4; do
	UROCE_ADAPTER=$name "$UROCE_BUILD/verbs-test_misuse" >out 2>&1
	result $? "$name: refuses what it must" out
done
for name in bnxt_re cx7 ionic irdma mlx4 rxe siw; do
	UROCE_ADAPTER=$name "$UROCE_BUILD/verbs-test_lacking" >out 2>&1
	result $? "$name: refuses the requests that it lacks" out
done
for name in apple irdma; do
	UROCE_ADAPTER=$name "$UROCE_BUILD/verbs-test_numbers" >out 2>&1
	result $? "$name: as many queue pairs and regions as it has" out
done
UROCE_ADAPTER=apple pair 'Waiting for client' ib_send_bw -c UC -d rdma_en0 -x 0 -n 100 -s 65536
result $? "apple: ib_send_bw by UC" client
uroce run -a apple ibv_rc_pingpong -g 0 >out 2>&1
grep -q "Couldn't create QP" out
result $? "apple has no RC" out
uroce run -a efa ibv_rc_pingpong -g 0 >out 2>&1
grep -q "Couldn't create QP" out
result $? "efa has no RC" out
uroce run -a irdma ibv_uc_pingpong -g 0 >out 2>&1
grep -q "Couldn't create QP" out
result $? "irdma has no UC" out
uroce run -a siw ibv_ud_pingpong -g 0 >out 2>&1
grep -q "Couldn't create QP" out
result $? "siw has no UD" out
uroce run -a rxe ibv_xsrq_pingpong -g 0 >out 2>&1
grep -q "Couldn't create" out
result $? "rxe has no XRC" out
uroce run -a irdma ibv_srq_pingpong -g 0 >out 2>&1
grep -q "Couldn't create SRQ" out
result $? "irdma has no SRQ" out
uroce run -a irdma ibv_rc_pingpong -g 0 -r 8128 >out 2>&1
grep -q "Couldn't create QP" out
result $? "irdma has no queue of 8128" out

export UROCE_ADAPTER=ib
pair 'local address' ibv_rc_pingpong -d mlx5_ib0 -i 1 -s 1024
grep -q 'local address:  LID 0x0001, QPN 0x[0-9a-f]*, PSN 0x[0-9a-f]*, GID ::$' client && grep -q '1000 iters' client
result $? "InfiniBand: ibv_rc_pingpong by LID" client
for program in ib_send_bw ib_write_lat ib_read_bw; do
	pair 'Waiting for client' $program -d mlx5_ib0 -n 100
	grep -q 'Link type.*: IB' client && grep -q 'local address: LID 0x01' client
	result $? "InfiniBand: $program without -x" client
done
uroce run ibv_devinfo -v >out 2>&1
grep -q 'link_layer:.*InfiniBand' out && grep -q 'sm_lid:.*1$' out && grep -q 'GID\[  0\]:.*fe80:.*7f:*ff' out
result $? "InfiniBand: ibv_devinfo" out
if command -v ibstat >/dev/null; then
	uroce run ibstat >out 2>&1
	grep -q "CA 'mlx5_ib0'" out && grep -q 'Base lid: 1$' out && grep -q 'Link layer: InfiniBand' out
	result $? "InfiniBand: ibstat" out
fi
UROCE_ADAPTER=mlx4,ib uroce run ibv_devinfo >out 2>&1
grep -q mlx4_0 out && grep -q 'link_layer:.*InfiniBand' out
result $? "mlx4 on InfiniBand" out
finish
