# SPDX-License-Identifier: BSD-2-Clause
"""pytest with uroce's devices.

`pytest --uroce`, or `uroce = true` in its configuration: all tests see the devices, as under `uroce run pytest`; they need
to know nothing of uroce.

A test that asks for the fixture `rdma`, or has one of the marks rdma_devices(n), rdma_adapter(name) and rdma_fault(rules),
runs in a process of its own, since a library is loaded, and reads its settings, once in a process. When it fails, the report
shows what its last work requests went through, which faults were injected, and what `uroce check` finds in it.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import pytest

import uroce

REPORTS = "PYTEST_UROCE_REPORTS"  # where the process of one test puts its reports
MARKS = {
    "rdma_devices": "rdma_devices(n): the test sees n devices, uroce0 and so on, with the addresses 127.0.0.1 and so on",
    "rdma_adapter": "rdma_adapter(name): its devices are like this adapter, as by `uroce run --adapter`",
    "rdma_fault": "rdma_fault(rules): faults are injected, as by `uroce run --fault`; see uroce-fault(5)",
}
CHECK = "habits,buffers"  # not leaks: a test that fails does not get to where it destroys its objects


def pytest_addoption(parser):
    group = parser.getgroup("uroce", "RDMA without RDMA hardware")
    group.addoption("--uroce", action="store_true", help="all tests see uroce's devices")
    parser.addini("uroce", "all tests see uroce's devices", type="bool", default=False)


def pytest_configure(config):
    for line in MARKS.values():
        config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    """Starts this process again, with the library, before a test or a conftest is imported."""
    wanted = early_config.known_args_namespace.uroce or early_config.getini("uroce")
    if not wanted or uroce.loaded():
        return
    capture = early_config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.stop_global_capturing()
    with open("/proc/self/cmdline", "rb") as f:
        arguments = [os.fsdecode(a) for a in f.read().split(b"\0")[:-1]]
    os.execve(sys.executable, arguments, uroce.env())


class Rdma:
    """What the fixture `rdma` gives."""

    address = "127.0.0.1"

    @property
    def devices(self):
        """The names of the devices."""
        return sorted(os.listdir("/sys/class/infiniband"))


@pytest.fixture
def rdma():
    """RDMA devices, for this test and the programs that it starts."""
    return Rdma()


def options_of(item):
    """The options of `uroce run`, and the environment, that the marks of a test ask for."""
    options, environment = [], {}
    for mark in item.iter_markers("rdma_fault"):
        options += ["--fault", *mark.args]
    mark = item.get_closest_marker("rdma_adapter")
    if mark:
        options += ["--adapter", *mark.args]
    mark = item.get_closest_marker("rdma_devices")
    if mark:
        environment["UROCE_DEVICES"] = "127.0.0.1..127.0.0.%d" % mark.args[0]
    return options, environment


def is_ours(item):
    return "rdma" in getattr(item, "fixturenames", ()) or any(item.get_closest_marker(m) for m in MARKS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if os.environ.get(REPORTS) or not is_ours(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_alone(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class Writer:
    """In the process of one test: its reports, one a line."""

    def __init__(self, config, path):
        self.config, self.path = config, path

    def pytest_runtest_logreport(self, report):
        if report.failed:  # now: what is found from here on, the interpreter did as it ended
            attach_findings(report, os.path.dirname(self.path))
        with open(self.path, "a") as f:
            json.dump(self.config.hook.pytest_report_to_serializable(config=self.config, report=report), f)
            f.write("\n")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    path = os.environ.get(REPORTS)
    if path:
        session.config.pluginmanager.register(Writer(session.config, path))


def report_from(config, line):
    report = config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
    if isinstance(report.longrepr, list):  # of a test that was skipped: JSON has no tuples
        report.longrepr = tuple(report.longrepr)
    return report


def failure(item, why):
    """The report of a test whose process did not report."""
    return pytest.TestReport(item.nodeid, item.location, {k: 1 for k in item.keywords}, "failed", why, "call")


def command_for(item):
    """pytest for this test alone, whose reports look as this process would have made them."""
    config = item.config
    return [sys.executable, "-m", "pytest", "-q", "--rootdir", str(config.rootpath), "--tb", config.option.tbstyle,
            *(["-c", str(config.inipath)] if config.inipath else []),
            *(["--showlocals"] if config.option.showlocals else []),
            *(["-n0"] if config.pluginmanager.hasplugin("xdist") else []), item.nodeid]


def run_alone(item):
    """The reports of one test, from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="uroce-pytest-") as directory:
        path = lambda name: os.path.join(directory, name)
        options, environment = options_of(item)
        options += ["--trace", path("trace-%p")]
        if any(o == "--fault" for o in options):
            options += ["--fault-log", path("faults")]
        environment = {"UROCE_CHECK": CHECK, "UROCE_CHECK_LOG": path("check-%p"), **os.environ, **environment,
                       REPORTS: path("reports")}
        done = subprocess.run([uroce.command(), "run", *options, "--", *command_for(item)],
                              cwd=str(item.config.rootpath), env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        reports = []
        if os.path.exists(path("reports")):
            with open(path("reports")) as f:
                reports = [report_from(item.config, line) for line in f]
        if not reports or reports[-1].when != "teardown":
            reports.append(failure(item, "the process of this test ended with status %d:\n%s" %
                                   (done.returncode, done.stdout)))
            attach_findings(reports[-1], directory)
        if any(r.failed for r in reports):
            attach(next(r for r in reports if r.failed), directory)
        return reports


def attach_findings(report, directory):
    """The mistakes that were found so far."""
    text = ""
    for path in sorted(glob.glob(os.path.join(directory, "check-*"))):
        with open(path) as f:
            text += f.read()
    if text:
        report.sections.append(("uroce check", text))


def attach(report, directory):
    """What its requests went through, and the faults that there were."""
    traces = glob.glob(os.path.join(directory, "trace-*"))
    if traces:
        done = subprocess.run([uroce.command(), "trace", "--limit", "3", *traces], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        report.sections.append(("uroce trace", done.stdout))
    faults = os.path.join(directory, "faults")
    if os.path.exists(faults):
        with open(faults) as f:
            report.sections.append(("faults that were injected", f.read()))
