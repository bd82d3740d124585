#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/fault: rules of each event, and of each action."""
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "fault")
SEEDS = {
    "packets": "out SEND chance 1%: drop; in RC_SEND_ONLY every 10: delay 1ms..5ms\n"
               "packet peer ::1 between 1s..2s: partition # both ways\n"
               "out WRITE qp 1 psn 0..100 size 1..4096 nth 3: corrupt payload bit 7; out: rate 10M; out SEND: truncate 9",
    "answers": "in REQUEST RC nth 4: nak operation; in SEND every 7: rnr 12; in WRITE nth 2: revoke;"
               "in WRITE nth 2: last-first 1ms; post: delay 1ms..2ms; call ibv_req_notify_cq every 2: wake",
    "verbs": "post RDMA_WRITE wr_id 7: refuse ENOMEM; complete SEND with SUCCESS nth 5: status RETRY_EXC_ERR;"
             "complete: overrun; onesided WRITE: refuse; call ibv_reg_mr nth 2: refuse ENOMEM",
    "others": "mad out REQ nth 1: drop; mad REQ: reject 28; time after 2s: port-down 500ms; post nth 9: fatal;"
              "out nth 10: stop 20ms; complete: kill; out: gid-gone; out repeats chance 1/8 times 3: duplicate",
    "memory": "memory remote WRITE region 2 size 8..4k every 5: revoke; memory local READ wr_id 7: delay 1ms; memory: refuse",
    "wrong": "out UD WRITE: drop; out nth 3..4 every 5: drop; oot; out SEND: dorp; post psn 3: refuse EIO",
}
os.makedirs(HERE, exist_ok=True)
for name, text in SEEDS.items():
    with open(os.path.join(HERE, name), "w") as f:
        f.write(text)
