#!/bin/bash -eu
# SPDX-License-Identifier: BSD-2-Clause
# Builds the fuzz targets and packs their corpora into $OUT, as oss-fuzz calls it. Without its variables: with clang,
# ASan and UBSan, into build-oss-fuzz/out.
[ -e meson.build ] || cd "$(dirname "$0")/../.."
export CC=${CC:-clang} CFLAGS=${CFLAGS:--O1 -g -fsanitize=address,undefined -fsanitize=fuzzer-no-link}
WORK=${WORK:-$PWD/build-oss-fuzz}
OUT=${OUT:-$WORK/out}
mkdir -p "$OUT"
[ -e "$WORK/build/build.ninja" ] || meson setup "$WORK/build" -Dtests=false -Drsocket=true -Doptimization=plain \
	-Dfuzz_engine="${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}"
ninja -C "$WORK/build" ${JOBS:+-j"$JOBS"} fuzzers
for target in "$WORK"/build/fuzz_*; do
	[ -f "$target" ] && [ -x "$target" ] || continue
	name=$(basename "$target")
	cp "$target" "$OUT/"
	rm -f "$OUT/${name}_seed_corpus.zip"
	(cd "fuzz/corpus/${name#fuzz_}" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
done
