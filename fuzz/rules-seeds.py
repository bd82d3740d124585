#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/rules: one frame for each way through the reader."""
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "rules")
MACS = bytes.fromhex("020000000009020000000008")
PORTS = bytes.fromhex("12342328004200000000")


def ipv4(protocol, fragment="4000", words=5):
    return (bytes([0x40 | words]) + bytes.fromhex("10005600") + b"\0" + bytes.fromhex(fragment) +
            bytes([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]) + bytes(4 * (words - 5)))


def ipv6(following):
    return bytes.fromhex("61212345000a") + bytes([following, 64]) + bytes(range(32))


SEEDS = {
    "udp4": MACS + b"\x08\0" + ipv4(17) + PORTS,
    "tcp4-options": MACS + b"\x08\0" + ipv4(6, words=7) + PORTS,
    "fragment": MACS + b"\x08\0" + ipv4(17, "2005") + PORTS,
    "vlan-tcp6": MACS + b"\x81\0\x20\x07\x86\xdd" + ipv6(6) + PORTS,
    "udp6": MACS + b"\x86\xdd" + ipv6(17) + PORTS,
    "arp": b"\xff" * 6 + MACS[6:] + b"\x08\x06" + bytes(28),
    "short": MACS,
}
os.makedirs(HERE, exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
