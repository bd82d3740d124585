#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""semantics.py rdma|tcp: what a program sees of its sockets, line by line: ends, options, errors, addresses. By rsocket it has to be
the same as by TCP."""
import array
import ctypes
import errno
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

GUARD = 120  # seconds, against a hang: no test is about time


def say(what, call):
    try:
        result = call()
    except socket.timeout:
        result = "timeout"
    except OSError as e:
        result = errno.errorcode.get(e.errno)
    print(what, result, flush=True)


def events(s):
    p = select.poll()
    p.register(s, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
    return [hex(got) for _, got in p.poll(1000 * GUARD)]


def by_tcp(port):
    """Whether the kernel has a connection to that port."""
    return any(line.split()[3] == "01" and int(line.split()[2].split(":")[-1], 16) == port
               for table in ("tcp", "tcp6") for line in open("/proc/net/" + table).readlines()[1:])


def pair(family=socket.AF_INET, bound="127.0.0.1", to=None):
    listener, client = socket.socket(family), socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((bound, 0))
    listener.listen(5)
    port = listener.getsockname()[1]
    ready = select.poll()
    ready.register(listener, select.POLLIN)
    ready.poll(0)  # a listener takes connections by RDMA from when it is first waited for
    client.settimeout(GUARD)
    client.connect((to or bound, port))
    server, peer = listener.accept()
    server.settimeout(GUARD)
    print("connected", peer[0], client.getpeername()[0], by_tcp(port) == (sys.argv[1] == "tcp"))
    return listener, client, server


def close(*sockets):
    for s in sockets:
        s.close()


def threads_wait():
    """Threads that begin at once to wait for the connections of one listener."""
    listener, sets = socket.create_server(("127.0.0.1", 0)), [select.epoll() for _ in range(4)]
    barrier = threading.Barrier(len(sets))

    def add(to):
        barrier.wait()
        to.register(listener, select.EPOLLIN)
    threads = [threading.Thread(target=add, args=(to,)) for to in sets]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.sendall(b"abc")
    say("bytes", lambda: server.recv(3, socket.MSG_WAITALL))
    print("as wanted", by_tcp(listener.getsockname()[1]) == (sys.argv[1] == "tcp"))
    close(client, server, listener, *sets)


def writing_ends():
    listener, client, server = pair()
    client.sendall(b"abc")
    client.shutdown(socket.SHUT_WR)
    say("bytes", lambda: server.recv(10, socket.MSG_WAITALL))
    say("end", lambda: server.recv(10))
    say("send afterwards", lambda: client.send(b"x"))
    print("server", events(server))
    say("the other way", lambda: server.send(b"def"))
    say("bytes", lambda: client.recv(3, socket.MSG_WAITALL))
    server.close()
    say("end", lambda: client.recv(10))
    close(client, listener)


def reading_ends():
    listener, client, server = pair()
    client.shutdown(socket.SHUT_RD)
    say("receive", lambda: client.recv(10))
    print("client", events(client))
    say("send", lambda: client.send(b"x"))
    say("bytes", lambda: server.recv(10))
    close(client, server, listener)


def both_end():
    listener, client, server = pair()
    client.shutdown(socket.SHUT_RDWR)
    say("receive", lambda: client.recv(10))
    say("send", lambda: client.send(b"x"))
    say("end", lambda: server.recv(10))
    print("server", events(server), "client", events(client))
    close(client, server, listener)


def not_connected():
    s = socket.socket()
    say("send", lambda: s.send(b"x"))
    say("receive", lambda: s.recv(1))
    say("shutdown", lambda: s.shutdown(socket.SHUT_RDWR))
    say("peer", s.getpeername)
    s.close()


def lingering(on, seconds):
    listener, client, server = pair()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", on, seconds))
    say("linger", lambda: struct.unpack("ii", client.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)))
    client.sendall(b"q" * 1000)
    client.close()
    say("all", lambda: len(server.recv(1001, socket.MSG_WAITALL)))
    close(server, listener)


def reset():
    """Closed by one that does not linger at all."""
    listener, client, server = pair()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sendall(b"abc")
    say("bytes", lambda: server.recv(3, socket.MSG_WAITALL))
    client.close()
    print("server", events(server))
    say("error", lambda: errno.errorcode.get(server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
    say("end", lambda: server.recv(1))
    close(server)
    client = socket.create_connection(listener.getsockname())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server, _ = listener.accept()
    client.close()
    server.settimeout(None)
    say("receive", lambda: server.recv(1))
    say("again", lambda: server.recv(1))
    say("send", lambda: server.send(b"x"))
    close(server, listener)


def options():
    listener, client, server = pair()
    for level, option, value in ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
                                 (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 3), (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 4),
                                 (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)):
        client.setsockopt(level, option, value)
        say("option %d of %d" % (option, level), lambda: client.getsockopt(level, option))
    for option in (socket.SO_TYPE, socket.SO_ERROR, socket.SO_ACCEPTCONN):
        say("option %d" % option, lambda: (client.getsockopt(socket.SOL_SOCKET, option), listener.getsockopt(socket.SOL_SOCKET, option)))
    close(client, server, listener)


def ports():
    listener, client, server = pair()
    port = listener.getsockname()[1]
    second = socket.socket()
    say("in use", lambda: second.bind(("127.0.0.1", port)))
    second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    say("in use by a listener", lambda: second.bind(("127.0.0.1", port)))
    close(second, server, client, listener)
    again = socket.socket()
    again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    say("free again", lambda: again.bind(("127.0.0.1", port)))
    say("and", lambda: again.listen(1))
    again.close()


def source():
    """A client that says where it connects from."""
    listener, client, server = pair()
    for address in "127.0.0.1", "127.0.0.3":
        s = socket.socket()
        s.bind((address, 0))
        s.settimeout(GUARD)
        name = s.getsockname()
        s.connect(listener.getsockname())
        other, peer = listener.accept()
        print("from", name == s.getsockname(), name == peer, name == other.getpeername(), address in name)
        close(s, other)
    close(client, server, listener)


def other_loopback():
    """What listens at one address is not found at another."""
    listener = socket.create_server(("127.0.0.3", 0))
    listener.settimeout(0.001)
    say("nobody", listener.accept)
    say("here", lambda: socket.create_connection(("127.0.0.1", listener.getsockname()[1])))
    listener.close()


def misplaced():
    """What a connected socket cannot do."""
    listener, client, server = pair()
    say("listen", client.listen)
    say("bind", lambda: client.bind(("127.0.0.1", 0)))
    client.settimeout(None)
    say("errors", lambda: client.recvmsg(10, 100, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT))
    server.sendall(b"x")
    say("urgent", lambda: client.recv(1, socket.MSG_OOB))
    close(client, server, listener)


def interrupted(restart):
    """Handlers that end a call, and those after which it goes on."""
    listener, client, server = pair()
    libc = ctypes.CDLL(None, use_errno=True)
    signal.signal(signal.SIGALRM, lambda *_: None)
    for n in signal.SIGINT, signal.SIGALRM:
        signal.siginterrupt(n, not restart)
    for s in server, listener:
        s.settimeout(None)
    connections = []

    def release(done):
        count = 0
        while not done.wait(0.001) and (not restart or count < 20):
            os.kill(os.getpid(), signal.SIGALRM)
            count += asleep(threading.main_thread())
        client.sendall(b"x")
        connections.append(socket.create_connection(listener.getsockname()))
    for name, call in (("receive", lambda: libc.recv(server.fileno(), ctypes.create_string_buffer(1), 1, 0)),
                       ("accept", lambda: libc.accept(listener.fileno(), None, None))):
        done = threading.Event()
        thread = threading.Thread(target=release, args=(done,))
        thread.start()
        result = call()
        print(name, result > 0, result < 0 and ctypes.get_errno() == errno.EINTR)
        done.set()
        thread.join()
        if name == "receive":
            connections.append(listener.accept()[0])
    close(client, server, listener, *connections)


def time_left():
    """select() tells how much of its time is left, accept() heeds the listener's."""
    listener, client, server = pair()
    libc, time = ctypes.CDLL(None), (ctypes.c_long * 2)(0, 1000)
    fds = (ctypes.c_ulong * 16)()
    fds[client.fileno() // 64] = 1 << client.fileno() % 64
    print("none", libc.select(client.fileno() + 1, fds, None, None, time), time[0], time[1])
    listener.settimeout(None)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 1000))
    say("accept", listener.accept)
    close(client, server, listener)


def passed():
    """A connection that another process gets, or a program that is spawned."""
    listener, client, server = pair()
    server.settimeout(None)
    name = client.getsockname()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        fds = array.array("i")
        _, more, _, _ = theirs.recvmsg(10, socket.CMSG_LEN(fds.itemsize))
        fds.frombytes(more[0][2])
        s = socket.socket(fileno=fds[0])
        s.sendall(b"got " + s.recv(3, socket.MSG_WAITALL))
        os._exit(s.getpeername() != name)
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [server.fileno()]))])
    server.close()
    client.sendall(b"abc")
    say("from the child", lambda: client.recv(7, socket.MSG_WAITALL))
    print("child", os.waitpid(child, 0)[1])
    say("end", lambda: client.recv(1))
    close(client, listener, ours, theirs)
    listener, client, server = pair()
    server.settimeout(None)
    spawned = os.posix_spawnp("cat", ["cat"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, server.fileno(), fd) for fd in (0, 1)])
    server.close()
    client.sendall(b"abc")
    client.shutdown(socket.SHUT_WR)
    say("from the program", lambda: client.recv(4, socket.MSG_WAITALL))
    print("program", os.waitpid(spawned, 0)[1])
    close(client, listener)
    listener, client, server = pair()
    server.settimeout(None)
    other = server.dup()
    with subprocess.Popen(["cat"], stdin=server, stdout=other):
        close(server, other)
        client.sendall(b"abc")
        client.shutdown(socket.SHUT_WR)
        say("by two descriptors", lambda: client.recv(4, socket.MSG_WAITALL))
    close(client, listener)


def connected_by_a_child():
    """A child that has connections of its own, and ends as programs do."""
    listener, client, server = pair()
    child = os.fork()
    if not child:
        s = socket.create_connection(listener.getsockname())
        s.sendall(b"abc")
        s.close()
        sys.exit(0)
    other, _ = listener.accept()
    other.settimeout(None)
    say("bytes", lambda: other.recv(4, socket.MSG_WAITALL))
    print("child", os.waitpid(child, 0)[1])
    close(client, server, listener, other)


def closed_otherwise():
    """A descriptor that is closed by syscall(2), and its number, which another connection gets then."""
    listener, client, server = pair()
    number = {"x86_64": 3, "s390x": 6}.get(platform.machine(), 57)
    fd = server.detach()
    print("closed", ctypes.CDLL(None).syscall(number, fd))
    say("end", lambda: client.recv(1))
    with open("/dev/null") as other:
        print("the same", other.fileno() == fd)
        say("no socket", lambda: os.read(fd, 1))
    close(client, listener)


def room_to_write():
    """When there is room, there is room for some KiB: relays that write without O_NONBLOCK rely on it."""
    listener, client, server = pair()
    p = select.poll()
    p.register(client, select.POLLOUT)
    client.settimeout(None)
    server.settimeout(None)
    whole, count = True, 0
    for _ in range(20):
        while p.poll(0):
            whole &= client.send(b"x" * 5000, socket.MSG_DONTWAIT) == 5000
            count += 5000
        while count:
            count -= len(server.recv(min(count, 5000)))
        p.poll(1000 * GUARD)
    print("whole", whole)
    close(client, server, listener)


def divided():
    """A connection that was made without waiting: a child reads, its parent writes."""
    listener, first, server = pair()
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(listener.getsockname())
    print("client", events(client))
    other, _ = listener.accept()
    client.setblocking(True)
    child = os.fork()
    if not child:
        os._exit(client.recv(3, socket.MSG_WAITALL) != b"abc")
    client.sendall(b"def")
    say("bytes", lambda: other.recv(3, socket.MSG_WAITALL))
    other.sendall(b"abc")
    print("child", os.waitpid(child, 0)[1])
    close(first, client, server, listener, other)


def both_use_it():
    """A child writes to a connection that its parent reads from: threads that wait for it already, however they do."""
    for way in "recv", "poll", "epoll", "none":
        listener, client, server = pair()
        server.settimeout(None)
        client.settimeout(None)
        other, e, p, got = client.dup(), select.epoll(), select.poll(), []
        e.register(other, select.EPOLLIN)
        p.register(client, select.POLLIN)
        wait = {"recv": lambda: got.append(client.recv(3, socket.MSG_WAITALL)), "poll": lambda: got.append(len(p.poll(1000 * GUARD))),
                "epoll": lambda: got.append(e.poll(GUARD) == [(other.fileno(), select.EPOLLIN)]), "none": lambda: None}[way]
        thread = threading.Thread(target=wait)
        thread.start()
        while way != "none" and not asleep(thread):
            pass
        child = os.fork()
        if not child:
            client.sendall(b"from the child")
            os._exit(0)
        say("bytes", lambda: server.recv(14, socket.MSG_WAITALL))
        print("child", os.waitpid(child, 0)[1])
        server.sendall(b"abc")
        thread.join()
        print(way, got, [len(p.poll(1000 * GUARD)), len(e.poll(GUARD))] if way != "recv" else None)
        if way != "recv":
            say("answer", lambda: other.recv(3, socket.MSG_WAITALL))
        client.sendall(b"from the parent")
        say("bytes", lambda: server.recv(15, socket.MSG_WAITALL))
        print("peer", other.getpeername() == listener.getsockname())
        server.sendall(b"last")
        server.close()
        say("rest", lambda: other.recv(10, socket.MSG_WAITALL))
        close(other, client, listener, e)


def two_files():
    """What one FILE reads and another one writes, by descriptors that were there before."""
    listener, client, server = pair()
    server.settimeout(None)
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    fds = client.fileno(), os.dup(client.fileno())
    client.setblocking(True)
    files = [ctypes.c_void_p(libc.fdopen(fd, mode)) for fd, mode in zip(fds, (b"r", b"w"))]
    for n in range(20):
        server.sendall(b"%d\n" % n)
        line = ctypes.create_string_buffer(10)
        libc.fgets(line, 10, files[0])
        libc.fputs(line, files[1])
        libc.fflush(files[1])
        say("line", lambda: server.recv(len(line.value), socket.MSG_WAITALL))
    client.detach()
    for f in files:
        libc.fclose(f)
    say("end", lambda: server.recv(1))
    close(server, listener)


class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("room", ctypes.c_uint), ("parts", ctypes.POINTER(Part)), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("size", ctypes.c_size_t), ("flags", ctypes.c_int), ("length", ctypes.c_uint64)]


def other_calls():
    """What else moves bytes."""
    listener, client, server = pair()
    for s in client, server:
        s.settimeout(None)
    libc = ctypes.CDLL(None)
    print("dprintf", libc.dprintf(client.fileno(), b"%d-%s", 5, b"x"))
    say("bytes", lambda: server.recv(3, socket.MSG_WAITALL))
    part = Part(b"abc", 3), Part(b"defg", 4)
    messages = (Message * 2)(*(Message(parts=ctypes.pointer(p), count=1) for p in part))
    print("sendmmsg", libc.sendmmsg(client.fileno(), messages, 2, 0), [m.length for m in messages])
    room = [ctypes.create_string_buffer(4) for _ in part]
    part = [Part(ctypes.cast(r, ctypes.c_char_p), 4) for r in room]
    messages = (Message * 2)(*(Message(parts=ctypes.pointer(p), count=1) for p in part))
    say("bytes", lambda: server.recv(7, socket.MSG_WAITALL | socket.MSG_PEEK))
    print("recvmmsg", libc.recvmmsg(server.fileno(), messages, 2, 0, None), [m.length for m in messages], [r.raw for r in room])
    end, begin = os.pipe()
    os.write(begin, b"spliced")
    print("into", libc.splice(end, None, client.fileno(), None, 100, 0))
    say("bytes", lambda: server.recv(7, socket.MSG_WAITALL | socket.MSG_PEEK))
    print("out of", libc.splice(server.fileno(), None, begin, None, 100, 0))
    say("bytes", lambda: os.read(end, 100))
    say("dropped", lambda: client.send(b"abcdef"))
    print(libc.recv(server.fileno(), None, 4, socket.MSG_TRUNC | socket.MSG_WAITALL))
    say("bytes", lambda: server.recvmsg(2, 0, socket.MSG_WAITALL))
    os.close(begin)
    os.close(end)
    close(client, server, listener)


def refused():
    s = socket.socket()
    say("blocking", lambda: s.connect(("127.0.0.1", 1)))
    s.close()
    s = socket.socket()
    s.setblocking(False)
    say("not blocking", lambda: s.connect(("127.0.0.1", 1)))
    print("then", events(s))
    say("error", lambda: errno.errorcode.get(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
    s.close()


def epoll_edges():
    """An edge-triggered descriptor is reported once in each call."""
    once = True
    for _ in range(20):
        listener, client, server = pair()
        with select.epoll() as e:
            e.register(server, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
            for _ in range(5):
                once &= len(e.poll(GUARD)) == 1
                client.sendall(b"x")
        close(client, server, listener)
    print("once", once)


def epoll_before_use():
    """Sockets that are in an instance before they are connected, or listen."""
    e, listener, client = select.epoll(), socket.socket(), socket.socket()
    e.register(listener, select.EPOLLIN | select.EPOLLET)
    e.register(client, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    listener.setblocking(False)
    client.setblocking(False)
    e.poll(0)
    say("none yet", listener.accept)
    client.connect_ex(listener.getsockname())
    seen, server = set(), None
    while not server or client.fileno() not in seen:
        seen.update(fd for fd, what in e.poll(GUARD) if not what & select.EPOLLHUP)
        if listener.fileno() in seen and not server:
            server, _ = listener.accept()
    print("as wanted", by_tcp(listener.getsockname()[1]) == (sys.argv[1] == "tcp"))
    e.modify(client, select.EPOLLIN)
    server.sendall(b"hi")
    print("readable", e.poll(GUARD) == [(client.fileno(), select.EPOLLIN)])
    e.unregister(client)
    close(client, server, listener, e)


def epoll_while_waiting():
    """A thread waits for an instance before it has any socket."""
    listener, client, server = pair()
    with select.epoll() as e:
        got = []
        thread = threading.Thread(target=lambda: got.extend(e.poll(GUARD)))
        thread.start()
        while not asleep(thread):
            pass
        client.sendall(b"x")
        e.register(server, select.EPOLLIN)
        thread.join()
        print("woken", got == [(server.fileno(), select.EPOLLIN)])
    close(client, server, listener)


def asleep(thread):
    with open("/proc/self/task/%d/stat" % thread.native_id) as f:
        return f.read().rsplit(")")[1].split()[0] == "S"


def epoll_nested():
    """An instance that is waited for by poll() and by another one."""
    listener, client, server = pair()
    with select.epoll() as inner, select.epoll() as outer:
        outer.register(inner.fileno(), select.EPOLLIN)
        inner.register(server, select.EPOLLIN)
        both = select.poll()
        both.register(inner.fileno(), select.POLLIN)
        for way in lambda: both.poll(1000 * GUARD), lambda: outer.poll(GUARD):
            client.sendall(b"x")
            print("there", way() == [(inner.fileno(), select.POLLIN)], inner.poll(GUARD) == [(server.fileno(), select.EPOLLIN)])
            server.recv(1)
            while both.poll(0):  # something may have come that is nothing to the program
                for what in inner.poll(0):
                    print("not gone", what)
    close(client, server, listener)


def ipv6(bound, to):
    listener, client, server = pair(socket.AF_INET6, bound, to)
    client.sendall(b"hi")
    say("bytes", lambda: server.recv(2, socket.MSG_WAITALL))
    close(client, server, listener)


threads_wait()  # first: it takes longest then
writing_ends()
reading_ends()
both_end()
not_connected()
lingering(0, 0)
lingering(1, 2)
reset()
options()
ports()
refused()
source()
other_loopback()
misplaced()
interrupted(True)
interrupted(False)
time_left()
passed()
connected_by_a_child()
closed_otherwise()
room_to_write()
divided()
both_use_it()
two_files()
other_calls()
epoll_edges()
epoll_before_use()
epoll_while_waiting()
epoll_nested()
ipv6("::1", "::1")
ipv6("::", "::1")
ipv6("::", "::ffff:127.0.0.1")
