#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce run --pcap` and `uroce pcap`: unmodified programs are captured by UDP, by shared memory and one-sided. This
reads the files itself, and recomputes each ICRC by IBTA's rule with zlib's CRC; tshark, if it is installed, has to
dissect each packet as RoCE. In a network namespace of its own, as it uses port 4791."""
import collections, os, shutil, signal, struct, subprocess, sys, zlib

import alone

NEEDED = ("ibv_rc_pingpong", "ib_write_lat", "ib_read_lat", "ib_atomic_lat", "ss")
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST = 0, 1, 2, 4, 6, 7, 8
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, ACK, ATOMIC_ACK, FETCH_ADD = 12, 13, 14, 15, 17, 18, 20
RESPONSES = (READ_FIRST, READ_MIDDLE, READ_LAST, 16, ACK, ATOMIC_ACK)

PAIR = """$0 "$@" >server.out 2>&1 &
server=$!
until ss -Hltn 'sport = :18515' | grep -q . || ! kill -0 $server; do :; done
$0 "$@" 127.0.0.1 >client.out 2>&1 && wait $server || { cat server.out client.out; exit 1; }"""


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def packets_of(path):
    """(frame, original length, comment, inbound) of each packet; each interface is declared before it is used."""
    with open(path, "rb") as f:
        data = f.read()
    at, interfaces, packets = 0, 0, []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        check("a block ends with its length", struct.unpack_from("<I", data, at + length - 4)[0] == length, at)
        interfaces += kind == 1
        if kind == 6:
            number, _, _, captured, original = struct.unpack_from("<IIIII", data, at + 8)
            check("its interface is declared", number < interfaces, number)
            frame, option = data[at + 28:at + 28 + captured], at + 28 + (captured + 3 & ~3)
            comment, inbound = "", False
            while option < at + length - 4:
                code, size = struct.unpack_from("<HH", data, option)
                value = data[option + 4:option + 4 + size]
                if code == 1:
                    comment = value.decode()
                elif code == 2:
                    inbound = value[0] & 3 == 1
                option += 4 + (size + 3 & ~3)
            packets.append((frame, original, comment, inbound))
        at += length
    return packets


def icrc_is_right(frame):
    """IBTA 7.8.1, annex A17: what routers may change counts as ones, before it 64 more of them."""
    masked, v4 = bytearray(frame[14:-4]), frame[12:14] == b"\x08\x00"
    if v4:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
        udp = 20
    else:
        masked[0] |= 0x0f
        masked[1] = masked[2] = masked[3] = masked[7] = 0xff
        udp = 40
    masked[udp + 6] = masked[udp + 7] = 0xff
    masked[udp + 8 + 4] = 0xff
    return zlib.crc32(b"\xff" * 8 + masked) == struct.unpack("<I", frame[-4:])[0]


def opcode(frame):
    return frame[14 + (20 if frame[12:14] == b"\x08\x00" else 40) + 8]


def capture(environment, program, *arguments, options=()):
    env = dict(os.environ, **environment)
    r = subprocess.run(["uroce", "run", "--pcap", "a.pcapng", *options, "sh", "-c", PAIR, program, *arguments], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    check(program, r.returncode == 0, r.stdout, r.stderr)
    check("nothing was dropped", "dropped" not in r.stderr, r.stderr)
    packets = packets_of("a.pcapng")
    check("it tells how many", " %u packets of " % len(packets) in r.stderr, len(packets), r.stderr)
    return packets


def check_whole(packets):
    for frame, original, comment, _ in packets:
        check("nothing is cut", len(frame) == original, comment)
        check("the ICRC is right", icrc_is_right(frame), comment)
        check("a comment names the process", "(process " in comment, comment)
    if shutil.which("tshark"):
        out = subprocess.run(["tshark", "-r", "a.pcapng", "-T", "fields", "-e", "infiniband.bth.opcode"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout
        check("tshark sees the same opcodes", [int(line) for line in out.split("\n")[:-1]] ==
              [opcode(p[0]) for p in packets])


def count(packets, *want):
    """`want`: pairs of an opcode and how often."""
    got = collections.Counter(opcode(p[0]) for p in packets)
    for code, times in want:
        check("opcode %u: %u times" % (code, times), got[code] == times, dict(got))


def initiated(packets):
    """Of operations that may be one-sided, or not yet: what their initiator sees, the requests that leave it and the
    responses that arrive. If they were packets, their target saw these as well."""
    return [p for p in packets if p[3] == (opcode(p[0]) in RESPONSES)]


def test_sends():
    # each packet leaves one process and arrives at the other: 2 * 10 messages, seen twice
    packets = capture({}, "ibv_rc_pingpong", "-g0", "-n10", "-s500")
    check_whole(packets)
    count(packets, (SEND_ONLY, 40))
    sent = [p for p in packets if opcode(p[0]) == SEND_ONLY and not p[3]]
    check("comments name the request", all("SEND of 500 bytes, wr_id 0x2, work request" in p[2] for p in sent), sent[0][2])
    check("and the way", all(p[2].endswith("by shared memory") for p in packets))
    packets = capture({}, "ibv_rc_pingpong", "-g0", "-n10", "-s300000")
    check_whole(packets)
    payload = sum(len(p[0]) - 58 for p in packets if opcode(p[0]) in (SEND_FIRST, SEND_MIDDLE, SEND_LAST))
    check("long ones are there as a whole, twice", payload == 2 * 20 * 300000, payload)
    packets = capture({"UROCE_LOCAL": "off"}, "ibv_rc_pingpong", "-g0", "-n10", "-s5000", "-m1024")
    check_whole(packets)
    # a busy machine may send some again
    check("by UDP", all(p[2].endswith("by UDP") for p in packets))
    check("in packets of the MTU", len([p for p in packets if opcode(p[0]) == SEND_MIDDLE and not p[3]]) >= 20 * 3)


def test_onesided():
    mtu = 1024
    of = (1 << 20) // mtu
    packets = capture({}, "ib_read_lat", "-x0", "-n5", "-s1048576", "-m%u" % mtu)
    check_whole(packets)
    count(initiated(packets), (READ_REQUEST, 5), (READ_FIRST, 5), (READ_MIDDLE, 5 * (of - 2)), (READ_LAST, 5))
    packets = capture({}, "ib_write_lat", "-x0", "-n5", "-s1048576", "-m%u" % mtu)
    check_whole(packets)
    # both ends write
    count(initiated(packets), (WRITE_FIRST, 10), (WRITE_MIDDLE, 10 * (of - 2)), (WRITE_LAST, 10))
    first = [p for p in packets if opcode(p[0]) == WRITE_FIRST][0]
    check("RETH: 1 MiB", struct.unpack_from(">I", first[0], 14 + 28 + 12 + 12)[0] == 1 << 20)
    check("its comment", "WRITE of 1048576 bytes" in first[2] and "no packet was sent" in first[2], first[2])
    packets = capture({}, "ib_atomic_lat", "-x0", "-n5", "-AFETCH_AND_ADD")
    check_whole(packets)
    count(initiated(packets), (FETCH_ADD, 5), (ATOMIC_ACK, 5))


def test_snap():
    packets = capture({}, "ibv_rc_pingpong", "-g0", "-n10", "-s500", options=["-S", "128"])
    check("cut at 128 bytes", all(len(p[0]) == min(128, p[1]) for p in packets))
    count(packets, (SEND_ONLY, 40))


def test_status():
    for script, status in (("exit 7", 7), ("kill -KILL $$", 137)):
        r = subprocess.run(["uroce", "run", "-p", "a.pcapng", "sh", "-c", script], stderr=subprocess.DEVNULL)
        check(script, r.returncode == status, r.returncode)


def test_live():
    server = subprocess.Popen(["uroce", "run", "rping", "-s", "-a", "127.0.0.1", "-P"], stdout=subprocess.DEVNULL)
    try:
        until_connected(server)
        live = subprocess.Popen(["uroce", "pcap", "-w", "live.pcapng", str(server.pid)], stderr=subprocess.PIPE,
                                universal_newlines=True)
        while not any("uroce-capture" in line for line in open("/proc/%d/maps" % server.pid)):
            check("the capture is there", live.poll() is None)
        subprocess.run(["uroce", "run", "rping", "-c", "-a", "127.0.0.1", "-C", "5"], check=True)
        live.send_signal(signal.SIGINT)
        said = live.communicate()[1]
        check("uroce pcap", live.returncode == 0 and " of 1 process captured" in said, said)
        packets = packets_of("live.pcapng")
        check("rping's READs and WRITEs, by the server", {READ_REQUEST, 10} <= {opcode(p[0]) for p in packets},
              collections.Counter(opcode(p[0]) for p in packets))
        while any("uroce-capture" in line for line in open("/proc/%d/maps" % server.pid)):
            check("rping is there still", server.poll() is None)
    finally:
        server.kill()
        server.wait()


def until_connected(process):
    while "uroce/control/%d/" % process.pid not in open("/proc/net/unix").read():
        check("it is there", process.poll() is None)


def test_files_that_cannot_be_written():
    """The capture ends at once, says so, and a program that it has started goes on."""
    for options in (["run", "-p", "/dev/full"], ["pcap", "-w", "/dev/full", "--"]):
        r = subprocess.run(["uroce", *options, "sh", "-c", PAIR, "ibv_rc_pingpong", "-g0", "-n1000"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        check("the programs end well", r.returncode == 0, r.stdout, r.stderr)
        check("it says so, once", r.stderr.count("/dev/full: No space left on device: the capture ends here") == 1 and
              "captured" not in r.stderr, r.stderr)
    os.mkfifo("fifo")
    reader = subprocess.Popen(["head", "-c", "1000", "fifo"], stdout=subprocess.DEVNULL)
    r = subprocess.run(["uroce", "run", "-p", "fifo", "sh", "-c", PAIR, "ibv_rc_pingpong", "-g0", "-n1000"],
                       stderr=subprocess.PIPE, universal_newlines=True)
    check("the reader has ended", (reader.wait(), r.returncode) == (0, 0) and "fifo: Broken pipe" in r.stderr, r.stderr)
    server = subprocess.Popen(["uroce", "run", "ib_write_lat", "-x0", *alone.ENDLESS], stdout=subprocess.DEVNULL)
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)
    client = subprocess.Popen(["uroce", "run", "ib_write_lat", "-x0", *alone.ENDLESS, "127.0.0.1"], stdout=subprocess.DEVNULL)
    try:
        until_connected(client)
        r = subprocess.run(["uroce", "pcap", "-w", "/dev/full", str(client.pid)], stderr=subprocess.PIPE,
                           universal_newlines=True)
        check("a live capture ends", r.returncode == 1 and "No space left on device" in r.stderr, r.stderr)
        r = subprocess.run('uroce pcap -w - %d | head -c 1000 >piped' % client.pid, shell=True, stderr=subprocess.PIPE)
        check("so does one whose reader ends", b"-: Broken pipe: the capture ends here" in r.stderr and
              os.path.getsize("piped") == 1000, r.stderr)
        shutil.copy("a.pcapng", "kept.pcapng")
        for words, status in (([str(client.pid), str(os.getpid())], 1), ([str(client.pid), "x"], 2)):
            r = subprocess.run(["uroce", "pcap", "-w", "kept.pcapng", *words], stderr=subprocess.DEVNULL)
            check("a wrong process id overwrites nothing", r.returncode == status and
                  os.path.getsize("kept.pcapng") == os.path.getsize("a.pcapng"), words, r.returncode)
    finally:
        for p in server, client:
            p.kill()
            p.wait()


def test_a_program_into_a_ring_of_files():
    """What `uroce pcap` can choose, from the start of a program; its own output is not among the packets."""
    command = ["uroce", "pcap", "-w", "ring.pcapng", "-C1", "-W2", "--", "sh", "-c", PAIR, "ibv_rc_pingpong", "-g0",
               "-n500", "-s4000"]
    check("it ends as the program", subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0)
    kept = sorted(f for f in os.listdir(".") if f.startswith("ring.pcapng"))
    check("two files of many", len(kept) == 2 and "ring.pcapng.0" not in kept, kept)
    check("each can be read", all(packets_of(f) for f in kept))
    with open("out.pcapng", "wb") as f:
        r = subprocess.run(["uroce", "pcap", "-w", "-", "-a", "127.0.0.2", "--", "sh", "-c", PAIR + "; echo done",
                            "ibv_rc_pingpong", "-g0", "-n10"], stdout=f, stderr=subprocess.PIPE)
    check("none with that address", packets_of("out.pcapng") == [] and b"done" in r.stderr, r.stderr)


# A process that joins a capture and writes what it likes: a link that is none, and a length beyond the ring.
BROKEN = r"""
import array, ctypes, fcntl, os, socket, struct, sys
bytes_ = 4096 + 65536
ring = os.memfd_create("broken", os.MFD_ALLOW_SEALING)
record = struct.pack("=IBBBBQ", 96, 2, 200, 0, 0, 0) + struct.pack("=16s16s12xIIIII", b"", b"", 1024, 12, 4, 4, 0) + b"\x04" * 16
if sys.argv[1] == "length":
    record = struct.pack("=IBBBBQ", 0xfffffff0, 2, 0, 0, 0, 0)
os.pwrite(ring, struct.pack("=QII48xQ", 0x3130504143454355, 65536, 0, 65536) .ljust(4096, b"\0") + record.ljust(65536, b"\0"), 0)
fcntl.fcntl(ring, 1033, 0x6)  # F_ADD_SEALS: shrink, grow
to = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
to.connect("\0" + os.environ["UROCE_PCAP"])
bell = ctypes.CDLL(None).eventfd(1, os.O_NONBLOCK)
if sys.argv[1] == "pipe":
    bell = os.pipe()[0]
to.sendmsg([struct.pack("=QII16s", 0x3130504143454355, 1, bytes_, b"bro\xffken")],
           [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [ring, bell]))])
assert to.recv(1) == (b"" if sys.argv[1] == "pipe" else b"\0")
"""


def test_broken():
    """A broken process costs its own packets, not those of another one."""
    with open("broken.py", "w") as f:
        f.write(BROKEN)
    for kind in ("link", "length", "pipe"):
        script = "python3 broken.py %s || exit 1\n%s" % (kind, PAIR)
        r = subprocess.run(["uroce", "run", "-p", "b.pcapng", "sh", "-c", script, "ibv_rc_pingpong", "-g0", "-n10", "-s500"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)
        check("the others end well", r.returncode == 0, r.stderr)
        check("the broken one is named", kind == "pipe" or "(bro?ken) wrote an invalid record" in r.stderr, r.stderr)
        count(packets_of("b.pcapng"), (SEND_ONLY, 40))


if __name__ == "__main__":
    alone.run(NEEDED, test_sends, test_onesided, test_snap, test_status, test_live, test_broken,
              test_files_that_cannot_be_written, test_a_program_into_a_ring_of_files)
