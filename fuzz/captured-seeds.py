#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/captured: rings of base/capture_file.h with a record of each kind, packets that are cut into several,
records that make no sense."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "captured")
FILL, EVENT, PACKET, ONESIDED = range(4)
WRITE, SEND, READ, COMPARE, ADD = 0, 2, 4, 5, 6  # enum ibv_wr_opcode
V4, V6 = b"\0" * 10 + b"\xff\xff\x7f\0\0\1", b"\xfd" + b"\0" * 14 + b"\1"


def record(kind, body, link=0, inbound=0, size=None):
    body = body.ljust((len(body) + 15) & ~15, b"\0")
    return struct.pack("=IBBBBQ", 16 + len(body) if size is None else size, kind, link, inbound, 0, 1000) + body


def path(address=V4, mtu=1024):
    return address + address + struct.pack("=BBHIII", 0, 64, 0, 0, 0x10203, mtu)


def bth(opcode):
    return struct.pack("!BBHII", opcode, 0x40, 0xffff, 0x010203, 0x80000004)


def packet(headers, payload=b"", length=None, address=V4, **more):
    length = len(payload) if length is None else length
    return record(PACKET, path(address) + struct.pack("=IIII", len(headers), length, len(payload), 0) + headers + payload, **more)


def onesided(opcode, length, payload=b"", mtu=1024, captured=None):
    body = path(mtu=mtu) + struct.pack("=IIIIQQQIIII", 0x30405, 7, 99, 3, 4096, 5, 6, opcode, length,
                                       len(payload) if captured is None else captured, 0)
    return record(ONESIDED, body + payload, link=2)


def ring(*records, written=None):
    body = b"".join(records)
    return struct.pack("=Q", len(body) if written is None else written) + body


RETH = struct.pack("!QII", 4096, 99, 70000)
SEEDS = {
    "event": ring(record(EVENT, struct.pack("=Q6Q", 3, 1, 2, 3, 4, 5, 6))),
    "send": ring(packet(bth(4), b"abcd" * 16), packet(bth(17) + b"\0\0\0\1", inbound=1)),
    "send-v6": ring(packet(bth(4), b"abcd" * 16, address=V6)),
    "send-long": ring(packet(bth(4), b"abcd" * 16, length=70000)),
    "send-imm": ring(packet(bth(5) + b"\0\0\0\7", b"x", length=200000)),
    "write": ring(packet(bth(10) + RETH, b"y" * 64, length=70000)),
    "write-imm": ring(packet(bth(11) + RETH + b"\0\0\0\7", b"y" * 64, length=70000)),
    "read-response": ring(packet(bth(16) + b"\0\0\0\1", b"z" * 32, length=70000, inbound=1)),
    "ud": ring(packet(bth(100) + struct.pack("!II", 0x11111111, 5), b"u" * 32)),
    "ud-long": ring(packet(bth(100) + struct.pack("!II", 0x11111111, 5), b"u" * 32, length=70000)),
    "onesided": ring(onesided(WRITE, 3000, b"w" * 64), onesided(READ, 3000, b"r" * 64), onesided(ADD, 8, b"a" * 8),
                     onesided(COMPARE, 8, b"c" * 8)),
    "onesided-send": ring(onesided(SEND, 8)),
    "onesided-mtu": ring(onesided(WRITE, 3000, mtu=1), onesided(WRITE, 3000, mtu=0)),
    "onesided-captured": ring(onesided(WRITE, 3000, captured=4000), onesided(WRITE, 3000, captured=2900)),
    "fill": ring(record(FILL, b"\0" * 48), packet(bth(4), b"abcd")),
    "later": ring(record(77, b"\0" * 48), packet(bth(4), b"abcd")),
    "link": ring(packet(bth(4), b"abcd", link=200)),
    "short": ring(record(PACKET, b"\0" * 16)),
    "headers": ring(packet(b"")),
    "size": ring(packet(bth(4), b"abcd", size=1 << 20)),
    "beyond": ring(packet(bth(4), b"abcd"), written=1 << 60),
    "odd": ring(packet(bth(4), b"abcd"), written=77),
}

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(seed)
