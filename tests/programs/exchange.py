#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""exchange.py N: a program that uses pyverbs. Two queue pairs of its own exchange N messages, each with other bytes."""
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

LENGTH = 1000


def connect(qp, peer, gid):
    route = GlobalRoute(dgid=gid, sgid_index=0)
    attr = QPAttr(port_num=1)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE
    attr.dest_qp_num, attr.path_mtu = peer.qp_num, e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    qp.to_rts(attr)


def done(cq):
    """The next completion."""
    while True:
        n, completions = cq.poll(1)
        if n:
            return completions[0]


def exchange(a, b, cq, mr, n):
    """The status of the first that fails, or 0."""
    for i in range(n):
        sent = bytes((i + j) & 255 for j in range(LENGTH))
        mr.write(sent, LENGTH)
        b.post_recv(RecvWR(sg=[SGE(mr.buf + LENGTH, LENGTH, mr.lkey)], num_sge=1))
        a.post_send(SendWR(opcode=e.IBV_WR_SEND, sg=[SGE(mr.buf, LENGTH, mr.lkey)], num_sge=1))
        for _ in range(2):
            status = done(cq).status
            if status:
                return status
        if mr.read(LENGTH, LENGTH) != sent:
            sys.exit("message %d came with other bytes" % i)
        a, b = b, a
    return 0


def main():
    context = Context(name=get_device_list()[0].name.decode())
    pd, cq = PD(context), CQ(context, 16)
    mr = MR(pd, 2 * LENGTH, e.IBV_ACCESS_LOCAL_WRITE)
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(4, 4, 1, 1, 0), sq_sig_all=1)
    ends = [QP(pd, init) for _ in range(2)]
    gid = context.query_gid(1, 0)
    connect(ends[0], ends[1], gid)
    connect(ends[1], ends[0], gid)
    n = int(sys.argv[1])
    status = exchange(ends[0], ends[1], cq, mr, n)
    print("status %d" % status if status else "%d messages" % n)
    return status != 0


if __name__ == "__main__":
    sys.exit(main())
