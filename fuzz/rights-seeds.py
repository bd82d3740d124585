#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/rights: greetings, answers and registries with the right descriptors, with others, with too many and none."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "rights")
GREETING, ANSWER, REGISTRY = range(3)
SEALED, LOOSE, HUGE, DOORBELL, BLOCKING, PIPE, SOCKET, SHORT, NULL = range(9)
OWNERS = 256 * 2 * 2  # bytes, about: groups follow


def message(receiver, descriptors, content=b""):
    return bytes([receiver, len(descriptors), *descriptors]) + content


def greeting(descriptors, fds=None, flags=0, slot=7, size=128, magic=0x75726f6363656f72):
    fds = 0b10001 if fds is None else fds
    return message(GREETING, descriptors, struct.pack("=QIIIIQ", magic, size, slot, flags, fds, 0).ljust(size, b"\0"))


def change(at, data):
    return struct.pack("<I", at)[:3] + bytes([len(data)]) + data


SEEDS = {
    "greeting": greeting([SEALED, DOORBELL]),
    "greeting-all": greeting([SEALED, SEALED, SEALED, SEALED, DOORBELL], 0b11111, 1),
    "greeting-more": greeting([SEALED, DOORBELL, DOORBELL]),
    "greeting-fewer": greeting([SEALED]),
    "greeting-none": greeting([]),
    "greeting-many": greeting([DOORBELL] * 8, 0b11111, 1),
    "greeting-slot": greeting([SEALED, DOORBELL], slot=70000),
    "greeting-short": greeting([SEALED, DOORBELL], size=32),
    "greeting-long": greeting([SEALED, DOORBELL], size=200),
    "greeting-bits": greeting([SEALED, DOORBELL], 0xffffffff),
    "answer": message(ANSWER, [SHORT], b"ok "),
    "answer-none": message(ANSWER, [], b"ok 1"),
    "answer-two": message(ANSWER, [SHORT, SHORT], b"ok "),
    "answer-error": message(ANSWER, [SHORT], b"error why"),
    "answer-long": message(ANSWER, [SHORT], b"ok " + b"x" * 4996),
    "answer-stat": message(ANSWER, [SHORT], struct.pack("=QQQII", 0x3130544154534355, 100, 1, 1, 0)),
    "registry": message(REGISTRY, [SEALED]),
    "registry-two": message(REGISTRY, [SEALED, SEALED]),
    "registry-none": message(REGISTRY, []),
    "registry-ones": message(REGISTRY, [SEALED], b"".join(change(at, b"\xff" * 255) for at in range(0, 8192, 255))),
}
for kind in range(9):
    SEEDS["greeting-kind-%d" % kind] = greeting([kind, kind])
    SEEDS["answer-kind-%d" % kind] = message(ANSWER, [kind], b"ok ")
    SEEDS["registry-kind-%d" % kind] = message(REGISTRY, [kind])
for at in range(OWNERS, 64 * 4200, 8 * 4200 + 96):
    SEEDS["registry-at-%d" % at] = message(REGISTRY, [SEALED], b"".join(
        change(at + n, b"\0" * 10 + b"\xff\xff\x7f\0\0\1" + b"\xff\0\0\0" * 20) for n in range(0, 4200, 96)))

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(seed)
