#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kv_dir under agents' load, killed again and again.

    soak_kv.py [SECONDS [SEED]]                        (600; make soak-kv MINUTES=10)

Agents talk to halod, each with a history of its own behind a prompt that all have in common.
At a random moment halod is killed (SIGKILL). Then a byte of a file may be changed, a second
daemon may share the folder for a while, and halod starts again. Each answer, before and
after, is compared bit for bit with that of a daemon which keeps nothing. Half of the rounds
are a recurrent model's.

All daemons run a copy of halod that is made at the start: two builds may differ in the last
bits, and the build folder may change meanwhile. An answer that differs is asked again in four
ways, which tell whether the cache or the arithmetic is at fault."""
import http.client
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

from halod import PATIENCE, PROGRAM, Halod
from test_kv_disk import HYBRID, files, flip

AGENTS = 4
LONGEST = 1200  # tokens of a history; then it begins anew
SETTINGS = {"max_seqs": AGENTS, "kv_cache": "8M", "threads": 1, "speculative": "auto"}
GONE = (http.client.HTTPException, OSError, AssertionError, ValueError, KeyError)


class Side:
    """One model: the daemon that is killed, the cold one, and what was asked."""

    def __init__(self, model, folder, seed, program):
        self.random = random.Random(seed)
        self.model, self.folder = ({"model": model} if model else {}), folder
        self.model["program"] = program
        self.common = [self.random.randrange(300) for _ in range(200)]
        self.histories = [list(self.common) for _ in range(AGENTS)]
        self.asked = []  # (prompt, log-probabilities, timings), of the last rounds
        self.lock = threading.Lock()
        self.cold = self.start_cold()
        self.known = {}

    def start_cold(self):
        return Halod(prefix_cache="no", access_log="no", **SETTINGS, **self.model)

    def name(self):
        return self.model.get("model", "halo-tiny")

    def start(self):
        return Halod(kv_dir=self.folder, kv_disk_limit="24M", access_log="no", **SETTINGS,
                     **self.model)

    def expect(self, prompt):
        key = tuple(prompt)
        if key not in self.known:
            if len(self.known) > 500:
                self.known.clear()
            self.known[key] = complete(self.cold, prompt)[0]
        return self.known[key]


def complete(d, prompt, **more):
    a = d.request("POST", "/v1/completions", {
        "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True,
        "logprobs": 1, **more}).json
    return (a["choices"][0]["logprobs"]["token_logprobs"],
            {"halod": d.process.pid, "at": time.time(), **a["timings"]})


def agent(side, d, i, counts):
    """Turns until the daemon is gone."""
    rnd = random.Random(side.random.random() + i)
    try:
        while True:
            history = side.histories[i]
            if len(history) > LONGEST:
                history[:] = side.common
            history += [rnd.randrange(300) for _ in range(rnd.randrange(5, 120))]
            answer, timings = complete(d, history)
            with side.lock:
                side.asked.append((list(history), answer, timings))
                counts["turns"] += 1
                counts["disk tokens"] += timings["disk_n"]
                counts["cached tokens"] += timings["cache_n"]
    except GONE:
        return


def explain(side, d, prompt, answer, want):
    """Where an answer differs, and who else says which of the two."""
    def says(who, got):
        print("#   %s: %s" % (who, "as expected" if got == want else
                              "as answered" if got == answer else "otherwise: %r" % got))
    at = [i for i, (a, b) in enumerate(zip(answer, want)) if a != b]
    print("#   differs at tokens %r, by at most %.3g"
          % (at, max([abs(answer[i] - want[i]) for i in at], default=0)))
    says("the same daemon with its cache", complete(d, prompt)[0])
    says("the same daemon without", complete(d, prompt, cache_salt=os.urandom(8).hex())[0])
    says("the cold daemon again", complete(side.cold, prompt)[0])
    fresh = side.start_cold()
    says("a new cold daemon", complete(fresh, prompt)[0])
    fresh.stop()
    sys.stdout.flush()


def compare(side, d, asked, counts):
    prompt, answer, timings = asked
    want = side.expect(prompt)
    counts["compared"] += 1
    if answer != want:
        counts["wrong"] += 1
        print("# wrong: %s, daemon %d now, %d prompt tokens, %r\n#  got %r\n# want %r"
              % (side.name(), d.process.pid, len(prompt), timings, answer, want), flush=True)
        explain(side, d, prompt, answer, want)


def check(side, d, counts, n):
    """Some of what agents were told, and some of their prompts again."""
    for asked in side.random.sample(side.asked, min(5 * n, len(side.asked))):
        compare(side, d, asked, counts)
    for prompt, _, _ in side.random.sample(side.asked, min(n, len(side.asked))):
        answer, timings = complete(d, prompt)
        compare(side, d, (prompt, answer, timings), counts)
        counts["disk tokens"] += timings["disk_n"]
    del side.asked[:-30]


def damage(side, counts):
    all_files = files(side.folder)
    if all_files and side.random.random() < 0.5:
        path = side.random.choice(all_files)
        flip(path, side.random.randrange(os.path.getsize(path)))
        counts["damaged"] += 1


def round_of(side, counts):
    d = side.start()
    check(side, d, counts, 6)
    other = side.start() if side.random.random() < 0.25 else None
    threads = [threading.Thread(target=agent, args=(side, other if other and i % 2 else d, i,
                                                    counts)) for i in range(AGENTS)]
    for t in threads:
        t.start()
    time.sleep(side.random.uniform(0.05, 4))
    counts["refused files"] += int(d.metrics()["kv_disk_refused_total"])
    for victim in filter(None, (d, other)):
        victim.process.send_signal(signal.SIGKILL)
        victim.stop()
        counts["kills"] += 1
    for t in threads:
        t.join(PATIENCE)
    damage(side, counts)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    seed = (int(sys.argv[2]) if len(sys.argv) > 2 else
            random.SystemRandom().randrange(1 << 32))
    print("# seed", seed, flush=True)
    counts = dict.fromkeys(("rounds", "kills", "turns", "compared", "wrong", "cached tokens",
                            "disk tokens", "damaged", "refused files"), 0)
    with tempfile.TemporaryDirectory() as tmp:
        program = shutil.copy(PROGRAM, tmp)
        sides = [Side(model, os.path.join(tmp, "kv%d" % i), seed + i, program)
                 for i, model in enumerate((None, HYBRID))]
        end = time.monotonic() + seconds
        while time.monotonic() < end and not counts["wrong"]:
            for side in sides:
                round_of(side, counts)
                counts["rounds"] += 1
            if counts["rounds"] % 20 == 0:
                print("#", counts, flush=True)
        for side in sides:
            d = side.start()
            check(side, d, counts, 30)
            d.stop()
            side.cold.stop()
    print("#", counts)
    good = counts["wrong"] == 0 and counts["disk tokens"] > 0
    print("ok 1" if good else "not ok 1", "- after each kill the answers are the cold ones")
    print("1..1")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
