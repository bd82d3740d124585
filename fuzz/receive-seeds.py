#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""receive-seeds.py FOLDER CAPTURE.pcap... - seeds for fuzz_receive: of each capture, what the first packets of each
direction look like to the QP that gets them, as records of fuzz_receive.c; one file per capture and QP. And some of
UC, UD, shared receive queues and XRC, of which there are no captures, made here."""
import importlib.util
import pathlib
import sys

TAME_REQUEST, TAME_RESPONSE, TIME, POST = 1 << 5, 2 << 5, 3 << 5, 4 << 5
RESPONSES = range(0x0d, 0x13)
PACKETS = 12 # of one seed
LENGTH = 2000

here = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("packets", here / "packet-seeds.py")
packets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(packets)


def relative(packet, first):
    """PSNs count from the first of their direction, so that the fuzz target can put them where its QP is."""
    psn = int.from_bytes(packet[9:12], "big")
    return packet[:9] + ((psn - first) & 0xffffff).to_bytes(3, "big") + packet[12:]


def records(seen, response, qp):
    out, first = b"", None
    for packet in seen:
        if first is None:
            first = int.from_bytes(packet[9:12], "big")
        packet = relative(packet, first)
        if len(out) + len(packet) > LENGTH or len(packet) > 4 * 255:
            break
        kind = TAME_RESPONSE if response else TAME_REQUEST
        out += bytes([kind | qp, len(packet) // 4]) + packet
    return out + bytes([TIME | qp, 1])


SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM, READ = range(6, 13)
COMPARE, ADD = 0x13, 0x14
RC, UC, UD, XRC = 0, 0x20, 0x60, 0xa0
QUESTION, ANSWER = 0xc0, 0xc1
IMM = bytes([0, 0, 0, 9])


def packet(transport, operation, length=0, psn=0, dma_length=0):
    """As the target wants them: the PSN counts from where the QP is, keys and numbers are filled in."""
    out = bytes([transport + operation, 0, 0xff, 0xff]) + bytes(4) + bytes([0x80, 0, 0, psn])
    if transport == XRC:
        out += bytes(4)
    if transport == UD or transport + operation in (QUESTION, ANSWER):
        out += bytes(8)
    if operation in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM, READ):
        out += bytes(12) + dma_length.to_bytes(4, "big")
    if operation in (COMPARE, ADD):
        out += bytes(28)
    if operation in (SEND_LAST_IMM, SEND_ONLY_IMM, WRITE_LAST_IMM, WRITE_ONLY_IMM) or transport + operation == ANSWER:
        out += IMM
    return out + bytes(range(length))


def given(qp, packets, kind=TAME_REQUEST):
    return b"".join(bytes([kind | qp, len(p) // 4]) + p for p in packets)


def services():
    """(QP of fuzz_receive.c, its transport, path MTU)"""
    for qp, transport, mtu in (8, UC, 256), (12, RC, 256), (13, XRC, 256):
        send = [packet(transport, SEND_FIRST, mtu), packet(transport, SEND_MIDDLE, mtu)]
        write = [packet(transport, WRITE_FIRST, mtu, dma_length=mtu + 8)]
        yield given(qp, send + [packet(transport, SEND_LAST, 4), packet(transport, SEND_ONLY, 8)])
        yield given(qp, send + [packet(transport, SEND_LAST_IMM, 4, psn=1), packet(transport, SEND_ONLY_IMM, 8)])
        yield given(qp, write + [packet(transport, WRITE_LAST, 8), packet(transport, WRITE_ONLY, 8, dma_length=8)])
        yield given(qp, write + [packet(transport, WRITE_LAST_IMM, 8)] + [packet(transport, WRITE_ONLY_IMM)] * 5)
        yield given(qp, send + send + write + send)
    for qp in 12, 13:
        transport = RC if qp == 12 else XRC
        yield given(qp, [packet(transport, READ, dma_length=600), packet(transport, ADD), packet(transport, COMPARE),
                         packet(transport, SEND_ONLY, 8)]) + bytes([TIME | qp, 1])
    for qp in 10, 11:
        yield given(qp, [packet(UD, SEND_ONLY, 64), packet(UD, SEND_ONLY_IMM, 0)] * 3 + [packet(UD, SEND_ONLY, 4)])
    by_ring = 10 | 1 << 4
    yield given(by_ring, [packet(UD, SEND_ONLY, 64), packet(UD, SEND_ONLY_IMM, 8), packet(UD, SEND_ONLY, 252)] * 3)
    for qp in 8, 9, 10, 11:
        posts = bytes([POST | qp, 0, POST | qp, 4, POST | qp, 11]) * 12
        answer = given(qp, [packet(ANSWER, 0)], TAME_RESPONSE)
        yield given(qp, [packet(QUESTION, 0)]) + posts
        yield posts + answer + posts
        yield posts + bytes([TIME | qp, 1]) * 12 + answer + posts
    yield bytes([POST | 15, 1, POST | 15, 2, TIME | 15, 1]) * 4


def main():
    folder, seeds = pathlib.Path(sys.argv[1]), set(services())
    for path in map(pathlib.Path, sys.argv[2:]):
        ours = [p for p in filter(None, map(packets.roce, packets.frames(path))) if p[0] < 0x20 and len(p) % 4 == 0]
        for response in False, True:
            seen = [p for p in ours if (p[0] in RESPONSES) == response][:PACKETS]
            for qp in range(6) if seen else ():
                seeds.add(records(seen, response, qp))
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(sorted(seeds)):
        (folder / f"{number:03d}").write_bytes(seed)
    print(len(seeds), "seeds,", sum(map(len, seeds)), "bytes")


if __name__ == "__main__":
    main()
