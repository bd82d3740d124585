#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
exec "$UROCE_SOURCE/tests/pyverbs/run" "$UROCE_BUILD"
