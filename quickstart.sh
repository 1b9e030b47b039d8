#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh clone to tokens: installs what is missing, builds, starts halod with
# the model that comes with it, streams one answer, and leaves the daemon running in
# the foreground.
#
#   ./quickstart.sh                stay in the foreground until Ctrl-C
#   ./quickstart.sh --once         stop the daemon after the first answer, exit 0
#   ./quickstart.sh --port 9000    another port
#   ./quickstart.sh --model DIR    another model
#   ./quickstart.sh --packages     only print what installs all that a build needs
set -eu
cd "$(dirname "$0")"
. ./.ci/packages

once= port=8080 model=models/halo-tiny
while [ $# -gt 0 ]; do
	case $1 in
	--once) once=1 ;;
	--port) port=${2:?--port wants a number}; shift ;;
	--model) model=${2:?--model wants a directory}; shift ;;
	--packages) package_line; exit 0 ;;
	-h|--help) sed -n '4,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
	*) echo "quickstart.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
	esac
	shift
done
url=http://127.0.0.1:$port

bold= dim= plain=
[ -t 1 ] && bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

say "1. What halod needs to build"
install_packages $BUILD_PACKAGES curl
# The kernels of an AMD GPU need a clang. Where there is a GPU it is worth installing.
if [ -e /dev/kfd ]; then
	install_packages $GPU_PACKAGES ||
		echo "quickstart.sh: $GPU_PACKAGES could not be installed" >&2
fi

say "2. Build (in ./build)"
[ -e build/halod ] || echo "The first time takes some minutes: three on two cores, without a GPU's kernels."
# autoreconf chats on stderr; what it says is news only when it fails.
[ -x configure ] || said=$(autoreconf -fi 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
mkdir -p build
[ -f build/Makefile ] || (cd build && ../configure -q)
make -s -C build -j"$(nproc)"
kernels=$(ls build/kernels/*.hsaco 2>/dev/null | sed 's,.*/,,; s,\.hsaco$,,' | tr '\n' ' ')
if [ -n "$kernels" ]; then
	echo "GPU kernels: $kernels"
else
	echo "${bold}No GPU kernels were built: configure found no clang for amdgcn.${plain}" >&2
	echo "halod will run on the CPU. To use an AMD GPU:" >&2
	echo "  install $GPU_PACKAGES, and: rm -r build && ./quickstart.sh" >&2
fi

say "3. Start: build/halod --model $model --port $port --no-access-log"
if curl -s -o /dev/null --max-time 2 "$url/"; then
	echo "quickstart.sh: something answers on port $port already; try --port 9000" >&2
	exit 1
fi
# What it says is shown, and kept for the case that it dies.
log=build/quickstart.log
rm -f build/quickstart.pipe
mkfifo build/quickstart.pipe
tee -i "$log" <build/quickstart.pipe &
tee=$!
build/halod --model "$model" --port "$port" --no-access-log >build/quickstart.pipe 2>&1 &
daemon=$!
stopping=
trap 'stopping=1; kill "$daemon" 2>/dev/null || :' INT TERM
trap 'kill "$daemon" 2>/dev/null || :' EXIT

# has_died: is halod gone? ended WHEN: says how it ended, and its last lines, and exits.
has_died() { ! kill -0 "$daemon" 2>/dev/null; }
ended() {
	status=0
	wait "$daemon" || status=$?
	trap - EXIT
	wait "$tee" || :
	how="status $status"
	[ "$status" -le 128 ] || how="SIG$(kill -l $((status - 128)))"
	echo "quickstart.sh: halod ended $1, with $how. Its last lines ($log):" >&2
	tail -n 20 "$log" | sed 's/^/  /' >&2
	exit 1
}
tries=0
until curl -sf -o /dev/null --max-time 2 "$url/health"; do
	! has_died || ended "before it was ready"
	tries=$((tries + 1))
	[ $tries -lt 600 ] || { echo "quickstart.sh: halod is not ready after a minute" >&2; exit 1; }
	sleep 0.1
done

say "4. Ask it something, and watch the tokens arrive"
body='{"stream":true,"temperature":0,"messages":[{"role":"user","content":"Tell me a short story about a fox."}]}'
cat <<EOF
curl -N $url/v1/chat/completions -H 'Content-Type: application/json' \\
  -d '$body'

EOF
answer=$(mktemp)
# Each delta is printed as it comes: reasoning dim, then the answer. JSON's escapes are
# those of printf %b, but for the quote.
curl -sN --max-time 120 "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$body" |
	tee "$answer" |
	sed -un 's/.*"delta":{"\([a-z]*\)[a-z_]*":"\(\([^"\\]\|\\.\)*\)".*/\1 \2/p' |
	while IFS= read -r line; do
		kind=${line%% *}
		[ "$kind" = role ] && continue
		[ "$kind" = content ] && [ "${before:-}" = reasoning ] && printf '\n\n'
		[ "$kind" = reasoning ] && printf '%s' "$dim"
		printf '%b' "$(printf '%s' "${line#* }." | sed 's/\\"/"/g; s/\.$//')"
		printf '%s' "$plain"
		before=$kind
	done
ttft=$(sed -n 's/.*"ttft_ms":\([0-9.]*\).*/\1/p' "$answer" | tail -n 1)
tpot=$(sed -n 's/.*"tpot_ms":\([0-9.]*\).*/\1/p' "$answer" | tail -n 1)
finished=$(grep -c '^data: \[DONE\]' "$answer" || :)
rm -f "$answer"
! has_died || ended "in the middle of an answer"
if [ "$finished" != 1 ] || [ -z "$ttft" ]; then
	echo "quickstart.sh: the answer did not arrive whole" >&2
	exit 1
fi
printf '\n\nTTFT %s ms (time to first token), TPOT %s ms (time per output token)\n' "$ttft" "$tpot"

say "5. Are its answers sound? build/haloctl verify --answers --url $url"
reference=
[ -f "$model/reference.json" ] && reference="--reference $model/reference.json"
# A model that was trained for one language only, or for no chat, may fail some of them.
if ! build/haloctl verify --answers --url "$url" $reference; then
	! has_died || ended "in the middle of an answer"
	echo "quickstart.sh: not all answers are those of a sound chat model" >&2
	[ -z "$reference" ] || exit 1
fi

say "6. Go on"
cat <<EOF
The page     $url/              (a chat, and what the server does)
The API      $url/v1            (any OpenAI client; the API key may be anything)
Metrics      curl $url/metrics  | grep time_per_output_token
Health       curl $url/health
Another model   ./quickstart.sh --model DIR   (a Hugging Face folder)
Install      docs/operations.md: make install, systemd-sysusers, systemctl enable
Read         README.md, build/halod --help, man/halod.8
EOF
if [ -n "$once" ]; then
	kill "$daemon" 2>/dev/null || ended "before it was told to"
	wait "$daemon" || ended "when it was told to"
	trap - EXIT
	exit 0
fi
printf '\nhalod is running; Ctrl-C stops it.\n'
status=0
wait "$daemon" || status=$?
[ -n "$stopping" ] || [ "$status" = 0 ] || ended "by itself"
wait "$daemon" || :
wait "$tee" || :
