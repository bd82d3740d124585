# SPDX-License-Identifier: BSD-2-Clause
"""Libraries that programs use instead of verbs: UCX, Open MPI and MPICH through it, libfabric, uDAPL. They look for the device in /sys and
/dev, so all go by `uroce run`."""
import os
import shlex
import shutil
import sys
import tempfile

from case import BOTH, HERE, LO, VETH, Case, each
from process import Failure, Process, Skip, expect, ports, typed


def typed_process(build, namespace, command, env=()):
    return Process(build, namespace, typed(build, command), env, preload=False)


def ucx_settings(transports):
    """Of the interface that both ends have: UCX would use the loopback's device as well."""
    return ["UCX_TLS=" + transports, "UCX_NET_DEVICES=uroce0:1", "UCX_WARN_UNUSED_ENV_VARS=n"]


def ucx_info(place, build):
    expect(typed_process(build, place.server, "ucx_info -d"),
           r"Transport: rc_verbs", r"Transport: ud_verbs", r"Device: uroce0:1")


def ucx(test, transports, **row):
    """Nothing but our transports, so if these do not work, nothing does."""
    def run(place, build):
        port = next(ports)
        command, env = "ucx_perftest -p %d" % port, ucx_settings(transports)
        s = typed_process(build, place.server, command, env)
        s.until_listening(port)
        c = typed_process(build, place.client, "%s %s -t %s -w 10" % (command, place.address, test), env)
        expect(c, r"^Final:")
        expect(s)
    return Case("UCX_TLS=%s ucx_perftest -t %s" % (transports, test), run, **row)


def io_demo(transports, **row):
    """UCX's storage-like server and client, which connect by rdma_cm; the data are checked."""
    def run(place, build):
        env = ucx_settings("self," + transports) + ["UCX_SOCKADDR_TLS_PRIORITY=rdmacm"]
        command = "io_demo -q -p %d" % next(ports)
        s = typed_process(build, place.server, command, env)
        s.until_at_roce_port()
        expect(typed_process(build, place.client, "%s -i 100 -o read,write %s" % (command, place.address), env), "status 'OK'")
        if not s.running():
            raise Failure("the server ended")
    return Case("UCX_TLS=%s io_demo" % transports, run, **row)


# osc ucx: windows by RDMA, too; and nothing but our transports
BY_UCX = "--mca pml ucx --mca osc ucx -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_NET_DEVICES=uroce0:1"
BY_LIBFABRIC = "--mca pml cm --mca mtl ofi --mca osc pt2pt --mca mtl_ofi_provider_include verbs;"


def rsh_agent(folder):
    """What starts the ranks in another namespace, by nsenter in place of ssh: HOST COMMAND..., where HOST is "pid" and a number.
    Each has a TMPDIR, as a host has: two daemons of Open MPI in one make the same folder and file, by which 5 to 10 of 60 runs
    end (EEXIST, or SIGSEGV in hwloc_shmem_topology_write()), also without uroce."""
    agent = os.path.join(folder, "agent")
    with open(agent, "w") as f:
        f.write('#!/bin/sh\nns=$1; shift\nexport TMPDIR=%s/$ns; mkdir -p "$TMPDIR"\n'
                'exec nsenter --net=/proc/${ns#pid}/ns/net -- sh -c "$*"\n' % folder)
    os.chmod(agent, 0o755)
    return agent


def both_hosts(place):
    return "pid%d,pid%d" % (place.server.holder.pid, place.client.holder.pid)


def open_mpi(way, **row):
    """Two ranks, in the place's two namespaces."""
    def run(place, build):
        program = build.compile(os.path.join(HERE, "ranks.c"), "mpicc")
        hosts = ["--oversubscribe"]
        with tempfile.TemporaryDirectory(prefix="uroce-mpi-") as folder:
            if place.client is not place.server:
                hosts = ["--mca", "plm_rsh_agent", rsh_agent(folder), "--host", both_hosts(place)]
            p = Process(build, place.server, shlex.split(typed(build, "mpirun --allow-run-as-root --bind-to none -n 2")) +
                        hosts + way.split() + [program], preload=False)
            expect(p, "2 ranks agree")
    return Case("mpirun -n 2 " + way, run, **row)


def mpich(ranks, **row):
    """So many ranks by Debian's MPICH, which reaches others by UCX; NOLOCAL: also those on its own host."""
    def run(place, build):
        if not shutil.which("mpicc.mpich"):
            raise Skip("libmpich-dev and mpich are not installed")
        program = build.compile(os.path.join(HERE, "ranks.c"), "mpicc.mpich")
        env, hosts = ucx_settings("rc_verbs,ud_verbs:aux,self") + ["MPIR_CVAR_NOLOCAL=1"], []
        with tempfile.TemporaryDirectory(prefix="uroce-mpi-") as folder:
            if place.client is not place.server:
                hosts = ["-launcher", "rsh", "-launcher-exec", rsh_agent(folder), "-hosts", both_hosts(place),
                         "-localhost", place.address]
            p = Process(build, place.server, shlex.split(typed(build, "mpiexec.mpich -n %d" % ranks)) + hosts + [program],
                        env, preload=False)
            expect(p, "%d ranks agree" % ranks)
    return Case("mpiexec.mpich -n %d" % ranks, run, **row)


def fi_info(place, build):
    """Message endpoints need an address that is not the loopback's: libfabric leaves that out."""
    rows = [("", r"FI_PROTO_IB_UD"), (" -t FI_EP_RDM", r"verbs;ofi_rxd")]
    if place.name != "lo":
        rows.append((" -t FI_EP_MSG -n " + place.address, r"FI_PROTO_RDMA_CM_IB_RC"))
    for options, pattern in rows:
        expect(typed_process(build, place.server, "fi_info -p verbs" + options), pattern)


def fi_pingpong(endpoint, provider="verbs", by_xrc=False, **row):
    """By XRC: its domains are known by a file."""
    def run(place, build):
        port = next(ports)
        command = "fi_pingpong -p %s -e %s -I 50 -c -S 1024" % (shlex.quote(provider), endpoint)
        with tempfile.NamedTemporaryFile(prefix="uroce-xrcd-") as domain:
            env = ["FI_VERBS_PREFER_XRC=1", "FI_OFI_RXM_USE_SRX=1", "FI_VERBS_XRCD_FILENAME=" + domain.name] if by_xrc else []
            s = typed_process(build, place.server, "%s -B %d" % (command, port), env)
            s.until_listening(port)
            c = typed_process(build, place.client, "%s -P %d %s" % (command, port, place.address), env)
            expect(c, r"Mxfers/sec\n.*\d")
            expect(s)
    return Case("fi_pingpong -p %s -e %s -S 1024%s" % (provider, endpoint, " by XRC" if by_xrc else ""), run, **row)


# uDAPL's ways to connect: its library, and what that wants to know of the device
DAPL_PORT = 15828  # where most of its programs tell each other what they are called
DAPL = {"cma": ("ofa", "{interface} 0"), "scm": ("oscm", "uroce0 1"), "ucm": ("oucm", "mlx5_ib0 1")}

# dtestx's server tells where it is and begins to listen afterwards, which only a client that is slower finds. So it tells
# this first, which tells the client when that is done.
DAPL_TELLER = """
import socket
with socket.create_connection(("127.0.0.1", %(port)d)) as server:
    where = server.recv(128, socket.MSG_WAITALL)
    server.sendall(where)
with socket.create_server(("127.0.0.1", %(port)d)) as listener:
    client = listener.accept()[0]
    client.sendall(where)
    client.recv(128, socket.MSG_WAITALL)
""" % {"port": DAPL_PORT}


def dapl(program, way, wanted, ready=None, told=False, **row):
    """uDAPL, connecting by rdma_cm, by a socket of its own, or by datagrams of its own."""
    def run(place, build):
        library, device = DAPL[way]
        with tempfile.NamedTemporaryFile("w", prefix="uroce-dat-", suffix=".conf") as conf:
            conf.write('uroce u2.0 nonthreadsafe default libdapl%s.so.2 dapl.2.0 "%s" ""\n' %
                       (library, device.format(interface=place.interface)))
            conf.flush()
            command, env = program + " -P uroce", ["DAT_OVERRIDE=" + conf.name]
            if way == "ucm":
                env.append("UROCE_ADAPTER=ib")  # it addresses by LIDs, which RoCE refuses
            s = typed_process(build, place.server, "stdbuf -oL %s -v" % command if told else command, env)
            s.until_output(ready) if ready else s.until_listening(DAPL_PORT)
            if told:
                teller = Process(build, place.server, [sys.executable, "-c", DAPL_TELLER], preload=False)
                s.until_output("dat_psp_create success")
                teller.until_listening(DAPL_PORT)
            expect(typed_process(build, place.client, "%s -h %s" % (command, place.address), env), wanted)
            expect(s, wanted)
    return Case("%s by uDAPL's %s" % (program, way), run, waits=True, **row)


TABLE = [
    Case("ucx_info -d", ucx_info, BOTH),
    *each(ucx, "{tag_lat -n 200 -s 64,tag_bw -n 100 -s 65536}", transports="rc_verbs,ud_verbs", places=BOTH),
    *each(ucx, "{ucp_put_bw -n 100 -s 4096,ucp_get -n 100 -s 4096}", transports="rc_verbs,ud_verbs", places=LO),
    *each(ucx, "{ucp_fadd -n 100 -s 8,ucp_am_lat -n 100 -s 2000}", transports="rc_verbs,ud_verbs", places=LO),
    *each(ucx, "{tag_lat -n 200 -s 64,tag_bw -n 100 -s 65536}", transports="ud_verbs", places=BOTH),
    ucx("ucp_put_bw -n 100 -s 4096", transports="ud_verbs", places=LO),
    ucx("tag_lat -n 200 -s 64 -E sleep", transports="rc_verbs,ud_verbs", places=BOTH),
    ucx("tag_lat -n 200 -s 64 -E sleep", transports="ud_verbs", places=BOTH),
    io_demo("rc_verbs,ud_verbs", places=BOTH),
    io_demo("ud_verbs", places=BOTH),
    open_mpi(BY_UCX, places=BOTH),
    open_mpi(BY_LIBFABRIC + "ofi_rxd", places=BOTH),
    open_mpi(BY_LIBFABRIC + "ofi_rxm", places=VETH),
    mpich(2, places=BOTH),
    mpich(4, places=BOTH),
    Case("fi_info -p verbs", fi_info, BOTH),
    fi_pingpong("dgram", places=BOTH),
    fi_pingpong("rdm", places=BOTH),
    fi_pingpong("msg", places=VETH),  # libfabric has none for the loopback
    fi_pingpong("rdm", "verbs;ofi_rxm", by_xrc=True, places=VETH),
    dapl("dtest", "cma", "PASSED", places=VETH),  # nor does uDAPL find a device there by rdma_cm
    dapl("dtest", "ucm", "PASSED", places=LO),
    dapl("dtestx", "ucm", "immed/atomic test PASSED", told=True, places=LO),
    dapl("dtestsrq", "scm", "SRQ Test Complete", ready="Accepting", places=VETH),
    dapl("dtestcm -c 100", "cma", "ALL 100 CONNECTED", places=VETH),
]
