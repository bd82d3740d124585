#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce stat`: what it says of two programs that run agrees, end with end and form with form. In a network namespace of
its own, as it uses port 4791."""
import fcntl, json, os, pty, re, signal, struct, subprocess, sys, termios, time

import alone

# with a sanitizer 8,192 are too slow for their own retries
MANY = 512 if os.environ.get("UROCE_QUICK") else 8192
NEEDED = ("ib_send_bw", "ibv_srq_pingpong", "rdma", "rping", "ss")


started = []


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        end(*started)
        sys.exit(1)


def run(*command, status=0):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    check(" ".join(command), r.returncode == status, r.returncode, r.stdout, r.stderr)
    return r.stdout + r.stderr


def stat(*pids):
    return json.loads(run("uroce", "stat", "--json", *map(str, pids)))


def start(*command, **environment):
    started.append(subprocess.Popen(["uroce", "run", *command], env=dict(os.environ, **environment),
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    return started[-1]


def end(*processes):
    for p in processes:
        p.kill()
        p.wait()


def until(process, condition):
    """Asks again until that holds of what the process tells."""
    while True:
        check("it runs", process.poll() is None)
        r = subprocess.run(["uroce", "stat", "--json", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if r.returncode == 0:
            told = json.loads(r.stdout.decode())[0]
            if condition(told):
                return told


def pair(*more, **environment):
    server = start("ib_send_bw", "-x0", *alone.ENDLESS, "-s1024", *more, **environment)
    while not run("ss", "-Hltn", "sport = :18515"):
        check("the server listens", server.poll() is None)
    return server, start("ib_send_bw", "-x0", *alone.ENDLESS, "-s1024", *more, "127.0.0.1", **environment)


def test_both_ends_agree():
    server, client = pair()
    c = until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 1000)["qps"][0]
    s = until(server, lambda t: t["qps"] and t["qps"][0]["received"] >= c["sent"])["qps"][0]
    check("each knows the other's QPN", (c["qpn"], c["remote_qpn"]) == (s["remote_qpn"], s["qpn"]), c, s)
    check("and process", c["peer_pid"] == server.pid, c["peer_pid"], server.pid)
    check("type and states", (c["type"], c["state"], s["state"]) == ("RC", "RTS", "RTR"), c, s)
    check("lanes", c["lane"] in ("ring", "memory"), c["lane"])
    check("no more is open than fits", c["send_open"] <= c["send_depth"], c)
    check("no more is posted than fits", s["recv_posted"] <= s["recv_depth"], s)
    check("nothing went wrong", c["timeouts"] == c["retries_exceeded"] == 0, c)
    again = stat(client.pid)[0]["qps"][0]
    check("it goes on", again["sent"] >= c["sent"], again)
    both = {p["pid"]: p for p in stat()}
    check("without process ids, all are told of", set(both) == {server.pid, client.pid}, list(both))
    check("CQs", len(both[client.pid]["cqs"]) >= 1 and both[client.pid]["cqs"][0]["queues"] >= 1, both[client.pid]["cqs"])
    check("regions", sum(r["bytes"] for r in both[server.pid]["regions"]) >= 1024, both[server.pid]["regions"])
    test_forms(client, c)
    end(client, server)
    check("after their end there is nothing", stat() == [])


def test_forms(client, c):
    table = run("uroce", "stat", str(client.pid))
    check("the table has the QP", re.search(r"^0x%06x RC   RTS  " % c["qpn"], table, re.M), table)
    check("80 columns", all(len(line) <= 80 for line in (table + run("uroce", "stat", "-a")).splitlines()), table)
    text = run("uroce", "stat", "--prometheus", str(client.pid))
    seen = set()
    for line in text.splitlines():
        m = re.match(r'(?:# (?:HELP|TYPE) \w+ .+|(\w+\{\w+="[^"]*"(?:,\w+="[^"]*")*\}) \d+)$', line)
        check("Prometheus's syntax", m, line)
        check("each sample once", m[1] is None or m[1] not in seen, line)
        seen.add(m[1])
    check("the QP is there", 'uroce_qp_sent_total{pid="%d",program="ib_send_bw"' % client.pid in text, text)
    check("node_exporter's names", "node_infiniband_port_packets_transmitted_total{" in text, text)


def test_bytes():
    server, client = pair(UROCE_COUNT="bytes")
    told = until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 1000)
    q, s = told["qps"][0], stat(server.pid)[0]["qps"][0]
    check("each message has 1024 bytes", told["counts_bytes"] and q["bytes_sent"] == 1024 * q["sent"], told)
    check("as they are received", s["received"] > 0 and s["bytes_received"] == 1024 * s["received"], s)
    check("and nothing comes back", q["bytes_received"] == 0 and s["bytes_sent"] == 0, q, s)
    table = run("uroce", "stat", str(client.pid))
    check("the table", re.search(r"^ +bytes sent [1-9][0-9.]*[kMG]?, received 0$", table, re.M), table)
    text = run("uroce", "stat", "--prometheus", str(client.pid))
    value = int(re.search(r'^uroce_qp_sent_bytes_total\{.*qpn="0x%06x".*\} (\d+)$' % q["qpn"], text, re.M)[1])
    check("Prometheus", value >= q["bytes_sent"] and value % 1024 == 0, value, q)
    later = json.loads(run("uroce", "stat", "--bytes", "0.2", "--json", str(client.pid)))[0]["qps"][0]
    check("of a time, less", 0 < later["bytes_sent"] < 1024 * later["sent"], later)
    check("and it counts on", stat(client.pid)[0]["counts_bytes"])
    end(client, server)


def test_bytes_for_a_time():
    server, client = pair()
    until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 1000)
    check("none are counted", "bytes sent" not in run("uroce", "stat", str(client.pid)))
    check("Prometheus has no numbers that mean nothing", "qp_sent_bytes_total{" not in
          run("uroce", "stat", "--prometheus", str(client.pid)))
    check("they are, for a time", "bytes sent" in run("uroce", "stat", "-b0.3", str(client.pid)))
    until(client, lambda t: not t["counts_bytes"])
    check("and not of that time, later", "bytes sent" not in run("uroce", "stat", str(client.pid)))
    check("no time", "not a number of seconds" in run("uroce", "stat", "-b", "soon", status=2))
    check("Prometheus wants what grows", "UROCE_COUNT" in run("uroce", "stat", "-p", "-b1", status=2))
    end(client, server)


def test_many():
    """Many queue pairs that are at work: all are told of, and the program goes on."""
    many = ("ib_send_bw", "-x0", "-q%d" % MANY, "-n100000", "-s64", "-t2", "-r2")
    server = start(*many)
    while not run("ss", "-Hltn", "sport = :18515"):
        check("the server listens", server.poll() is None)
    client = start(*many, "127.0.0.1")
    told = until(client, lambda t: len(t["qps"]) == MANY and sum(q["sent"] for q in t["qps"]) > MANY)
    began = time.monotonic()
    table = run("uroce", "stat", str(client.pid))
    print("# uroce stat of %d queue pairs: %.3f s" % (MANY, time.monotonic() - began))
    in_table = {int(qpn, 16) for qpn in re.findall(r"^(0x\w{6}) RC   RTS ", table, re.M)}
    check("each is there once", in_table == {q["qpn"] for q in told["qps"]} and len(in_table) == MANY, len(in_table))
    again = {q["qpn"]: q for q in stat(client.pid)[0]["qps"]}
    check("no number goes back", all(again[q["qpn"]]["sent"] >= q["sent"] for q in told["qps"]))
    until(client, lambda t: sum(q["sent"] for q in t["qps"]) > sum(q["sent"] for q in again.values()))
    end(client, server)


def screen(fd, pattern):
    """What `uroce top` writes, until that is in it."""
    text = ""
    while not re.search(pattern, text):
        try:
            more = os.read(fd, 4096).decode()
        except OSError:
            more = ""
        check("uroce top shows '%s'" % pattern, more, text)
        text += more
    return text


def test_top():
    server, client = pair()
    qpn = "0x%06x" % until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 1000)["qps"][0]["qpn"]
    lines = run("uroce", "top", "-d0.2", "-n2", str(client.pid), str(server.pid)).splitlines()
    rows = [line.split() for line in lines if line.split()[2:3] == [qpn]]
    check("two pictures of it", len(rows) == 2, lines)
    check("it sends", all(row[-4] != "0" for row in rows), rows)
    check("80 columns", all(len(line) <= 80 for line in lines), lines)
    heads = [re.match("shared memory ([^ ]*) requests/s; UDP out ", line) for line in lines]
    check("by shared memory", [head[1] != "0" for head in heads if head][1:] == [True], lines)
    lines = run("uroce", "top", "-b", "-d0.2", "-n2", str(client.pid), str(server.pid)).splitlines()
    rows = [line.split() for line in lines if line.split()[2:3] == [qpn]]
    check("bytes are counted", len(rows) == 2 and rows[1][-3] != "0" and all(len(line) <= 80 for line in lines), lines)
    check("whole names", all(row[1] == "ib_send_bw" for row in rows), rows)
    counted, sent = -1, 0
    while stat(client.pid)[0]["qps"][0]["bytes_sent"] != counted:  # and soon no longer
        q = until(client, lambda t: t["qps"][0]["sent"] != sent)["qps"][0]
        counted, sent = q["bytes_sent"], q["sent"]
    child, fd = pty.fork()
    if not child:
        os.environ.update(TERM="xterm", NO_COLOR="1")
        os.execlp("uroce", "uroce", "top")
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = screen(fd, qpn)
    check("in place", "\033[?1049h" in shown and "\033[H" in shown, shown)
    os.write(fd, b"o")
    screen(fd, "by open")
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    screen(fd, "PEER")
    os.write(fd, b"q")
    screen(fd, r"\033\[\?1049l")
    check("q ends it", os.waitpid(child, 0)[1] == 0)
    end(client, server)


def live(*words):
    return json.loads(run("uroce", "trace", "--seconds", "0.3", "--json", *map(str, words)))


def until_some(ask):
    """Under a sanitizer a pair may do nothing in a short time."""
    while True:
        told = ask()
        if told["requests"]:
            return told


def test_live_traces():
    server, client = pair()
    until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 1000)
    both = until_some(lambda: live(client.pid, server.pid))
    check("both processes", [f["pid"] for f in both["files"]] == [client.pid, server.pid], both["files"])
    check("requests of this time", {r["operation"] for r in both["requests"]} == {"SEND"}, len(both["requests"]))
    check("the two ends are joined", all(r["peer_file"] == 1 for r in both["requests"]), both["requests"][0])
    again = until_some(lambda: live(client.pid))
    check("its local peer, too", [f["pid"] for f in again["files"]] == [client.pid, server.pid], again["files"])
    check("again, without what was before", again["requests"] and
          min(r["wqe"] for r in again["requests"]) > max(r["wqe"] for r in both["requests"]), again["requests"][0])
    tracer = subprocess.Popen(["uroce", "trace", "--live", "--summary", str(client.pid)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
    check("it says how to end it", "Ctrl-C ends it" in tracer.stderr.readline())
    said = run("uroce", "trace", "--live", str(client.pid), status=1)
    check("one at a time", "is traced already" in said, said)
    sent = until(client, lambda t: t["qps"])["qps"][0]["sent"]
    until(client, lambda t: t["qps"][0]["sent"] > sent + 1000)
    tracer.send_signal(signal.SIGINT)
    out = tracer.communicate()[0]
    check("Ctrl-C ends it", tracer.returncode == 0 and "post to poll" in out, out)
    check("no number", "is not a process id" in run("uroce", "trace", "--live", "x", status=2))
    end(client, server)


def test_a_request_from_before():
    """One that goes on while it is traced was not posted in this time, and is told of."""
    server, client = pair(UROCE_LOCAL="off")
    until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 10)
    server.send_signal(signal.SIGSTOP)
    until(client, lambda t: t["qps"][0]["packets_resent"] > 0)
    said = run("uroce", "trace", "--seconds", "2", str(client.pid))
    check("its packets are sent again", re.search(r"[0-9]+ records are of requests that were posted before it\. `uroce explain`",
                                                  " ".join(said.split())), said)
    server.send_signal(signal.SIGCONT)
    end(client, server)


def test_losses_are_counted():
    server, client = pair(UROCE_LOCAL="off", UROCE_FAULT="out SEND every 50: drop")
    told = until(client, lambda t: t["qps"] and t["qps"][0]["packets_resent"] > 5)
    q = told["qps"][0]
    check("by UDP", q["lane"] in ("udp", "queue") and told["devices"][0]["tx_packets"] > 0, told)
    check("the table says so", " packets resent" in run("uroce", "stat", str(client.pid)))
    check("the peer has seen gaps", until(server, lambda t: t["qps"][0]["out_of_sequence"] > 0))
    end(client, server)


def test_ids():
    server = start("rping", "-s", "-a", "127.0.0.1", "-p", "7200", "-P")
    listening = until(server, lambda t: any(i["state"] == "LISTENING" for i in t["ids"]))["ids"][0]
    check("its address", (listening["local"], listening["local_port"]) == ("127.0.0.1", 7200), listening)
    client = start("rping", "-c", "-a", "127.0.0.1", "-p", "7200", "-C1000000000")
    i = until(client, lambda t: any(i.get("connection") == "ESTABLISHED" for i in t["ids"]))["ids"][0]
    check("its port", i["remote_port"] == 7200, i)
    q = until(client, lambda t: any(q["state"] == "RTS" for q in t["qps"]))["qps"][0]
    check("the id names its QP", (i["qpn"], i["remote_qpn"]) == (q["qpn"], q["remote_qpn"]), i, q)
    end(client, server)
    server = start("rping", "-s", "-a", "::1", "-p", "7200")
    until(server, lambda t: any(i["state"] == "LISTENING" for i in t["ids"]))
    client = start("rping", "-c", "-a", "::1", "-p", "7200", "-C1000000000")
    until(client, lambda t: any(i.get("connection") == "ESTABLISHED" for i in t["ids"]))
    table = run("uroce", "stat", str(client.pid), str(client.pid))
    check("of IPv6, in 80 columns", " [::1]:7200 " in table and all(len(line) <= 80 for line in table.splitlines()), table)
    check("a process named twice is there once", table.count("process ") == 1, table)
    end(client, server)


def test_xrc_targets_count():
    command = ("ib_send_bw", "-x0", "-cXRC", *alone.ENDLESS, "-s1024")
    server = start(*command)
    while not run("ss", "-Hltn", "sport = :18515"):
        check("the server listens", server.poll() is None)
    client = start(*command, "127.0.0.1")
    until(server, lambda t: any(q["type"] == "XRCT" and q["received"] > 1000 for q in t["qps"]))
    end(client, server)


def switches(pid):
    """How often each thread has left its processor: one that does not has not run."""
    counts = {}
    for thread in map(int, os.listdir("/proc/%d/task" % pid)):
        with open("/proc/%d/task/%d/status" % (pid, thread)) as f:
            counts[thread] = sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return counts


def test_threads_of_the_program_do_not_run():
    server = start("ibv_srq_pingpong", "-g0", "-q4")
    while not run("ss", "-Hltn", "sport = :18515"):
        check("the server listens", server.poll() is None)
    while open("/proc/%d/stat" % server.pid).read().split()[2] != "S":
        check("it waits for its client", server.poll() is None)
    stat(server.pid)
    before = switches(server.pid)
    for _ in range(20):
        check("its QPs", len(stat(server.pid)[0]["qps"]) == 4)
    after = switches(server.pid)
    check("its own thread sleeps on", before[server.pid] == after[server.pid], before, after)
    check("the helper has answered", sum(after.values()) >= sum(before.values()) + 20, before, after)
    end(server)


def rdma(*words):
    return json.loads(run("uroce", "run", "rdma", "-j", *words))


def test_rdma_says_the_same():
    server, client = pair(UROCE_LOCAL="off", UROCE_FAULT="out SEND every 50: drop")
    told = until(client, lambda t: t["qps"] and t["qps"][0]["packets_resent"] > 5)
    q, other = told["qps"][0], stat(server.pid)[0]
    check("rdma resource", rdma("resource", "show")[0]["qp"] == 2, rdma("resource", "show"))
    qps = {e["lqpn"]: e for e in rdma("resource", "show", "qp")}
    check("its QPs", set(qps) == {q["qpn"], q["remote_qpn"]}, qps)
    e = qps[q["qpn"]]
    check("a QP", (e["ifname"], e["rqpn"], e["type"], e["state"], e["pid"], e["comm"]) ==
          ("uroce0", q["remote_qpn"], "RC", "RTS", client.pid, "ib_send_bw"), e)
    one = run("uroce", "run", "rdma", "resource", "show", "qp", "lqpn", str(q["qpn"]))
    check("one of them by its number", " lqpn %d " % q["qpn"] in one and one.count(" lqpn ") == 1, one)
    cqs = [(e["cqn"], e["cqe"], e["users"], e["pid"]) for e in rdma("resource", "show", "cq")]
    check("CQs", sorted(cqs) == sorted((c["cq"], c["depth"], c["queues"], t["pid"])
                                       for t in stat() for c in t["cqs"]), cqs)
    mrs = sorted((e["rkey"], e["mrlen"]) for e in rdma("resource", "show", "mr"))
    check("regions", mrs == sorted(("%x" % r["key"], r["bytes"]) for t in (told, other) for r in t["regions"]), mrs)
    pds = sorted((e["pdn"], e["users"], e["pid"]) for e in rdma("resource", "show", "pd"))
    check("PDs", pds == sorted((d["pd"], d["objects"], t["pid"]) for t in (told, other) for d in t["pds"]), pds)
    contexts = sorted((e["ctxn"], e["pid"]) for e in rdma("resource", "show", "ctx"))
    check("contexts", contexts == sorted((c["context"], t["pid"]) for t in (told, other) for c in t["contexts"]), contexts)
    of_qp = {e["cntn"]: e for e in rdma("statistic", "qp", "show")}[q["qpn"]]
    check("counters of a QP", of_qp["resent_pkts"] >= q["packets_resent"], of_qp)
    port = rdma("statistic", "show")[0]
    check("counters of the port", port["sent_pkts"] >= told["devices"][0]["tx_packets"] and port["out_of_sequence"] > 0, port)
    sent = run("uroce", "run", "cat", "/sys/class/infiniband/uroce0/ports/1/counters/port_xmit_packets")
    check("and /sys", int(sent) >= port["sent_pkts"], sent, port)
    end(client, server)
    check("after their end there is nothing", rdma("resource", "show")[0]["qp"] == 0)


def test_rdma_on_srqs():
    server = start("ibv_srq_pingpong", "-g0", "-q4")
    told = until(server, lambda t: t["srqs"] and len(t["qps"]) == 4)
    srqs = told["srqs"]
    e = rdma("resource", "show", "srq")
    check("SRQs", [(s["srqn"], s["type"], s["pdn"], s["pid"], s["comm"]) for s in e] ==
          [(s["srq"], "BASIC", s["pd"], server.pid, "ibv_srq_pingpon") for s in srqs], e, srqs)
    check("their QPs", sorted(map(int, e[0]["lqpn"])) == sorted(q["qpn"] for q in told["qps"]), e, told["qps"])
    one = run("uroce", "run", "rdma", "resource", "show", "srq", "srqn", str(srqs[0]["srq"]))
    check("one of them by its number", " srqn %d " % srqs[0]["srq"] in one, one)
    end(server)


def test_rdma_on_ids():
    server = start("rping", "-s", "-a", "127.0.0.1", "-p", "7200")
    until(server, lambda t: t["ids"])
    e = rdma("resource", "show", "cm_id")[0]
    check("a listener", (e["state"], e["ps"], e["src-addr"], e["pid"]) ==
          ("LISTEN", "TCP", "127.0.0.1:7200", server.pid), e)
    end(server)


def test_refusals():
    check("no process", "no process of this user" in run("uroce", "stat", status=1))
    check("one without devices", "has made no connection" in run("uroce", "stat", str(os.getpid()), status=1))
    check("a word", "is not a process id" in run("uroce", "stat", "all", status=2))
    server = start("rping", "-s", "-a", "127.0.0.1")
    until(server, lambda t: t["ids"])
    server.send_signal(signal.SIGSTOP)
    check("it has stopped", os.WIFSTOPPED(os.waitpid(server.pid, os.WUNTRACED)[1]))
    check("one that is stopped", "it is stopped" in run("uroce", "stat", str(server.pid), status=1))
    server.send_signal(signal.SIGCONT)
    end(server)


def test_a_stopped_process_among_others():
    """It is named, and nothing waits for it, however often it was asked: its listener has room for a few only."""
    if os.environ.get("UROCE_QUICK"):
        return # with a sanitizer a busy process answers too late for those that ask: it is named, too
    server, client = pair("-u22") # so that it waits for its peer
    until(client, lambda t: t["qps"] and t["qps"][0]["sent"] > 1000)
    server.send_signal(signal.SIGSTOP)
    check("it has stopped", os.WIFSTOPPED(os.waitpid(server.pid, os.WUNTRACED)[1]))
    for _ in range(10):
        said = run("uroce", "stat", "--json")
        check("the other is there", re.search(r'"pid":\s*%d' % client.pid, said), said)
        check("it is named", re.search(r"process %d: it (is stopped|does not answer)" % server.pid, said), said)
    lines = run("uroce", "top", "-d0.2", "-n1").splitlines()
    check("uroce top says so", "1 process, 1 QP; 1 without an answer" in lines[0], lines)
    check("rdma goes on", [e["pid"] for e in rdma("resource", "show", "qp")] == [client.pid])
    client.send_signal(signal.SIGSTOP)
    check("it has stopped, too", os.WIFSTOPPED(os.waitpid(client.pid, os.WUNTRACED)[1]))
    said = run("uroce", "stat", status=1)
    check("both are named", str(server.pid) in said and str(client.pid) in said and "no process" not in said, said)
    end(client, server)


if __name__ == "__main__":
    alone.run(NEEDED, test_both_ends_agree, test_bytes, test_bytes_for_a_time, test_many, test_top,
              test_live_traces, test_a_request_from_before, test_losses_are_counted, test_ids,
              test_xrc_targets_count, test_rdma_says_the_same, test_rdma_on_srqs,
              test_threads_of_the_program_do_not_run, test_rdma_on_ids, test_refusals,
              test_a_stopped_process_among_others)
