#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The layers are what ARCHITECTURE.md says, no files and no layers include each other in a circle, and the check finds
# it if they are not so.
cd "$UROCE_SOURCE" || exit
set -e
tools/check-layers ARCHITECTURE.md src/*/*.[ch] src/*/*/*.[ch]

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# refuses WHAT FILE...: check-layers does not let these files pass, and prints WHAT.
refuses() {
	what=$1
	shift
	if (cd "$work" && "$UROCE_SOURCE/tools/check-layers" "${table:-$UROCE_SOURCE/ARCHITECTURE.md}" "$@") >"$work/said"; then
		echo "check-layers let $* pass"
		exit 1
	fi
	grep -qF "$what" "$work/said" || { echo "check-layers does not say '$what' of $*:"; cat "$work/said"; exit 1; }
}

mkdir -p "$work/src/base/deeper" "$work/src/nowhere" "$work/src/wire"
echo '#include "engine/engine.h"' | tee "$work/src/base/wrong.c" >"$work/src/base/deeper/wrong.c"
echo '#include "base/base.h"' >"$work/src/nowhere/wrong.c"
refuses 'base may not include engine' src/base/wrong.c
refuses 'base may not include engine' src/base/deeper/wrong.c
refuses 'layer nowhere is not in the table' src/nowhere/wrong.c

# three files in a circle, through a header and a source; a fourth that leads there is none of it
echo '#include "base/two.h"' >"$work/src/base/one.h"
echo '#include "base/three.h"' >"$work/src/base/two.c"
echo '#include "base/one.h"' | tee "$work/src/base/three.h" >"$work/src/base/four.c"
refuses 'src/base/two includes src/base/three, in a circle' src/base/one.h src/base/two.c src/base/three.h src/base/four.c
if grep -q four "$work/said"; then
	echo "check-layers blames a file that is in no circle"
	exit 1
fi
(cd "$work" && "$UROCE_SOURCE/tools/check-layers" "$UROCE_SOURCE/ARCHITECTURE.md" src/base/one.h src/base/two.c)

# two layers in a circle, which a table allows
printf '    base: wire\n    wire: base\n' >"$work/table"
echo '#include "wire/a.h"' >"$work/src/base/a.c"
echo '#include "base/b.h"' >"$work/src/wire/b.c"
table=$work/table
refuses 'layer base includes wire, in a circle' src/base/a.c src/wire/b.c
