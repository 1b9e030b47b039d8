#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""halod and llama.cpp's server in turn, replaying the same agents (haloctl bench agents).

    agents.py [--build DIR] [--venv DIR] [--template FILE] [--scale X] [--rounds N] [--threads N]
              [--prefix CMD] [--set KEY=VALUE] [--llama-ctx N] --model FILE TRACE...

In each round each trace goes to a new halod and to a new llama.cpp's server (agents_llama.py, in
an environment that has xllamacpp), one after the other, the first of them alternating. Both have
as many threads, their own defaults, and the same chat template: of FILE, else halo-tiny's, which
is ChatML with tools and thinking. A template without tools would leave them out in one of both.
That package is built for AVX2: --set cpu_isa=avx2 has halod use no more. --prefix "nice -n -15"
keeps what else runs on the machine off the processors. It prints CSV: for each trace and reason
the median turn and first token over all rounds, prompt tokens that were computed, and the
processor time of the server, of both and as ratios. Subagents need --llama-ctx: by default all
slots of llama.cpp share one context of the model. Without --venv halod alone is measured."""
import argparse
import collections
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


class Server:
    def __init__(self, argv, port):
        self.url = "http://127.0.0.1:%d" % port
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while not self.is_ready():
            if self.process.poll() is not None:
                sys.exit("%s has ended" % argv[0])
            time.sleep(0.1)

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.url + "/health?ready", timeout=5) as r:
                return r.status == 200
        except OSError:
            return False

    def cpu_s(self):
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def halod(o):
    port = free_port()
    argv = [*o.prefix, os.path.join(o.build, "halod"), "-c", "/dev/null", "--model", o.model,
            "--port", str(port), "--threads", str(o.threads), "--log-level", "error",
            "--no-access-log"]
    argv += ["--chat-template", o.template]
    for s in o.set:
        key, _, value = s.partition("=")
        argv += ["--" + key.replace("_", "-"), value]
    return Server(argv, port)


def llama(o):
    port = free_port()
    argv = [*o.prefix, os.path.join(o.venv, "bin", "python"), os.path.join(HERE, "agents_llama.py"),
            o.model, str(port), str(o.threads), o.template]
    return Server(argv + ([str(o.llama_ctx)] if o.llama_ctx else []), port)


def replay(o, start, trace):
    s = start(o)
    try:
        before = s.cpu_s()
        p = subprocess.run([os.path.join(o.build, "haloctl"), "bench", "agents", "--json", "--url",
                            s.url, "--scale", str(o.scale), "--timeout", "3600", trace],
                           stdout=subprocess.PIPE, text=True, check=False)
        got = json.loads(p.stdout)
        if got["failed"]:
            sys.exit("%s: %s" % (start.__name__, got["error"]))
        return {**got, "cpu_s": s.cpu_s() - before}
    finally:
        s.stop()


def rows_of(name, sides):
    """sides: {program: results of its rounds}"""
    values = {}
    for who, rounds in sides.items():
        turns = [t for r in rounds for t in r["turns"]]
        groups = collections.defaultdict(list)
        for t in turns:
            groups["all"].append(t)
        # A turn's reason is halod's where both are measured: both had the same turn.
        why = {(t["agent"], t["turn"]): t["why"] for t in sides["halod"][0]["turns"]}
        for t in turns:
            groups[why[t["agent"], t["turn"]]].append(t)
        for group, ts in groups.items():
            v = values.setdefault(group, {}).setdefault(who, {})
            v["turn"] = statistics.median(t["ms"] for t in ts), "ms"
            v["first-token"] = statistics.median(t["first_ms"] for t in ts), "ms"
            v["computed"] = (sum(t["computed_tokens"] for t in ts)
                             / sum(t["prompt_tokens"] for t in ts), "share")
        values["all"][who]["depth"] = max(t["prompt_tokens"] for t in turns), "tokens"
        values["all"][who]["cpu"] = statistics.median(r["cpu_s"] for r in rounds), "s"
        values["all"][who]["whole"] = statistics.median(r["duration_s"] for r in rounds), "s"
    for group, by in values.items():
        for case in by["halod"]:
            for who, v in by.items():
                yield case, "%s %s %s" % (name, group.replace(" ", "-"), who), *v[case]
            if len(by) == 2 and case != "depth":
                a, b = (by[who][case][0] for who in ("halod", "llama.cpp"))
                yield case, "%s %s ratio" % (name, group.replace(" ", "-")), a / max(b, 1e-9), "1"


def tiny_template(folder):
    """halo-tiny's template as a file."""
    with open(os.path.join(TOP, "models/halo-tiny/tokenizer_config.json"), encoding="utf-8") as f:
        template = json.load(f)["chat_template"]
    path = os.path.join(folder, "template.jinja")
    with open(path, "w", encoding="utf-8") as f:
        f.write(template)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(TOP, "build"))
    p.add_argument("--model", required=True)
    p.add_argument("--template")
    p.add_argument("--venv")
    p.add_argument("--llama-ctx", type=int, help="tokens of all slots of llama.cpp together")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--prefix", type=str.split, default=[])
    p.add_argument("--scale", type=float, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--set", action="append", default=[], help="a setting of halod")
    p.add_argument("traces", nargs="+")
    o = p.parse_args()
    programs = {"halod": halod, **({"llama.cpp": llama} if o.venv else {})}
    stamp = subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%h,%cs"], check=True,
                           capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as tmp:
        o.template = o.template or tiny_template(tmp)
        measure(o, programs, stamp)


def measure(o, programs, stamp):
    for trace in o.traces:
        sides = {who: [] for who in programs}
        for i in range(o.rounds):
            for who in sorted(programs, reverse=i % 2 == 1):
                sides[who].append(replay(o, programs[who], trace))
        name = os.path.splitext(os.path.basename(trace))[0]
        for case, shape, value, unit in rows_of(name, sides):
            print("%s,%s,%s,%.4g,%s" % (stamp, case, shape, value, unit), flush=True)


if __name__ == "__main__":
    main()
