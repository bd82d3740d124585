# SPDX-License-Identifier: BSD-2-Clause
"""RDMA without RDMA hardware: the `uroce` command and what it needs, for Python programs.

    subprocess.run(["ibv_devinfo"], env=uroce.env())          # a program with uroce's devices
    os.execvpe(program, arguments, uroce.env())
    uroce.env("--adapter", "cx6", "--fault", "out SEND nth 1: drop")      # options of `uroce run`

A process that runs already does not get devices by os.environ.update(uroce.env()), but those that it starts do.

In a process that has them (`uroce run python3 ...`, `pytest --uroce`), faults of its own, as uroce.h has them for C:

    number = uroce.fault_add("complete SEND nth 1: status REM_OP_ERR")    # ValueError: what is wrong with the rule
    uroce.fault_fired(number)
"""
import collections
import ctypes
import errno
import json
import os
import subprocess
import sys

__all__ = ["Fault", "command", "env", "fault_add", "fault_clear", "fault_fired", "fault_remove", "fault_seed", "faults",
           "link_down", "link_up", "loaded", "main", "version"]

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


Fault = collections.namedtuple("Fault", "number text could fired")
Fault.__doc__ = """A rule in force: how often its event has come, and how often it has fired."""
_WHY = 1024
_SHOW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)


def _call(name, *arguments, result=ctypes.c_int64):
    """A function of uroce.h. OSError, also with ENOSYS: uroce is not in this process."""
    try:
        function = getattr(ctypes.CDLL(None), "uroce_" + name)
    except AttributeError:
        raise OSError(errno.ENOSYS, "this process has no uroce: start it with `uroce run`") from None
    function.restype = result
    value = function(*arguments)
    if result is not ctypes.c_char_p and value < 0:
        raise OSError(-value, os.strerror(-value))
    return value


def version():
    """The version of the library in this process; None: it is not there."""
    try:
        return _call("version", result=ctypes.c_char_p).decode()
    except OSError:
        return None


def fault_add(rule):
    """A rule of uroce-fault(5) comes into force in this process. Returns its number. ValueError: what is wrong with it."""
    why = ctypes.create_string_buffer(_WHY)
    try:
        return _call("fault_add", rule.encode(), why, ctypes.c_size_t(_WHY), result=ctypes.c_int)
    except OSError:
        if why.value:
            raise ValueError(why.value.decode()) from None
        raise


def fault_remove(number):
    """The rule is out of force. OSError with ENOENT: there is none."""
    _call("fault_remove", number, result=ctypes.c_int)


def fault_clear():
    """All rules are."""
    _call("fault_clear", result=ctypes.c_int)


def faults():
    """The rules in force: a list of Fault."""
    found = []
    show = _SHOW(lambda _, number, text, could, fired: found.append(Fault(number, text.decode(), could, fired)))
    _call("fault_list", show, None, result=ctypes.c_int)
    return found


def fault_fired(number):
    """How often a rule has fired, also one that has been removed."""
    return _call("fault_fired", number)


def fault_seed():
    """The seed by which chance decides: UROCE_FAULT_SEED repeats it."""
    return _call("fault_seed")


def link_down(device):
    """The port of a device goes down, for all processes of this user, until link_up()."""
    _call("link_down", device.encode(), result=ctypes.c_int)


def link_up(device):
    """... and up."""
    _call("link_up", device.encode(), result=ctypes.c_int)


def main():
    """The command, with the arguments of this process."""
    os.execv(command(), ["uroce", *sys.argv[1:]])
