# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2 datagrams by hand: well-formed ones from the wrong place, and malformed ones of every kind."""
import random
import socket
import struct
import zlib

PORT = 4791
SEND_ONLY, WRITE_ONLY, READ_REQUEST, ACKNOWLEDGE, FETCH_ADD = 0x04, 0x0a, 0x0c, 0x11, 0x14


def icrc(source, target, source_port, bth_on):
    """The CRC-32 of eight bytes of ones, the IPv4, UDP and BTH headers and the rest, with all that may change on
    the way set to ones (IBTA A17.3.3). `bth_on`: from the BTH on, without the ICRC."""
    length = 8 + len(bth_on) + 4
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0xff, 20 + length, 0, 0x4000, 0xff, 17, 0xffff,
                     socket.inet_aton(source), socket.inet_aton(target))
    udp = struct.pack("!HHHH", source_port, PORT, length, 0xffff)
    bth = bth_on[:4] + b"\xff" + bth_on[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + bth))


def packet(opcode, qpn, psn, rest=b"", flags=0, ack=True):
    return struct.pack("!BBHII", opcode, flags, 0xffff, qpn, psn | (ack << 31)) + rest


class Stranger:
    """A socket that is not the peer's: another address, or another port of the same."""

    def __init__(self, source, target, source_port=0):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # As a RoCE sender: no fragments, identification 0 (see the ICRC).
        self.socket.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER = IP_PMTUDISC_DO
        self.socket.bind((source, source_port))
        self.source, self.target = source, target
        self.port = self.socket.getsockname()[1]

    def raw(self, data):
        self.socket.sendto(data, (self.target, PORT))

    def sound(self, bth_on):
        self.raw(bth_on + icrc(self.source, self.target, self.port, bth_on))

    def forge(self, qpn, psn):
        """All that could hurt were it taken for the peer's: data, a NAK, acknowledgements, a request for memory."""
        for near in range(psn, psn + 64):
            near &= 0xffffff
            reth = struct.pack("!QII", 0x1000, 0x1234, 8)
            self.sound(packet(SEND_ONLY, qpn, near, b"forgery!"))
            self.sound(packet(WRITE_ONLY, qpn, near, reth + b"forgery!"))
            self.sound(packet(READ_REQUEST, qpn, near, reth))
            self.sound(packet(FETCH_ADD, qpn, near, struct.pack("!QIQQ", 0x1000, 0x1234, 1, 0)))
            self.sound(packet(ACKNOWLEDGE, qpn, near, struct.pack("!I", 0x1f000000)))
            self.sound(packet(ACKNOWLEDGE, qpn, near, struct.pack("!I", 0x60000000 | near)))  # NAK: sequence
            self.sound(packet(ACKNOWLEDGE, qpn, near, struct.pack("!I", 0x63000000 | near)))  # NAK: operation

    def spoil(self, qpn, psn, seed):
        """Whatever an ill-meant or broken sender may send: each length, each opcode, noise, wrong ICRC. What has a
        right ICRC names no QP that exists or is cut short, so that the peer's address does not matter."""
        dice = random.Random(seed)
        whole = packet(WRITE_ONLY, qpn, psn, struct.pack("!QII", 0x1000, 0x1234, 64) + bytes(64))
        for length in range(len(whole)):
            self.raw(whole[:length])
            if length >= 12:
                self.sound(whole[:length])
        for opcode in range(256):
            self.sound(packet(opcode, qpn, psn, dice.randbytes(dice.randrange(80))))
            self.sound(packet(opcode, dice.randrange(1 << 24), psn, dice.randbytes(dice.randrange(80))))
            self.raw(packet(opcode, qpn, psn, dice.randbytes(dice.randrange(80))))
            self.sound(packet(opcode, qpn, psn, bytes(28), flags=dice.randrange(256)))
        for _ in range(500):
            self.raw(dice.randbytes(dice.randrange(1400)))
