#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes corpus/links: files of `uroce link`, as they are and as they cannot be."""
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "links")
SEEDS = {
    "one": "uroce0 ::ffff:127.0.0.1\n",
    "two": "uroce0 ::ffff:10.0.0.1 fe80::1\nuroce1 ::ffff:10.0.0.2\n",
    "none": "uroce0\n",
    "twice": "uroce0 ::1\nuroce0 ::2\nuroce01 ::3\n",
    "no-end": "uroce0 ::1",
    "no-address": "uroce0 here 1.2.3.4 ::g  \n \n\n",
    "many": "uroce0" + 300 * " ::1" + "\n",
    "lines": 100 * "a\n",
    "long": 64 * "n" + " ::1\n" + 63 * "m" + " ::1\n",
    "spaces": "  uroce0  ::1  \n",
}

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "w") as f:
        f.write(seed)
