# SPDX-License-Identifier: BSD-2-Clause
"""Whole systems that use RDMA: storage over iSER, and the live migration of a virtual machine."""
import json
import os
import shutil
import signal
import socket
import tempfile

from case import BOTH, Case, RandomFile
from process import GUARD, Failure, Process, Skip, expect, ports, typed

TARGET = "iqn.2026-01.test.uroce:disk"
INITIATOR = "iqn.2026-01.test.uroce:initiator"
# They write, and read or compare what is there then. One to a process: libiscsi leaves a thread behind with each session,
# which may stumble over the next.
SCSI_TESTS = ["SCSI." + test for test in ("Read16", "Verify10", "Write10.Simple", "WriteSame10.Simple")]


def iser(place, build):
    """The disk of a target (tgt), read and written by an initiator (libiscsi)."""
    if not shutil.which("tgtd") or not shutil.which("iscsi-test-cu"):
        raise Skip("tgt or libiscsi is not there")
    with tempfile.TemporaryDirectory(prefix="uroce-iser-") as folder:
        disk, ipc = os.path.join(folder, "disk"), "TGT_IPC_SOCKET=" + os.path.join(folder, "ipc")
        with open(disk, "wb") as f:
            f.truncate(16 << 20)
        s = Process(build, place.server, typed(build, "tgtd -f --iscsi portal=%s:%d" % (place.address, next(ports))), [ipc],
                    preload=False)
        s.until_listening_at(os.path.join(folder, "ipc.0"))
        for order in ("--mode target --op new --tid 1 --targetname " + TARGET,
                      "--mode logicalunit --op new --tid 1 --lun 1 -b " + disk,
                      "--mode target --op bind --tid 1 -I ALL", "--mode target --op bind --tid 1 -Q " + INITIATOR):
            expect(Process(build, place.server, "tgtadm --lld iser " + order, [ipc], preload=False))
        url = "iser://%s/%s/1" % (place.address, TARGET)
        for test in SCSI_TESTS:
            c = Process(build, place.client, typed(build, "iscsi-test-cu -i %s --dataloss --fail -t %s %s" % (
                INITIATOR, test, url)), ["MALLOC_PERTURB_=0"], preload=False)  # it reads memory that it has not written
            expect(c, r"asserts +([1-9]\d*) +\1 +\1 +0")
        s.signal(signal.SIGKILL)  # it ends for nobody else


class Machine:
    """A virtual machine that does nothing, and its monitor."""

    def __init__(self, place, build, namespace, folder, name, options):
        self.path = os.path.join(folder, name)
        self.process = Process(build, namespace, typed(build, "qemu-system-x86_64 -machine q35 -accel tcg -m 64 -display none "
                                                       "-nodefaults -S -qmp unix:%s,server=on,wait=off %s" % (self.path, options)),
                               preload=False)
        self.process.until_listening_at(self.path)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(GUARD)
        self.socket.connect(self.path)
        self.lines = self.socket.makefile("r")
        self.order("qmp_capabilities")

    def order(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        return self.next("return", "error")

    def next(self, *keys):
        for line in self.lines:
            message = json.loads(line)
            if "error" in message:
                raise Failure("%s" % message["error"])
            if any(key in message for key in keys):
                return message
        raise Failure("its monitor is gone")

    def until_migrated(self):
        status = ""
        while status != "completed":
            status = self.next("event").get("data", {}).get("status", "")
            if status == "failed":
                raise Failure("the migration failed")


def migration(pin):
    """A virtual machine moves from one host to the other, its memory by RDMA."""
    def run(place, build):
        if not shutil.which("qemu-system-x86_64"):
            raise Skip("qemu is not there")
        with tempfile.TemporaryDirectory(prefix="uroce-qemu-") as folder:
            image, empty = RandomFile(folder, 8 << 20), os.path.join(folder, "empty")
            with open(empty, "wb") as f:
                f.truncate(8 << 20)
            load = "-device loader,addr=0x1000000,force-raw=on,file="
            to = "rdma:%s:%d" % (place.address, next(ports))
            target = Machine(place, build, place.server, folder, "target", "-incoming defer " + load + empty)
            start = Machine(place, build, place.client, folder, "start", load + image.name)
            for machine in target, start:
                machine.order("migrate-set-capabilities", capabilities=[
                    {"capability": "events", "state": True}, {"capability": "rdma-pin-all", "state": pin}])
            target.order("migrate-incoming", uri=to)
            start.order("migrate", uri=to)
            target.until_migrated()
            start.until_migrated()
            target.order("pmemsave", val=0x1000000, size=8 << 20, filename=image.copy)
            image.expect_copied()
            for machine in target, start:
                machine.order("quit")
                expect(machine.process)
    return run


TABLE = [
    Case("iSER: tgt and libiscsi", iser, BOTH),
    Case("migration of a QEMU guest", migration(pin=False), BOTH),
    Case("migration of a QEMU guest, rdma-pin-all", migration(pin=True)),
]
