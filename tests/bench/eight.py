#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What eight agents with a common prompt cost beside one: processor time, and prompt tokens.

    eight.py [--build DIR] [--rounds N] [--agents N] [--common N] [--own N] [--answers N,…]
             [--set KEY=VALUE]… --model DIR

In each round, for each number of answer tokens, a new daemon gets one request of --common and
--own tokens, and another new one gets --agents of them at one moment: the common tokens are the
same ids, those behind are of each agent. Prints CSV: processor seconds of the daemon, prompt tokens
that it computed, seconds until the last answer, and the ratios of all agents to one."""
import argparse
import glob
import os
import random
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def cpu_s(d):
    """What all threads of the daemon have had of processors."""
    ns = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % d.process.pid):
        with open(path, encoding="ascii") as f:
            ns += int(f.read().split()[0])
    return ns / 1e9


def computed(d):
    return sum(v for k, v in d.metrics().items() if k.startswith("prefix_cache_missed_tokens"))


def measure(o, n, answer):
    d = Halod(model=o.model, ctx=o.common + o.own + max(o.answers) + 64, max_seqs=o.agents,
              **dict(s.split("=", 1) for s in o.set))
    rnd = random.Random(1)
    common = [rnd.randrange(o.vocab) for _ in range(o.common)]
    prompts = [common + [rnd.randrange(o.vocab) for _ in range(o.own)] for _ in range(n)]

    def ask(prompt, n_tok):
        a = d.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": n_tok,
                                                  "temperature": 0, "ignore_eos": True})
        assert a.status == 200, a.body
    ask(prompts[0][-o.own:], 2)
    before, n_before, start = cpu_s(d), computed(d), time.monotonic()
    threads = [threading.Thread(target=ask, args=(p, answer)) for p in prompts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    out = (cpu_s(d) - before, "s"), (computed(d) - n_before, "tokens"), (time.monotonic() - start, "s")
    d.stop()
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(TOP, "build"))
    p.add_argument("--model", required=True)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--agents", type=int, default=8)
    p.add_argument("--common", type=int, default=10000)
    p.add_argument("--own", type=int, default=200)
    p.add_argument("--vocab", type=int, default=20000)
    p.add_argument("--answers", type=lambda s: [int(x) for x in s.split(",")], default=[1, 64])
    p.add_argument("--set", action="append", default=[], help="a setting of halod")
    o = p.parse_args()
    os.environ["HALOD_BUILDDIR"], os.environ["HALOD_SRCDIR"] = o.build, TOP
    sys.path.insert(0, os.path.join(TOP, "tests", "http"))
    global Halod
    import halod
    halod.PATIENCE = 1800  # a prompt may be long and the machine slow
    Halod = halod.Halod
    stamp = subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%h,%cs"], check=True,
                           capture_output=True, text=True).stdout.strip()
    name = os.path.basename(os.path.normpath(o.model))
    for _ in range(o.rounds):
        for answer in o.answers:
            one, all_ = (measure(o, n, answer) for n in (1, o.agents))
            for case, a, b in zip(("cpu", "computed", "whole"), one, all_):
                shape = "%s answers of %d" % (name, answer)
                for who, value, unit in (("one", *a), ("all", *b), ("ratio", b[0] / a[0], "1")):
                    print("%s,%s,%s %s,%.4g,%s" % (stamp, case, shape, who, value, unit), flush=True)


if __name__ == "__main__":
    main()
