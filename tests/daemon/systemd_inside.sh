#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the container of test_systemd.py, as a unit of its systemd. /halod holds what
# the test has laid out there. Each fact is a line of /halod/out/facts, "ok" or "not ok".
out=/halod/out
exec >"$out/log" 2>&1
set -x
echo begun >"$out/begun"

fact() { # fact NAME COMMAND...: the command succeeds
	name=$1
	shift
	if "$@"; then name="ok $name"; else name="not ok $name"; fi
	echo "$name" >>"$out/facts"
}

property() { systemctl show -P "$1" halod.service; }
is() { [ "$(property "$1")" = "$2" ]; }

# until_is PROPERTY VALUE: within a minute
until_is() {
	tries=0
	until is "$1" "$2"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || return 1
		sleep 0.1
	done
}

# of_process FIELD: a line of the status of the service's process
of_process() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(property MainPID)/status"; }
ask() { curl -s -m 60 -o "$out/answer" -w '%{http_code}' "$@" http://127.0.0.1:8080/v1/models; }
answers() { # answers CODE [curl's arguments]
	want=$1
	shift
	[ "$(ask "$@")" = "$want" ]
}
within_ten_seconds() { # COMMAND...: it succeeds, if not at once
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || return 1
		sleep 0.1
	done
}
own_users() {
	[ "$(readlink /proc/"$(property MainPID)"/ns/user)" != "$(readlink /proc/1/ns/user)" ]
}
one_cpu() { grep -lE '^Cpus_allowed_list:[[:space:]]*[0-9]+$' /proc/"$(property MainPID)"/task/*/status; }

systemd-sysusers /halod/halod.sysusers
fact "sysusers: halod is in the GPU's groups" \
	sh -c 'id -nG halod | grep -w render | grep -w video'

# Device files as the GPU's are, with another device behind them.
mknod -m 660 /dev/test-gpu c 1 5 && chgrp render /dev/test-gpu
install -m 600 /dev/null /halod/root-only
echo "sk-first" | install -m 640 -g halod /dev/stdin /halod/conf/keys

end() {
	journalctl --no-pager -o cat -u halod.service | tail -n 60
	exit
}
fact "systemctl start: READY=1 came" systemctl start halod.service
is ActiveState active || end
fact "a client is answered" answers 200 -H "Authorization: Bearer sk-first"
fact "systemctl status tells the state" sh -c '
	systemctl show -P StatusText halod.service | grep -i -e serving -e ready'
fact "the process has no privileges" [ "$(of_process NoNewPrivs)" = 1 ]
fact "nor capabilities" [ "$(of_process CapEff)" = 0000000000000000 ]
fact "and a filter of system calls" [ "$(of_process Seccomp)" = 2 ]
fact "and users of its own" own_users
fact "cpu_pin holds under the filter" one_cpu

echo "sk-second" >/halod/conf/keys
fact "systemctl reload" systemctl reload halod.service
fact "it reads the keys again" \
	within_ten_seconds answers 200 -H "Authorization: Bearer sk-second"
fact "a revoked key is refused" answers 401 -H "Authorization: Bearer sk-first"
rm /halod/conf/keys
fact "systemctl reload without the file" systemctl reload halod.service
fact "nobody gets in" \
	within_ten_seconds answers 401 -H "Authorization: Bearer sk-second"
fact "systemctl status says so" sh -c '
	systemctl show -P StatusText halod.service | grep "no API key is valid"'
echo "sk-second" | install -m 640 -g halod /dev/stdin /halod/conf/keys
fact "systemctl reload with the file" systemctl reload halod.service
fact "the key gets in again" \
	within_ten_seconds answers 200 -H "Authorization: Bearer sk-second"
fact "it is the same process" is NRestarts 0

kill -KILL "$(property MainPID)"
fact "systemd starts it again when it is killed" until_is NRestarts 1
fact "and it comes up" until_is ActiveState active

cp /halod/conf/halod.conf /halod/conf/kept
echo "prot = 9" >>/halod/conf/halod.conf
fact "wrong settings fail the start" sh -c '! systemctl restart halod.service'
fact "with status 2" is ExecMainStatus 2
fact "and are not tried again" until_is ActiveState failed
fact "the journal names the line" sh -c 'journalctl --sync; journalctl -o cat -u halod.service | grep "halod.conf:.*prot"'
mv /halod/conf/kept /halod/conf/halod.conf

systemctl reset-failed halod.service
fact "halod.socket listens without halod" sh -c \
	'systemctl start halod.socket && ! systemctl -q is-active halod.service'
fact "its first client starts halod" \
	within_ten_seconds answers 200 -H "Authorization: Bearer sk-second"
systemctl stop halod.socket
fact "systemctl stop" systemctl stop halod.service
fact "SIGTERM is a good end" is Result success
fact "and leaves the service dead" is ActiveState inactive

echo ended >"$out/ended"
end
