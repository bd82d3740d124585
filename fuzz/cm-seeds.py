#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""cm-seeds.py FOLDER CAPTURE.pcap... - seeds for fuzz_cm: of each capture that has connection management messages, all of
them in order, each as one raw step, with what a user would do in between; and some exchanges without raw messages."""
import importlib.util
import pathlib
import sys

spec = importlib.util.spec_from_file_location("packet_seeds", pathlib.Path(__file__).parent / "packet-seeds.py")
packet_seeds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(packet_seeds)

REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR, CONNECT, TIME, RELEASE, YES, NO = range(16)
EXCHANGES = {
    "passive": [REQ, 0x70, YES, 0, RTU, 0, DREQ, 0, NO, 0, TIME, 20],
    "active": [CONNECT, 0xa0, MRA, 0, TIME, 18, REP, 0, YES, 0, NO, 0, DREP, 0],
    "rejected": [CONNECT, 0xa0, REJ, 0xe0, REQ, 0, NO, 0, REQ, 0],
    "stale": [REQ, 0, YES, 0, RTU, 0, REQ, 0x10, DREP, 0],
    "crossed": [REQ, 0, YES, 0, NO, 0, RTU, 0, NO, 0, DREQ, 0],
    "released": [REQ, 0, YES, 0, RELEASE, 0, RTU, 0, TIME, 31, TIME, 31],
    "sidr": [SIDR_REQ, 0, YES, 0, SIDR_REQ, 0, TIME, 24],
    "lap": [REQ, 0, YES, 0, RTU, 0, LAP, 0, APR, 0],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in map(pathlib.Path, sys.argv[2:]):
        packets = map(packet_seeds.roce, packet_seeds.frames(path))
        mads = [p[20:276] for p in packets if p and p[5:8] == b"\0\0\1"]
        if mads:
            steps = b"".join(b"\xff" + mad + bytes([YES, 0]) for mad in mads)
            (folder / f"{path.parent.name}-{path.stem}").write_bytes(steps)
    for name, steps in EXCHANGES.items():
        (folder / name).write_bytes(bytes(steps))


if __name__ == "__main__":
    main()
