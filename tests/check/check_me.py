# SPDX-License-Identifier: BSD-2-Clause
"""check_me.py CASE wrong|right: what check_me.c does, in Python by pyverbs. Without arguments it lists the cases: the
name, what must be found in the wrong one, and the function of the place."""
import ctypes
import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
from pyverbs.enums import (IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_MTU_1024, IBV_QPT_RC, IBV_SEND_SIGNALED,
                           IBV_WR_RDMA_WRITE, IBV_WR_SEND)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE


class End:
    def __init__(self, context, pd, channel=None):
        self.mr = MR(pd, 4096, ACCESS)
        self.cq = CQ(context, 32, None, channel, 0)
        self.qp = QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=8, max_recv_wr=8)))

    def connect(self, context, peer):
        gid = context.query_gid(1, 0)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.dest_qp_num = peer.qp.qp_num
        attr.path_mtu = IBV_MTU_1024
        attr.min_rnr_timer = 1
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0, hop_limit=1))
        self.qp.to_rts(attr)

    def piece(self, at=0):
        return SGE(self.mr.buf + at, 64, self.mr.lkey)

    def receive(self):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[self.piece()], wr_id=100))

    def post(self, opcode, peer=None):
        wr = SendWR(opcode=opcode, num_sge=1, sg=[self.piece()], send_flags=IBV_SEND_SIGNALED, wr_id=1)
        if peer:
            wr.set_wr_rdma(peer.mr.rkey, peer.mr.buf)
        self.qp.post_send(wr)

    def wait(self):
        count = 0
        while not count:
            count, _ = self.cq.poll()

    def close(self):
        for part in (self.qp, self.cq, self.mr):
            part.close()


class Pair:
    def __init__(self):
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd, self.channel = PD(self.context), CompChannel(self.context)
        self.a, self.b = End(self.context, self.pd), End(self.context, self.pd, self.channel)
        self.a.connect(self.context, self.b)
        self.b.connect(self.context, self.a)

    def close(self):
        for part in (self.a, self.b, self.channel, self.pd, self.context):
            part.close()


def leak_pd(wrong):
    def make(context):
        return PD(context)

    context = Context(name=get_device_list()[0].name.decode())
    pd = make(context)
    if wrong: # and no object is closed as the interpreter ends
        ctypes.CDLL(None).exit(0)
    pd.close()
    context.close()


def write_changes(wrong):
    p = Pair()
    p.a.post(IBV_WR_RDMA_WRITE, p.b)
    if wrong:
        p.a.mr.write("early", 5)
    p.a.wait()
    p.a.mr.write("later", 5)
    p.close()


def receive_is_written_to(wrong):
    p = Pair()
    p.b.receive()
    if wrong:
        p.b.mr.write("empty", 5)
    p.a.mr.write("x" * 64, 64)
    p.a.post(IBV_WR_SEND)
    p.a.wait()
    p.b.wait()
    p.close()


def wakeup_is_lost(wrong):
    p = Pair()
    p.b.cq.poll()
    p.b.receive()
    if not wrong:
        p.b.cq.req_notify()
    p.a.post(IBV_WR_SEND)
    p.a.wait()
    if wrong:
        p.b.cq.req_notify()
    p.channel.get_cq_event(p.b.cq)
    p.b.cq.ack_events(1)
    p.b.wait()
    p.close()


def write_is_not_awaited(wrong):
    p = Pair()
    p.a.post(IBV_WR_RDMA_WRITE, p.b)
    if not wrong:
        p.a.wait()
    p.a.qp.close()
    p.close()


CASES = {
    leak_pd: ("leak-pd", "make"),
    write_changes: ("changed-in-flight", "post"),
    receive_is_written_to: ("written-in-flight", "receive"),
    wakeup_is_lost: ("lost-wakeup", "wakeup_is_lost"),
    write_is_not_awaited: ("destroyed-outstanding", "write_is_not_awaited"),
}

for case, (finding, place) in CASES.items():
    if len(sys.argv) < 3:
        print(case.__name__, finding, place)
    elif sys.argv[1] == case.__name__:
        case(sys.argv[2] == "wrong")
