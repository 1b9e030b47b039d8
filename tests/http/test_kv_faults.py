#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kv_dir on disks that are full, read-only, broken or slow: they cost the cache and nothing
else. Mounts need root; without it those tests are skipped."""
import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
import threading

from halod import CHECK, Halod, Orders, PATIENCE, Tap, wait_for
from test_kv_disk import HYBRID, PROMPTS, complete, files

# ThreadSanitizer: a small model, and the tests in which a thread waits and another goes on.
RACES_ONLY = "races" in CHECK
WITH = {"max_seqs": 4, **({"model": HYBRID} if RACES_ONLY else {})}
TAP = Tap()


@contextlib.contextmanager
def mounted(size):
    """A small file system of its own, or None where this user may not mount."""
    with tempfile.TemporaryDirectory() as tmp:
        p = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s,mode=0700" % size, "none",
                            tmp], capture_output=True, text=True)
        if p.returncode:
            yield None
            return
        try:
            yield tmp
        finally:
            subprocess.run(["umount", tmp], check=True)


def ask(d, i):
    return complete(d, PROMPTS[i])


def test_full(t, cold):
    with mounted("1200k") as folder:
        if not folder:
            t.skip("a full disk: this user may not mount")
            return
        with open(os.path.join(folder, "other"), "wb") as f:
            f.write(b"x" * (1130 << 10))
        d = Halod(kv_dir=folder, **WITH)
        t.equal([ask(d, i)[0] for i in range(3)], cold, "a full disk changes no answer")
        wait_for("an error", lambda: d.metrics()["kv_disk_errors_total"] >= 1)
        t.ok("prompts are kept in memory only" in d.wait_log("cannot write"), "the log says so")
        t.equal(files(folder), [], "and nothing is left of a file that did not fit")
        os.unlink(os.path.join(folder, "other"))
        t.equal(complete(d, PROMPTS[1][::-1])[1], 0, "with room again")
        wait_for("a file", lambda: d.metrics()["kv_disk_files"] >= 1)
        t.equal(d.stop(), 0, "files are kept again")


def test_read_only(t, cold):
    with mounted("20m") as folder:
        if not folder:
            t.skip("a read-only disk: this user may not mount")
            return
        d = Halod(kv_dir=folder, **WITH)
        ask(d, 0)
        t.equal(d.stop(), 0, "it ends well")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        d = Halod(kv_dir=folder, **WITH)
        answer, _, disk = ask(d, 0)
        t.ok(answer == cold[0] and disk > 0, "what is on a read-only disk is read", disk)
        t.equal([ask(d, i)[0] for i in (1, 2)], cold[1:], "and what is not, is computed")
        wait_for("an error", lambda: d.metrics()["kv_disk_errors_total"] >= 1)
        t.equal(d.stop(), 0, "halod goes on and ends well")


def test_slow_reads(t, cold):
    """A request waits for the disk, and another stream goes on meanwhile."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as tmp:
        orders = Orders(tmp)
        d = Halod(kv_dir=folder, **WITH)
        for i in range(3):
            ask(d, i)
        t.equal(d.stop(), 0, "it ends well")
        d = Halod(kv_dir=folder, **WITH, popen=orders.start)
        s = d.long_stream()
        events = s.events()
        orders.give("hold-reads")
        got = []
        waits = threading.Thread(target=lambda: got.append(ask(d, 0)))
        waits.start()
        orders.wait("read")
        n = sum(1 for _, _ in zip(events, range(20)))
        t.ok(n == 20 and not got, "twenty tokens come while a read hangs", n)
        waits.join(PATIENCE)
        t.equal(got and got[0][0], cold[0], "what does not come in time is computed")
        answer, _, disk = ask(d, 1)
        t.ok(answer == cold[1] and disk == 0, "nobody else waits behind it", disk)
        t.equal(d.metrics()["kv_disk_slow_total"], 1, "one has waited")
        orders.withdraw("hold-reads")
        wait_for("the disk", lambda: ask(d, 2)[0] == cold[2] and
                 complete(d, PROMPTS[2], cache_salt="x")[0] == cold[2])
        s.close()
        t.equal(d.stop(), 0, "it ends well")
        d = Halod(kv_dir=folder, **WITH, popen=orders.start)
        orders.give("break-reads")
        kept = files(folder)
        t.equal([ask(d, i)[0] for i in range(3)], cold, "nor does a disk that cannot read")
        t.ok("it stays" in d.wait_log("the disk cannot read"), "the log says so")
        m = d.metrics()
        t.ok(m["kv_disk_read_errors_total"] >= 1 and m["kv_disk_refused_total"] == 0,
             "it is counted as the disk's fault, not as damage", m)
        t.equal(d.stop(), 0, "it ends well")
        t.ok(set(kept) <= set(files(folder)), "no file is removed for it", files(folder))
        orders.withdraw("break-reads")
        d = Halod(kv_dir=folder, **WITH, popen=orders.start)
        answer, _, disk = ask(d, 0)
        t.ok(answer == cold[0] and disk > 0, "what could not be read is read again", disk)
        t.equal(d.stop(), 0, "it ends well")


def test_slow_writes(t, cold):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as tmp:
        orders = Orders(tmp)
        orders.give("hold-writes")
        d = Halod(kv_dir=folder, **WITH, popen=orders.start)
        t.equal([ask(d, i)[0] for i in range(3)], cold, "answers do not wait for a write")
        orders.wait("written")
        t.equal([complete(d, p, cache_salt="s")[0] for p in PROMPTS], cold, "nor later ones")
        t.ok(d.metrics()["kv_disk_queued_bytes"] > 0, "what waits is told")
        orders.give("break-writes")
        orders.withdraw("hold-writes")
        wait_for("an error", lambda: d.metrics()["kv_disk_errors_total"] >= 1)
        t.equal(ask(d, 0)[0], cold[0], "nor does a disk that cannot write")
        wait_for("the queue's end", lambda: d.metrics()["kv_disk_queued_bytes"] == 0)
        t.equal(files(folder), [], "no part of a file is left")
        t.equal(d.stop(), 0, "halod ends well")


def resident(path):
    """Bytes of a file in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as f:
        size = os.path.getsize(path)
        with mmap.mmap(f.fileno(), size) as m:
            pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
            seen = (ctypes.c_ubyte * pages)()
            at = ctypes.c_char.from_buffer(m)
            if libc.mincore(ctypes.c_void_p(ctypes.addressof(at)), ctypes.c_size_t(size), seen):
                raise OSError(ctypes.get_errno(), "mincore")
            del at
            return sum(x & 1 for x in seen) * mmap.PAGESIZE


def test_page_cache(t, cold):
    with tempfile.TemporaryDirectory() as folder:
        kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True,
                              text=True).stdout.strip()
        if kind in ("tmpfs", "ramfs"):
            t.skip("the page cache: files of %s are always in it" % kind)
            return
        d = Halod(kv_dir=folder, **WITH)
        for i in range(3):
            ask(d, i)
        t.equal(d.stop(), 0, "it ends well")
        t.equal(sum(map(resident, files(folder))), 0, "what was written leaves the page cache")
        d = Halod(kv_dir=folder, **WITH)
        t.ok(all(ask(d, i)[2] > 0 for i in range(3)), "it is read again")
        t.equal(sum(map(resident, files(folder))), 0, "and leaves the page cache again")
        t.equal(d.stop(), 0, "it ends well")


def main():
    d = Halod(prefix_cache="no", **WITH)
    cold = [ask(d, i)[0] for i in range(3)]
    TAP.equal(d.stop(), 0, "it ends well")
    tests = (test_full, test_read_only, test_slow_reads, test_slow_writes, test_page_cache)
    for test in (test_slow_reads, test_slow_writes) if RACES_ONLY else tests:
        print("# ---", test.__name__)
        test(TAP, cold)
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())
