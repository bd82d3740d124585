#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/stat: a record of each kind, one that is short, one that is of no known kind, and files that are none."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "stat")
DEVICE, CONTEXT, PD, CQ, QP, SRQ, MR, ID, LATER = range(9)
ROOM = {DEVICE: 208, CONTEXT: 8, PD: 16, CQ: 24, QP: 184, SRQ: 24, MR: 40, ID: 56, LATER: 8}


def record(kind, size=None, fill=b"\xff"):
    size = ROOM[kind] if size is None else size
    return struct.pack("=II", kind, 8 + size) + fill * size


def stat(*records, magic=0x3130544154534355, length=None):
    body = b"".join(records)
    return struct.pack("=QQQII", magic, 48 + len(body) if length is None else length, 1, 1, 0) + b"p" * 16 + body


SEEDS = {
    "each": stat(*(record(kind) for kind in ROOM)),
    "nothing": stat(),
    "short": stat(record(QP, 8), record(DEVICE, 0)),
    "long": stat(record(CONTEXT, 64)),
    "two": stat(record(QP, fill=b"\x01"), record(QP, fill=b"\x02"), record(QP, fill=b"\x03")),
    "beyond": stat(record(QP))[:-1],
    "no-head": stat(b"\x01\x02\x03"),
    "too-small": stat(struct.pack("=II", QP, 7)),
    "other": stat(magic=0),
}

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(seed)
