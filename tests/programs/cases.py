# SPDX-License-Identifier: BSD-2-Clause
"""What is run: one row per test, one table per subject. A row says which program, with which options, in which places, and
what must come out; the functions above a table say how a kind of test goes."""
import ends
import middleware
import ours
import perftest
import rdmacm
import sockets
import systems
import verbs

TABLE = [row for subject in (verbs, perftest, rdmacm, sockets, middleware, systems, ends, ours) for row in subject.TABLE]

# Not for uroce check: they make mistakes to see what comes of them, count wake-ups, or kill each other.
UNCHECKED = [*(row for row in ours.TABLE if row not in ours.EXAMPLE_TABLE), *ends.TABLE]
