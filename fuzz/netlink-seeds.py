#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/netlink: each request that is answered, and some that are not."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "netlink")
NLDEV = 5 << 10
REQUEST, ACK, DUMP = 1, 4, 0x300
GET, NEWLINK, PORT_GET, SYS_GET, RES_GET = 1, 3, 5, 6, 9
INDEX, PORT = 1, 3
LQPN, PDN, CQN, MRN, CTXN, SRQN = 21, 60, 61, 62, 64, 90


def u32(kind, value):
    return struct.pack("=HHI", 8, kind, value)


def ask(command, flags, *attributes, length=None):
    body = b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body) if length is None else length, command, REQUEST | flags, 7, 0) + body


SEEDS = {
    "devices": ask(NLDEV + GET, ACK | DUMP),
    "device": ask(NLDEV + GET, ACK, u32(INDEX, 1)),
    "ports": ask(NLDEV + PORT_GET, DUMP, u32(INDEX, 1)),
    "port": ask(NLDEV + PORT_GET, ACK, u32(INDEX, 1), u32(PORT, 1)),
    "port-2": ask(NLDEV + PORT_GET, ACK, u32(INDEX, 1), u32(PORT, 2)),
    "system": ask(NLDEV + SYS_GET, 0),
    "summary": ask(NLDEV + RES_GET, DUMP, u32(INDEX, 1)),
    "qps": ask(NLDEV + 10, DUMP, u32(INDEX, 1)),
    "qp": ask(NLDEV + 10, ACK, u32(INDEX, 1), u32(LQPN, 0x123456)),
    "no-qp": ask(NLDEV + 10, ACK, u32(INDEX, 1), u32(LQPN, 5)),
    "ids": ask(NLDEV + 11, DUMP, u32(INDEX, 1)),
    "cqs": ask(NLDEV + 12, DUMP, u32(INDEX, 1)),
    "mrs": ask(NLDEV + 13, DUMP, u32(INDEX, 1)),
    "pds": ask(NLDEV + 14, DUMP, u32(INDEX, 1)),
    "contexts": ask(NLDEV + 22, DUMP, u32(INDEX, 1)),
    "context": ask(NLDEV + 22, ACK, u32(INDEX, 1), u32(CTXN, 3)),
    "srqs": ask(NLDEV + 23, DUMP, u32(INDEX, 1)),
    "srq": ask(NLDEV + 23, ACK, u32(INDEX, 1), u32(SRQN, 5)),
    "cq": ask(NLDEV + 12, ACK, u32(INDEX, 1), u32(CQN, 1)),
    "mr": ask(NLDEV + 13, ACK, u32(INDEX, 1), u32(MRN, 0x123456)),
    "pd": ask(NLDEV + 14, ACK, u32(INDEX, 1), u32(PDN, 1)),
    "counters": ask(NLDEV + 17, DUMP, u32(INDEX, 1)),
    "counters-of-qps": ask(NLDEV + 17, DUMP, u32(INDEX, 1), u32(75, 19)),
    "resources": ask(NLDEV + RES_GET, ACK, u32(INDEX, 1)),
    "no-device": ask(NLDEV + GET, ACK, u32(INDEX, 99)),
    "add": ask(NLDEV + NEWLINK, ACK),
    "other-client": ask(2 << 10, ACK),
    "two": ask(NLDEV + GET, ACK, u32(INDEX, 1)) + ask(NLDEV + SYS_GET, ACK),
    "long-attribute": ask(NLDEV + GET, ACK, struct.pack("=HHI", 80, INDEX, 1)),
    "empty-attribute": ask(NLDEV + GET, ACK, struct.pack("=HHI", 0, INDEX, 1)),
    "long": ask(NLDEV + GET, ACK, length=4000),
    "short": ask(NLDEV + GET, ACK, length=8),
    "cut": ask(NLDEV + GET, ACK)[:10],
}
os.makedirs(HERE, exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
