# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: BSD-2-Clause
# What interop/run and interop/bench share. They have set: here, build (the build directory of uroce).

declare -A kernel_package=([6.1]=linux-image-amd64 [6.12]=linux-image-6.12-amd64)

die() { echo "${0##*/}: $*" >&2; exit 1; }

find_library() { # sets $library
	library=$(find "$build" -maxdepth 2 -name liburoce.so.1 \( -type f -o -type l \) 2>/dev/null | head -1)
	[ -n "$library" ] || die "no liburoce.so.1 under $build: build first (ninja -C $build)"
	library=$(realpath "$library")
}

# image KERNEL: sets $image, which is made if it is not there. Unpacks and packs everything as root or not.
image() {
	image=$images/$1
	[ -e "$image/release" ] && return
	mkdir -p "$image"
	KERNEL_PKG=${kernel_package[$1]} "$here/image" "$image" 2>"$image/log" && return
	# The lists of packages may be missing or old.
	as_root apt-get -q update >>"$image/log" 2>&1 &&
		KERNEL_PKG=${kernel_package[$1]} "$here/image" "$image" 2>>"$image/log" && return
	cat "$image/log" >&2
	die "no image of a guest with kernel $1"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# The rest needs network namespaces.
be_root() {
	[ "$(id -u)" = 0 ] && return
	command -v sudo >/dev/null || die "needs root or sudo, for network namespaces"
	exec sudo "$0" "$@"
}

guest() { "$here/guest" "$image" "$@"; }
