#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What programs are given compiles for arm64, too, where types have other sizes. `make arm64` also runs it, which takes longer.
cc=aarch64-linux-gnu-gcc
[ -z "$UROCE_QUICK" ] || { echo "once is enough"; exit 77; }
echo '#include <stdio.h>' | $cc -fsyntax-only -x c - 2>/dev/null || { echo "no $cc, or no C library for it"; exit 77; }
cd "$UROCE_SOURCE" || exit
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
# these headers are the same everywhere; the C library's are not
ln -s /usr/include/infiniband /usr/include/rdma "$work/"
printf '%s\n' src/*/*.c | grep -v '^src/tools/' | xargs -P "$(nproc)" -n 8 $cc -std=gnu17 -D_GNU_SOURCE -DUROCE_VERSION='""' -Isrc -Iinclude -I"$work" \
	-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Werror -fsyntax-only
