#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""frame-seeds.py FOLDER CAPTURE.pcap... - seeds for fuzz_frame: of each family and opcode that the captures have, the
shortest frame, one file each; and one with IPv4 options, one fragment, one tag."""
import importlib.util
import pathlib
import sys

here = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("packets", here / "packet-seeds.py")
packets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(packets)


def main():
    folder, seeds = pathlib.Path(sys.argv[1]), {}
    for path in sys.argv[2:]:
        for frame in packets.frames(path):
            packet = packets.roce(frame)
            if packet:
                key = "%s-%02x" % ({8: "4", 0x86: "6"}[frame[12]], packet[0])
                if key not in seeds or len(frame) < len(seeds[key]):
                    seeds[key] = frame
    seeds = {k: v for k, v in seeds.items() if k[2:] in ("04", "0a", "11", "64")}
    one = next(v for k, v in seeds.items() if k[0] == "4")
    seeds["options"] = one[:14] + b"\x46" + one[15:34] + bytes(4) + one[34:]
    seeds["fragment"] = one[:20] + b"\x20\x00" + one[22:]
    seeds["tag"] = one[:12] + b"\x81\x00\x00\x05" + one[12:]
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in sorted(seeds.items()):
        (folder / name).write_bytes(frame)
    print(len(seeds), "seeds,", sum(map(len, seeds.values())), "bytes")


if __name__ == "__main__":
    main()
