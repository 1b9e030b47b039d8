#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The RPM's list holds what `make install` installs, so that a package of tomorrow does not lack a
file; the container and its compose file say what halod says. tests/packages makes the packages and
installs them, which takes minutes. A tool that is not installed is skipped."""
import fnmatch
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import BUILDDIR, SRCDIR, Tap

PACKAGES = os.path.join(SRCDIR, "conf", "packages")


def run(*argv):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=120)
    return p.returncode, p.stdout


def read(*path):
    with open(os.path.join(PACKAGES, *path), encoding="utf-8") as f:
        return f.read()


def make(tmp, *targets):
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    p = subprocess.run(["make", "-s", "-C", BUILDDIR, *targets, "DESTDIR=" + tmp], env=env,
                       stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300)
    assert p.returncode == 0, p.stdout


def installed(tmp):
    """Every file of an installation, at its place in a package: below /usr and /etc. The
    build stays as it was configured, so its own places are put right here."""
    with open(os.path.join(BUILDDIR, "Makefile"), encoding="utf-8") as f:
        prefix = re.search(r"(?m)^prefix = (.*)", f.read()).group(1).strip("/")
    make(tmp, "install-data", "install-exec")
    for path, _, names in os.walk(tmp):
        for name in names:
            place = os.path.relpath(os.path.join(path, name), tmp)
            place = re.sub("^%s/" % re.escape(prefix), "usr/", place)
            yield re.sub("^usr/etc/", "etc/", re.sub("^lib/", "usr/lib/", place))


def test_uninstall(t, tmp):
    """Only what the administrator has written stays, and folders that others may use."""
    left = []
    for path, _, names in os.walk(tmp):
        if "halod.conf" in names and os.path.basename(path) == "halod":
            with open(os.path.join(path, "halod.conf"), "a", encoding="utf-8") as f:
                f.write("port = 8081\n")
    make(tmp, "uninstall")
    for path, folders, names in os.walk(tmp):
        left += [os.path.join(path, n)[len(tmp):] for n in names + folders if "halo" in n]
    t.ok(len(left) == 2 and left[1] == left[0] + "/halod.conf",
         "make uninstall leaves the settings that were changed, and no folder of halod's", left)


def test_rpm(t, files):
    text = read("halod.spec")
    macros = {"_sysconfdir": "etc", "_bindir": "usr/bin", "_datadir": "usr/share",
              "_mandir": "usr/share/man", "_unitdir": "usr/lib/systemd/system",
              "_sysusersdir": "usr/lib/sysusers.d", "_prefix": "usr"}
    lines = re.search(r"(?s)%files\n(.*)", text).group(1).splitlines()
    wanted = [re.sub(r"%\{(\w+)\}", lambda m: macros[m.group(1)], line.split()[-1])
              for line in lines if "%{_" in line and not line.startswith("%dir")]
    left = [f for f in files if not any(fnmatch.fnmatch(f, w) or f.startswith(w + "/")
                                        for w in wanted)]
    t.equal(left, [], "the RPM takes every installed file")
    # conf/packages/release brings these.
    unused = [w for w in wanted if w not in ("usr/lib/halod", "usr/share/doc/halod") and
              not any(fnmatch.fnmatch(f, w) or f.startswith(w + "/") for f in files)]
    t.equal(unused, [], "and names no other")
    if shutil.which("rpmspec"):
        code, said = run("rpmspec", "-P", os.path.join(PACKAGES, "halod.spec"))
        t.ok(code == 0 and "%{_" not in said, "rpmspec reads it", said)
    else:
        t.skip("rpmspec is not installed")


def test_container(t):
    text = read("Containerfile")
    with open(os.path.join(SRCDIR, "src", "api", "endpoint.def"), encoding="utf-8") as f:
        endpoints = f.read()
    with open(os.path.join(SRCDIR, "src", "daemon", "config.def"), encoding="utf-8") as f:
        keys = dict(re.findall(r'KEY\((\w+), \w+, "([^"]*)"', f.read()))
    port, path = re.search(r"(?s)\nHEALTHCHECK .*?http://127\.0\.0\.1:(\d+)(/\w+)", text).groups()
    t.ok('"%s"' % path in endpoints, "the health check asks an address that there is", path)
    t.ok(port == keys["port"] and "\nEXPOSE %s\n" % port in text, "and the port of the settings", port)
    users = re.findall(r"(?m)^USER (.*)", text)
    with open(os.path.join(SRCDIR, "conf", "scale-out", "kubernetes", "halod.yaml"),
              encoding="utf-8") as f:
        pods = re.search(r"runAsUser: (\d+)\n *runAsGroup: (\d+)", f.read())
    t.equal(users, [":".join(pods.groups())], "the image's user is the one that pods run as")
    t.equal("FROM ${BASE}" in text and re.findall(r"debian:\d+-slim$", text, re.M),
            ["debian:13-slim"], "it names its distribution")
    if importlib.util.find_spec("yaml"):
        test_compose(t, port, keys)
    else:
        t.skip("PyYAML is not installed")


def test_compose(t, port, keys):
    import yaml  # it may not be there
    service = yaml.safe_load(read("compose.yaml"))["services"]["halod"]
    t.equal((service["devices"], service["ports"]),
            (["/dev/kfd", "/dev/dri"], ["127.0.0.1:%s:%s" % (port, port)]),
            "compose.yaml names the GPU's files, and a port of this machine alone")
    seconds = [int(x.rstrip("s")) for x in (service["stop_grace_period"], keys["drain_timeout"])]
    t.ok(seconds[0] > seconds[1], "a stop may take as long as halod drains", seconds)


def test_apparmor(t):
    profile = os.path.join(SRCDIR, "conf", "apparmor", "halod")
    parser = shutil.which("apparmor_parser", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not parser:
        t.skip("apparmor_parser is not installed")
    else:
        code, said = run(parser, "-Q", "-K", profile)
        t.equal(code, 0, "apparmor_parser takes the profile: " + said.strip()[-200:])
    with open(profile, encoding="utf-8") as f:
        name = re.search(r"(?m)^profile (\w+) ", f.read()).group(1)
    with open(os.path.join(SRCDIR, "systemd", "halod.service.in"), encoding="utf-8") as f:
        t.ok("\nAppArmorProfile=-%s\n" % name in f.read(), "the unit names the profile")


def main():
    t = Tap()
    tmp = tempfile.mkdtemp(prefix="halod-packages-")
    try:
        files = sorted(installed(tmp))
        t.ok("usr/bin/halod" in files and "etc/halod/halod.conf" in files,
             "make install installs", files)
        test_rpm(t, files)
        test_uninstall(t, tmp)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    test_container(t)
    test_apparmor(t)
    code, said = run("sh", "-n", os.path.join(PACKAGES, "debian", "halod.postrm"))
    t.equal(code, 0, "the script at removal is a shell's " + said)
    t.done()


main()
