#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs that are linked with libibverbs run on a machine that has none, in the way that README says: under
# `uroce run`, and with the directory of the stand-in library in LD_LIBRARY_PATH. The machine is a mount namespace
# in which rdma-core's libraries have been removed, and a network namespace.
. "$UROCE_SOURCE/tests/tools/tap.sh"
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

# The first is the control: without this the others would prove nothing.
check "libibverbs is gone" 0 'libibverbs.so.1: cannot open' sh -c 'ibv_devices 2>&1; [ $? = 127 ]'
check "uroce run ibv_devices" 0 'uroce0' uroce run ibv_devices
check "uroce run ibv_devinfo, which needs a private function" 0 'GID\[ *0\].*RoCE v2' uroce run ibv_devinfo -v
check "a connection, through librdmacm" 0 'rdma_client: end 0' uroce run sh -c \
	'rdma_server & until rdma_client -s 127.0.0.1; do kill -0 $! || exit; done; wait'
check "RC, every operation" 0 'fetch and add: .*now it is 42' uroce run qp_single_host
case $UROCE_PRELOAD in
*:*) ;; # a sanitizer's library has to be preloaded
*) check "without the command" 0 'uroce0' env LD_LIBRARY_PATH="$dropin" ibv_devices ;;
esac
[ $failed = 0 ]
