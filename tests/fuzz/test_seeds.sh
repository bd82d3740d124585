#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each fuzz target takes all its seeds, in every build and under every sanitizer; fuzzing proper is `make fuzz`.
set -eu

for target in "$UROCE_SOURCE"/fuzz/fuzz_*.c; do
	name=$(basename "$target" .c)
	"$UROCE_BUILD/$name" "$UROCE_SOURCE/fuzz/corpus/${name#fuzz_}"/*
done
