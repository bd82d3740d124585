#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Memory of a GPU, with a double of the driver whose memory the processor cannot touch (cuda_double.h): each operation by
# the ring and by UDP, and Lab D as two programs. GPU=real: with the driver of this machine, for `make gpu`.
. "$UROCE_SOURCE/tests/tools/tap.sh"
work=$(mktemp -d) || exit
server=
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
doubles=$UROCE_BUILD/tests/gpu
# under a sanitizer one is enough of what takes the same way
kinds="virtual pool managed" hip=on,off
[ -z "$UROCE_QUICK" ] || kinds=virtual hip=on
if [ "$GPU" != real ]; then
	# the double answers ioctl() for its dma-bufs too, so it has to come first, but for a sanitizer's library
	sanitizer=${UROCE_PRELOAD%"${UROCE_PRELOAD##*:}"}
	export LD_LIBRARY_PATH=$doubles
	first=LD_PRELOAD=$sanitizer$doubles/libcuda.so.1
fi

# all_cases NAME: what gpu_me does, by one driver and one link
all_cases() {
	env $first CUDA_DOUBLE_DEVICES=2 uroce run "$doubles/gpu_me" >"$work/me" 2>&1
	grep -c '^ok' "$work/me" >"$work/count"
	! grep -q '^not ok' "$work/me" && [ "$(cat "$work/count")" -ge 18 ]
	result $? "all operations, $1" "$work/me"
}

# two_processes NAME [OPTION...]: each operation between two processes, with these options of uroce run
two_processes() {
	env $first uroce run "${@:2}" "$doubles/gpu_two" >"$work/two" 2>&1
	grep -c '^ok' "$work/two" >"$work/count"
	! grep -q '^not ok' "$work/two" && [ "$(cat "$work/count")" -ge 21 ]
	result $? "two processes, $1" "$work/two"
}

# by_itself: how many WRITEs and READs between two processes took no packet
by_itself() {
	rm -f "$work"/trace*
	UROCE_TRACE=$work/trace env $first uroce run "$doubles/gpu_two" >"$work/two" 2>&1 &&
		uroce trace --limit 0 --requests "$work"/trace* | grep -c 'without a packet$'
}

env $first uroce doctor >"$work/doctor" 2>&1
grep -q 'GPU memory  *CUDA, [0-9][0-9]* GPU' "$work/doctor"
result $? "doctor tells of the GPU" "$work/doctor"

# a program without a GPU looks for a driver when it has loaded a library, not with each region
if strace -o "$work/none" true 2>/dev/null; then
	uroce run strace -f -e trace=openat -o "$work/opened" "$doubles/gpu_me" host >"$work/me" 2>&1
	grep -o '"[^"]*lib\(cuda\|amdhip64\)[^"]*"' "$work/opened" | sort | uniq -d >"$work/twice"
	[ -s "$work/opened" ] && [ ! -s "$work/twice" ]
	result $? "100 regions of host memory: drivers are looked for once" "$work/twice"
fi

is_hip_here() {
	[ "$GPU" != real ] && [[ $hip = *$local* ]]
}

for local in on off; do
	export UROCE_LOCAL=$local
	all_cases "CUDA, UROCE_LOCAL=$local"
	is_hip_here && GPU_ME=hip first= all_cases "HIP, UROCE_LOCAL=$local"
	two_processes "CUDA, UROCE_LOCAL=$local"
	is_hip_here && GPU_ME=hip first= two_processes "HIP, UROCE_LOCAL=$local"
	port=$((20000 + RANDOM % 10000))
	: >"$work/server"
	env $first uroce run stdbuf -oL "$UROCE_BUILD/qp_across_hosts_gpu" -p $port >"$work/server" 2>&1 &
	server=$!
	await "$work/server" '^GPU' $server
	until env $first uroce run "$UROCE_BUILD/qp_across_hosts_gpu" -p $port 127.0.0.1 >"$work/client" 2>&1; do
		# the server is about to listen
		grep -q 'Connection refused' "$work/client" && kill -0 $server || break
	done
	grep -q 'fetch and add:    it was 41' "$work/client" || kill $server 2>/dev/null # else it may wait for ever
	grep -q 'fetch and add:    it was 41' "$work/client"
	result $? "Lab D, the client, UROCE_LOCAL=$local" "$work/client"
	wait $server 2>/dev/null
	grep -q 'the kernel:       found the same' "$work/server"
	result $? "Lab D, the server, UROCE_LOCAL=$local" "$work/server"
	server=
done

# packets are lost, and all that an adapter may do is done
two_processes "packets lost" --fault-seed 5 --fault 'out REQUEST chance 3%: drop'
two_processes "hostile" --hostile=5

# where the GPU's memory can be opened by the other process, its operations take no packets; where not, they do
export UROCE_LOCAL=on
direct=$(by_itself)
if [ "$GPU" != real ]; then
	export CUDA_DOUBLE_NO_IPC=1
	two_processes "memory that other processes cannot open"
	packets=$(by_itself)
	unset CUDA_DOUBLE_NO_IPC
fi
for kind in $kinds; do
	export GPU_KIND=$kind
	two_processes "CUDA, $kind memory"
	all_cases "CUDA, $kind memory"
	[ $kind != virtual ] || virtual=$(by_itself)
	unset GPU_KIND
done
# some wait for what was posted before, and take the queue
[ "${virtual:-0}" -ge 60 ]
result $? "two processes: $virtual operations without packets on memory in virtual reservations" "$work/two"
[ "${direct:-0}" -ge 60 ] && [ "${packets:-0}" -lt 50 ]
result $? "two processes: $direct operations without packets, ${packets:-0} if the memory cannot be opened" "$work/two"

# all_reduce NAME VARIABLE=...: two ranks by NCCL, each as a host of its own
all_reduce() {
	local name=$1 rank port=$((30000 + RANDOM % 10000))
	shift
	for rank in 1 0; do
		env NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_GIN_TYPE=2 NCCL_DEBUG=INFO "$@" \
			uroce run python3 "$UROCE_SOURCE/tests/gpu/all_reduce.py" $rank $port 4096,4194304,67108864 \
			>"$work/rank$rank" 2>&1 &
	done
	wait
	[ "$(grep -c 'bytes: right' "$work/rank0")" = 3 ]
	result $? "NCCL: $name" "$work/rank0"
	grep 'bytes: right' "$work/rank0" | sed 's/^/# /'
	grep -m 1 -o 'via NET/.*' "$work/rank0" | sed 's/^/# /'
}

if [ "$GPU" = real ]; then
	env $first uroce run "$doubles/gpu_two" bandwidth
	if python3 -c 'import torch; torch.cuda.nccl.version()' 2>/dev/null; then
		all_reduce sockets NCCL_IB_DISABLE=1
		all_reduce "by the adapter" UROCE_DEVICES=lo NCCL_NET_GDR_LEVEL=LOC
		all_reduce "by the adapter, from memory of the GPU" UROCE_DEVICES=lo NCCL_NET_GDR_LEVEL=SYS
	fi
fi
echo "1..$n"
exit $((failed != 0))
