#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What liburoce.so.1 exports, against what libibverbs exports and what programs need. A preloaded library must have
every public symbol, or a program would use two libraries at once; and nothing that it does not mean to export.

If abidiff is there, also the types: liburoce_44.abi has them as gcc sees them on x86-64 with the headers of rdma-core 44.
`UROCE_BUILD=build tests/abi/test_symbols.py --save` renews it, when a change is meant."""
import ctypes.util
import os
import platform
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, "liburoce_44.abi")
SAVE = "UROCE_BUILD=build tests/abi/test_symbols.py --save"
# whose types are public
HEADERS = [word for directory in (os.path.join(HERE, "../../include"), "/usr/include/infiniband", "/usr/include/rdma")
           for word in ("--headers-dir2", directory)]
# Without a version. The first answers for every IBVERBS_PRIVATE_*: see uroce.map; uroce_tree_read is for liburoce-sysfs.so,
# uroce_rsocket_attach for liburoce-rsocket.so, uroce_link_* for `uroce link`, the others of uroce for include/uroce.h. The rest
# stands in front of the C library's, or libmlx5's.
PRIVATE = {"ibv_query_gid_type", "uroce_tree_read", "madvise", "sched_yield", "dlopen", "uroce_rsocket_attach", "mlx5dv_query_device",
           "uroce_link_set", *"_Exit _exit execl execle execlp execv execve execvp execvpe fexecve".split(), "uroce_version", "uroce_link_down", "uroce_link_up",
           *("uroce_fault_" + word for word in "add remove clear list fired seed".split())}
# Of later versions of libibverbs and librdmacm.
NEWER_VERBS = {"ibv_%s@@IBVERBS_1.%d" % (name, version) for version, names in {
    15: "alloc_dmah dealloc_dmah reg_mr_ex", 16: "dm_export_dmabuf_fd query_port_speed", 17: "alloc_buf free_buf reg_buf_mr",
    18: "create_comp_cntr destroy_comp_cntr export_buf_dmabuf_fd inc_comp_cntr inc_err_comp_cntr qp_attach_comp_cntr"
        " read_comp_cntr read_err_comp_cntr set_comp_cntr set_err_comp_cntr",
}.items() for name in names.split()} | {"_ibv_query_comp_cntr_caps@@IBVERBS_1.18"}
NEWER = {"rdma_query_addrinfo@@RDMACM_1.4", "rdma_resolve_addrinfo@@RDMACM_1.4", "rdma_write_cm_event@@RDMACM_1.4"}

# The C library's cancellation points (pthreads(7)), as far as a library would call them.
CANCELLATION_POINTS = set("""accept accept4 clock_nanosleep close connect copy_file_range creat epoll_pwait epoll_pwait2 epoll_wait
    eventfd_read eventfd_write fallocate fdatasync fsync getrandom io_getevents lockf mq_receive mq_send msgrcv msgsnd msync
    nanosleep open openat pause poll ppoll pread preadv pselect pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait
    pthread_join pthread_timedjoin_np pwrite pwritev read readv recv recvfrom recvmmsg recvmsg select sem_timedwait sem_wait
    send sendfile sendmmsg sendmsg sendto sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice sync_file_range system tee
    thrd_join thrd_sleep usleep vmsplice wait wait3 wait4 waitid waitpid write writev""".split())
# Those that base/uncancelled.c calls with cancellation put off; and the one by which a thread waits.
PUT_OFF = set("""accept4 close connect fallocate getrandom msync nanosleep open pread pwrite pthread_cond_timedwait
    pthread_cond_wait pthread_join ppoll""".split())


def undefined(library):
    """What it takes from other libraries, without versions and the 64 of large files."""
    out = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    return {re.sub(r"(64)?(@.*)?$", "", line.split()[-1]) for line in out.splitlines()}


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                         capture_output=True, text=True).stdout
    return {fields[2] for fields in (line.split() for line in out.splitlines()) if fields[1] in "TWDBRi"}


def lines(name):
    with open(os.path.join(HERE, name)) as f:
        return set(f.read().split())


def public(symbols):
    """Defaults of public versions: not the compatibility duplicates (one @), not IBVERBS_PRIVATE."""
    return {s for s in symbols if re.search(r"@@IBVERBS_1\.\d+$", s)}


def distribution():
    """The library of this machine, if it is rdma-core 44 as in Debian 12."""
    name = ctypes.util.find_library("ibverbs")
    found = subprocess.run(["sh", "-c", "/sbin/ldconfig -p | awk '$1 == \"%s\" {print $NF; exit}'" % name],
                           capture_output=True, text=True).stdout.strip()
    return found if name and found else None


def interposed():
    """What docs/interposed.md says and the libraries do not, and the reverse: its section "## LIBRARY" names in blocks each
    symbol of that library, except ibv_* and rdma_* of the first, which are in the lists beside this file."""
    wrong = set()
    with open(os.path.join(HERE, "../../docs/interposed.md")) as f:
        sections = re.split("^## ", f.read(), flags=re.M)[1:]
    for name, *text in (section.splitlines() for section in sections):
        if not name.endswith((".so", ".so.1")):
            continue
        library = os.path.join(os.environ["UROCE_BUILD"], name)
        if not os.path.exists(library):
            continue  # built without it
        has = {re.sub("@.*", "", symbol) for symbol in exported(library)}
        has = {s for s in has if not re.match(r"(IBVERBS|RDMACM)_|__odr_asan|__start_|__stop_", s)}
        if name == "liburoce.so.1":
            has = {s for s in has if not re.match("_?ibv_|rdma_", s)}
        wrong |= {f"{name}: {symbol}" for symbol in has ^ {word for line in text if line.startswith("    ") for word in line.split()}}
    return wrong


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    return done.returncode, done.stdout


def has_types(library):
    """Whether the types of this build can be compared with those of KEPT."""
    return bool(platform.machine() == "x86_64" and shutil.which("abidiff") and
                output("pkg-config", "--modversion", "libibverbs")[1].startswith("1.14.44.") and
                "clang" not in output("readelf", "-p", ".comment", library)[1] and
                "__asan_" not in output("nm", "-D", library)[1])


def types_changed(library):
    """What abidiff says of it, as lines."""
    status, said = output("abidiff", "--drop-private-types", *HEADERS, KEPT, library)
    return set() if status == 0 else ["status %d" % status, *said.splitlines(), "if that is meant: " + SAVE]


def save(library):
    with open(KEPT, "w") as f:
        subprocess.run(["abidw", "--drop-private-types", "--exported-interfaces-only", "--drop-undefined-syms", "--no-show-locs",
                        "--no-comp-dir-path", "--no-corpus-path", "--type-id-style", "hash",
                        *(h.replace("dir2", "dir") for h in HEADERS), library], stdout=f, check=True)


def main():
    library = os.path.join(os.environ["UROCE_BUILD"], "liburoce.so.1")
    if sys.argv[1:] == ["--save"]:
        return save(library)
    checks = []
    ours = exported(library)
    known = lines("libibverbs_44.txt")
    needed = {s.replace("@", "@@", 1) for s in lines("needed.txt")}
    # version nodes themselves are symbols as well, and AddressSanitizer adds one for each variable
    ours = {s for s in ours if not re.match(r"(IBVERBS|RDMACM)_[\w.]+(@|$)|__odr_asan\.", s)}
    front = {s for s in ours if "@RDMACM_" not in s}
    connecting = ours - front

    checks.append(("every symbol that programs need is there", needed - front))
    checks.append(("every public symbol of libibverbs 44 is there", public(known) - front))
    checks.append(("those of later ones are there", NEWER_VERBS - front))
    checks.append(("nothing else is there", front - public(known) - NEWER_VERBS - PRIVATE))
    checks.append(("every rdma_* symbol of librdmacm 44 is there, and of the rest what is named here",
                   (lines("librdmacm_44.txt") | NEWER) ^ connecting))
    if not any(re.match("__(asan|tsan|ubsan)_", symbol) for symbol in undefined(library)):
        checks.append(("no call is a cancellation point that shall be none: base/uncancelled.c lacks nothing",
                       undefined(library) & CANCELLATION_POINTS - PUT_OFF))
    checks.append(("docs/interposed.md names what is interposed", interposed()))
    if has_types(library):
        checks.append(("the types of its functions are those of liburoce_44.abi", types_changed(library)))
    theirs = distribution()
    if theirs:
        theirs = exported(theirs)
        checks.append(("the list is what this machine's libibverbs exports", known - theirs if
                       "IBVERBS_1.14" in "".join(theirs) else set()))
    print("1..%d" % len(checks))
    for number, (what, wrong) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if wrong else "", number, what))
        for symbol in wrong if isinstance(wrong, list) else sorted(wrong):
            print("# " + symbol)
    return any(wrong for _, wrong in checks)


if __name__ == "__main__":
    sys.exit(main())
