# SPDX-License-Identifier: BSD-2-Clause
"""Where the two ends of a test run: network namespaces of our own.

A namespace is held by a `cat` that reads a pipe of ours, and has no name: when this program ends, however it ends,
the pipe closes and the namespace is gone. Nothing is left behind, and nobody else's namespace can be hit.
"""
import os
import subprocess


class Namespace:
    """One network namespace with its loopback up. `shares`: processes there share memory."""
    shares = True

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not self.holder.stdout.readline():
            raise PermissionError("unshare -n is not allowed")
        self.ip("link set lo up")

    @property
    def enter(self):
        return ["nsenter", "--net=/proc/%d/ns/net" % self.holder.pid, "--"]

    @property
    def proc(self):
        return "/proc/%d/net/" % self.holder.pid

    def ip(self, words):
        subprocess.run(self.enter + ["ip"] + words.split(), check=True)

    def close(self):
        self.holder.stdin.close()
        self.holder.stdout.close()
        self.holder.wait()


class ByUdp:
    """A namespace in which processes do without shared memory."""
    shares = False

    def __init__(self, namespace):
        self.namespace, self.proc, self.close = namespace, namespace.proc, namespace.close

    @property
    def enter(self):
        return self.namespace.enter + ["env", "UROCE_LOCAL=off"]


class Host:
    """The namespace that we were started in, where we may make no other."""
    enter, proc, shares = [], "/proc/net/", True

    def close(self):
        pass


class Place:
    """`server` and `client` are namespaces (perhaps the same); `address` is the server's for TCP,
    `address6` its IPv6 one. GID index 0 is
    the IPv4 address, 1 the IPv6 one, and `link_local` the index of the link-local one."""

    def __init__(self, name, server, client, address, address6, interface, link_local=None):
        self.name, self.server, self.client, self.address = name, server, client, address
        self.address6 = address6
        self.interface, self.link_local = interface, link_local

    def close(self):
        self.server.close()
        if self.client is not self.server:
            self.client.close()


def loopback():
    one = Namespace()
    return Place("lo", one, one, "127.0.0.1", "::1", "lo")


def udp(namespace=None):
    one = ByUdp(namespace or Namespace())
    return Place("udp", one, one, "127.0.0.1", "::1", "lo")


def veth(mtu):
    a, b = Namespace(), Namespace()
    a.shares = b.shares = False
    a.ip("link add v0 mtu %d type veth peer name v0 mtu %d netns %d" % (mtu, mtu, b.holder.pid))
    for end, number in (a, 1), (b, 2):
        end.ip("link set v0 addrgenmode none")  # no link-local address that has to wait for its DAD
        end.ip("link set v0 up")
        end.ip("addr add 10.77.0.%d/24 dev v0" % number)
        end.ip("addr add fd77::%d/64 dev v0 nodad" % number)
        end.ip("addr add fe80::77:%d/64 dev v0 nodad" % number)
    return Place("veth%d" % mtu, a, b, "10.77.0.1", "fd77::1", "v0", link_local=2)


def host():
    here = Host()
    return Place("lo", here, here, "127.0.0.1", "::1", "lo")


def may_unshare(*how):
    return subprocess.run(["unshare", *how, "true"], stderr=subprocess.DEVNULL).returncode == 0


def be_root_somewhere():
    """Namespaces need privilege; a user namespace of our own gives it to anybody, where the system allows that.
    Starts this program again inside one. Returns why not, or None if there is no need."""
    if os.geteuid() == 0 and may_unshare("-n"):
        return None
    if "UROCE_TEST_UNSHARED" not in os.environ and may_unshare("-Urn"):
        import sys
        os.environ["UROCE_TEST_UNSHARED"] = "1"
        os.execvp("unshare", ["unshare", "-Ur", sys.executable] + sys.argv)
    return "needs root or unprivileged user namespaces"
