# SPDX-License-Identifier: Apache-2.0
"""Facts in Test Anything Protocol, and haloctl to state them of."""
import os
import subprocess
import sys

SRC = os.environ.get("HALOD_SRCDIR", ".")
BUILD = os.environ.get("HALOD_BUILDDIR", ".")
FIBERS = os.path.join(BUILD, "tests/hip-on-cpu/libhip_cpu.so")  # a HIP runtime without a GPU
CHECK = os.environ.get("HALOD_CHECK", "").split(",")  # docs/testing.md
TINY = os.path.join(SRC, "models/halo-tiny")
count = 0
failed = 0


def ok(fact, name, detail=""):
    global count, failed
    count += 1
    print("%sok %d - %s" % ("" if fact else "not ", count, name))
    if not fact:
        failed += 1
        for line in str(detail).splitlines()[:40]:
            print("# " + line)
    sys.stdout.flush()


def eq(got, want, name):
    ok(got == want, name, "got  %.600r\nwant %.600r" % (got, want))


def done():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


def haloctl(*args, stdin=b""):
    """Exit status, stdout and stderr, as bytes and texts."""
    p = subprocess.run([os.path.join(BUILD, "haloctl"), *args], input=stdin,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    return p.returncode, p.stdout, p.stderr.decode()
