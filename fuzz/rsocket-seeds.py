#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/rsocket: each kind of message, whole and cut, and each reason to refuse it."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "rsocket")


def connect(version=1, flags=2, targets=2):
    return struct.pack(">BBH3xBQIIQII", version, flags, 384, 128, 0x7f0000001000, 0x1234, targets, 0x7f0000002000, 0x1234, 65536)


def udp(version=4, op=0, tag=0x55555555):
    length = 16 if version == 4 else 28
    return struct.pack(">IBBBxI", tag, version, op, length, 0x12) + bytes(range(length - 12))


def header(version=4):
    length = 8 if version == 4 else 24
    return struct.pack(">BBH", version, length, 4711) + bytes(range(length - 4))


SEEDS = {
    "connect": b"\0" + connect(),
    "connect-big-endian": b"\0" + connect(flags=3),
    "connect-no-iomaps": b"\0" + connect(flags=0),
    "connect-version": b"\0" + connect(version=2),
    "connect-no-targets": b"\0" + connect(targets=0),
    "connect-short": b"\0" + connect()[:39],
    "udp-4": b"\1" + udp() + b"data",
    "udp-6": b"\1" + udp(6) + b"data",
    "udp-control": b"\1" + udp(op=7),
    "udp-op": b"\1" + udp(op=4),
    "udp-tag": b"\1" + udp(tag=1),
    "udp-6-short": b"\1" + udp(6)[:20],
    "header-4": b"\2" + header() + b"data",
    "header-6": b"\2" + header(6) + b"data",
    "header-6-short": b"\2" + header(6)[:10],
    "header-5": b"\2" + header(5),
    "empty": b"\2",
}

os.makedirs(HERE, exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
