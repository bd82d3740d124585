#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/trace: files of base/trace_file.h with a record of each point, a SEND from post to poll, a ring that has
wrapped, names of another version, tables of what is pending, and files that are none."""
import os
import re
import struct

FUZZ = os.path.dirname(os.path.abspath(__file__))
HERE = os.path.join(FUZZ, "corpus", "trace")
with open(os.path.join(FUZZ, "..", "src", "base", "trace.def")) as f:
    POINTS = [[w.strip() for w in row.split(",")] for row in re.findall(r"^POINT\((.*?)\)", f.read(), re.M)]
with open(os.path.join(FUZZ, "..", "src", "base", "trace_file.h")) as f:
    MAGIC = {word: int(number, 16) for word, number in re.findall(r"#define (\w+)_MAGIC\s+0x(\w+)ull", f.read())}
NUMBER = {row[0]: n for n, row in enumerate(POINTS)}
QP, REQUEST = 120, 128  # bytes of a slot


def name(text):
    return text.encode().ljust(16, b"\0")


def record(point, *arguments, time=100):
    return struct.pack("=QII6Q", time, NUMBER.get(point, point), 7, *(arguments + 6 * (0,))[:6])


def trace(*records, boot=b"boot", ring=8, points=POINTS, written=None, rings=1, pending=True, shift=0, magic=MAGIC["TRACE"]):
    names = b"".join(name(word) for row in points for word in row)
    tables = b""
    at = 232 + len(names) + 63 & ~63
    if pending:
        qps, requests = at + 64, at + 64 + 8 * (8 + QP)
        tables = struct.pack("=QIIIIIIII", MAGIC["PENDING"], 8, 8, qps, requests, QP, REQUEST, 0, 1).ljust(64, b"\0")
        tables += struct.pack("=8Q", 1 << 32 | 5, *7 * (0,)) + b"\x05" * QP * 8
        tables += struct.pack("=8Q", 5 << 32 | 1, *7 * (0,)) + b"\x06" * REQUEST * 8
    header = ((at + len(tables) + 4095) & ~4095) + shift
    head = struct.pack("=Q8IQQ", magic, header, 64 + ring * 64, 64, ring, 64, 112, len(points), 1, 1, 2)
    head += b"host".ljust(64, b"\0") + boot.ljust(40, b"\0") + b"p" * 64 + struct.pack("=II", rings, 0)
    body = b"".join(records).ljust(ring * 64, b"\0")
    written = len(records) if written is None else written
    return (head + names).ljust(at, b"\0") + tables.ljust(header - at, b"\0") + \
        (struct.pack("=IIQ", 7, 0, written).ljust(64, b"\0") + body) * rings


SEND = [record("connect", 5, 6, 10, 20, 3), record("post_send", 5, 1, 99, 2, 64, 2, time=101), record("pickup", 5, 1, 10, 1, 2),
        record("build", 5, 6, 10, 4, 64, 1, time=102), record("send", 6, 10, 4, 64, 80, 0, time=103),
        record("receive", 5, 10, 17, 0, time=104), record("acknowledged", 5, 10, 0x1f, 1, time=105),
        record("complete", 5, 1, 99, 0, 2, 64, time=106), record("poll", 5, 99, 0, 0, time=107)]

# A request of QP 5, as its requester and its responder (QP 6) see it: packets of PSN 100 on.
CONNECTED = [record("connect", 5, 6, 100, 500, 1024)], [record("connect", 6, 5, 500, 100, 1024)]


def sent_packet(psn, opcode, at=110):
    return [record("build", 5, 6, psn, opcode, 64, 3, time=at), record("send", 6, psn, opcode, 64, 80, 0, time=at + 1)], \
        [record("receive", 6, psn, opcode, 64, time=at + 5), record("match", 6, 7, 99, psn, time=at + 6),
         record("execute", 6, psn, opcode, 0, 64, time=at + 7)]


def answer(psn, syndrome=0x1f, at=130):
    return [record("receive", 5, psn, 17, time=at + 5), record("acknowledged", 5, psn, syndrome, 1, 17, time=at + 6)], \
        [record("acknowledge", 6, 5, psn, syndrome, 1, time=at), record("send", 5, psn, 17, 0, 20, time=at + 1)]


def response(psn, opcode, at=130):
    return [record("receive", 5, psn, opcode, 64, time=at + 5), record("execute", 5, psn, opcode, 0, 64, time=at + 6)], \
        [record("execute", 6, psn, opcode, 0, 64, time=at), record("build", 6, 5, psn, opcode, 64, time=at + 1),
         record("send", 5, psn, opcode, 64, 80, time=at + 2)]


def posted(opcode, packets=1):
    return [record("post_send", 5, 3, 0x33, opcode, 64 * packets, 2, time=105), record("pickup", 5, 3, 100, packets, opcode, time=106)], \
        [record("post_recv", 6, 7, 99, 0, 4096, time=50)]


def done(opcode, status=0):
    return [record("complete", 5, 3, 0x33, status, opcode, 64, time=160), record("poll", 5, 0x33, status, 0, time=161)], \
        [record("complete_recv", 6, 7, 99, 0, 128, 64, time=150), record("poll", 6, 99, 0, 128, time=151),
         record("qp_state", 6, 3, 6, time=200)]


def both(*parts, boots=(b"boot", b"boot")):
    ends = [[r for part in (CONNECTED, *parts) for r in part[end]] for end in (0, 1)]
    return trace(*ends[0], ring=64, boot=boots[0]) + b"SECOND.." + trace(*ends[1], ring=64, boot=boots[1])


SEND_ONE = posted(2)
SEEDS = {
    "both-send": both(SEND_ONE, sent_packet(100, 4), answer(100), done(2)),
    "both-send-3": both(posted(2, 3), sent_packet(100, 0), sent_packet(101, 1, 112), sent_packet(102, 2, 114), answer(102), done(2)),
    "both-read": both(posted(4, 2), sent_packet(100, 12), response(100, 13), response(101, 15, 140), done(4)),
    "both-atomic": both(posted(6), sent_packet(100, 20), response(100, 18), done(6)),
    "both-rnr": both(SEND_ONE, sent_packet(100, 4), answer(100, 0x21), ([record("retry", 5, 3, 100, 4, 6, time=140)], []),
                     sent_packet(100, 4, 145), answer(100, 0x1f, 155), done(2)),
    "both-nak": both(SEND_ONE, sent_packet(100, 4), ([], [record("drop", 6, 100, 4, 7, time=120)]), answer(100, 0x62), done(2, 10)),
    "both-onesided": both(posted(0), ([record("onesided", 5, 3, 0, 4096, 64, 6, time=120)], []), done(0)),
    "other-boot": both(SEND_ONE, sent_packet(100, 4), answer(100), done(2), boots=(b"a", b"b")),
    "one-way": both(SEND_ONE, sent_packet(100, 4), boots=(b"a", b"b")),
    "no-packet": both(SEND_ONE, boots=(b"a", b"b")),
    "no-second": trace(*SEND[:8]) + b"SECOND..",
    "send": trace(*SEND, ring=16),
    "each": trace(*(record(row[0], 5, 1, 10, 4, 64, 1) for row in POINTS), ring=32),
    "wrapped": trace(*SEND[:8], written=20),
    "rings": trace(*SEND[:8], rings=2),
    "other-names": trace(*SEND[:8], points=[[w[::-1] for w in row] for row in POINTS[:4]] + POINTS[4:]),
    "no-tables": trace(*SEND[:8], pending=False),
    "unknown-point": trace(record(63), record(70000)),
    "cut": trace(*SEND[:8])[:-65],
    "unaligned": trace(*SEND[:8], shift=4),
    "none": trace(magic=0),
    "short": b"UTRACE01",
}

os.makedirs(HERE, exist_ok=True)
for seed_name, seed in SEEDS.items():
    with open(os.path.join(HERE, seed_name), "wb") as f:
        f.write(seed)
