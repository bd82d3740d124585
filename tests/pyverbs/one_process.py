#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""one_process.py DIRECTORY TEST...: runs tests of the pyverbs suite in DIRECTORY one after another in this process,
and says of each on standard output, as a line of JSON, that it starts and what came of it."""
import json
import sys
import unittest


class Report(unittest.TestResult):
    def say(self, test, outcome, why=""):
        print(json.dumps({"test": test.id(), "outcome": outcome, "why": why}), file=REPORT, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.say(test, "start")

    def addSuccess(self, test):
        self.say(test, "pass")

    def addSkip(self, test, reason):
        self.say(test, "skip", reason)

    def addFailure(self, test, err):
        self.say(test, "fail", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.say(test, "fail", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err:
            self.say(test, "fail", self._exc_info_to_string(err, test))


REPORT = sys.stdout
sys.stdout = sys.stderr  # what tests print is no report
directory, names = sys.argv[1], sys.argv[2:]
sys.argv[1:] = []
sys.path[:0] = [directory, directory + "/tests"]
from args_parser import parser  # noqa: E402: it is in the suite

parser.parse_args()
loader = unittest.TestLoader()
if names[0] == "--list":
    def names_of(suite):
        for t in suite:
            if isinstance(t, unittest.TestSuite):
                yield from names_of(t)
            else:
                yield t.id()

    for name in names_of(loader.loadTestsFromNames(names[1:])):
        print(name, file=REPORT)
else:
    loader.loadTestsFromNames(names).run(Report())
