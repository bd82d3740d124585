#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Programs that are linked with libibverbs run on a machine that has none, in the way that README says: under
# `uroce run`, and with the directory of the stand-in library in LD_LIBRARY_PATH. The machine is a mount namespace
# in which rdma-core's libraries have been removed, and a network namespace.
if [ -z "$UROCE_ALONE" ]; then
	set -- -m -n $([ "$(id -u)" = 0 ] || echo -r)
	unshare "$@" true 2>/dev/null || { echo "no namespaces can be made here"; exit 77; }
	UROCE_ALONE=1 exec unshare "$@" "$0"
fi
ip link set lo up
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
libraries=$(dirname "$(ldconfig -p | awk '/libibverbs\.so\.1 /{print $NF; exit}')")
[ -e "$libraries/libibverbs.so.1" ] || { echo "no libibverbs.so.1 to be removed"; exit 77; }
mount -t tmpfs tmpfs "$work" && mkdir "$work/upper" "$work/work" &&
	mount -t overlay -o "lowerdir=$libraries,upperdir=$work/upper,workdir=$work/work" overlay "$libraries" ||
	{ echo "no overlay can be mounted here"; exit 77; }
trap 'cd /; umount -l "$libraries" "$work"; rmdir "$work"' EXIT # busy: umount itself uses it
cd "$libraries" && rm -rf libibverbs* librdmacm* libmlx[45]* libefa* libibumad* || exit
export UROCE_DEVICES=lo
dropin=$UROCE_BUILD/src/dropin
n=0 failed=0

# shows "what" 'pattern of the output' command...
shows() {
	what=$1 pattern=$2
	shift 2
	n=$((n + 1))
	if "$@" >"$work/out" 2>&1 && grep -q -e "$pattern" "$work/out"; then
		echo "ok $n - $what"
	else
		failed=1
		echo "not ok $n - $what"
		sed 's/^/#   /' "$work/out"
	fi
}

# The first is the control: without this the others would prove nothing.
shows "libibverbs is gone" 'libibverbs.so.1: cannot open' sh -c 'ibv_devices 2>&1; [ $? = 127 ]'
shows "uroce run ibv_devices" 'uroce0' uroce run ibv_devices
shows "uroce run ibv_devinfo, which needs a private function" 'GID\[ *0\].*RoCE v2' uroce run ibv_devinfo -v
shows "a connection, through librdmacm" 'rdma_client: end 0' uroce run sh -c \
	'rdma_server & until rdma_client -s 127.0.0.1; do kill -0 $! || exit; done; wait'
shows "RC, every operation" 'fetch and add: .*now it is 42' uroce run qp_single_host
case $UROCE_PRELOAD in
*:*) ;; # a sanitizer's library has to be preloaded
*) shows "without the command" 'uroce0' env LD_LIBRARY_PATH="$dropin" ibv_devices ;;
esac
[ $failed = 0 ]
