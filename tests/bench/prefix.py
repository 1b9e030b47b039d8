#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TTFT of a follow-up turn: its history warm in memory, on disk after a restart, or cold.

    prefix.py [--build DIR] [--rounds N] [--turns N] [--new N] [--chat] [--set KEY=VALUE]…
              [--bench ARGUMENTS] [--store DIR] --model DIR [--name NAME] TOKENS…

Each round, for each number of TOKENS: a history of so many tokens is computed (cold), and when
all has been written, turns of --new tokens behind it are answered from memory: the first of
them (warm-first), and the median of --turns that come one right after the other (warm).
halod is restarted, the page cache gives up the files, and another turn is answered from disk
(disk). In the same round the new tokens are computed behind as many tokens without a daemon
(alone: `haloctl bench model -d TOKENS`, the median of as many; with --bench, "no": left out), and
the files' bytes are read by themselves (read), past the page cache where the disk allows it. So
the ratios are of alternating runs. With --store the files stay in DIR. A later run with the same
DIR computes no history again: it measures the disk, and then the memory. --set is a line of
halod.conf.

The prompt is a list of ids. With --chat it is messages of words, about as many tokens, and
each turn is an answer and a message more.

Of the median turn: warm-body is the time until the body was there, warm-parse that in which it
became tokens, warm-queue that until the step, warm-prefill the rest of the TTFT; warm-client is
what the client waits for the whole answer. warm-cpu is the daemon's processor time of a turn,
with a GPU nearly all the host's own. Prints CSV: medians of the rounds in ms, and of the
ratios within a round."""
import argparse
import contextlib
import glob
import json
import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


def ids_body(tokens):
    return "/v1/completions", {"prompt": tokens, "max_tokens": 1, "temperature": 0}


def chat_body(messages):
    return "/v1/chat/completions", {"messages": messages, "max_tokens": 1, "temperature": 0}


def ask(d, path, body):
    """The answer's timings, and what the client waited."""
    data, conn = json.dumps(body).encode(), d.connect()
    start = time.monotonic()
    conn.request("POST", path, data, {"Content-Type": "application/json"})
    answer = conn.getresponse().read()
    client_ms = (time.monotonic() - start) * 1e3
    conn.close()
    return {**json.loads(answer)["timings"], "client_ms": client_ms}


class Ids:
    """A history of ids; turns are drawn anew each time, as a store keeps old ones."""
    def __init__(self, o, d, rnd, n):
        self.o, self.turns, self.n = o, random.Random(), n
        self.history = [rnd.randrange(o.vocab) for _ in range(n)]

    def cold(self):
        return ids_body(self.history)

    def turn(self):
        return ids_body(self.history + [self.turns.randrange(self.o.vocab)
                                        for _ in range(self.o.new)])


class Chat:
    """A history of messages, as long as the tokenizer makes of n tokens."""
    MESSAGE = 300 # words
    WORDS = ("return value of the function is read once more and the file was not found in list "
             "build error line test open close name path data size first last one two").split()

    def __init__(self, o, d, rnd, n):
        self.o, self.turns, self.n = o, random.Random(), n
        text = self.words(rnd, self.MESSAGE)
        self.per_word = len(d.request("POST", "/tokenize", {"prompt": text}).json["tokens"]) \
            / self.MESSAGE
        n_pairs = max(1, round(n / self.MESSAGE / self.per_word / 2))
        self.history = [self.message(rnd, i, self.MESSAGE) for i in range(2 * n_pairs - 1)]

    def words(self, rnd, n):
        return " ".join(rnd.choice(self.WORDS) + str(rnd.randrange(10)) for _ in range(n))

    def message(self, rnd, i, n):
        return {"role": ("user", "assistant")[i % 2], "content": self.words(rnd, n)}

    def cold(self):
        return chat_body(self.history)

    def turn(self):
        n, at = max(1, round(self.o.new / self.per_word / 2)), len(self.history)
        return chat_body(self.history + [self.message(self.turns, at + i, n) for i in (0, 1)])


def drop(folder):
    """The files are to come from the disk again."""
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read_ms(folder, n_bytes):
    """To read about so many bytes of the files, in pieces of 16 MiB."""
    room = mmap.mmap(-1, 1 << 24)
    room.write(b"1" * len(room))
    start, left = time.monotonic(), n_bytes
    for name in sorted(os.listdir(folder)):
        path, at = os.path.join(folder, name), 0
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            fd = os.open(path, os.O_RDONLY)
        while left > 0 and (n := os.preadv(fd, [room], at)):
            at, left = at + n, left - n
            if n % 4096: # the file's end
                break
        os.close(fd)
    return (time.monotonic() - start) * 1e3


def alone_ms(o, t):
    """What the turn with these timings computed."""
    n = str(t["prompt_n"])
    out = subprocess.run([os.path.join(o.build, "haloctl"), "bench", "model", "-m", o.model,
                          "-p", n, "-d", str(t["cache_n"]), "-n", "1", "-r", str(o.turns),
                          "--json", "--depth-copies",
                          *o.bench.split()], check=True, capture_output=True, text=True)
    return t["prompt_n"] / json.loads(out.stdout)["prefill"][n] * 1e3


def settle(d):
    """Until all that is to be written is written."""
    before = -1
    while (m := d.metrics())["kv_disk_queued_bytes"] or before != m["kv_disk_files"]:
        before = m["kv_disk_files"]
        time.sleep(0.3)


def cpu_ms(d):
    """What all threads of the daemon have had of processors."""
    all_ns = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % d.process.pid):
        with open(path) as f:
            all_ns += int(f.read().split()[0])
    return all_ns / 1e6


def warm_turns(o, d, talk, out):
    """What has just been computed or read is in memory."""
    got, before = [], cpu_ms(d)
    for _ in range(o.turns):
        got.append(ask(d, *talk.turn()))
        t = got[-1]
        assert t["disk_n"] == 0 and t["prompt_n"] < 2 * o.new + 64, t
    out["warm-cpu"] = (cpu_ms(d) - before) / o.turns
    settle(d)
    out["warm-first"] = got[0]["ttft_ms"]
    out["warm"] = statistics.median(t["ttft_ms"] for t in got)
    for t in got:
        t["wait_ms"] = t["queue_ms"] - t["body_ms"] - t["parse_ms"]
    for case, key in (("body", "body_ms"), ("parse", "parse_ms"), ("queue", "wait_ms"),
                      ("prefill", "prompt_ms"), ("client", "client_ms")):
        out["warm-" + case] = statistics.median(t[key] for t in got)
    out["turn"] = got[-1]


def one_round(o, seed):
    """Histories are those of the seed."""
    out = {n: {} for n in o.tokens}
    talks = {}
    with contextlib.ExitStack() as stack:
        folder = o.store or stack.enter_context(tempfile.TemporaryDirectory())
        is_new = not o.store or not os.path.isdir(folder)
        settings = {"model": o.model, "kv_dir": folder, "max_seqs": 1,
                    "ctx": max(o.tokens) * (2 if o.chat else 1) + 2 * o.new + 128,
                    "kv_disk_limit": "60G",
                    **dict(s.split("=", 1) for s in o.set)}

        def start():
            """The first request finds cold caches of other kinds."""
            d = Halod(**settings)
            ask(d, *ids_body([random.randrange(o.vocab) for _ in range(64)]))
            return d
        d = start()
        for n in o.tokens:
            talks[n] = (Chat if o.chat else Ids)(o, d, random.Random("%d %d" % (seed, n)), n)
            if not is_new:
                continue
            t = ask(d, *talks[n].cold())
            assert t["cache_n"] < 64, t # a template's first words may be another's
            out[n]["cold"] = t["ttft_ms"]
            settle(d)
            warm_turns(o, d, talks[n], out[n])
        d.stop()
        drop(folder)
        d = start()
        for n, talk in talks.items():
            before = d.metrics()["kv_disk_read_bytes_total"]
            t = ask(d, *talk.turn())
            out[n]["disk"] = t["ttft_ms"]
            if t["disk_n"] < t["cache_n"] + t["prompt_n"] - 2 * o.new - 64:
                # computing was thought to be faster
                print("# of %d tokens %d came from the disk" % (n, t["disk_n"]), flush=True)
            n_bytes = d.metrics()["kv_disk_read_bytes_total"] - before
            out[n]["mib"] = n_bytes / (1 << 20)
            if not is_new:
                settle(d)
                warm_turns(o, d, talk, out[n])
        d.stop()
        for n in o.tokens:
            drop(folder)
            out[n]["read"] = read_ms(folder, out[n]["mib"] * (1 << 20))
    for n in o.tokens if o.bench != "no" else []:
        out[n]["alone"] = alone_ms(o, out[n]["turn"])
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(TOP, "build"))
    p.add_argument("--model", required=True)
    p.add_argument("--name", default="")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--new", type=int, default=128)
    p.add_argument("--chat", action="store_true")
    p.add_argument("--vocab", type=int, default=300)
    p.add_argument("--store")
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--bench", default="")
    p.add_argument("tokens", type=int, nargs="+")
    o = p.parse_args()
    os.environ["HALOD_BUILDDIR"], os.environ["HALOD_SRCDIR"] = o.build, TOP
    sys.path.insert(0, os.path.join(TOP, "tests", "http"))
    global Halod
    import halod
    halod.PATIENCE = 1800 # a prompt may be long and the machine slow
    halod.QUICK = halod.USUAL
    Halod = halod.Halod
    commit = subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%h,%cs"], check=True,
                            capture_output=True, text=True).stdout.strip()
    name = o.name or os.path.basename(os.path.abspath(o.model))
    rounds = [one_round(o, 0 if o.store else i) for i in range(o.rounds)]
    for n in o.tokens:
        got = [r[n] for r in rounds]
        def row(case, unit, value):
            print("%s,%s,%s behind %d,%.4g,%s"
                  % (commit, case, name, n, statistics.median(map(value, got)), unit))
        for case in ("cold", "warm-first", "warm", "warm-body", "warm-parse", "warm-queue",
                     "warm-prefill", "warm-client", "warm-cpu", "disk", "read", "alone"):
            if case in got[0]:
                row(case, "ms", lambda r, case=case: r[case])
        row("warm-cached", "tokens", lambda r: r["turn"]["cache_n"])
        row("disk-bytes", "MiB", lambda r: r["mib"])
        if "cold" in got[0]:
            row("cold/disk", "ratio", lambda r: r["cold"] / r["disk"])
        row("disk/(read+warm)", "ratio", lambda r: r["disk"] / (r["read"] + r["warm"]))
        if "alone" in got[0]:
            row("disk/(read+alone)", "ratio", lambda r: r["disk"] / (r["read"] + r["alone"]))
            row("warm/alone", "ratio", lambda r: r["warm"] / r["alone"])
            row("warm-prefill/alone", "ratio", lambda r: r["warm-prefill"] / r["alone"])


if __name__ == "__main__":
    main()
