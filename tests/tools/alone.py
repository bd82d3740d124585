# SPDX-License-Identifier: BSD-2-Clause
"""What tests in a network namespace of their own begin with."""
import os, shutil, subprocess, sys, tempfile

# perftest's words for one that runs until it is ended, however slow the machine is. Its alarm, after the margin and at
# the end of the duration, never comes: its handler calls fopen(), which ThreadSanitizer ends a program for.
ENDLESS = ("-D86400", "-f40000")


def enter(needed):
    """Ends the test with 77 (skipped) if one of the programs is missing; else goes on, as the same script, in a new
    network namespace whose loopback is up."""
    missing = [p for p in needed if not shutil.which(p)]
    if missing:
        print("no", *missing)
        sys.exit(77)
    if os.environ.get("UROCE_ALONE") != "1":
        os.environ["UROCE_ALONE"] = "1"
        unshare = ["unshare", "-n"] if os.getuid() == 0 else ["unshare", "-rn"]
        os.execvp(unshare[0], unshare + [sys.executable, os.path.abspath(sys.argv[0])])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def run(needed, *tests):
    """Enters, and runs the tests in a folder that is removed."""
    enter(needed)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for test in tests:
            test()
            print("ok", test.__name__)
        os.chdir("/")
