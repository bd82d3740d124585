#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What Debian's programs send, by each lane: tshark dissects every packet as RoCE, each ICRC is right (IBTA's rule, with
zlib's CRC; tshark 4.0 shows it and does not check it), and the packets per opcode are those that the trace of each process
has. In a network namespace of its own, as it uses port 4791."""
import collections, json, os, shutil, struct, subprocess, sys, tempfile

import alone
from test_pcap import ACK, ATOMIC_ACK, check, icrc_is_right, opcode, packets_of

# What keeps programs from the faster lanes. With nothing set, operations are one-sided as soon as they can be.
LANES = {"udp": {"UROCE_LOCAL": "off"}, "ring": {"UROCE_ADOPT": "off"}, "one-sided": {}}
SAYS = {"udp": "by UDP", "ring": "by shared memory", "one-sided": "no packet was sent"}  # in comments
PAIR = "{s} 127.0.0.1"  # the server's command, with an address

# Server, client, path MTU. perftest and the examples of libibverbs listen at TCP port 18515, the others at an rdma_cm_id.
PROGRAMS = [
    ("ibv_rc_pingpong -g0 -n50", PAIR, 1024),
    ("ibv_uc_pingpong -g0 -n50 -r60", PAIR, 1024),
    ("ibv_ud_pingpong -g0 -n50 -r60 -s1024", PAIR, 1024),
    ("ibv_srq_pingpong -g0 -n50 -s3000", PAIR, 1024),
    ("ibv_xsrq_pingpong -g0 -n20", PAIR, 1024),
    ("ib_send_bw -x0 -n50 -s5000 -m1024", PAIR, 1024),
    ("ib_write_lat -x0 -n50 -s10000 -m4096", PAIR, 4096),
    ("ib_read_lat -x0 -n20 -s10000 -m1024", PAIR, 1024),
    ("ib_atomic_bw -x0 -n50", PAIR, 4096),
    ("rping -s -a 127.0.0.1 -C5 -S1000", "rping -c -a 127.0.0.1 -C5 -S1000", 4096),
    ("ucmatose -c2", "ucmatose -c2 -s 127.0.0.1", 4096),
    ("udaddy -c2", "udaddy -c2 -s 127.0.0.1", 4096),
    ("rdma_server", "rdma_client -s 127.0.0.1", 4096),
    ("rstream -S1000 -C20", "rstream -s 127.0.0.1 -S1000 -C20", 4096),
]
NEEDED = sorted({"ss", "tshark"} | {command.split()[0] for row in PROGRAMS for command in row[:2] if command != PAIR})
XRC = 160  # opcodes from here on, and those of manufacturers: tshark 4.0 dissects the BTH only
WRITE, READ, COMPARE_SWAP, FETCH_ADD = 0, 4, 5, 6  # enum ibv_wr_opcode


def traced(path):
    """(point, times, arguments) of each record of a trace file, base/trace_file.h."""
    with open(path, "rb") as f:
        data = f.read()
    _, header, ring, ring_header, records, _, name, points = struct.unpack_from("=Q7I", data)
    rings, lost = struct.unpack_from("=II", data, 224)
    check("nothing was lost", lost == 0, path)
    names = [data[232 + i * name:248 + i * name].split(b"\0")[0].decode() for i in range(points)]
    for r in range(rings):
        at = header + r * ring
        written = struct.unpack_from("=Q", data, at + 8)[0]
        check("nothing was overwritten", written <= records, path)
        for n in range(written):
            point, *arguments = struct.unpack_from("=8xI4x6Q", data, at + ring_header + n * 64)
            yield names[point & 0xffff], 1 + (point >> 16), arguments


def stands_for(kind, length, mtu):
    """The packets of a one-sided operation: opcodes that leave, and those that come."""
    more = (length + mtu - 1) // mtu - 2
    if kind == WRITE:
        return ([10] if more < 0 else [6] + more * [7] + [8]), [ACK]
    if kind == READ:
        return [12], ([16] if more < 0 else [13] + more * [14] + [15])
    return [19 if kind == COMPARE_SWAP else 20], [ATOMIC_ACK]


def expected(path, mtu):
    """How often each opcode left and came."""
    out, came = collections.Counter(), collections.Counter()
    for point, times, a in traced(path):
        if point == "send":
            out[a[2]] += times
        elif point == "receive":
            came[a[2]] += times
        elif point == "onesided":
            there, back = stands_for(a[2], a[4], mtu)
            out.update(there)
            came.update(back)
    return out, came


def start(end, command, environment):
    log = open(end + ".log", "w")
    return subprocess.Popen(["uroce", "run", "-p", end + ".pcapng", "-t", end + ".trace", *command.split()], stdout=log,
                            stderr=log, env=dict(os.environ, **environment))


def listens(by_id):
    if not by_id:
        return subprocess.check_output(["ss", "-Hltn", "sport = :18515"])
    told = subprocess.run(["uroce", "stat", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout or b"[]"
    return any(i["state"] == "LISTENING" for process in json.loads(told.decode()) for i in process["ids"])


def run(lane, server, client):
    for end in "server", "client":
        if os.path.exists(end + ".trace"):
            os.remove(end + ".trace")
    s = start("server", server, LANES[lane])
    while not listens(client != PAIR):
        check("the server listens", s.poll() is None, lane, server, open("server.log").read())
    c = start("client", client.format(s=server), LANES[lane])
    if c.wait():
        s.terminate()  # it may wait for its client
    check("%s: %s" % (lane, server), (c.wait(), s.wait()) == (0, 0), open("server.log").read(), open("client.log").read())


def compare(lane, server, mtu, all_packets):
    """The captures of both ends with their traces; they are kept for tshark, in one file."""
    for end in "server", "client":
        where = "%s: %s: %s" % (lane, server, end)
        packets = packets_of(end + ".pcapng")
        check(where + " nothing was dropped", "dropped" not in open(end + ".log").read())
        for frame, original, comment, _ in packets:
            check(where + ": whole", len(frame) == original, comment)
            check(where + ": the ICRC is right", icrc_is_right(frame), comment, frame.hex())
            check(where + ": the lane", lane != "udp" or SAYS[lane] in comment, comment)
        out, came = (collections.Counter(opcode(p[0]) for p in packets if p[3] == inbound) for inbound in (False, True))
        want = expected(end + ".trace", mtu)
        check(where + ": opcodes are those of the trace", (out, came) == want, out, came, want)
        all_packets += [(where, p) for p in packets]
        with open(end + ".pcapng", "rb") as f, open("all.pcapng", "ab") as everything:
            shutil.copyfileobj(f, everything)


def check_tshark(all_packets):
    """Of sections of pcapng, one behind the other."""
    fields = ("_ws.col.Protocol", "infiniband.bth.opcode", "infiniband.invariant.crc", "_ws.malformed",
              "_ws.expert.severity")
    r = subprocess.run(["tshark", "-r", "all.pcapng", "-T", "fields", *(w for f in fields for w in ("-e", f))],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    rows = [line.split("\t") for line in r.stdout.split("\n")[:-1]]
    check("tshark sees each packet", len(rows) == len(all_packets), len(rows), len(all_packets), r.stderr)
    for row, (where, p) in zip(rows, all_packets):
        icrc = "0x%08x" % struct.unpack(">I", p[0][-4:])[0] if opcode(p[0]) < XRC else ""
        want = ["RRoCE", str(opcode(p[0])), icrc, "", "1048576"]  # no expert has more to say than our comment
        check(where + ": tshark", row == want, row, want, p[2], p[0].hex())


def main():
    if os.environ.get("UROCE_QUICK"):  # some of these programs receive into memory that they send from
        print("once is enough: test_pcap.py runs under sanitizers")
        return 77
    alone.enter(NEEDED)
    all_packets = []
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for lane in LANES:
            for server, client, mtu in PROGRAMS:
                run(lane, server, client)
                compare(lane, server, mtu, all_packets)
            by_lane = sum(SAYS[lane] in p[2] for where, p in all_packets if where.startswith(lane))
            check("programs have used the lane", by_lane > 500, lane, by_lane)
            print("ok", lane, by_lane)
        check_tshark(all_packets)
        print("ok tshark: %d packets of %d programs" % (len(all_packets), len(PROGRAMS)))
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
