#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that must hold, from a fresh clone on a fresh Debian: installs what the
# tests need, then
#   1. builds and runs `make check`: lint, unit, kernel, simulation, golden, HTTP,
#      with clients installed below build/: OpenAI's and Anthropic's for Python and
#      Node, the Vercel AI SDK, LangChain, Codex CLI, Claude Code; schemathesis; gguf
#   2. the same by clang, without a warning, under AddressSanitizer and
#      UndefinedBehaviorSanitizer
#   3. threads under ThreadSanitizer: pool, scheduler, a daemon with 8 clients, and one
#      with kv_dir
#   4. the fuzzers run over their seeds
#   5. `make distcheck` in small (unpack, build, install, uninstall) and quickstart.sh
#   6. what owners install, twice the same bytes, in roots of Debian 12 and 13 (tests/packages)
#   7. the same start and the tests that go through its libraries in Debian 13, whose
#      libraries and compiler are newer, and a look by the newest gcc (tests/debian)
# The tests of 3, 4, 6, 7 and `make distcheck` run beside those of 2, and 7 beside 5 and 6.
# and ends with one line "N passed, N failed". `./test.sh fast` stops after 1.
# Logs: build/test-*.log. Fuzzing, soaks and benchmarks are targets of their own.
set -u
cd "$(dirname "$0")" || exit 1
what=${1:-all}
passed=0 failed=0 skipped=0

# What the processors of this machine have done since it started: busy and idle seconds.
machine() {
	awk -v hz="$(getconf CLK_TCK)" '/^cpu / {
		printf "%d %d", ($2 + $3 + $4 + $7 + $8) / hz, ($5 + $6) / hz }' /proc/stat
}
stages= stage= since=
# stage_ends: a line for the table at the end. On a machine that does nothing else, busy
# seconds are those of the stage and of what is compiled beside it.
stage_ends() {
	[ -n "$stage" ] || return
	local now
	now=$(machine)
	stages+=$(printf '%-40s %5d s %6d %6d' "$stage" $((SECONDS - ${since%% *})) \
		$((${now% *} - $(echo "$since" | cut -d ' ' -f 2))) $((${now#* } - ${since##* })))
	stages+=$'\n'
	stage=
}
say() {
	stage_ends
	stage=$* since="$SECONDS $(machine)"
	printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}
ok() { passed=$((passed + 1)); echo "ok: $1"; }
not_ok() { failed=$((failed + 1)); echo "FAILED: $1"; }
finish() {
	stage_ends
	local dirs= dir
	for dir in build build-asan build-tsan; do
		[ ! -e "$dir/test-check.log" ] || dirs="$dirs $dir"
	done
	printf '\n%-40s %7s %6s %6s\n%s\n' stage time busy idle "$stages"
	[ -z "$dirs" ] || tests/dearest -n 25 $dirs
	echo
	local also=
	[ "$skipped" = 0 ] || also=", $skipped skipped"
	echo "$passed passed, $failed failed$also"
	[ "$failed" = 0 ]
	exit
}

# count LOG: adds automake's own totals of a `make check` to ours.
count() {
	local line n
	for line in PASS XFAIL SKIP FAIL XPASS ERROR; do
		n=$(sed -n "s/^# $line: *\([0-9]*\)\$/\1/p" "$1" | tail -n 1)
		case $line in
		PASS|XFAIL) passed=$((passed + ${n:-0})) ;;
		SKIP) skipped=$((skipped + ${n:-0})) ;;
		*) failed=$((failed + ${n:-0})) ;;
		esac
	done
	# Skipped tests, and failed ones with what the driver shows of them.
	awk '/^SKIP:/ { print }
		/^(FAIL|ERROR|XPASS):/ { shown = 1 }
		/^(ok |SKIP:|=====|make)/ { shown = 0 }
		shown { print }' "$1"
}

# make_tree DIR TARGETS [configure switches]: configure and make, as logs. The make
# variables for TARGETS, "all" or more, may stand there, too.
make_tree() {
	local dir=$1 targets=$2
	shift 2
	mkdir -p "$dir"
	(cd "$dir" && ../configure -q "$@") >"$dir/test-configure.log" 2>&1 &&
		make -C "$dir" -j"$(nproc)" $targets >"$dir/test-make.log" 2>&1
}

# must DIR STATUS: says what make_tree said where it failed.
must() {
	[ "$2" = 0 ] && return 0
	tail -n 30 "$1"/test-configure.log "$1"/test-make.log 2>/dev/null
	not_ok "$1 does not build"
	return 1
}

# build DIR [configure switches]
build() {
	local dir=$1
	shift
	make_tree "$dir" all "$@"
	must "$dir" $?
}

# Lines for what a sanitizer reports, and no more: the rest takes a third of the time. lld
# links a program in a quarter of ld's time; distcheck links by ld, as users do.
lines="-O2 -g1"
lld="-B/usr/lib/llvm-19/bin -fuse-ld=lld"
# Benchmarks are compiled once, and under ThreadSanitizer only what its tests run. Kernels on
# fibers are one thread: there they are compiled in a hurry. In both trees so is what waits more
# than it computes, under AddressSanitizer also what a test itself does, and kernels that models
# seldom run. Of the kernels ThreadSanitizer's tree has those that unit/backend/test_hip
# launches: its other tests run on the CPU.
for_asan="noinst_PROGRAMS= check_LIBRARIES=libcases.a
	HASTE=-O0"
for_tsan="noinst_PROGRAMS= noinst_LIBRARIES= bin_PROGRAMS=halod check_LIBRARIES=
	HASTE=-O0"
tsan_units="delta/causal_conv delta/delta_rule linear/linear_int4_m1 linear/linear_rows
	moe/moe_router rows/act_mul rows/copy_words rows/rms_norm"

# check_asan COMMAND..., check_tsan COMMAND...: a command and the variables that choose what a
# sanitizer takes.
check_asan() {
	local tests
	tests=$(make -s -C build-asan print-asan-tests)
	"$@" $for_asan LEFT_OUT="$(make -s -C build-asan print-plain-tests)" \
		check_PROGRAMS="$(programs $tests)"
}
check_tsan() {
	local tests
	tests=$(make -s -C build-tsan print-tsan-tests)
	"$@" $for_tsan TESTS="$tests" check_PROGRAMS="$(programs $tests)" \
		check_DATA="tests/hip-on-cpu/libhip_cpu.so tests/http/slow_disk.so" \
		UNITS="$(echo $tsan_units)"
}

# Its log has what was compiled ahead, too.
build_tests() { make -C "$1" -j"$(nproc)" check "${@:2}" TESTS= >>"$1/test-check-build.log" 2>&1; }

# What the later stages test is compiled while the tests of earlier ones wait: one tree
# after the other, at the lowest priority. clang's ThreadSanitizer is newer than gcc 12's:
# compiling for it and the tests take half of the time.
build_ahead() {
	# Not "all fuzz": `all` is a make of its own, and both would compile the same file at once.
	make_tree build-asan "all $for_asan" CC=clang-19 CXX=clang++-19 \
		--enable-sanitizers=address,undefined,fuzzer-no-link CFLAGS="-O1 -g1" \
		CXXFLAGS="-O1 -g1" LDFLAGS=-fuse-ld=lld --with-hip-clang=no &&
		make -C build-asan -j"$(nproc)" fuzz $for_asan >>build-asan/test-make.log 2>&1 &&
		check_asan build_tests build-asan
	echo $? >build-asan/test-status
	make_tree build-tsan "all $for_tsan" CC=clang-19 CXX=clang++-19 \
		--enable-sanitizers=thread CFLAGS="-O1 -g1" CXXFLAGS="-O0 -g1" \
		LDFLAGS=-fuse-ld=lld --with-hip-clang=no &&
		check_tsan build_tests build-tsan
	echo $? >build-tsan/test-status
}

# await DIR: waits until build_ahead is done with it. built DIR: and says what went wrong.
await() {
	while [ ! -s "$1/test-status" ]; do
		kill -0 "$ahead" 2>/dev/null || [ -s "$1/test-status" ] || break
		sleep 0.2
	done
	[ "$(cat "$1/test-status" 2>/dev/null)" = 0 ]
}
built() {
	await "$1"
	must "$1" "$(cat "$1/test-status" 2>/dev/null)"
}

# without_warning DIR NAME
without_warning() {
	if grep -E 'warning:' "$1/test-make.log"; then
		not_ok "$2 has warnings"
	else
		ok "$2 has no warning"
	fi
}

# programs TEST...: those to be built, for check_PROGRAMS: or make would build all.
programs() { printf '%s\n' "$@" | grep -E '^tests/(unit|sim|kernel)/[a-z0-9_/]+$' | tr '\n' ' '; }

# run_tests DIR LOG [make variables]: a `make check`. What the tests need is built first, side
# by side. Counts nothing, so it may run in the background.
run_tests() {
	local dir=$1 log=$2
	shift 2
	if ! build_tests "$dir" "$@"; then
		echo unbuilt >"$dir/$log.status"
		return
	fi
	make -C "$dir" check "$@" >"$dir/$log" 2>&1
	echo $? >"$dir/$log.status"
}

# count_tests DIR LOG: the totals of what run_tests did.
count_tests() {
	local dir=$1 log=$2 status
	status=$(cat "$dir/$log.status" 2>/dev/null)
	if [ "$status" = unbuilt ]; then
		tail -n 30 "$dir/test-check-build.log"
		not_ok "$dir: what the tests need does not build"
		return
	fi
	if grep 'warning:' "$dir/test-check-build.log"; then
		not_ok "$dir: the tests have warnings"
	fi
	if ! grep -q '^# TOTAL: *[1-9]' "$dir/$log"; then
		tail -n 30 "$dir/$log"
		not_ok "$dir: make check ran nothing (exit $status)"
		return
	fi
	count "$dir/$log"
	# Automake's totals and its exit status must say the same.
	if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
		tail -n 30 "$dir/$log"
		not_ok "$dir: make check ended with $status"
	fi
}

run_check() {
	run_tests "$@"
	count_tests "$1" "$2"
}

# check DIR [make variables]: all tests that there are, but for those of LEFT_OUT. Those that
# start a daemon often wait: one more of them runs than there are cores.
check() {
	local dir=$1
	shift
	run_check "$dir" test-check-fast.log -j"$(nproc)" "$@" \
		TESTS="$(make -s -C "$dir" print-fast-tests "$@")"
	run_check "$dir" test-check.log -j"$(($(nproc) + 1))" "$@" \
		TESTS="$(make -s -C "$dir" print-slow-tests "$@")"
}

say "packages"
. .ci/packages
install_packages $BUILD_PACKAGES $COMPILERS || { not_ok "packages"; finish; }

# What the tests need beside a build, and their clients, below build/. apt, npm and pip mostly
# wait: gcc works meanwhile. Of pip's files tests import a few, so none is compiled ahead. A
# registry that hangs is asked again after a minute, not after npm's five.
install_clients() {
	local router npm="npm install --silent --no-audit --no-fund --fetch-timeout=60000"
	install_packages $(test_packages) || return
	[ -x build/clients/venv/bin/python ] || python3 -m venv build/clients/venv || return
	build/clients/venv/bin/pip install -q --no-compile openai anthropic jsonschema \
		schemathesis gguf safetensors opentelemetry-proto llm ollama || return
	# test_routers skips the one that is missing.
	for router in vllm-router smg; do
		build/clients/venv/bin/pip install -q --no-compile "$router" ||
			echo "$router cannot be installed: its tests will be skipped"
	done
	# Tests of real models, and of what KServe reads, are skipped without these.
	build/clients/venv/bin/pip install -q --no-compile --no-deps --only-binary :all: libgguf kserve
	build/clients/venv/bin/python tests/fetch_models.py build/clients
	$npm --prefix build/clients/node openai axe-core \
		@anthropic-ai/sdk ai @ai-sdk/openai-compatible @langchain/openai \
		@langchain/core ollama kubernetes-models @kubernetes-models/keda \
		@kubernetes-models/prometheus-operator @kubernetes-models/gateway-api typescript &&
		$npm --prefix build/clients/agents \
			@openai/codex @anthropic-ai/claude-code @continuedev/cli
}

say "build, and clients below build/"
autoreconf -fi >/dev/null 2>&1 || { not_ok "autoreconf"; finish; }
mkdir -p build
install_clients >build/test-clients.log 2>&1 &
clients=$!
rm -f build*/test-check*.log build*/test-check*.status build/test-d*.status build/test-packages.status
build build CFLAGS="$lines" CXXFLAGS="$lines" LDFLAGS="$lld" || finish
without_warning build "the build"
build_tests build HASTE=-O1 # what fails here fails again in `make check`, and is told there
# Before the wait for clients: npm and pip wait, and leave both cores to compilers.
if [ "$what" != fast ]; then
	rm -f build-asan/test-status build-tsan/test-status
	mkdir -p build-asan build-tsan
	(renice -n 19 "$BASHPID" >/dev/null; build_ahead) &
	ahead=$!
fi
if wait "$clients"; then
	ok "what tests need and their clients are installed"
else
	tail -n 5 build/test-clients.log
	not_ok "what tests need or their clients could not be installed"
fi

# The shapes of linear and experts are one source: one of 24 on fibers here, all by hand. The
# machine code of all is executed (check_gfx11.py).
export HALOD_CHECK=shapes=24
say "make check"
# -O1 for what few tests run: a quarter of the compiler's time less.
check build HASTE=-O1
[ "$what" = fast ] && finish

# What the archive builds passes a few tests of each kind, and all that git has is in it:
# then the other tests would pass, too. Packed and compiled in haste, as by a compiler that
# has no AVX, with one GPU unit of each family. Most of its steps use one core, so it runs
# beside the sanitizers' tests.
distcheck() {
	local tests units flags
	tests=$(make -s -C build print-dist-tests)
	flags="--without-systemd --with-gpu-targets=gfx1151 CFLAGS=-O0 halod_cv_avx512=no"
	units="attention/kv_copy delta/causal_conv device/probe linear/linear_any moe/moe_align
		rows/rms_norm"
	XZ_OPT=-0 make -C build -j"$(nproc)" distcheck TESTS="$tests" \
		check_PROGRAMS="$(programs $tests)" check_LIBRARIES= check_DATA= \
		UNITS="$(echo $units)" DISTCHECK_CONFIGURE_FLAGS="$flags" \
		>build/test-distcheck.log 2>&1
	echo $? >build/test-distcheck.status
}

# Where no such root can be made, the summary says why. Behind distcheck, which packs the same
# archive. Most of its steps use one core and wait: at the end of all the other core would be idle.
packages() {
	timeout -k 30 40m tests/packages >build/test-packages.log 2>&1
	echo $? >build/test-packages.status
}

debian13() {
	timeout -k 30 40m tests/debian trixie >build/test-debian13.log 2>&1
	echo $? >build/test-debian13.status
}

# By the newest gcc and libraries that there are, without a warning. What a compiler of next year
# finds is to be known this year.
unstable() {
	timeout -k 30 20m tests/debian sid compile >build/test-debian-sid.log 2>&1
	echo $? >build/test-debian-sid.status
}

# fuzz NAME: one fuzzer over its seeds and so many changes of them. The limit is for an input that
# never ends. It counts real time, so fuzzers have the priority of the tests beside them: at the
# lowest, an input of three seconds waited for twenty minutes.
fuzz() {
	local max=4096
	case $1 in gguf | safetensors | config | http) max=16384 ;; esac # as seeds are
	mkdir -p "build-asan/corpus/$1"
	rm -f "build-asan/fuzz_$1".*-*
	"build-asan/tests/fuzz/fuzz_$1" -runs=2000 -max_len=$max -seed=1 -timeout=300 \
		-artifact_prefix="build-asan/fuzz_$1." "build-asan/corpus/$1" "build-asan/seeds/$1" >"build-asan/fuzz_$1.log" 2>&1
	echo $? >"build-asan/fuzz_$1.status"
}
export -f fuzz

# The tree of ASan has the fuzzers, too.
fuzz_all() {
	rm -rf build-asan/seeds build-asan/fuzz_*.status
	python3 tests/fuzz/make_seeds.py build-asan/seeds &&
		ls build-asan/seeds | xargs -P "$(nproc)" -I NAME bash -c 'fuzz NAME'
}

# Tests of threads often wait, and so do those with daemons: they run side by side.
tsan_tests() {
	await build-tsan || return
	HALOD_CHECK=races,every=24 \
		check_tsan run_tests build-tsan test-check.log -j"$(nproc)"
}

say "make check by clang, under ASan and UBSan"
# ASan's memmem checks all of the haystack at each call, which makes every search loop
# quadratic: a test of 16 MB strings would take minutes. clang alone also watches stacks
# behind a return; that makes fibers ten times as slow.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:intercept_memmem=0
ASAN_OPTIONS=$ASAN_OPTIONS:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
built build-asan
is_built=$?
(distcheck; packages) &
archive=$!
(renice -n 19 "$BASHPID" >/dev/null; debian13; unstable) &
debian=$!
tsan_tests &
tsan=$!
[ $is_built = 0 ] && {
	without_warning build-asan "the build by clang"
	fuzz_all &
	fuzzers=$!
	HALOD_CHECK=short,shapes=192,every=10 \
		check_asan check build-asan HALOD_CLIENTS="$PWD/build/clients"
}

say "ThreadSanitizer"
wait "$tsan"
built build-tsan && count_tests build-tsan test-check.log

say "fuzzers"
if [ $is_built = 0 ] && wait "$fuzzers"; then
	for seeds in build-asan/seeds/*; do
		fuzzer=fuzz_${seeds##*/}
		if [ "$(cat "build-asan/$fuzzer.status")" = 0 ]; then
			ok "$fuzzer"
		else
			# The input first: without it nobody can look for the cause.
			for found in "build-asan/$fuzzer".*-*; do
				[ ! -e "$found" ] || echo "$found: $(base64 -w 0 "$found")"
			done
			tail -n 30 "build-asan/$fuzzer.log"
			not_ok "$fuzzer"
		fi
	done
else
	not_ok "the fuzzers did not run"
fi

say "make distcheck, packages, Debian 13 and unstable"
wait "$archive" "$debian"
if [ "$(cat build/test-distcheck.status 2>/dev/null)" = 0 ]; then
	ok "make distcheck"
else
	tail -n 40 build/test-distcheck.log
	not_ok "make distcheck"
fi
if [ -e .git ]; then
	left_out=$(comm -23 <(git ls-files | grep -v '\.git[^/]*$' | sort) \
		<(tar -tf build/halod-*.tar.xz | sed 's,^[^/]*/,,' | sort))
	if [ -z "$left_out" ]; then
		ok "all that git has is in the archive"
	else
		printf '%s\n' "$left_out"
		not_ok "files are missing in the archive (EXTRA_DIST)"
	fi
fi

case $(cat build/test-packages.status 2>/dev/null) in
77)
	skipped=$((skipped + 1))
	echo "SKIP: packages: $(sed -n 's/^skipped: //p' build/test-packages.log)" ;;
0)
	passed=$((passed + $(grep -c '^ok: ' build/test-packages.log)))
	echo "ok: packages" ;;
*)
	passed=$((passed + $(grep -c '^ok: ' build/test-packages.log)))
	grep -A 40 '^FAILED: ' build/test-packages.log || tail -n 40 build/test-packages.log
	not_ok "packages (build/test-packages.log)" ;;
esac

case $(cat build/test-debian13.status 2>/dev/null) in
77)
	skipped=$((skipped + 1))
	echo "SKIP: Debian 13: $(sed -n 's/^skipped: //p' build/test-debian13.log)" ;;
0)
	ok "Debian 13: quickstart.sh --once"
	count build/test-debian13.log ;;
*)
	grep -q '^# FAIL: *[1-9]' build/test-debian13.log || tail -n 40 build/test-debian13.log
	count build/test-debian13.log
	not_ok "Debian 13 (build/test-debian13.log)" ;;
esac

case $(cat build/test-debian-sid.status 2>/dev/null) in
77)
	skipped=$((skipped + 1))
	echo "SKIP: Debian unstable: $(sed -n 's/^skipped: //p' build/test-debian-sid.log)" ;;
0)
	ok "Debian unstable: $(sed -n 's/^ok: //p' build/test-debian-sid.log)" ;;
*)
	tail -n 40 build/test-debian-sid.log
	not_ok "Debian unstable (build/test-debian-sid.log)" ;;
esac

say "quickstart.sh --once"
if ./quickstart.sh --once --port 18080 >build/test-quickstart.log 2>&1 </dev/null &&
	grep -q 'TTFT .* ms .*TPOT .* ms' build/test-quickstart.log; then
	ok "quickstart.sh --once"
else
	tail -n 20 build/test-quickstart.log
	not_ok "quickstart.sh --once"
fi
finish
