#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Each mistake of check_me is found, at its place; what is right stays without a finding. And the options of `uroce
check`. In a network namespace of its own, where it can have one: others may use port 4791 of this one."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import xml.etree.ElementTree

BUILD = os.environ["UROCE_BUILD"]
UROCE, ME = os.path.join(BUILD, "uroce"), os.path.join(BUILD, "check_me")
FOUND = 98
results = []
# Where uroce itself is built with a sanitizer, that stops what touches the memory first, and valgrind cannot be beside it.
SANITIZED = re.search("lib[atu]b?san", subprocess.run(["ldd", os.path.join(BUILD, "liburoce.so.1")], stdout=subprocess.PIPE,
                                                      text=True).stdout)
OF_SANITIZERS = ("outside-object", "data-race", "peer-race")
# What is looked for only if asked for; AddressSanitizer finds what is touched by itself.
ASKED_FOR = {"race": ("--only", "races"), "unmapped-registered": ("--only", "mappings"), "touched-in-flight, of a page": ("--strict-polling",)}
STOPS = ("touched-in-flight", "libasan")
STOPPED = ("freed_first", "locals_are_sent")
DEEP = ("payload_is_compared_at_0",) # by a function of the sanitizer's, which has a large stack


def enter_namespace():
    how = ["unshare", "-n"] + ([] if os.getuid() == 0 else ["-r"])
    if os.environ.get("UROCE_ALONE") or subprocess.run([*how, "true"], stderr=subprocess.DEVNULL).returncode:
        return
    os.environ["UROCE_ALONE"] = "1"
    os.execvp(how[0], [*how, "sh", "-c", 'ip link set lo up; exec "$0" "$@"', sys.executable, *sys.argv])


def check(what, fine, output=""):
    results.append(fine)
    print(f"{'ok' if fine else 'not ok'} {len(results)} - {what}")
    if not fine:
        print("".join(f"#   {line}\n" for line in str(output).splitlines()), end="", flush=True)


def run(*options, program=(ME,), environment=None):
    return subprocess.run([UROCE, "check", *options, *program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env={**os.environ, **(environment or {})})


def finding(output, name):
    """The lines of the finding, or an empty string."""
    match = re.search(rf"^uroce check: {name}: .*\n(    .*\n)*", output, re.M)
    return match.group(0) if match else ""


def each_case():
    cases = subprocess.run([ME], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    for case, name, place in (line.split() for line in cases if line):
        if SANITIZED and (name in OF_SANITIZERS or case in STOPPED + DEEP or (name, SANITIZED.group(0)) == STOPS):
            continue
        options = ASKED_FOR.get(f"{name}, of a page" if "page" in case else name, ())
        wrong, right = (run(*options, program=(ME, case, how), environment=racing(how)) for how in ("wrong", "right"))
        found = finding(wrong.stdout, name)
        where = re.search(r"^        ((?!__)\S+) \((?!(rdma_)?verbs.h:)\S+\)", found, re.M)
        fine = wrong.returncode == FOUND and where and where.group(1) == place
        check(f"{case}: {name} at {place}", fine, wrong.stdout)
        check(f"{case}, done right", right.returncode == 0 and "no mistakes found" in right.stdout, right.stdout)
        if name.endswith("-in-flight"):
            by_udp(case, name, options)


def racing(how):
    """What is wrong races with uroce: where that is built with ThreadSanitizer, it would now and then stop the program."""
    return {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":report_bugs=0"} if how == "wrong" else {}


def by_udp(case, name, options):
    wrong, right = (run(*options, program=(ME, case, how), environment={"UROCE_LOCAL": "off", **racing(how)})
                    for how in ("wrong", "right"))
    check(f"{case}, by UDP", wrong.returncode == FOUND and finding(wrong.stdout, name), wrong.stdout)
    check(f"{case}, done right by UDP", right.returncode == 0 and "no mistakes found" in right.stdout, right.stdout)


def sanitized(kind):
    """The program with that sanitizer, and its cases, if it is built and runs here."""
    me = f"{ME}_{kind}"
    listed = os.path.exists(me) and subprocess.run([me], stdout=subprocess.PIPE, text=True)
    return me, [line.split() for line in listed.stdout.splitlines()] if listed and not listed.returncode else []


def all_right(me, cases, environment, *options):
    for case, _, _ in cases:
        right = run(*options, program=(me, case, "right"), environment=environment)
        fine = right.returncode == 0 and "no mistakes found" in right.stdout and "WARNING" not in right.stdout
        check(f"{os.path.basename(me)} {' '.join(options)} {case}, done right {environment or ''}", fine, right.stdout)


def address_sanitizer():
    """A program with it stops at what touches memory in flight, and at nothing that is right."""
    me, cases = sanitized("asan")
    for case, name, place in cases:
        if name not in ("touched-in-flight", "outside-object", "grh-as-payload") or case in DEEP: # the other rows are as in a program without it
            continue
        wrong = run(program=(me, case, "wrong"))
        found = re.search(rf"^        {place} \(", finding(wrong.stdout, name), re.M)
        if name == "touched-in-flight" and place != case: # and it names the function that does it
            found = found and re.search(rf"use-after-poison[^#]*#0 0x\w+ in {case} ", wrong.stdout)
        check(f"AddressSanitizer, {case}: {name} at {place}", wrong.returncode and found, wrong.stdout)
    for environment in {}, {"UROCE_LOCAL": "off"}:
        all_right(me, cases, environment)


def memcheck():
    """The same of valgrind, which is slow."""
    if SANITIZED or not os.environ.get("HAS_MEMCHECK") or not shutil.which("valgrind"):
        return
    for case, words in (("message_is_read_early", "Invalid read of size 1"),
                        ("read_is_read_early", "Invalid read of size 1"),
                        ("more_than_there_is", "uroce check: outside-object: of the 104 bytes")):
        wrong, right = (run(program=("valgrind", "-q", ME, case, how)) for how in ("wrong", "right"))
        place = "" if "outside" in words else rf"\n.*: {case} \((.*\n)*?.*inside a buffer in flight \(uroce check\) of size 64 "
        check(f"memcheck, {case}: {words}", wrong.returncode == 98 and re.search(words + place, wrong.stdout), wrong.stdout)
        check(f"memcheck, {case}, done right", right.returncode == 0 and "no mistakes found" in right.stdout and
              "Invalid" not in right.stdout, right.stdout)


def thread_sanitizer():
    """It knows the order that verbs give, and does not look into uroce."""
    me, cases = sanitized("tsan")
    mine = [row for row in cases if row[1] == "data-race"]
    for case, _, place in mine:
        wrong = run(program=(me, case, "wrong"))
        check(f"ThreadSanitizer, {case}: data race in {place}", wrong.returncode and
              re.search(rf"ThreadSanitizer: data race(.*\n)*? +#0 {place} ", wrong.stdout), wrong.stdout)
    all_right(me, mine, {})
    all_right(me, cases, {"UROCE_LOCAL": "off"})


def peers():
    """What the program does while a peer does it, too; and only if asked for."""
    me, cases = sanitized("tsan")
    mine = [row for row in cases if row[1] == "peer-race"]
    for case, _, place in mine:
        wrong = run("--only", "races", program=(me, case, "wrong"))
        check(f"ThreadSanitizer, {case}: race with a peer in {place}", wrong.returncode and
              re.search(rf"ThreadSanitizer: data race(.*\n)*? +#0 {place} ", wrong.stdout) and
              re.search(r"Thread T\d+ 'the peer's \w+ by QP 0x", wrong.stdout), wrong.stdout)
    all_right(me, cases, {}, "--only", "races")
    if mine:
        case = mine[0][0]
        result = run(program=(me, case, "wrong"))
        check(f"ThreadSanitizer, {case}: only if asked for", result.returncode == 0, result.stdout)


def pages():
    """--pages finds what writes, and not what reads; without either, digests find it at the poll."""
    for options, case, words in ((("--pages",), "message_page_is_written", "were written to before its completion was polled"),
                                 (("--pages",), "sent_page_is_written", "that a request sends (wr_id 0x1) were written to"),
                                 (("--pages", "-S"), "message_page_is_read", "were read before its completion was polled"),
                                 (("-S", "--pages"), "message_page_is_read", "were read before its completion was polled"),
                                 (("--pages",), "message_page_is_read", "no mistakes found"),
                                 ((), "receive_page_is_read", "no mistakes found"), # in the middle
                                 ((), "message_page_is_written", "written-in-flight"),
                                 (("--pages", "--only", "leaks"), "message_page_is_written", "no mistakes found")):
        result = run(*options, program=(ME, case, "wrong"))
        check(f"{case} {' '.join(options)}: {words}", words in result.stdout and
              (result.returncode == FOUND) == ("no mistakes" not in words), result.stdout)
        check(f"{case} {' '.join(options)}: told once", len(re.findall(": process .*: (1 finding$|no mistakes)", result.stdout, re.M)) == 1,
              result.stdout)


def sayings():
    """What else is told."""
    for case, words in (("answer_comes_first", "The peer's answer is no completion: the adapter may still send this again"),
                        ("peer_overwrites", " by a peer's WRITE that came to QP 0x"),
                        ("receive_is_written_to", "of a posted receive (wr_id 0x64) were written to before the data came"),
                        ("message_is_written_to", "written to when the data had come, before its completion was polled")):
        result = run(program=(ME, case, "wrong"))
        check(f"{case}: {words}", words in result.stdout, result.stdout)


def stacks():
    """Each request has the stack of its own post, though a function posts for several."""
    result = run(program=(ME, "second_caller_changes", "wrong"))
    told = finding(result.stdout, "changed-in-flight")
    check("a function posts for two: the caller is the one that was", re.search(r"posted\n(?:        .*\n)*        second_caller ", told) and
          "first_caller" not in told, result.stdout)


def ends():
    """However the program ends, what it leaves is told, once. ThreadSanitizer in uroce does not follow its copy by clone(2)."""
    me = os.path.join(BUILD, "check_ends")
    traced = SANITIZED and SANITIZED.group(0) == "libtsan"
    for how, status in (("exit", FOUND), ("_exit", FOUND), ("_Exit", FOUND), ("quick_exit", FOUND), ("abort", -signal.SIGABRT),
                        ("SIGTERM", -signal.SIGTERM), ("SIGSEGV", -signal.SIGSEGV), ("execve", 0), ("execvp", 0), ("execl", 0),
                        ("failed execve", FOUND)):
        if traced and how not in ("exit", "quick_exit"):
            continue
        result = run(program=(me, how))
        told = re.findall(r"process \d+: \d+ findings.*; 1 request failed", result.stdout)
        check(f"{how}: leaks and the summary", (SANITIZED or result.returncode == status) and finding(result.stdout, "leak-cq") and
              len(told) == 1, f"{result.returncode}: {result.stdout}")
    for options, status in ((), 0), (("--failed",), FOUND), (("-f", "-e", "7"), 7):
        result = run(*options, program=(me, "failed requests"))
        check(f"requests that failed {options}: exit status {status}", result.returncode == status and
              "no mistakes found; 1 request failed" in result.stdout, result.stdout)


def each_option(folder):
    leak = (ME, "leak_cq", "wrong")
    result = run("--error-exitcode", "7", program=leak)
    check("--error-exitcode", result.returncode == 7, result.stdout)
    result = run("-e", "0", program=leak)
    check("--error-exitcode 0 leaves the program's", result.returncode == 0, result.stdout)
    result = run("--only", "habits", program=leak)
    check("--only another class", result.returncode == 0 and "no mistakes found" in result.stdout, result.stdout)
    result = run("--only", "leak", program=leak)
    check("--only what is no class", result.returncode == 2 and "did you mean leaks?" in result.stdout, result.stdout)
    result = run("--log-file", f"{folder}/log.%p", program=leak)
    logs = [name for name in os.listdir(folder) if name.startswith("log.")]
    check("--log-file", result.stdout == "" and len(logs) == 1 and finding(open(f"{folder}/{logs[0]}").read(), "leak-cq"),
          result.stdout)
    result = run("--json", program=leak)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    check("--json", [line.get("name") for line in lines] == ["leak-cq", None] and lines[1]["findings"] == 1 and
          lines[0]["stacks"][0]["frames"][0].startswith("leak_cq "), result.stdout)


def on_terminal(columns, program, how="check"):
    """What a terminal of so many columns gets."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    child = subprocess.Popen([UROCE, how, *program], stdout=end, stderr=end, env={**os.environ, "UROCE_KEYS": "unlike"})
    os.close(end)
    text = b""
    try:
        while some := os.read(terminal, 65536):
            text += some
    except OSError: # EIO: nobody has it open any more
        pass
    child.wait()
    os.close(terminal)
    return text.decode().replace("\r", "")


def words_of(text):
    """Without what differs from run to run."""
    return re.sub(r"0x5\w{11}|process \d+", "N", text).split()


def terminals():
    program = (ME, "message_is_written_to", "wrong")
    words = words_of(run(program=program).stdout)
    for columns in (80, 50):
        text = on_terminal(columns, program)
        check(f"a terminal of {columns} columns: no line is longer",
              max(len(line) for line in text.splitlines()) <= columns, text)
        check(f"a terminal of {columns} columns: the same words", words_of(text) == words, text)
        check(f"a terminal of {columns} columns: continued lines stand out", re.search(r"^  \S", text, re.M), text)
    me = os.path.join(BUILD, "fail_me")
    cases = subprocess.run([me], stdout=subprocess.PIPE, text=True).stdout.split("\n")
    for case in {line.split()[0] for line in cases if line}:
        text = on_terminal(80, (me, case, "wrong"), "run")
        check(f"{case}: messages of a terminal's width", "uroce: " in text and
              not [line for line in text.splitlines() if len(line) > 80 and " " in line[:80].strip()], text)
    text = on_terminal(80, ("--error-exitcode", "x" * 90, "true"))
    check("a message of the command", re.search("^  is not an exit status: 0 to 255$", text, re.M), text)
    check("a terminal of 20 columns wraps by itself", finding(on_terminal(20, program), "written-in-flight"))


def suppressions(folder):
    leak = (ME, "leak_cq", "wrong")
    line = re.search(r"to suppress it: (.*)", run("--gen-suppressions", program=leak).stdout)
    check("--gen-suppressions", line and line.group(1) == "leak-cq leak_cq")
    for text, fine in ((line.group(1), True), ("leak-* main", True), ("* check_me", True), ("leak-cq other", False),
                       ("leak-qp main", False)):
        with open(f"{folder}/suppressions", "w") as file:
            file.write(f"# what is known\n{text}\n")
        result = run("--suppressions", f"{folder}/suppressions", program=leak)
        check(f"--suppressions '{text}'", (result.returncode == 0 and "1 suppressed" in result.stdout) == fine,
              result.stdout)
    result = run("--suppressions", f"{folder}/none", program=leak)
    check("--suppressions of a file that is not there", result.returncode == 1 and "No such file" in result.stdout, result.stdout)


def each_report(folder):
    """--report: what all processes have found, in one file, by the file's ending; and annotations."""
    xml_file, sarif_file = f"{folder}/report.xml", f"{folder}/report.sarif"

    def junit(*options, program=(ME,)):
        result = run(*options, "--report", xml_file, program=program, environment={"GITHUB_WORKSPACE": root})
        return result, xml.etree.ElementTree.parse(xml_file).getroot().find("testsuite")

    def sarif(*options, program=(ME,), **how):
        result = run(*options, "--report", sarif_file, program=program, **how)
        with open(sarif_file) as file:
            return result, json.load(file)

    def cases(suite):
        """(class, type of the failure) of each case; and the counts are those of the cases."""
        found = [(case.get("classname"), failure.get("type") if (failure := case.find("failure")) is not None else None)
                 for case in suite]
        fine = int(suite.get("tests")) == len(found) and int(suite.get("failures")) == sum(bool(kind) for _, kind in found)
        return found if fine else suite.attrib

    mine, root = "tests/check/check_me.c", os.environ["UROCE_SOURCE"]
    wrong, right, ends_me = (ME, "leak_cq", "wrong"), (ME, "leak_cq", "right"), os.path.join(BUILD, "check_ends")
    result, suite = junit(program=right)
    check("--report .xml without a finding", result.returncode == 0 and cases(suite) == [("program", None)], cases(suite))
    result, suite = junit(program=wrong)
    check("--report .xml: a leak, which is printed, too", result.returncode == FOUND and finding(result.stdout, "leak-cq") and
          cases(suite) == [("program", None), ("leaks", "leak-cq")] and suite[1].get("line").isdigit() and
          suite[1].get("file") == mine and "what to do: ibv_destroy_cq()" in suite[1].find("failure").text,
          xml.etree.ElementTree.tostring(suite))
    both = ("sh", "-c", f"{ME} leak_cq wrong & {ME} leak_id wrong & {ME} leak_cq wrong; wait; echo '<&>\"]]>'; exit 0", "<\udcff&\x01\">")
    result, suite = junit("--only", "leaks", program=both)
    check("--report .xml: processes of a script, and its status is that of findings", result.returncode == FOUND and
          sorted(map(str, cases(suite))) == sorted(map(str, [("program", None), ("leaks", "leak-cq"), ("leaks", "leak-id")])) and
          "(in 2 processes)" in str(xml.etree.ElementTree.tostring(suite)), (result.stdout, cases(suite)))
    left = f"mkfifo {folder}/fifo; exec 3<>{folder}/fifo; {ME} leak_cq wrong 2>&3 & read line <&3; exit 0"
    result, suite = junit(program=("sh", "-c", left)) # which ends as the finding is printed
    check("--report .xml: a process that its parent leaves", cases(suite) == [("program", None), ("leaks", "leak-cq")], cases(suite))
    for options, how in ((), None), (("--failed",), "1 request failed (cause 0x123)"):
        result, suite = junit(*options, program=(ends_me, "failed requests"))
        failure = suite[0].find("failure")
        check(f"--report .xml: requests that failed {options}", (failure.get("message") if failure is not None else None) == how and
              result.returncode == (FOUND if how else 0), (result.stdout, cases(suite)))
    for how, message in (("exit 3", "ended with status 3"), ("kill -ABRT $$", "ended by signal 6 (Aborted)")):
        result, suite = junit(program=("sh", "-c", how))
        check(f"--report .xml: {how}", suite[0].find("failure").get("message") == message and result.returncode in (3, 134), cases(suite))

    result, log = sarif(program=right)
    one = log["runs"][0]
    check("--report .sarif without a finding", result.returncode == 0 and log["version"] == "2.1.0" and one["results"] == [] and
          one["tool"]["driver"]["name"] == "uroce check" and one["invocations"][0]["executionSuccessful"], log)
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": root}
    result, log = sarif("--only", "leaks", program=both, environment=environment)
    one = log["runs"][0]
    places = {found["ruleId"]: found["locations"][0]["physicalLocation"] for found in one["results"]}
    rules = [one["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == found["ruleId"] for found in one["results"]]
    check("--report .sarif: rules and places", len(places) == len(one["results"]) == 2 and all(rules) and
          all(place["artifactLocation"] == {"uriBaseId": "%SRCROOT%", "uri": mine} and
              place["region"]["startLine"] > 0 for place in places.values()), log)
    annotations = re.findall(rf"^::error file={mine},line=\d+,title=uroce check%3A leak-(\w+)::1 .*%0A.*what to do: ", result.stdout, re.M)
    check("annotations", sorted(annotations) == ["cq", "id"], result.stdout)
    result = run("--only", "leaks", program=both, environment=environment)
    check("annotations without a report; the status is the program's", result.stdout.count("\n::error ") == 2 and
          result.returncode == 0, result.stdout)
    result = run(program=(UROCE, "check", *wrong), environment=environment)
    check("annotations once, if a check is in a check", result.stdout.count("\n::error ") == 1, result.stdout)

    for name, words in (("report.json", "the name has to end in .xml (JUnit) or .sarif"), (".xml", "the name has to end"),
                        ("none/report.xml", "No such file")):
        result = run("--report", name, program=("echo", "begun"))
        check(f"--report {name} is refused before the program starts", result.returncode in (1, 2) and words in result.stdout and
              "begun" not in result.stdout, result.stdout)


def interrupted(folder):
    """A signal to `uroce check` ends the program, and the report is written."""
    child = subprocess.Popen([UROCE, "check", "--report", f"{folder}/ended.xml", "sh", "-c", "echo begun; exec sleep 1000"],
                             stdout=subprocess.PIPE)
    child.stdout.readline()
    child.terminate()
    child.wait()
    child.stdout.close()
    suite = xml.etree.ElementTree.parse(f"{folder}/ended.xml").getroot().find("testsuite")
    check("--report .xml after SIGTERM", child.returncode == 128 + signal.SIGTERM and
          suite[0].find("failure").get("message") == "ended by signal 15 (Terminated)", child.returncode)


def python():
    """The line of a Python program is told: of Debian's pyverbs, if it is there."""
    me = ("/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_me.py"))
    cases = subprocess.run(me, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if cases.returncode: # no pyverbs
        return
    for case, name, place in (line.split() for line in cases.stdout.splitlines()):
        wrong, right = (run(program=(*me, case, how)) for how in ("wrong", "right"))
        found = re.search(rf"^        {place} \(check_me.py:\d+\), by way of:", finding(wrong.stdout, name), re.M)
        check(f"{case} in Python: {name} at {place}", wrong.returncode == FOUND and found, wrong.stdout)
        check(f"{case} in Python, done right", right.returncode == 0 and "no mistakes found" in right.stdout, right.stdout)


def main():
    if not os.path.exists(ME):
        sys.exit(77)
    enter_namespace()
    each_case()
    address_sanitizer()
    thread_sanitizer()
    peers()
    memcheck()
    if not SANITIZED or SANITIZED.group(0) != "libasan":
        pages()
    sayings()
    stacks()
    ends()
    terminals()
    python()
    with tempfile.TemporaryDirectory() as folder:
        each_option(folder)
        suppressions(folder)
        each_report(folder)
        interrupted(folder)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
