# SPDX-License-Identifier: BSD-2-Clause
"""A suite that knows nothing of uroce: two queue pairs of one device, by pyverbs."""
import pytest
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


class End:
    def __init__(self, context):
        self.context = context
        self.pd = PD(context)
        self.cq = CQ(context, 16)
        self.mr = MR(self.pd, 4096, ACCESS)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(16, 16, 1, 1))
        self.qp = QP(self.pd, init)

    def connect(self, other):
        gid = self.context.query_gid(1, 0)
        route = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0))
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.dest_qp_num = other.qp.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.ah_attr = route
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 10, 7, 7
        self.qp.to_rts(attr)

    def completion(self):
        while True:
            count, completions = self.cq.poll()
            if count:
                return completions[0]


@pytest.fixture
def ends():
    context = Context(name=get_device_list()[0].name.decode())
    a, b = End(context), End(context)
    a.connect(b)
    b.connect(a)
    return a, b


def send(a, b, opcode=e.IBV_WR_SEND, rkey=None):
    a.mr.write("hello", 5)
    b.qp.post_recv(RecvWR(sg=[SGE(b.mr.buf, 64, b.mr.lkey)], num_sge=1))
    wr = SendWR(sg=[SGE(a.mr.buf, 5, a.mr.lkey)], num_sge=1, opcode=opcode)
    if rkey is not None:
        wr.set_wr_rdma(rkey, b.mr.buf)
    a.qp.post_send(wr)
    return a.completion()


def test_a_send_arrives(ends):
    a, b = ends
    assert send(a, b).status == e.IBV_WC_SUCCESS
    assert b.completion().byte_len == 5
    assert b.mr.read(5, 0) == b"hello"


def test_a_write_with_a_wrong_key_fails(ends):
    a, b = ends
    assert send(a, b, e.IBV_WR_RDMA_WRITE, b.mr.rkey + 1).status == e.IBV_WC_REM_ACCESS_ERR
