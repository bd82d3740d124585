# SPDX-License-Identifier: BSD-2-Clause
# Makes of a text a string of C: `#include` it where an expression is to be.
s/[\\"]/\\&/g
s/.*/"&\\n"/
