#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""packet-seeds.py FOLDER CAPTURE.pcap... - seeds for fuzz_packet: of each opcode and pad that the captures have, the
shortest packet, from the BTH to before the ICRC, one file each."""
import pathlib
import struct
import sys


def frames(path):
    data = pathlib.Path(path).read_bytes()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack("<I", data[at + 8:at + 12])[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def roce(frame):
    kind, ip = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and ip[9] == 17:
        udp = ip[4 * (ip[0] & 15):]
    elif kind == b"\x86\xdd" and ip[6] == 17:
        udp = ip[40:]
    else:
        return None
    port, length = struct.unpack("!2xHH", udp[:6])
    return udp[8:length - 4] if port == 4791 else None


def main():
    folder, seeds = pathlib.Path(sys.argv[1]), {}
    for path in sys.argv[2:]:
        for packet in filter(None, map(roce, frames(path))):
            key = packet[0], packet[1] >> 4 & 3
            if key not in seeds or len(packet) < len(seeds[key]):
                seeds[key] = packet
    folder.mkdir(parents=True, exist_ok=True)
    for (opcode, pad), packet in sorted(seeds.items()):
        (folder / f"{opcode:02x}-{pad}").write_bytes(packet)
    print(len(seeds), "seeds,", sum(map(len, seeds.values())), "bytes")


if __name__ == "__main__":
    main()
