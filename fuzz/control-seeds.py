#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/control: each request of loop/control.c, well and badly put; answers of each kind."""
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "control")
RULES = ["packet in UD: drop", "packet out SEND psn 100 : corrupt 1 seed 5", "memory local READ region 3: refuse",
         "call ibv_reg_mr: ENOMEM", "post SEND 1%: delay 5 ms", "device uroce0 down"]
SEEDS = {
    "version": "version\nversion 3\nversions\n",
    "stat": "stat\nstat devices\nend\nstat other\n",
    "trace": "trace\ntrace\nstat\nend\ntrace\nend\ntrace x\n",
    "traces": 40 * "trace\nend\n",
    "count": "count\ncount\nend\ncount\n",
    "pcap": "pcap collector\npcap collector\nend\npcap collector\n",
    "pcap-none": "pcap nobody\npcap\npcap " + 200 * "n" + "\n",
    "fault": "".join("fault add %s\n" % rule for rule in RULES) + "fault list\nfault remove 1\nfault remove 99\nfault clear\nfault list\n",
    "fault-long": "fault add " + 300 * "x" + "\nfault\nfault " + 4000 * "y" + "\n",
    "unknown": "stats\n \n\x01\xff\nversion\0stat\n" + 5000 * "z" + "\n",
    "answers": "<ok \n<ok 1\n<error \n<error why\n<ok\n<other\n<\n<ok " + 4095 * "a" + "\n<" + 4090 * "b" + "\n",
}

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(seed.encode("latin-1"))
