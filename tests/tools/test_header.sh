#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# uroce.h: a program, in C and in Python, injects faults into itself; where uroce is not, it is told so.
. "$UROCE_SOURCE/tests/tools/tap.sh"
own_network
export UROCE_DEVICES=lo PYTHONPATH=$UROCE_SOURCE/python PYTHONDONTWRITEBYTECODE=1
own_folder

echo '#include "uroce.h"
int main(void) { return uroce_version() != NULL; }' >"$work/small.c"
cp "$work/small.c" "$work/small.cc"
for compiler in gcc clang; do
	command -v $compiler >/dev/null || continue
	check "the header is C99, by $compiler" 0 '' $compiler -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$UROCE_SOURCE/include" \
		-o "$work/small" "$work/small.c" -ldl
	check "... and works" 0 '' "$work/small"
done
for compiler in g++ clang++; do
	command -v $compiler >/dev/null || continue
	check "it is C++, by $compiler" 0 '' $compiler -std=c++11 -Wall -Wextra -Werror -I"$UROCE_SOURCE/include" -fsyntax-only \
		"$work/small.cc"
done
check "a program without uroce" 0 '' env -u LD_PRELOAD prog_header absent
check "a program with it" 0 '' uroce run prog_header
cat >"$work/absent.py" <<'END'
import uroce
assert uroce.version() is None and not uroce.loaded()
try:
    uroce.fault_add("out SEND: drop")
except OSError as e:
    assert "uroce run" in str(e), e
else:
    raise AssertionError("a rule without uroce")
END
cat >"$work/there.py" <<'END'
import ctypes, errno, uroce
assert uroce.version() and uroce.loaded()
try:
    uroce.fault_add("out SND: drop")
except ValueError as e:
    assert "did you mean SEND?" in str(e) and "\n      ^^^" in str(e), str(e)
else:
    raise AssertionError("a wrong rule")
number = uroce.fault_add("call rdma_create_event_channel nth 1: refuse EMFILE")
cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
cm.rdma_create_event_channel.restype = ctypes.c_void_p
assert not cm.rdma_create_event_channel() and ctypes.get_errno() == errno.EMFILE
assert uroce.faults() == [(number, "call rdma_create_event_channel nth 1: refuse EMFILE", 1, 1)]
assert uroce.faults()[0].fired == uroce.fault_fired(number) == 1
uroce.fault_remove(number)
assert uroce.faults() == [] and uroce.fault_fired(number) == 1 and uroce.fault_seed() > 0
for wrong in lambda: uroce.fault_remove(number), lambda: uroce.link_down("nothing0"), lambda: uroce.fault_fired(99):
    try:
        wrong()
    except OSError as e:
        assert e.errno in (errno.ENOENT, errno.ENODEV), e
    else:
        raise AssertionError("no error")
uroce.link_down("uroce0")
assert open("/sys/class/infiniband/uroce0/ports/1/state").read().startswith("1:")
uroce.link_up("uroce0")
assert open("/sys/class/infiniband/uroce0/ports/1/state").read().startswith("4:")
uroce.fault_add("out SEND: drop")
uroce.fault_clear()
assert uroce.faults() == []
END
check "Python without it" 0 '' env -u LD_PRELOAD python3 "$work/absent.py"
check "Python with it" 0 '' uroce run python3 "$work/there.py"
finish
