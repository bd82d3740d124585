# SPDX-License-Identifier: BSD-2-Clause
"""RDMA without RDMA hardware: the `uroce` command and what it needs, for Python programs.

    subprocess.run(["ibv_devinfo"], env=uroce.env())          # a program with uroce's devices
    os.execvpe(program, arguments, uroce.env())
    uroce.env("--adapter", "cx6", "--fault", "out SEND nth 1: drop")      # options of `uroce run`

A process that runs already does not get devices by os.environ.update(uroce.env()), but those that it starts do.
"""
import json
import os
import subprocess
import sys

__all__ = ["command", "env", "loaded", "main"]

_TELL = "import json, os, sys; json.dump(dict(os.environ), sys.stdout)"


def command():
    """The path of the `uroce` command of this package."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "uroce")


def env(*options):
    """The environment of this process as `uroce run OPTION...` changes it, as a dict. ValueError: what the command
    says of a wrong option."""
    # what the command does is what counts, so it is asked
    done = subprocess.run([command(), "run", *options, "--", sys.executable, "-I", "-S", "-c", _TELL],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode:
        raise ValueError(done.stderr.strip() or "uroce run ended with status %d" % done.returncode)
    return json.loads(done.stdout)


def loaded():
    """Whether this process has uroce's devices: it, or a parent of it, was started by `uroce run`."""
    return "liburoce.so" in os.environ.get("LD_PRELOAD", "")


def main():
    """The command, with the arguments of this process."""
    os.execv(command(), ["uroce", *sys.argv[1:]])
