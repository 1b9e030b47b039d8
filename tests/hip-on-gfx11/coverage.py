#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py FILE ...: what of each code object the interpreter executed.

The files are those of HALOD_GFX11=coverage=FILE. Prints for each chip how many kernels were
launched and how many of their instructions executed, and what was not, by the rows of
unreached.tsv that give the reason. --missing: also each kernel that was never launched, and
for the others the stretches never reached.
"""
import argparse
import collections
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


def read(paths):
    """{chip: {kernel: [launches, address, bytearray of digits]}}, over all lines."""
    found = collections.defaultdict(dict)
    for path in paths:
        with open(path) as lines:
            for line in lines:
                fields = line.rstrip("\n").split(" ")
                if len(fields) != 5:
                    continue
                chip, name, launches, begin, digits = fields
                new = int(digits.replace("2", "1") or "0", 2)
                old = found[chip].setdefault(name, [0, int(begin, 16), 0, len(digits)])
                if old[3] != len(digits):
                    raise SystemExit("%s: %s: two code objects in one file" % (path, name))
                old[0] += int(launches)
                old[2] |= new
    return found


def stretches(bits, n):
    """(first, last) of each run of instructions that were not reached."""
    text = bin(bits)[2:].zfill(n)
    at = text.find("0")
    while at >= 0:
        end = text.find("1", at)
        end = n if end < 0 else end
        yield at, end - 1
        at = text.find("0", end)


def reasons():
    """[(compiled pattern, reason)] of unreached.tsv."""
    with open(os.path.join(HERE, "unreached.tsv")) as rows:
        return [(re.compile(pattern + r"_kernel$"), reason.strip())
                for pattern, _, reason in (row.partition("\t") for row in rows)
                if not pattern.startswith("#")]


def shares(kernels):
    """Percent of kernels launched, and of instructions executed."""
    total = sum(k[3] for k in kernels.values())
    return (100 * sum(k[0] > 0 for k in kernels.values()) / len(kernels),
            100 * sum(bin(k[2]).count("1") for k in kernels.values()) / total)


def unreached(kernels):
    """[(reason, instructions)]; reason "": no row."""
    rows, found = reasons(), collections.Counter()
    for name, (_, _, bits, n) in kernels.items():
        why = next((reason for pattern, reason in rows if pattern.match(name)), "")
        found[why] += n - bin(bits).count("1")
    return sorted(found.items(), key=lambda row: -row[1])


def report(chip, kernels, is_long):
    launched = [k for k in kernels.values() if k[0]]
    total = sum(k[3] for k in kernels.values())
    reached = sum(bin(k[2]).count("1") for k in kernels.values())
    of_launched = sum(k[3] for k in launched)
    print("%s: %d of %d kernels (%.1f %%), %d of %d instructions (%.1f %%; %.1f %% of those "
          "kernels')" % (chip, len(launched), len(kernels),
                         100 * len(launched) / len(kernels), reached, total,
                         100 * reached / total, 100 * reached / max(of_launched, 1)))
    for why, n in unreached(kernels):
        print("  %d (%.1f %%) not reached: %s" % (n, 100 * n / total, why or "other kernels"))
    for name in sorted(kernels) if is_long else ():
        launches, _, bits, n = kernels[name]
        if not launches:
            print("  %s: never launched (%d instructions)" % (name, n))
        elif bin(bits).count("1") < n:
            runs = list(stretches(bits, n))
            print("  %s: %d of %d not reached, number %s" % (
                name, sum(b - a + 1 for a, b in runs), n,
                ", ".join("%d-%d" % r for r in runs[:6]) + (" ..." if runs[6:] else "")))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--missing", action="store_true")
    args = parser.parse_args()
    for chip, kernels in sorted(read(args.files).items()):
        report(chip, kernels, args.missing)


if __name__ == "__main__":
    main()
