#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What another user has made first: the file and the names of `uroce link`, and the files that a user names to keep
something in. Root is the victim. In a network namespace of its own: the state of ports is that of a namespace."""
import fcntl, os, socket, struct, subprocess, sys, tempfile

import alone

OTHER = 12345
HERE = os.path.dirname(os.path.abspath(__file__))
SQUATTER = os.path.join(HERE, "..", "programs", "squatter.py")
DEVICE = "mlx5_3"
HANGS = 600  # seconds: whatever the machine


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def as_other(do, *args):
    """Calls that as another user."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(OTHER, OTHER, OTHER)
            os.umask(0)
            do(*args)
            os._exit(0)
        finally:
            os._exit(1)
    check("the other user makes it", os.waitpid(pid, 0)[1] == 0)


def run(*command, status=0, **environment):
    r = subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True, timeout=HANGS)
    check(" ".join(command), r.returncode == status, r.returncode, r.stdout)
    return r.stdout


def links_file():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        cookie = struct.unpack("=Q", s.getsockopt(socket.SOL_SOCKET, 71, 8))[0]
    return "/dev/shm/uroce-links-0-%d" % cookie


def link_goes_down(what, **environment):
    """And a program that runs is told."""
    with subprocess.Popen(["uroce", "run", "stdbuf", "-oL", "ibv_asyncwatch", "-d", DEVICE], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True,
                          env=dict(os.environ, **environment)) as program:
        said = []
        for pattern, command in ("event FD", "down"), ("PORT_ERR", "up"), ("PORT_ACTIVE", ""):
            for line in program.stdout:
                said.append(line)
                if pattern in line:
                    break
            else:
                check(what, False, pattern, *said)
            if command:
                run("uroce", "link", command, DEVICE, **environment)
                shown = [w.split()[1] for w in run("uroce", "link", **environment).splitlines() if DEVICE in w]
                check(what, shown == [command], shown)
        program.terminate()


def test_the_state_of_ports(folder):
    path = links_file()
    link_goes_down("nobody is there")
    check("nothing is left of it", not os.path.lexists(path))
    for make, remove in ((os.mkfifo, os.unlink), (lambda p: open(p, "x").close(), os.unlink), (os.mkdir, os.rmdir),
                         (lambda p: os.symlink("/dev/tty", p), os.unlink)):
        as_other(make, path)
        run("uroce", "devices")
        run("uroce", "run", "ibv_devinfo", "-d", DEVICE)
        link_goes_down("another user has made %s" % path, XDG_RUNTIME_DIR=folder)
        remove(path)
    link_goes_down("the other user is gone", XDG_RUNTIME_DIR=folder)


def test_a_stopped_link():
    """It has the lock of the file. Nobody waits for it but another one, and that one not for ever."""
    run("uroce", "link", "down", DEVICE)
    with open(links_file()) as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        run("uroce", "devices")
        with subprocess.Popen(["uroce", "run", "stdbuf", "-oL", "ibv_asyncwatch", "-d", DEVICE],
                              stdout=subprocess.PIPE, universal_newlines=True) as program:
            check("it starts", any("event FD" in line for line in program.stdout))
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
                told = [slot for slot in range(1, 2048) if not s.connect_ex("\0uroce/0/link/%d" % slot)]
                s.send(b"\0") # to the last that there is, which looks at the file
            check("it is told", len(told) == 1, told)
            run("uroce", "stat", str(program.pid))
            program.terminate()
        said = run("uroce", "link", "up", DEVICE, status=1)
        check("another one waits", "another `uroce link` holds its lock and does not finish" in said, said)
    run("uroce", "link", "up", DEVICE)
    check("nothing is left of it", not [f for f in os.listdir("/dev/shm") if f.startswith(os.path.basename(links_file()))])


def test_the_names_of_ports(folder):
    with subprocess.Popen([sys.executable, SQUATTER, str(OTHER), "0"], stdout=subprocess.PIPE,
                          universal_newlines=True) as squatter:
        line = squatter.stdout.readline()
        check("the names are taken", int(line.split()[0]) > 5 * 2047, line)
        link_goes_down("another user has the names", XDG_RUNTIME_DIR=folder)
        squatter.kill()


REPORTS = (
    (("uroce", "run", "-t", "FILE", "ibv_devinfo"), 0),
    (("uroce", "run", "-f", "call ibv_alloc_pd nth 9: refuse EIO", "-l", "FILE", "ibv_devinfo"), 0),
    (("uroce", "check", "-l", "FILE", "ibv_devinfo"), 0),
    (("uroce", "run", "-p", "FILE", "ibv_devinfo"), 1),
    (("uroce", "pcap", "-w", "FILE", "--", "ibv_devinfo"), 1),
    (("uroce", "trace", "--html", "FILE", "own.trace"), 1),
    (("uroce", "trace", "--perfetto", "FILE", "own.trace"), 1),
)


def test_reports():
    os.umask(0)
    run("uroce", "run", "-t", "own.trace", "ibv_devinfo")
    check("a trace is its owner's", os.stat("own.trace").st_mode & 0o777 == 0o600)
    with open("precious", "w") as f:
        f.write("precious")
    os.chmod("precious", 0o600)
    as_other(lambda: open("theirs", "x").close())
    as_other(os.symlink, os.path.abspath("precious"), "link")
    as_other(os.symlink, os.path.abspath("made"), "new")
    for command, status in REPORTS:
        for name, says in (("theirs", "it belongs to user 12345: remove it, or name another file"),
                           ("link", "'link' is a symbolic link of user 12345: name the file that is meant"),
                           ("new", "'new' is a symbolic link of user 12345")):
            said = run(*[os.path.abspath(name) if w == "FILE" else w for w in command], status=status)
            check(" ".join(command), name + ": " + says in said, said)
            with open("precious") as f:
                check(" ".join(command), f.read() == "precious")
            check(" ".join(command), os.stat("theirs").st_size == 0 and not os.path.lexists("made"))
    for name in "/dev/stderr", "/dev/stdout", "/proc/self/fd/2", "/dev/null":
        run("uroce", "check", "-l", name, "ibv_devinfo")
    said = run("sh", "-c", "uroce trace --perfetto /dev/stdout own.trace | cat")
    check("/dev/stdout", "traceEvents" in said, said)


def main():
    alone.enter(("ibv_asyncwatch", "ibv_devinfo", "stdbuf", "ip"))
    try:
        os.seteuid(OTHER)
        os.seteuid(0)
    except OSError:
        print("there is no other user here")
        sys.exit(77)
    os.environ["UROCE_DEVICES"] = "127.0.0.1..127.0.0.8=mlx5_0@0..1"
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        os.chmod(work, 0o1777)
        os.mkdir("runtime", 0o700)
        try:
            test_the_state_of_ports(os.path.abspath("runtime"))
            test_a_stopped_link()
            test_the_names_of_ports(os.path.abspath("runtime"))
            test_reports()
        finally:
            os.chdir("/")


main()
