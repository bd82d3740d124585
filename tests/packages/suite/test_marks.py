# SPDX-License-Identifier: BSD-2-Clause
"""What the plug-in offers to a suite that knows of uroce. Those that end in _fails are to fail: tests/packages/wheel looks
at what is printed."""
import subprocess

import pytest
from pyverbs.device import Context, get_device_list
import pyverbs.enums as e
from pyverbs.wr import SGE, RecvWR, SendWR
from test_pair import ends, send  # noqa: F401


def test_devices_are_there(rdma):
    assert rdma.devices == ["uroce0"]
    assert b"uroce0" in subprocess.run(["ibv_devices"], stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.rdma_devices(3)
def test_three_devices_are_there():
    assert [d.name.decode() for d in get_device_list()] == ["uroce0", "uroce1", "uroce2"]


@pytest.mark.rdma_adapter("cx5")
def test_an_adapter_is_there():
    assert Context(name="mlx5_0").query_device().vendor_id == 0x2c9


@pytest.mark.rdma_fault("complete SEND nth 1: status REM_OP_ERR")
def test_a_fault_is_injected(ends):
    assert send(*ends).status == e.IBV_WC_REM_OP_ERR


@pytest.mark.rdma_fault("complete SEND nth 1: status REM_OP_ERR")
def test_a_fault_is_told_fails(ends):
    assert send(*ends).status == e.IBV_WC_SUCCESS


def test_a_mistake_is_told_fails(rdma, ends):
    a, b = ends
    b.qp.post_recv(RecvWR(sg=[SGE(b.mr.buf, 64, b.mr.lkey)], num_sge=1))
    b.mr.write("mine", 4)  # where the message goes
    a.mr.write("hello", 5)
    a.qp.post_send(SendWR(sg=[SGE(a.mr.buf, 5, a.mr.lkey)], num_sge=1))
    b.completion()
    assert b.mr.read(4, 0) == b"mine"


def test_a_process_that_ends_is_told_fails(rdma):
    import os
    os._exit(3)


@pytest.mark.parametrize("text", ["a b", "c"])
def test_parameters(rdma, text):
    assert text in ("a b", "c")


def test_skips(rdma):
    pytest.skip("because")
