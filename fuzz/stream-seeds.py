#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/stream: messages of a stream's peer, as fuzz_stream.c takes them: data, credits with and without targets,
control messages, more than was allowed, and completions that fail."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "stream")
DATA, CREDIT, CONTROL = 0, 4, 7
DISCONNECT, SHUTDOWN, RESET = 0, 2, 3
OURS, LATER, RETRY_EXCEEDED, FLUSHED = 1, 2, 12, 5


def message(op, value, length=0, kind=0, status=0):
    return struct.pack(">BBBBI", kind, status, length, 0, op << 29 | value)


def ours(status=0):
    return message(0, 0, kind=OURS, status=status)


def stream(*messages, swap=0):
    order = ">" if swap else "<"
    return bytes([swap]) + (struct.pack(order + "QII", 4096, 99, 32768) + struct.pack(order + "QII", 40960, 99, 32768)) + b"".join(messages)


SEEDS = {
    "data": stream(message(DATA, 1000), message(DATA, 2000, kind=LATER), message(DATA, 500)),
    "much": stream(*[message(DATA, 16384)] * 40, *[ours()] * 8),
    "too-much": stream(message(DATA, 65536), message(DATA, 1 << 28)),
    "credit": stream(message(CREDIT, 16), message(CREDIT, 32, 16), message(CREDIT, 48, 16), message(CREDIT, 64, 16)),
    "credit-swapped": stream(message(CREDIT, 32, 16), message(DATA, 40000), ours(), swap=1),
    "disconnect": stream(message(CONTROL, DISCONNECT), message(DATA, 1)),
    "shutdown": stream(message(CONTROL, SHUTDOWN), message(DATA, 1), ours()),
    "reset": stream(message(CONTROL, RESET), message(DATA, 1)),
    "other-control": stream(message(CONTROL, 99)),
    "other-op": stream(message(3, 99), message(6, 1)),
    "receive-fails": stream(message(DATA, 1, status=FLUSHED), message(DATA, 1, status=FLUSHED)),
    "ours-fails": stream(message(DATA, 40000), message(DATA, 1), ours(RETRY_EXCEEDED), ours(FLUSHED)),
    "ours-fails-at-end": stream(message(DATA, 40000), message(CONTROL, SHUTDOWN), ours(FLUSHED)),
}

os.makedirs(HERE, exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
