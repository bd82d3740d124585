#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs that load libibverbs and librdmacm by themselves get uroce's: under `uroce run`, and with liburoce.so.1 alone.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network or_here
export UROCE_DEVICES=lo
uroce run prog_load && LD_PRELOAD=$UROCE_PRELOAD prog_load
