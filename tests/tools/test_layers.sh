#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The layers are what ARCHITECTURE.md says, and the check finds it if they are not.
cd "$UROCE_SOURCE" || exit
set -e
tools/check-layers ARCHITECTURE.md src/*/*.[ch] src/*/*/*.[ch]

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/base" "$work/src/nowhere"
echo '#include "engine/engine.h"' >"$work/src/base/wrong.c"
echo '#include "base/base.h"' >"$work/src/nowhere/wrong.c"
mkdir -p "$work/src/base/deeper"
cp "$work/src/base/wrong.c" "$work/src/base/deeper"
for file in base base/deeper nowhere; do
	if tools/check-layers ARCHITECTURE.md "$work/src/$file/wrong.c"; then
		echo "check-layers let src/$file/wrong.c pass"
		exit 1
	fi
done
