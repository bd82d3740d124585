#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/live: traces whose process goes on: it writes a record, turns its ring, cuts the file, changes sizes in the
header and in the tables of what is pending, each before one of the first reads."""
import os
import runpy
import struct

FUZZ = os.path.dirname(os.path.abspath(__file__))
HERE = os.path.join(FUZZ, "corpus", "live")
T = runpy.run_path(os.path.join(FUZZ, "trace-seeds.py"))
FILE = T["trace"](*T["SEND"][:8])
RING = struct.unpack_from("=I", FILE, 8)[0]
PENDING = FILE.index(struct.pack("=Q", T["MAGIC"]["PENDING"]))
HEADER_BYTES, RING_BYTES, RING_RECORDS, POINTS, WRITTEN = 8, 12, 20, 32, RING + 8


def change(reads, at, data=b""):
    return struct.pack("<BBI", reads, len(data), at) + data


def live(*changes):
    return FILE + b"CHANGES." + b"".join(changes)


SEEDS = {"as-it-is": FILE, "torn": live(b"\0\5")}
for reads in range(6):
    SEEDS["turns-%d" % reads] = live(change(reads, WRITTEN, struct.pack("=Q", 13)))
    SEEDS["written-%d" % reads] = live(change(reads, WRITTEN, b"\xff" * 8))
    SEEDS["ends-%d" % reads] = live(change(reads, 0))
    SEEDS["shorter-%d" % reads] = live(change(reads, RING + 100))
    SEEDS["header-%d" % reads] = live(change(reads, HEADER_BYTES, b"\xff" * 32))
    SEEDS["tables-%d" % reads] = live(change(2 * reads, PENDING + 8, b"\xff" * 24))
    SEEDS["tables-end-%d" % reads] = live(change(2 * reads, PENDING + 200))
    SEEDS["both-%d" % reads] = live(change(reads, WRITTEN, struct.pack("=Q", 7)), change(0, RING + 64, b"\xff" * 128), change(0, 64))

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(seed)
