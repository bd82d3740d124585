# SPDX-License-Identifier: BSD-2-Clause
# A thin front of meson: each target installs the Debian packages that it needs, if any is missing, and works on
# a machine that has only git and make.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
MESON_OPTIONS ?=

BUILD_PACKAGES = gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev libcjson-dev libisal2
DEMO_PACKAGES = $(BUILD_PACKAGES) ibverbs-utils perftest
TEST_PACKAGES = $(DEMO_PACKAGES) rdmacm-utils infiniband-diags libcmocka-dev libisal-dev python3 iproute2 mandoc strace procps util-linux abigail-tools \
	python3-pyverbs rdma-core fio qperf ucx-utils libfabric-bin iperf3 netcat-openbsd redis-tools \
	zsh fish openmpi-bin libopenmpi-dev nginx-light curl tgt libiscsi-bin dapl2-utils python3-yaml gcc-aarch64-linux-gnu libc6-dev-arm64-cross
LINT_PACKAGES = $(BUILD_PACKAGES) clang-19 clang-format clang-tidy git python3
BENCH_PACKAGES = $(DEMO_PACKAGES) libisal-dev python3 iproute2 iperf3 qperf ucx-utils libfabric-bin openmpi-bin libopenmpi-dev \
	mpich libmpich-dev
COUNT_PACKAGES = $(BUILD_PACKAGES) valgrind python3
INTEROP_PACKAGES = $(TEST_PACKAGES) qemu-system-x86 kmod xz-utils zstd cpio nftables
SOAK_PACKAGES = $(TEST_PACKAGES) ceph-mon ceph-osd ceph-common
FUZZ_PACKAGES = $(BUILD_PACKAGES) clang llvm python3
FUZZ_SECONDS ?= 60
COVERAGE_PACKAGES = $(BUILD_PACKAGES) libcmocka-dev libisal-dev python3 iproute2 gcovr
DEB_PACKAGES = $(BUILD_PACKAGES) debhelper dpkg-dev lintian git
CROSS_PACKAGES = mmdebstrap qemu-user-static iproute2 util-linux file
WHEEL_PACKAGES = $(BUILD_PACKAGES) python3 binutils
IMAGE_PACKAGES = $(DEB_PACKAGES) mmdebstrap umoci podman crun iproute2 util-linux
PACKAGES_PACKAGES = $(DEB_PACKAGES) $(CROSS_PACKAGES) $(IMAGE_PACKAGES) $(WHEEL_PACKAGES) debootstrap iproute2 util-linux unzip ibverbs-utils \
	python3-venv python3-pytest python3-pyverbs python3-yaml rpm cpio nix-bin
SITE_PACKAGES = mkdocs mandoc git
RELEASES = bookworm trixie
FOREIGN_PACKAGES = $(TEST_PACKAGES) debootstrap qemu-user-static
s390x_PACKAGES = gcc-s390x-linux-gnu

packages = @tools/install-packages
ninja = ninja -j$(JOBS) -C

.PHONY: all demo test check gpu lint pyverbs asan ubsan tsan msan valgrind coverage fuzz fuzz-coverage bench bench-flood bench-loss bench-rxe count \
	interop interop-quick interop-conform soak arm64 s390x bullseye trixie dist deb wheel image packages site \
	install uninstall format clean

all:
	$(packages) $(BUILD_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(call prefix,$(BUILD)) && $(ninja) $(BUILD) installed

# $(call setup,directory,options): configures it, unless that has been done
setup = { test -e $(1)/build.ninja || meson setup $(1) --prefix=$(PREFIX) $(2) $(MESON_OPTIONS); }
# $(call have,directory,option,value): sets it, unless it has that value (which meson would answer with a rebuild)
have = { grep -q '^$(2) = $(3)$$' $(1)/meson-private/cmd_line.txt || meson configure $(1) -D$(2)=$(3); }
prefix = $(call have,$(1),prefix,$(PREFIX))
# $(call tests,directory,options)
tests = $(call setup,$(1),$(2)) && $(call have,$(1),tests,true) && $(ninja) $(1) && tools/run-tests $(1)
# With sanitizers, gcc takes more than twice as long for -O3 as for -O1.
asan = $(call tests,$(BUILD)-asan,-Db_sanitize=address$(comma)undefined -Doptimization=1)
ubsan = $(call tests,$(BUILD)-ubsan,-Db_sanitize=undefined -Doptimization=1)
tsan = $(call tests,$(BUILD)-tsan,-Db_sanitize=thread -Doptimization=1)
comma = ,

demo:
	$(packages) $(DEMO_PACKAGES)
	@echo "Building uroce in $(BUILD)/"
	@log=$$(mktemp); $(call setup,$(BUILD),-Dtests=false) >$$log 2>&1 || { cat $$log; rm -f $$log; exit 1; }; \
	if [ -t 1 ]; then NINJA_STATUS='%f of %t: ' $(ninja) $(BUILD) uroce liburoce.so.1; \
	else $(ninja) $(BUILD) uroce liburoce.so.1 >$$log 2>&1 || { cat $$log; false; }; fi; \
	result=$$?; rm -f $$log; exit $$result
	@$(BUILD)/uroce demo

# All tests, then all again under the sanitizers (which do less of what takes long: UROCE_QUICK). Everything is
# run even if something fails. The end says what failed, and what passed only when it was repeated.
test_builds = $(BUILD) $(BUILD)-asan $(BUILD)-tsan
test:
	@rm -f $(foreach build,$(test_builds),$(build)/meson-logs/testlog.json $(build)/meson-logs/again-?.json)
	$(packages) $(TEST_PACKAGES) $(SITE_PACKAGES)
	@result=0; \
	$(call tests,$(BUILD)) || result=1; \
	$(asan) || result=1; \
	$(tsan) || result=1; \
	tools/test-results --summary $(test_builds); \
	exit $$result

check:
	$(packages) $(TEST_PACKAGES) $(SITE_PACKAGES)
	@$(call tests,$(BUILD))

# Of the source text: format, lengths of functions, locks, clang-tidy.
lint:
	$(packages) $(LINT_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && tools/lint $(BUILD)

asan ubsan tsan:
	$(packages) $(TEST_PACKAGES)
	@$($@)

# Debian's programs with memcheck looking at them. By UDP, too: what local peers write it does not see.
valgrind:
	$(packages) $(TEST_PACKAGES) valgrind
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD)
	@for place in lo udp; do \
		tests/programs/test_programs.py --build $(BUILD) --quick --valgrind --place $$place ibv_ ib_ rping || exit; \
	done

# Programs with MemorySanitizer, which only clang has. Not in `make test`: of old releases such a program ends by chance.
msan:
	$(packages) $(TEST_PACKAGES) $(FUZZ_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=true) && $(ninja) $(BUILD) && \
		meson test -C $(BUILD) --no-rebuild --print-errorlogs test_msan.py

# What the unit suites reach of src/, by directory and line.
coverage:
	$(packages) $(COVERAGE_PACKAGES)
	@$(call setup,$(BUILD)-coverage,-Db_coverage=true -Doptimization=1) && $(ninja) $(BUILD)-coverage && \
		tools/coverage $(BUILD)-coverage

pyverbs:
	$(packages) $(TEST_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD) && tests/pyverbs/run $(BUILD)

fuzz:
	$(packages) $(FUZZ_PACKAGES)
	@test -e $(BUILD)-fuzz/build.ninja || CC=clang meson setup $(BUILD)-fuzz -Dfuzz=true -Dtests=false \
		-Db_sanitize=address,undefined -Doptimization=1
	@$(ninja) $(BUILD)-fuzz fuzzers
	@tools/run-fuzzers $(BUILD)-fuzz $(FUZZ_SECONDS)

# How much the corpora reach of what reads from outside: fuzz/outside.txt.
fuzz-coverage:
	$(packages) $(COVERAGE_PACKAGES)
	@$(call setup,$(BUILD)-coverage,-Db_coverage=true -Doptimization=1) && $(ninja) $(BUILD)-coverage fuzzers && \
		tools/fuzz-coverage $(BUILD)-coverage

bench:
	$(packages) $(BENCH_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD)
	@bench/run $(BUILD)

# What packets of a stranger cost a connection; FLOOD=--first on a machine where others work.
bench-flood:
	$(packages) $(BENCH_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD) liburoce.so.1 bench/bench-flood
	@bench/flood $(FLOOD) $(BUILD)

# Goodput by loss, round trip and rate, in virtual time: the same on every machine.
bench-loss:
	$(packages) $(BENCH_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD) bench/bench-loss && $(BUILD)/bench/bench-loss

# Instructions per operation; COUNT=--check fails if there are more than in bench/count.baseline, COUNT=--save renews that.
count:
	$(packages) $(COUNT_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD) uroce liburoce.so.1 bench/bench-count
	@bench/count $(COUNT) $(BUILD)

interop interop-quick:
	$(packages) $(INTEROP_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD)
	@interop/run $(if $(filter %-quick,$@),--quick) $(BUILD)

# The rules of uroce conform on the kernel's rxe; DOCUMENT=--write: into docs/conformance.md.
interop-conform:
	$(packages) $(INTEROP_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD) conform/uroce-conform
	@interop/conform $(DOCUMENT) $(BUILD)

bench-rxe:
	$(packages) $(INTEROP_PACKAGES)
	@$(call setup,$(BUILD),-Dtests=false) && $(ninja) $(BUILD)
	@interop/bench $(BUILD)

# Other processors, emulated; the second one's bytes are in the other order.
arm64 s390x:
	$(packages) $(FOREIGN_PACKAGES) $($@_PACKAGES)
	@tests/foreign/run $(BUILD)-$@ $@

# Other releases: an older and a newer compiler, C library and rdma-core than Debian 12's.
bullseye trixie:
	$(packages) debootstrap
	@tests/foreign/debian $(BUILD)-$@ $@

# What a release consists of beside packages, always the same bytes for one commit.
dist:
	$(packages) git python3 xz-utils
	@tools/make-dist $(BUILD)-dist

# Debian packages, and what lintian says of them. ARCH=arm64: those for that processor, too, as root; they are run by qemu.
deb:
	$(packages) $(DEB_PACKAGES) $(if $(ARCH),$(CROSS_PACKAGES))
	@tools/make-deb $(BUILD)-deb
	@$(if $(ARCH),tools/make-deb-for $(ARCH) $(BUILD)-deb $(BUILD)-deb-$(ARCH))
	@$(if $(ARCH),tests/packages/foreign $(ARCH) $(BUILD)-deb/$(ARCH) $(BUILD)-deb-$(ARCH))

# A wheel for this system and newer ones; `tools/make-wheel-in` builds one for older ones, too.
wheel:
	$(packages) $(WHEEL_PACKAGES)
	@$(call setup,$(BUILD)-wheel,-Dtests=false -Drelocatable=true) && $(ninja) $(BUILD)-wheel installed && \
		tools/make-wheel $(BUILD)-wheel $(BUILD)-wheel/dist

# A container image, made of the packages, and containers of it; as root.
image: deb
	$(packages) $(IMAGE_PACKAGES)
	@tools/make-image $(BUILD)-deb $(BUILD)-image
	@tests/packages/image $(BUILD)-image/uroce-image.tar

# The documents and manual pages as a web site, read from a server or as files.
site:
	$(packages) $(SITE_PACKAGES)
	@tools/make-site $(BUILD)-site

# What others install, and that it works where it is installed; as root.
packages: ARCH = arm64
packages: deb image dist
	$(packages) $(PACKAGES_PACKAGES)
	@for release in $(RELEASES); do tests/packages/deb $(BUILD)-deb $(BUILD)-packages-$$release $$release || exit; done
	@tests/packages/dist $(BUILD)-dist
	@tests/tools/test_recipes.py
	@rm -rf $(BUILD)-wheel/old
	@tools/make-wheel-in $(BUILD)-packages-bullseye bullseye $(BUILD)-wheel/old
	@tests/packages/wheel $(BUILD)-wheel/old/*.whl $(foreach release,bullseye $(RELEASES),$(BUILD)-packages-$(release))
	@tools/make-wheel-in $(BUILD)-wheel-arm64 bullseye $(BUILD)-wheel/arm64 arm64
	@tests/packages/wheel $(BUILD)-wheel/arm64/*.whl $(BUILD)-wheel-arm64
	@tests/tools/test_ci.py $(BUILD)-wheel/old/*.whl
	@tests/packages/action $(BUILD)-wheel/old $(BUILD)-packages-bookworm

# On a machine with a GPU: what test_gpu.sh does with doubles of the drivers, with the driver.
gpu:
	$(packages) $(TEST_PACKAGES)
	@$(call setup,$(BUILD)) && $(call have,$(BUILD),tests,true) && $(ninja) $(BUILD)
	@GPU=real meson test -C $(BUILD) --no-rebuild --verbose test_gpu.sh

soak:
	$(packages) $(SOAK_PACKAGES)
	@$(call setup,$(BUILD)) && $(call have,$(BUILD),tests,true) && $(ninja) $(BUILD)
	@SOAK_MINUTES=$(MINUTES) tests/soak/run $(BUILD) $(SOAK)

install: all
	@meson install -C $(BUILD) --no-rebuild

uninstall:
	@$(ninja) $(BUILD) uninstall

format:
	$(packages) clang-format
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-ubsan $(BUILD)-tsan $(BUILD)-coverage $(BUILD)-fuzz $(BUILD)-deb $(BUILD)-dist $(BUILD)-wheel $(BUILD)-image $(BUILD)-site
