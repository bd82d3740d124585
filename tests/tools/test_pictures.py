#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce trace --html` and `--perfetto`: of a SEND, a READ of 4 packets, an RNR NAK, a lost packet and a one-sided WRITE.
In a network namespace of its own, as it uses port 4791."""
import collections, html.parser, json, os, re, signal, subprocess, sys

import alone

NEEDED = ("ibv_rc_pingpong", "ib_send_bw", "ib_send_lat", "ib_read_lat", "ib_write_lat", "ss")


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def pair(program, *arguments, local="off", client_fault="", server_fault=""):
    def run(end, fault, *more):
        env = dict(os.environ, UROCE_LOCAL=local, UROCE_FAULT=fault)
        return subprocess.Popen(["uroce", "run", "--trace", end, program, "-x0", "-n5", *arguments, *more], env=env,
                                stdout=subprocess.DEVNULL)
    server = run("server", server_fault)
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)
    client = run("client", client_fault, "127.0.0.1")
    check(program, client.wait() == 0 and server.wait() == 0)


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in the order in which they were opened; counts rows by class."""
    SINGLE = ("meta", "line", "tr", "td", "th")

    def __init__(self, text):
        super().__init__()
        self.open, self.rows = [], collections.Counter()
        self.feed(text)
        check("all is closed", self.open == [], self.open)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag not in self.SINGLE:
            self.open.append(tag)
        for word in (a.get("class") or "").split():
            self.rows[word] += 1
        check("nothing is fetched", not {"src", "href"} & set(a), a)

    def handle_endtag(self, tag):
        if tag not in self.SINGLE:
            check("tags nest", self.open and self.open.pop() == tag, tag, self.open)


def page(*options):
    subprocess.run(["uroce", "trace", "--html", "page.html", *options, "client", "server"], check=True)
    with open("page.html") as f:
        text = f.read()
    check("nothing is fetched", not re.search(r"https?:|url\(|@import", text), text)
    check("light and dark", "prefers-color-scheme:dark" in text)
    return text, Page(text).rows


def ladder(*options):
    """The rows of the ladder diagrams of text, whose lines stand below each other."""
    r = subprocess.run(["uroce", "trace", "--ladder", *options, "client", "server"], stdout=subprocess.PIPE, check=True,
                       universal_newlines=True, env=dict(os.environ, COLUMNS="80"))
    lines = r.stdout.split("\n")
    check("80 columns", all(len(line) <= 80 for line in lines), r.stdout)
    rows = [line for line in lines if re.match(" *[0-9.]+ ", line)]
    check("two vertical lines", all(row[32] in "|o" and row[57] in "|o" for row in rows), r.stdout)
    return rows


def count(rows, pattern):
    return len([row for row in rows if re.search(pattern, row)])


def test_text():
    pair("ib_send_lat", "-s1024")
    rows = ladder("--limit", "0")
    for end, out, back in ("client", r"\|-+ %s -+>\| after [0-9.]+ us$", r"after [0-9.]+ us \|<-+ %s -+\|$"), (
            "server", r"after [0-9.]+ us \|<-+ %s -+\|$", r"\|-+ %s -+>\| after [0-9.]+ us$"):
        check("5 SENDs of the %s arrive" % end, count(rows, out % "SEND ONLY") >= 5, rows)
        check("they are answered", count(rows, back % "ACK") >= 5, rows)
    check("ends of the client's", count(rows, r" posted o +\|$") == 5 and count(rows, r"\| +o receive polled$") == 5, rows)
    check("the server's are at the other side", count(rows, r"\| +o posted$") == 5 and
          count(rows, r"receive polled o +\|$") == 5, rows)
    pair("ib_read_lat", "-s4096", "-m1024")
    check("a READ", count(ladder("--limit", "1"), r"\|<?-* READ RESPONSE FIRST -*>?\|") >= 1)
    pair("ib_send_lat", "-s1024", server_fault="in SEND nth 2: rnr 12")
    rows = ladder("--limit", "0")
    check("an RNR NAK", count(rows, r"\|<?-+ RNR NAK -+>?\|") >= 1, rows)
    pair("ib_send_lat", "-s1024", client_fault="out SEND nth 2: drop")
    check("a lost packet", count(ladder("--limit", "0"), r"did not leave \|-+ SEND ONLY -+X\|$") >= 1)


def test_the_end_of_a_trace():
    """Of a packet that was sent last, nothing says that it is lost."""
    command = ["uroce", "run", "--trace", "server", "ib_send_bw", "-x0", *alone.ENDLESS, "-s1024", "-t1"]
    env = dict(os.environ, UROCE_LOCAL="off")
    server = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)
    command[3] = "client"
    client = subprocess.Popen(command + ["127.0.0.1"], env=env, stdout=subprocess.DEVNULL)

    def until(pattern):
        said = ""
        while not re.search(pattern, " ".join(said.split())):
            check("both run", client.poll() is None and server.poll() is None)
            said = subprocess.run(["uroce", "explain", "client"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  universal_newlines=True).stdout
    until(r" its request \d{3,}: SEND")  # they are connected, and one request at a time is open
    server.send_signal(signal.SIGSTOP)
    until("sent again")
    for p in client, server:
        p.kill()
        p.wait()
    rows = [row for row in ladder("--limit", "1") if "SEND ONLY" in row]
    check("the last one", rows[-1].endswith("X| not arrived yet"), rows)
    check("it was sent again", len(rows) > 1, rows)
    if re.search(r">\| after [0-9.]+ us$", rows[0]):  # the server was stopped between this one and its ACK
        del rows[0]
    check("those before it", all(row.endswith("X| did not arrive") for row in rows[:-1]), rows)


def test_send_and_read():
    pair("ib_send_lat", "-s1024")
    text, rows = page("--limit", "0")
    check("10 SENDs, each with its ACK", rows["out"] >= 10 and rows["back"] >= 10, rows)
    check("their titles tell the direction", text.count("<h2>SEND of 1024 bytes, A -&gt; B</h2>") == 5 and
          text.count("<h2>SEND of 1024 bytes, B -&gt; A</h2>") == 5, text)
    check("no end changes its side", not re.search(r"class='left'>B |class=''>A ", text), text)
    check("each arrow arrives", rows["tip"] == rows["out"] + rows["back"] - rows["cross"], rows)
    text, rows = page()
    check("the last ten", text.count("<h2>SEND") == 10 and "Times, in" in text)
    pair("ib_read_lat", "-s4096", "-m1024")
    text, rows = page("--limit", "1")
    check("a READ of 4 packets", "READ REQUEST" in text and "RESPONSE FIRST" in text and "RESPONSE LAST" in text and
          "2 packets in between" in text, text)


def test_refused_and_lost():
    pair("ib_send_lat", "-s1024", server_fault="in SEND nth 2: rnr 12")
    text, rows = page("--limit", "0")
    check("an RNR NAK", "RNR NAK (receiver not ready), PSN" in text and rows["badrow"] >= 1, rows)
    pair("ib_send_lat", "-s1024", client_fault="out SEND nth 2: drop")
    text, rows = page("--limit", "0")
    check("a lost packet", "did not leave" in text and rows["lost"] >= 1 and rows["cross"] == rows["lost"], rows)
    pair("ib_send_lat", "-s1024", server_fault="in SEND nth 2: drop")
    told, rows = page("--limit", "0")
    check("one that is lost on arrival", "dropped by a fault rule" in told and rows["badrow"] >= 1, rows)


def test_one_sided():
    pair("ib_write_lat", "-s1024", local="on")
    text, rows = page("--limit", "1")
    check("no packet", rows["direct"] in (0, 1) and ("no packet" in text) == (rows["direct"] == 1), rows)
    r = subprocess.run(["uroce", "trace", "--html", "-", "client"], stdout=subprocess.PIPE, check=True)
    check("to standard output, of one end", b"no trace of this end" in r.stdout and not Page(r.stdout.decode()).rows["lost"])


def test_picture_of_readme():
    subprocess.run([os.path.join(os.environ["UROCE_SOURCE"], "tools/draw-send"), "--check", os.environ["UROCE_BUILD"]], check=True)


def test_perfetto():
    pair("ib_send_lat", "-s1024")
    subprocess.run(["uroce", "trace", "--perfetto", "events.json", "client", "server"], check=True)
    with open("events.json") as f:
        events = json.load(f)["traceEvents"]
    by = collections.defaultdict(list)
    for e in events:
        by[e["ph"]].append(e)
    check("two processes", len({e["pid"] for e in events}) == 2)
    check("their names", {e["args"]["name"].split()[0] for e in by["M"] if e["name"] == "process_name"} == {"ib_send_lat"})
    whole = [e for e in by["b"] if e["name"] == "SEND 1024 B"]
    check("each request", len(whole) == 10 and all(e["args"]["status"] == "IBV_WC_SUCCESS" for e in whole), whole)
    open_slices = collections.Counter((e["id"], e["name"]) for e in by["b"])
    check("what begins ends", open_slices == collections.Counter((e["id"], e["name"]) for e in by["e"]))
    inside = {e["id"]: [e["ts"], 0] for e in whole}
    for e in by["e"]:
        if e["name"] == "SEND 1024 B":
            inside[e["id"]][1] = e["ts"]
    check("steps are inside of their request", all(inside[e["id"]][0] <= e["ts"] <= inside[e["id"]][1]
                                                   for e in by["b"] + by["e"]))
    sent = {e["id"]: e for e in by["s"]}
    check("packets flow", len(by["f"]) >= 20 and all(e["id"] in sent and sent[e["id"]]["pid"] != e["pid"] and
                                                     sent[e["id"]]["ts"] <= e["ts"] for e in by["f"]))
    tracks = {(e["pid"], e["tid"]) for e in by["M"] if e["name"] == "thread_name"}
    check("each slice has its queue pair", all((e["pid"], e["tid"]) in tracks for e in by["X"] + by["b"]))


if __name__ == "__main__":
    alone.run(NEEDED, test_text, test_the_end_of_a_trace, test_send_and_read, test_refused_and_lost,
              test_one_sided, test_picture_of_readme, test_perfetto)
