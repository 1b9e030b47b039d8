#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What DRY and XTC do, by their definitions in plain loops: samplers.tsv.

usage: make_samplers.py > samplers.tsv

D<tab>multiplier base allowed_length last_n<tab>breakers<tab>ids<tab>id:penalty ...
    a breaker is its head and, behind slashes, its tail
X<tab>threshold<tab>weights<tab>ids that can be drawn when XTC applies
"""
import random

rng = random.Random(11)


def dry(ids, multiplier, base, allowed, last_n, breakers):
    ids = ids if last_n < 0 else ids[len(ids) - min(last_n, len(ids)):]
    n = len(ids)
    limit = n
    for end in range(n, 0, -1):  # the newest place where a breaker begins
        tails = [len(b) - 1 for b in breakers if ids[end - 1:end - 1 + len(b)] == b]
        if tails:
            limit = n - end - max(tails)
            break
    if n <= allowed or limit < allowed:
        return {}
    longest = {}
    for at in range(n - 1, 0, -1):  # ids[at] came behind what ends at `at`
        k = 0
        while k < at and ids[at - 1 - k] == ids[n - 1 - k]:
            k += 1
        k = min(k, limit)
        if k >= allowed:
            longest[ids[at]] = max(longest.get(ids[at], 0), k)
    return {i: multiplier * base ** (k - allowed) for i, k in sorted(longest.items())}


def xtc(weights, threshold):
    total = sum(weights)
    over = [i for i, w in enumerate(weights) if w / total >= threshold]
    if len(over) < 2:
        return list(range(len(weights)))
    keep = min(over, key=lambda i: (weights[i], -i))
    return [i for i in range(len(weights)) if i not in over or i == keep]


def main():
    for _ in range(150):
        v = rng.choice([2, 3, 5, 20])
        ids = [rng.randrange(v) for _ in range(rng.randrange(0, 40))]
        if rng.random() < 0.5 and len(ids) > 8:
            ids += ids[2:rng.randrange(4, 9)]
        args = (rng.choice([0.5, 0.8, 2.0]), rng.choice([1.0, 1.5, 1.75]),
                rng.randrange(0, 5), rng.choice([-1, -1, 10, 25]))
        breakers = [[rng.randrange(20) for _ in range(rng.randrange(1, 4))]
                    for _ in range(rng.randrange(0, 3))]
        out = dry(ids, *args, breakers)
        print("D", " ".join(map(str, args)),
              " ".join("/".join(map(str, b)) for b in breakers), " ".join(map(str, ids)),
              " ".join(f"{i}:{p:.6g}" for i, p in out.items()), sep="\t")
    for _ in range(60):
        weights = [rng.choice([1, 2, 3, 5, 8, 20, 40]) for _ in range(rng.randrange(1, 9))]
        threshold = rng.choice([0.02, 0.11, 0.21, 0.33, 0.49, 0.6])
        kept = xtc(weights, threshold) if threshold <= 0.5 else range(len(weights))
        print("X", threshold, " ".join(map(str, weights)), " ".join(map(str, kept)),
              sep="\t")


main()
