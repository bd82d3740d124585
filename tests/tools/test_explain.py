#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce explain FILE` tells why programs hang, while they do and after they have been killed, and `uroce explain PID` of those that
run; test_start.py has more of that, docs/hangs.md. In a network namespace of
its own, as it uses port 4791."""
import os, re, signal, struct, subprocess, sys

import alone

NEEDED = ("ib_send_bw", "ib_write_bw", "ss")


NEVER_ACCEPTS = """#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = argc > 1 ? 0 : RAI_PASSIVE}, *to;
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1}, .qp_type = IBV_QPT_RC};
	struct rdma_cm_id *id, *request;

	if (rdma_getaddrinfo("127.0.0.1", "7472", &hints, &to) || rdma_create_ep(&id, to, NULL, &attr))
		return 1;
	if (argc > 1)
		return rdma_connect(id, NULL) != 0;
	rdma_listen(id, 1);
	puts("listens");
	fflush(stdout);
	rdma_get_request(id, &request);
	pause();
}
"""


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def start(trace, *command, **environment):
    return subprocess.Popen(["uroce", "run", "--trace", trace, *command], env=dict(os.environ, **environment),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def explain(*files):
    r = subprocess.run(["uroce", "explain", *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True)
    check("uroce explain", r.returncode == 0, r.stdout)
    check("80 columns", all(len(line) <= 80 for line in r.stdout.splitlines()), r.stdout)
    return " ".join(r.stdout.split())


def until(process, pattern, *files):
    """Asks again until that is said."""
    said = ""
    while not re.search(pattern, said):
        check("it runs", process.poll() is None)
        said = explain(*files)
    return said


def is_trace(name):
    """Its first word is written last."""
    try:
        with open(name, "rb") as f:
            return f.read(8) == struct.pack("=Q", 0x3130454341525455)
    except FileNotFoundError:
        return False


def pair(fault="", server_fault="", words=(), **environment):
    """The faults leave the client waiting."""
    environment["UROCE_LOCAL"] = "off"
    for trace in ("server.trace", "client.trace"):
        open(trace, "w").close()
        os.unlink(trace)
    server = start("server.trace", "ib_send_bw", "-x0", *words, *alone.ENDLESS, UROCE_FAULT=server_fault, **environment)
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)
    client = start("client.trace", "ib_send_bw", "-x0", *words, *alone.ENDLESS, "127.0.0.1", UROCE_FAULT=fault, **environment)
    while not (is_trace("server.trace") and is_trace("client.trace")):
        check("both run", server.poll() is None and client.poll() is None)
    return server, client


def end(*processes):
    for p in processes:
        p.kill()
        p.wait()


def test_no_receive():
    """Each SEND is answered as if the peer had posted no receive: perftest tries for ever."""
    server, client = pair(server_fault="in SEND psn 101..16000000: rnr 12")
    said = until(client, r"has waited .*It was sent again \d+ times as the peer had no receive", "client.trace")
    check("which request", re.search(r"has waited [0-9.]+ m?s for its request \d+: SEND of 65536 bytes, wr_id 0x", said), said)
    check("what the peer said", "last sent RNR NAK (receiver not ready) for PSN 0x" in said, said)
    check("what to do", "the peer program has to post a receive" in said, said)
    check("both ends", "The other end is ib_send_bw (process %d)" % server.pid in explain("client.trace", "server.trace"))
    end(client)
    said = explain("client.trace")
    check("it survives a kill", "was waiting for its request" in said and "RNR NAK" in said, said)
    end(server)


def test_lost_packets():
    server, client = pair("out SEND psn 101..16000000: drop")
    said = until(client, r"sent again .*as (a probe, since no ACK came|no ACK came in time).* So the peer does not answer",
                 "client.trace")
    check("the packets", re.search(r"PSNs? (from )?0x", said), said)
    end(client, server)


def test_waiting_for_a_message():
    server, client = pair("out SEND psn 101..16000000: drop")
    said = until(server, r"no outstanding request\. Of its \d+ receives, \d+ were used, the last .* it waits for messages",
                 "server.trace")
    check("the state", "in RTR" in said or "in RTS" in said, said)
    end(client, server)


def test_what_the_other_end_does():
    server, client = pair("out SEND psn 101..16000000: drop")
    until(client, "has waited .* sent again", "client.trace")
    server.send_signal(signal.SIGSTOP)
    check("it has stopped", os.WIFSTOPPED(os.waitpid(server.pid, os.WUNTRACED)[1]))
    said = explain("client.trace", "server.trace")
    check("stopped", "(process %d), which is stopped: kill -CONT %d." % (server.pid, server.pid) in said, said)
    check("another file", "None of the files has that queue pair" in explain("client.trace", "client.trace"))
    end(server)
    said = explain("client.trace", "server.trace")
    check("ended", "(process %d), which has ended." % server.pid in said, said)
    end(client)


def test_processes():
    server, client = pair()
    asks = ("-p", str(client.pid))
    said = until(client, r"connected to 127\.0\.0\.1 0x[0-9a-f]+, is at work: \d+ requests completed in 200 ms", *asks)
    check("of the process", "ib_send_bw, process %d, now:" % client.pid in said, said)
    server.send_signal(signal.SIGSTOP)
    check("it has stopped", os.WIFSTOPPED(os.waitpid(server.pid, os.WUNTRACED)[1]))
    until(client, r"send requests are not complete.* packets? from PSN 0x[0-9a-f]+ on ha(s|ve) no ACK", *asks)
    end(server, client)


def test_lost_messages():
    """Many messages come at once, and the server has one receive; without credits its client does not wait for it."""
    server, client = pair(words=("-cUC", "-r1", "-s64"), UROCE_PATIENCE="off")
    said = until(server, r"\d+ messages? of UC or UD found no receive, and (was|were) dropped \(cause 0x20c\)", "server.trace")
    check("not twice", "It has refused" not in said, said)
    end(client, server)


def what_is_said_of_silence(silence, end):
    """What the client's message knows of its server, which it does not get an answer from."""
    command = ["uroce", "run", "ib_write_bw", "-x0", *alone.ENDLESS]
    environment = dict(os.environ, UROCE_LOCAL="off", UROCE_LOG="warn")
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)
    client = subprocess.Popen([*command, "127.0.0.1"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while "at work" not in explain("-p", str(client.pid)):
        check("they run", client.poll() is None and server.poll() is None)
    silence(server)
    said = " ".join(client.communicate()[1].split())
    end()
    server.kill()
    server.wait()
    return said


def test_what_the_host_knows_of_a_silent_peer():
    nothing = lambda: None
    said = what_is_said_of_silence(lambda server: server.kill(), nothing)
    check("it has ended", "again 7 times" in said and "; its process has ended, or the number is wrong" in said, said)
    said = what_is_said_of_silence(lambda server: server.send_signal(signal.SIGSTOP), nothing)
    check("it is stopped", re.search("; its process is stopped: kill -CONT [0-9]+: it has to run", said), said)
    said = what_is_said_of_silence(lambda _: subprocess.run(["uroce", "link", "down", "uroce0"], check=True),
                                   lambda: subprocess.run(["uroce", "link", "up", "uroce0"], check=True))
    check("the port is down", "; the port of this end is down (uroce link)" in said, said)


def test_connections():
    """A server that never accepts: neither queue pair is at fault."""
    with open("never.c", "w") as f:
        f.write(NEVER_ACCEPTS)
    subprocess.run(["cc", "never.c", "-o", "never", "-lrdmacm", "-libverbs"], check=True)
    server = subprocess.Popen(["uroce", "run", "./never"], stdout=subprocess.PIPE)
    server.stdout.readline()
    client = subprocess.Popen(["uroce", "run", "./never", "connect"])
    said = until(server, "REQ_RECEIVED", "-p", str(server.pid))
    check("what is due", "the connection request waits for this program: rdma_accept() or rdma_reject()" in said, said)
    said = until(client, "REQ_SENT", "-p", str(client.pid))
    check("by whom", "that program has to call rdma_accept() or rdma_reject(). The other end is 127.0.0.1:7472" in said, said)
    check("no queue is blamed", "not armed" not in said, said)
    end(client, server)


def test_a_peer_that_has_ended():
    """One that only receives learns it from nobody."""
    server = subprocess.Popen(["uroce", "run", "ib_send_bw", "-x0", *alone.ENDLESS], stdout=subprocess.DEVNULL)
    while not subprocess.check_output(["ss", "-Hltn", "sport = :18515"]):
        check("the server listens", server.poll() is None)
    client = subprocess.Popen(["uroce", "run", "ib_send_bw", "-x0", *alone.ENDLESS, "127.0.0.1"], stdout=subprocess.DEVNULL)
    until(server, "at work", "-p", str(server.pid))
    end(client)
    until(server, "The peer's process %d has ended" % client.pid, "-p", str(server.pid))
    end(server)


def test_codes_and_files():
    r = subprocess.run(["uroce", "explain", "nowhere"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check("no file", r.returncode == 1 and b"nowhere: No such file" in r.stdout, r.stdout)
    with open("text", "w") as f:
        f.write("nothing\n" * 1000)
    r = subprocess.run(["uroce", "explain", "text"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check("no trace", r.returncode == 1 and b"is not a trace" in r.stdout, r.stdout)


if __name__ == "__main__":
    alone.run(NEEDED, test_no_receive, test_lost_packets, test_waiting_for_a_message,
              test_what_the_other_end_does, test_processes, test_lost_messages,
              test_what_the_host_knows_of_a_silent_peer, test_connections, test_a_peer_that_has_ended,
              test_codes_and_files)
