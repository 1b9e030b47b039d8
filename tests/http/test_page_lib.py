#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the page takes from others (src/page/lib) is byte for byte what build.sh makes of the
packages that its lock pins. Needs npm and a network: skipped without them."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SRCDIR = os.environ.get("HALOD_SRCDIR", ".")
LIB = os.path.join(SRCDIR, "src", "page", "lib")
MADE = ("lib.js", "lib.css", "LICENSES")
n = failed = 0


def ok(cond, name, note=""):
    global n, failed
    n += 1
    failed += not cond
    print("%s %d - %s" % ("ok" if cond else "not ok", n, name))
    if not cond:
        print("\n".join("# " + line for line in str(note).splitlines()[:20]))


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


with open(os.path.join(LIB, "package-lock.json")) as f:
    lock = json.load(f)
packages = {k: v for k, v in lock["packages"].items() if k}
ok(all(v["integrity"].startswith("sha512-") for v in packages.values()),
   "each package of the lock has its digest")
with open(os.path.join(LIB, "package.json")) as f:
    wanted = json.load(f)["dependencies"]
ok({k: packages["node_modules/" + k]["version"] for k in wanted} == wanted,
   "the versions are those of package.json", wanted)
if not shutil.which("npm"):
    print("1..%d # SKIP the rest: there is no npm" % n)
    sys.exit(failed > 0)
with tempfile.TemporaryDirectory() as out:
    p = subprocess.run([os.path.join(LIB, "build.sh"), out], capture_output=True, text=True)
    if p.returncode and not os.listdir(out):
        n += 1
        print("ok %d - # SKIP npm could not fetch the packages: %s" % (n, p.stderr.strip()[:200]))
    else:
        ok(p.returncode == 0, "build.sh ends well", p.stdout + p.stderr)
        for name in MADE:
            ok(read(out, name) == read(LIB, name), "%s is what build.sh makes" % name)
print("1..%d" % n)
sys.exit(failed > 0)
