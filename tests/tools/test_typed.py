#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`uroce run` says which devices a program will see if a person has typed it at a terminal, and nothing else says so: not a
script, not where the messages do not go to a terminal."""
import fcntl, os, pty, re, struct, subprocess, sys, termios


def check(what, good, *more):
    if not good:
        print("FAILED:", what, *more)
        sys.exit(1)


def at_a_terminal(*command, columns=80, fails=False, **environment):
    """What it shows there, as the first process of the terminal, as a shell has each command in front."""
    child, fd = pty.fork()
    if not child:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ.update(environment)
        os.execvp(command[0], command)
    shown = b""
    try:
        while True:
            more = os.read(fd, 4096)
            if not more:
                break
            shown += more
    except OSError:  # the end, on Linux
        pass
    status = os.waitpid(child, 0)[1]
    check(" ".join(command), (status != 0) == fails, status, shown)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


DEVICES = {"UROCE_DEVICES": "127.0.0.1..127.0.0.8=mlx5_0"}

lines = at_a_terminal("uroce", "run", "echo", "it runs", **DEVICES)
check("one line", len(lines) == 2 and lines[1] == "it runs", lines)
check("the devices", lines[0].startswith("uroce: devices: mlx5_0 (lo, 127.0.0.1) mlx5_1 (lo, 127.0.0.2)"), lines)
check("as many as fit", lines[0].endswith(", 6 more") and len(lines[0]) <= 80, lines)
lines = at_a_terminal("uroce", "run", "echo", "it runs", columns=300, **DEVICES)
check("all", lines[0].count("mlx5_") == 8 and "more" not in lines[0], lines)
lines = at_a_terminal("uroce", "run", "--fault", "out SEND nth 3: drop", "true")
check("nothing of the faults", not any("fired" in line for line in lines), lines)
check("none", "none" in at_a_terminal("uroce", "run", "true", UROCE_DEVICES="nosuch")[-1])
check("a script", at_a_terminal("sh", "-c", "uroce run echo it runs; echo end", **DEVICES) == ["it runs", "end"])
for command in (["explain", "12"], ["explain", "0x1214"], ["explain", "IBV_WC_LOC_PROT_ERR"], ["devices"], ["help", "run"],
                ["hostile", "-p", "-s", "3"]):
    lines = at_a_terminal("uroce", *command)
    check("80 columns of " + " ".join(command), all(len(line) <= 80 for line in lines), lines)
lines = at_a_terminal("sh", "-c", "uroce doctor; true")
check("80 columns of doctor", len(lines) > 10 and all(len(line) <= 80 for line in lines), lines)
said = " ".join(at_a_terminal("uroce", "run", "ibv_devinfo", "-d", "uroce7", fails=True, UROCE_DEVICES="lo"))
check("one hint", said.count("there is no device uroce7") == 1 and "Name one of these" in said, said)
said = subprocess.run(["uroce", "run", "echo", "it runs"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                      universal_newlines=True, start_new_session=True).stdout
check("no terminal", said == "it runs\n", said)
print("ok")
