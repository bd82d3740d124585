#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Programs that load libibverbs and librdmacm by themselves get uroce's: under `uroce run`, and with liburoce.so.1 alone.
if [ -z "$UROCE_ALONE" ] && unshare -n $([ "$(id -u)" = 0 ] || echo -r) true 2>/dev/null; then
	UROCE_ALONE=1 exec unshare -n $([ "$(id -u)" = 0 ] || echo -r) sh -c 'ip link set lo up; exec "$0"' "$0"
fi
export UROCE_DEVICES=lo
uroce run prog_load && LD_PRELOAD=$UROCE_PRELOAD prog_load
