#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""receive-seeds.py FOLDER CAPTURE.pcap... - seeds for fuzz_receive: of each capture, what the first packets of each
direction look like to the QP that gets them, as records of fuzz_receive.c; one file per capture and QP."""
import importlib.util
import pathlib
import sys

TAME_REQUEST, TAME_RESPONSE, TIME = 1 << 5, 2 << 5, 3 << 5
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


def main():
    folder, seeds = pathlib.Path(sys.argv[1]), set()
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
