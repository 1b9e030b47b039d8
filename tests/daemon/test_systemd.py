#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service under a real systemd: systemd-nspawn boots one as PID 1 of a container over
this machine's /usr, with an /etc and a /var that go with it. There the unit starts halod
with all its restrictions. systemd_inside.sh says what is looked at.

This needs root, systemd-nspawn, and a kernel that lets a container run. Elsewhere the test
is skipped, with what was missing."""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import BUILDDIR, MODEL, PROGRAM, SRCDIR, Tap

LIMIT = 150  # seconds; it takes five, and more under sanitizers
INSIDE = os.path.join(SRCDIR, "tests", "daemon", "systemd_inside.sh")
# nspawn takes over what waits for a network: there is none but the loopback.
MASKED = ["systemd-networkd-wait-online.service", "NetworkManager-wait-online.service"]
# The unit is halod's own; this is what differs here. The GPU's device files must stay open
# to the service, and what belongs to root alone closed.
DROP_IN = """[Service]
ExecStart=
ExecStart=/halod/halod -c /halod/conf/halod.conf
ExecStartPre=head -c 1 /dev/test-gpu
ExecStartPre=sh -c '! cat /halod/root-only'
RestartSec=100ms
Environment=ASAN_OPTIONS=detect_leaks=0
"""
# The container ends with this unit, whatever becomes of the test.
UNIT = """[Unit]
DefaultDependencies=no
SuccessAction=poweroff-force
FailureAction=poweroff-force
Wants=systemd-journald.socket
After=systemd-journald.socket
[Service]
Type=oneshot
ExecStart=sh /halod/inside.sh
TimeoutStartSec=120
"""
SETTINGS = """model = /halod/halo-tiny
threads = 2
cpu_pin = on
api_key_file = /halod/conf/keys
"""


def lay_out(folder):
    """What the container sees as /halod. Its users must be able to read it."""
    def put(name, text):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    shutil.copy(PROGRAM, os.path.join(folder, "halod"))
    shutil.copytree(MODEL, os.path.join(folder, "halo-tiny"))
    shutil.copy(INSIDE, os.path.join(folder, "inside.sh"))
    shutil.copy(os.path.join(SRCDIR, "systemd", "halod.sysusers"), folder)
    shutil.copy(os.path.join(BUILDDIR, "halod.service"), folder)
    shutil.copy(os.path.join(SRCDIR, "systemd", "halod.socket"), folder)
    put("halod.service.d/test.conf", DROP_IN)
    put("test.service", UNIT)
    put("conf/halod.conf", SETTINGS)
    os.mkdir(os.path.join(folder, "out"))
    for path, _, files in os.walk(folder):
        os.chmod(path, 0o755)
        for name in files:
            name = os.path.join(path, name)
            os.chmod(name, stat.S_IMODE(os.stat(name).st_mode) | 0o644)


def container(folder):
    """(whether it ended in time, what nspawn said)"""
    units = ["halod.service", "halod.socket", "halod.service.d", "test.service"]
    command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--directory=/",
               "--machine=halod-test-%d" % os.getpid(), "--volatile=yes",
               "--private-network", "--kill-signal=SIGKILL", "--console=pipe",
               "--bind=%s:/halod" % folder,
               *("--bind-ro=%s/%s:/etc/systemd/system/%s" % (folder, u, u) for u in units),
               *("--bind-ro=/dev/null:/etc/systemd/system/" + u for u in MASKED),
               "--boot", "systemd.unit=test.service"]
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    try:
        return True, p.communicate(timeout=LIMIT)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        p.terminate()  # nspawn ends the container
        return False, p.communicate()[0].decode(errors="replace")


def missing():
    if os.getuid() != 0:
        return "needs root"
    if not shutil.which("systemd-nspawn"):
        return "systemd-nspawn is not installed (Debian: systemd-container)"
    if not os.path.exists("/usr/lib/systemd/systemd"):
        return "systemd is not installed, or outside /usr"
    return None


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def main():
    why = missing()
    if why:
        print("1..0 # SKIP no real systemd here: " + why)
        return
    t = Tap()
    folder = tempfile.mkdtemp(prefix="halod-nspawn-")
    try:
        lay_out(folder)
        in_time, said = container(folder)
        out = os.path.join(folder, "out")
        if not os.path.exists(os.path.join(out, "begun")):
            print("1..0 # SKIP systemd-nspawn runs no systemd here: "
                  + " ".join(said.split())[-300:])
            return
        log = read(os.path.join(out, "log"))
        for line in read(os.path.join(out, "facts")).splitlines():
            ok, _, name = line.rpartition("ok ")
            t.ok(ok == "", name, "\n".join(log.splitlines()[-40:]))
        t.ok(in_time and os.path.exists(os.path.join(out, "ended")),
             "everything was looked at", "\n".join((log + said).splitlines()[-40:]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    t.done()


main()
