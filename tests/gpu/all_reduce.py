#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""all_reduce.py RANK PORT BYTES,...: torch.distributed's all_reduce by NCCL, of two processes on one GPU as two hosts: is the
result right, and how long does it take? For `make gpu`."""
import os
import sys
import time

rank, port = int(sys.argv[1]), sys.argv[2]
os.environ["NCCL_HOSTID"] = f"host{rank}"

import torch  # reads the environment
import torch.distributed as distributed

torch.cuda.set_device(0)
distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
for size in map(int, sys.argv[3].split(",")):
    numbers = torch.full((size // 4,), float(rank + 1), device="cuda")
    times = []
    for run in range(6):
        torch.cuda.synchronize()
        begin = time.time()
        distributed.all_reduce(numbers)
        torch.cuda.synchronize()
        if run:
            times.append(time.time() - begin)
        elif not bool((numbers == 3).all()):
            sys.exit(f"all_reduce of {size} bytes: wrong")
    if rank == 0:
        print(f"all_reduce of {size} bytes: right, median {sorted(times)[2] * 1e6:.0f} us", flush=True)
distributed.destroy_process_group()
