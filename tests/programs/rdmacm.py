# SPDX-License-Identifier: BSD-2-Clause
"""Programs that connect by rdma_cm: rdmacm-utils, perftest's -R, fio; and those of rdmacm-utils that speak rsockets."""
import tempfile

from case import ALL, BOTH, LO, VETH, Case, RandomFile, each
from process import Failure, Process, Skip, expect, expect_printed, ports


def connected(server, client, wanted, refused=r"[Ee]rror|[Ff]ail|unhandled", stays=False, clients=1, name=None, **row):
    """{a} becomes the server's address, {a6} its IPv6 address, {p} a port. `stays`: the server goes on when its clients
    have gone."""
    def run(place, build):
        if build.memcheck and clients > 1:
            raise Skip("rping's thread reads what its main thread has freed")
        words = {"a": place.address, "a6": place.address6, "p": next(ports)}
        s = Process(build, place.server, server.format(**words))
        s.until_at_roce_port()
        cs = []
        for _ in range(clients):
            cs.append(Process(build, place.client, client.format(**words)))
            if clients > 1:  # rping -P loses one of two requests that come while its main thread sleeps
                cs[-1].until_output("data")
        for c in cs:
            expect(c, wanted, refused=refused)
        if not stays:
            expect(s)
        elif not s.running():
            raise Failure("the server ended")
        expect_printed(s, refused=refused)
    return Case(name or client + (" x %d" % clients if clients > 1 else ""), run, **row)


def measured(command, wanted, **row):
    """perftest: each end is told the port, and the client the address."""
    return connected(command + " -p {p}", command + " -p {p} {a}", wanted, **row)


def fio(verb, **row):
    """fio's engine: who reads is the server, whatever the verb. It asks for no RNR retries, and both ends hang when a receive
    was late for its message: on one host we wait for it, by UDP there are as many receives as messages."""
    common = " --ioengine=rdma --port={p} --bs=64k --size=4m --iodepth=%d"
    few, many = (connected("fio --thread --name=server --rw=read" + common % depth,
                           "fio --thread --name=client --rw=write" + common % 8 + " --hostname={a} --verb=" + verb,
                           r"issued rwts: total=0,64", refused=r"fail|err= [^0]", **row) for depth in (16, 64))
    return Case(few.name, lambda place, build: (few if place.name == "lo" else many).run(place, build), **row)


def stream(command, **row):
    """rstream and riostream, with their options."""
    program, options = command.split(" ", 1)
    case = connected("%s -p {p} %s" % (program, options), "%s -s {a} -p {p} %s" % (program, options), "custom|1m_bw", **row)
    checked = case.run

    def run(place, build):
        if build.sanitizer and "-S 1 " in command:
            raise Skip("rstream sends 16 bytes of a buffer of one")
        checked(place, build)
    case.run = run
    return case


def udpong(options, **row):
    """Few enough that nothing is lost; -T e asks anew each millisecond, and loses its way on a busy machine."""
    return connected("udpong -b {a} -p {p} " + options, "udpong -s {a} -p {p} " + options, "custom", stays=True, **row)


def rcopy(place, build):
    with tempfile.TemporaryDirectory(prefix="uroce-rcopy-") as folder:
        file = RandomFile(folder)
        s = Process(build, place.server, "rcopy")
        s.until_at_roce_port()
        expect(Process(build, place.client, "rcopy %s %s:%s" % (file.name, place.address, file.copy)))
        file.expect_copied()


def mckey(group, receiver, sender, **row):
    """Two receivers in a multicast group, and a sender: each gets all."""
    def run(place, build):
        command = "stdbuf -oL mckey -C 20 -m %s -b " % group
        receivers = [Process(build, place.server, command + receiver) for _ in range(2)]
        for r in receivers:
            r.until_output(r"^receiving data transfers")
        s = Process(build, place.client, command + sender + " -s")
        for p in (s, *receivers):
            expect(p, "return status 0")
    return Case("mckey -m %s" % group, run, waits=True, **row)


TABLE = [
    connected("rping -s -a {a} -p {p} -v -V -C 30", "rping -c -a {a} -p {p} -v -V -C 30", "rdma-ping-29", places=ALL, quick=True),
    connected("rping -s -a {a6} -p {p} -v -V -C 10", "rping -c -a {a6} -p {p} -v -V -C 10", "rdma-ping-9", places=ALL),
    connected("rping -s -q -a {a} -p {p} -C 10", "rping -c -q -a {a} -p {p} -v -C 10", "rdma-ping-9", places=BOTH),
    connected("rping -s -a {a} -p {p} -S 65535 -V -C 10", "rping -c -a {a} -I {a} -p {p} -v -S 65535 -V -C 10", "rdma-ping-9"),
    connected("rping -s -P -a {a} -p {p} -v -V", "stdbuf -oL rping -c -a {a} -p {p} -v -V -C 200", "rdma-ping-199",
              stays=True, clients=8, places=BOTH, quick=True),

    connected("ucmatose -p {p} -c 20 -C 20", "ucmatose -s {a} -p {p} -c 20 -C 20", "return status 0", places=ALL),
    connected("ucmatose -P ib -p {p}", "ucmatose -P ib -s {a} -p {p} -a 14", "return status 0", places=BOTH),
    connected("ucmatose -f name -p {p}", "ucmatose -f name -s localhost -p {p}", "return status 0"),
    connected("ucmatose -f ip -b {a} -p {p} -c 10 -C 5 -S 3000", "ucmatose -f ip -s {a} -p {p} -c 10 -C 5 -S 3000 -t 8",
              "return status 0", places=BOTH),
    connected("ucmatose -b {a6} -p {p} -c 10 -C 5 -m", "ucmatose -s {a6} -p {p} -c 10 -C 5 -m", "return status 0", places=BOTH),

    connected("udaddy", "udaddy -s {a}", "return status 0", places=ALL, quick=True),
    connected("udaddy -b {a} -c 10 -C 5 -S 500", "udaddy -s {a} -c 10 -C 5 -S 500", "return status 0", places=BOTH),
    connected("udaddy -P ipoib -C 3", "udaddy -P ipoib -s {a} -t 8 -C 3", "return status 0"),
    connected("udaddy -p 0x0002", "udaddy -s {a} -p 0x0002", "return status 0", name="udaddy of RDMA_PS_IPOIB"),

    connected("rdma_server", "rdma_client -s {a}", "end 0", places=ALL),
    connected("rdma_xserver -p {p}", "rdma_xclient -p {p} -s {a}", "end 0", places=ALL),
    connected("rdma_xserver -c x -p {p}", "rdma_xclient -c x -p {p} -s {a}", "end 0", places=BOTH),

    connected("cmtime -b {a} -p {p}", "cmtime -s {a} -p {p} -c 1000 -t 3000 -r 2", "disconnect", stays=True),
    connected("cmtime -p {p}", "cmtime -s {a} -p {p} -c 100", "disconnect", stays=True, places=BOTH),

    measured("ib_send_lat -R -n 500", "t_typical", places=ALL),
    measured("ib_send_lat -R -c UD -n 200", "t_typical", places=BOTH),
    measured("ib_read_lat -R -n 200", "t_typical", places=BOTH),
    measured("ib_atomic_lat -R -n 200", "t_typical"),
    measured("ib_write_bw -R -n 500", "65536", places=ALL),
    measured("ib_write_bw -R -q 16 -n 500", "65536"),
    measured("ib_send_bw -R -c UD -n 500", "4096"),
    fio("write", places=BOTH),
    fio("read", places=LO),
    fio("send", places=LO),

    mckey("239.77.0.1", "127.0.0.1 -c 4 -S 500", "127.0.0.1 -c 4 -S 500"),
    mckey("239.77.0.3", "127.0.0.1", "127.0.0.1 -l"),
    mckey("239.77.0.4", "10.77.0.1", "10.77.0.2 -l", places=VETH),
    mckey("239.77.0.2", "10.77.0.1", "10.77.0.2 -o", places=VETH),
    mckey("ff0e::77 -p 0x0002", "fd77::1", "fd77::2", places=VETH),

    # rsockets. -C: some size and count of messages, there and back
    *each(stream, "rstream -T v {-T b,-T n,-T a,-T a -T b} -S 5000 -C 100 -I 3", places=ALL, quick=True),
    *each(stream, "rstream -T v {-T b,-T n,-T a,-T a -T b} -S {1,64} -C 300 -I 3", places=LO),
    *each(stream, "rstream -T v {-T b,-T n,-T a,-T a -T b} -S 1000003 -C 3 -I 3", places=LO),
    stream("rstream -T v -T b -T r -C 10 -I 3", places=LO),
    stream("rstream -T v -T b -B 4096 -S 100000 -C 10", places=LO),
    stream("rstream -T v -T b -i 0 -C 20", places=LO),
    stream("rstream -T b -k 1 -C 20", places=LO),
    *each(stream, "riostream -T v {-T b,-T n,-T a} -S 5000 -C 3 -I 3", places=BOTH, quick=True),
    *each(stream, "riostream -T v {-T b,-T n,-T a} -S {64,100000} -C 3 -I 3", places=BOTH),
    *each(udpong, "{-T b,-T n,-T a} -S 1500 -C 100", places=ALL, quick=True),
    *each(udpong, "{-T b,-T n,-T a} -S {16,2048} -C 100", places=LO),
    Case("rcopy", rcopy, ALL, quick=True),
]
