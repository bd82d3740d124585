#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What uroce conform finds: no rule is broken but those in BROKEN, by shared memory, mapped and not, by UDP, in one
process, under --hostile, and with each row of the adapters; and the table of docs/conformance.md has these numbers. With --write as
CONFORM the table is written anew: CONFORM=--write tests/tools/test_conform.py. In a network namespace of its own."""
import fnmatch, json, os, re, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

import alone

SOURCE = os.environ.get("UROCE_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(SOURCE, "docs/conformance.md")
BEGIN, END = "<!-- uroce: CONFORM=--write tests/tools/test_conform.py -->\n", "<!-- end of uroce -->\n"
# rules that uroce breaks, and why that is not mended yet
BROKEN = {}
ADAPTERS = ["cx5", "cx6", "cx6lx", "cx7", "irdma", "mlx4", "cx4lx", "rxe", "siw", "bnxt_re", "ionic", "efa", "apple", "ib"]
COLUMNS = {
    "shm": ["uroce", "conform"],
    "UDP": ["env", "UROCE_LOCAL=off", "uroce", "conform"],
    "one": ["uroce", "conform", "--one-process"],
    "hostile": ["uroce", "run", "--hostile=3", "uroce-conform"],
    "unmapped": ["env", "UROCE_ADOPT=off", "uroce", "conform"],  # as of programs with threads; not in the table
    **{name: ["uroce", "conform", "--adapter", name] for name in ADAPTERS},
}
QUICK = bool(os.environ.get("UROCE_QUICK"))  # with a sanitizer
ALIKE = ["cx5", "cx4lx", "cx6", "cx6lx", "cx7"]  # one column, "cx"
# what is tried of all but the first of them: what attributes decide. The soak tries the rest
BY_ATTRIBUTES = ["create", "limits", "values", "memory", "queues"]
TABLES = [list(COLUMNS)[:4], ["cx", *(name for name in ADAPTERS if name not in ALIKE)]]
LETTERS = {"unusual": "u", "not offered": "n", "wrong": "w"}
# what needs CAP_NET_RAW; what needs IPv6
ELSEWHERE = [*(["modify/raw", "raw/"] if os.getuid() else []), *([] if os.path.exists("/proc/net/if_inet6") else ["cm6/"])]


def run(column, *options):
    done = subprocess.run([*COLUMNS[column], "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    rows = map(json.loads, done.stdout.splitlines()) if done.returncode in (0, 1) else []
    return {row["rule"]: row for row in rows}


def try_rules(column):
    """What is wrong is tried once more, as the machine may be busy: a NAK that is lost is not sent again."""
    found = run(column, *(f"--only={group}" for group in BY_ATTRIBUTES if column in ALIKE[1:]))
    for rule, row in list(found.items()):
        if row["verdict"] == "wrong" or (row["verdict"] == "unusual" and rule.startswith("timer/")):
            print(f"# {column}: {rule}: seen: {row['seen']}")
            found.update(run(column, "--only", rule + "*"))
    return found


def family(rule):
    return "/".join(rule.split("/")[:2])


def cell(rows, letters):
    """Of a family in a column."""
    counts = [(letter, sum(row["verdict"] == word for row in rows)) for word, letter in LETTERS.items() if letter in letters]
    right = sum(row["verdict"] == "right" for row in rows)
    return " ".join([str(right) if right else "-", *(f"{letter}{n}" for letter, n in counts if n)])


def tables(found):
    families = list(dict.fromkeys(family(rule) for rule in found["shm"]))
    found = {**found, "cx": found["cx5"]}
    for columns, letters in zip(TABLES, ("unw", "w")):
        yield "| rules | " + " | ".join(columns) + " |"
        yield "|---" * (len(columns) + 1) + "|"
        for name in families:
            cells = [cell([row for rule, row in found[c].items() if family(rule) == name], letters) for c in columns]
            yield "| " + " | ".join([name, *cells]) + " |"
        yield ""


def by_server():
    """The far ends at a server, as on another host: the rules that are wrong, or None if there is no result."""
    server = subprocess.Popen(["uroce", "conform", "--server"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not subprocess.check_output(["ss", "-Hltn", "sport = :18516"]):
            assert server.poll() is None, "the server has ended"
        done = subprocess.run(["uroce", "conform", "--client", "127.0.0.1", "--json", "--only", "data", "--only", "status", "--only", "cm"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    finally:
        server.terminate()
        server.wait()
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row["rule"] + ": " + row["seen"] for row in rows if row["verdict"] == "wrong"] if rows else None


def compare(lines):
    """With the page; or writes it."""
    with open(PAGE) as f:
        before, _, rest = f.read().partition(BEGIN)
    old, _, after = rest.partition(END)
    if os.environ.get("CONFORM") == "--write":
        with open(PAGE, "w") as f:
            f.write(before + BEGIN + lines + END + after)
        return True
    lacking = [line for line in lines.splitlines() if line not in old.splitlines() and
               not line.startswith(tuple("| " + family for family in ELSEWHERE))]
    print("not ok" if lacking else "ok", "- docs/conformance.md has these numbers")
    print(*("#   " + line for line in lacking), sep="\n")
    return not lacking


def main():
    alone.enter(["ip", "ss"])
    os.environ["UROCE_DEVICES"] = "lo"
    os.environ["PATH"] = os.path.join(os.environ["UROCE_BUILD"], "conform") + ":" + os.environ["PATH"]
    failed = False
    columns = TABLES[0] if QUICK else list(COLUMNS)
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(columns, pool.map(try_rules, columns)))
    for column, rows in found.items():
        wrong = [rule for rule, row in rows.items() if row["verdict"] == "wrong"]
        surprises = [rule for rule in wrong if not any(fnmatch.fnmatch(rule, known) for known in BROKEN)]
        failed |= bool(surprises) or not rows
        print("not ok" if surprises or not rows else "ok", "-", f"{column}: {len(rows)} rules, {len(wrong)} broken")
        for rule in surprises:
            print(f"#   {rule}: {rows[rule]['expects']}; seen: {rows[rule]['seen']} ({rows[rule]['source']})")
    for known in BROKEN:
        if not any(fnmatch.fnmatch(rule, known) and row["verdict"] == "wrong" for rule, row in found["shm"].items()):
            print(f"not ok - {known} is not broken any more: take it out of BROKEN")
            failed = True
    if QUICK:
        sys.exit(failed)
    for name in ALIKE[1:]:
        if any(row["verdict"] != found[ALIKE[0]][rule]["verdict"] for rule, row in found[name].items()):
            print(f"not ok - {name} differs from {ALIKE[0]}")
            failed = True
    wrong = by_server()
    print("not ok" if wrong or wrong is None else "ok", "- by --server and --client", *wrong or [])
    failed |= bool(wrong) or wrong is None
    failed |= not compare("".join(line + "\n" for line in tables(found)))
    sys.exit(failed)


main()
