#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md: each test that its tables name exists, and each row names one. And the unit's
filter of system calls denies none that ROCr makes."""
import glob
import os
import re
import shutil
import subprocess

from daemon import SRCDIR, Tap

# Of ROCm/ROCR-Runtime: the thunk (libhsakmt) and the runtime.
ROCR = {"ioctl", "mmap", "munmap", "madvise", "mprotect", "mbind", "memfd_create", "ftruncate",
        "eventfd2", "gettid", "socket", "openat", "sched_yield", "sched_getaffinity"}
NO_TEST = {"not known", "there is none", "neither is used", ""}  # what needs no test


def read(name):
    with open(os.path.join(SRCDIR, name), encoding="utf-8") as f:
        return f.read()


def members(group, seen):
    """System calls of a group of systemd, with those of the groups in it."""
    out = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", group],
                         capture_output=True, text=True, check=True).stdout
    for word in re.findall(r"^ +(@?[\w-]+)$", out, re.M):
        if word.startswith("@"):
            members(word, seen)
        else:
            seen.add(word)
    return seen


def main():
    t = Tap()
    text = read("SECURITY.md")
    named = set(re.findall(r"`((?:unit|http|ctl|daemon|fuzz|sim)/[\w/.]+)`", text))
    t.ok(len(named) > 30, "tests are named", named)
    t.equal([n for n in sorted(named) if not glob.glob(os.path.join(SRCDIR, "tests", n) + "*")],
            [], "each of them exists")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()
            if line.startswith("| ") and not line.startswith(("| who |", "| advisory |"))]
    t.ok(len(rows) > 30, "rows of tables", rows)
    t.equal([r[0] for r in rows if "test" not in r[3] and r[2] not in NO_TEST], [],
            "each row that says what holds names a test")
    if not shutil.which("systemd-analyze"):
        t.skip("systemd-analyze is not installed")
        t.done()
    denied = set()
    for line in re.findall(r"^SystemCallFilter=~(.*)$", read("systemd/halod.service.in"), re.M):
        for group in line.split():
            members(group, denied)
    t.ok({"ptrace", "mount", "bpf", "init_module"} <= denied, "what the unit denies", denied)
    t.equal(sorted(ROCR & denied), [], "the unit denies no system call of ROCr")
    t.done()


main()
