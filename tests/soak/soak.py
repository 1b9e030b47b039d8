#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A week of a daemon's life in an hour.

    soak.py [SECONDS [SEED]]                           (3600; make soak MINUTES=60)

Three models serve agents that talk and change: histories behind a prompt that all have in common,
chats, streams, schemas, calls, pictures, bodies that are wrong, clients that hang up. Meanwhile the
time of day jumps, and API keys come and go. All daemons have kv_dir, a prefix cache and drafts.

Two of them are killed (SIGKILL) or drained (SIGTERM) again and again. Then a byte of a file may be
changed, and a second daemon may share the folder for a while. The third one lives for all of it;
it is weighed now and then when nobody asks: memory, descriptors, threads.

Each answer is compared, bit for bit where it has log-probabilities, with that of a daemon which
keeps nothing. All daemons run a copy of halod that is made at the start: two builds may differ in
the last bits, and the build folder may change meanwhile. A wrong answer is asked again in four
ways, which tell whether the cache or the arithmetic is at fault."""
import base64
import http.client
import json
import os
import random
import re
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "http"))
from halod import BUILDDIR, PATIENCE, PROGRAM, SRCDIR, Halod  # noqa: E402
from test_kv_disk import HYBRID, files, flip  # noqa: E402

VISION = os.path.join(SRCDIR, "tests/golden/vision/qwen3vl")
IMAGES = os.path.join(SRCDIR, "tests/golden/images")
AGENTS = 4
TALKS, TURNS = 12, 6  # of each kind: what is asked comes again
DISK = 24 << 20
SETTINGS = {"max_seqs": AGENTS, "kv_cache": "8M", "threads": 1, "speculative": "auto",
            "image_cache": "1M", "access_log": "no", "ctx": 2048, "drain_timeout": "5m"}
KEY = "sk-of-the-agents"
GONE = (http.client.HTTPException, OSError)
GROWS_MB = 16
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "n": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "n"], "additionalProperties": False}
WORDS = "water fire stone tree river cloud who what where why tell name list story".split()


# --- what is asked -----------------------------------------------------------------------------

class Talks:
    """Requests of one model, each known by (kind, talk, turn)."""

    def __init__(self, model, kinds, seed):
        r = random.Random(seed)
        self.model, self.kinds = model, kinds
        self.common = [r.randrange(300) for _ in range(200)]
        self.parts = [[[r.randrange(300) for _ in range(r.randrange(5, 120))]
                       for _ in range(TURNS)] for _ in range(TALKS)]
        self.lines = [[" ".join(r.choices(WORDS, k=r.randrange(3, 30))) for _ in range(TURNS)]
                      for _ in range(TALKS)]
        names = sorted(n for n in os.listdir(IMAGES) if n.endswith((".png", ".jpeg", ".webp")) and
                       os.path.getsize(os.path.join(IMAGES, n)) < 20000)
        self.urls = []
        for n in names[:TALKS]:
            with open(os.path.join(IMAGES, n), "rb") as f:
                self.urls.append("data:image/%s;base64,%s" % (
                    n.rsplit(".", 1)[1], base64.b64encode(f.read()).decode()))

    def of(self, kind, talk, turn):
        """(path, body)"""
        if kind == "ids":
            return "/v1/completions", {
                "prompt": self.common + sum(self.parts[talk][:turn + 1], []), "max_tokens": 8,
                "temperature": 0, "ignore_eos": True, "logprobs": 1}
        messages = [{"role": "system", "content": "You are kind. " + " ".join(WORDS)}]
        for i in range(turn + 1):
            messages.append({"role": "user", "content": self.lines[talk][i]})
            if i < turn:
                messages.append({"role": "assistant", "content": self.lines[talk][-1 - i]})
        body = {"messages": messages, "max_tokens": 24, "temperature": 0}
        if kind == "schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {
                "name": "x", "strict": True, "schema": SCHEMA}}
        elif kind == "call":
            body.update(tools=[{"type": "function", "function": {
                "name": "find", "parameters": SCHEMA}}], tool_choice="required")
        elif kind == "image":
            messages[-1]["content"] = [
                {"type": "image_url", "image_url": {"url": self.urls[talk % len(self.urls)]}},
                {"type": "text", "text": self.lines[talk][turn]}]
        elif kind == "stream":
            body["stream"] = True
        else:
            body["logprobs"] = True
        return "/v1/chat/completions", body


def ask(d, path, body):
    """What an answer says, without what differs each time."""
    a = d.request("POST", path, body, {"Authorization": "Bearer " + KEY})
    if a.status != 200:
        return a.status, a.error["code"]
    if body.get("stream"):
        data = [line[6:] for line in a.body.decode().split("\n") if line.startswith("data: ")]
        if data.pop() != "[DONE]":
            raise http.client.IncompleteRead(a.body)
        choices = [c for x in data for c in json.loads(x)["choices"]]
        return 200, ("".join(c["delta"].get("content") or "" for c in choices),
                     [c["finish_reason"] for c in choices if c["finish_reason"]])
    c = a.json["choices"][0]
    for call in c.get("message", {}).get("tool_calls") or []:
        del call["id"]
    return 200, (c.get("text"), c.get("message"), c["logprobs"], c["finish_reason"])


# --- a model's daemons -------------------------------------------------------------------------

class Side:
    """A model: the daemon that lives, the one that keeps nothing, and what is known by it."""

    def __init__(self, name, talks, where, program, seed):
        self.name, self.talks, self.dir = name, talks, os.path.join(where, name)
        self.program, self.random = program, random.Random(seed)
        os.mkdir(self.dir)
        self.offset, self.keys = os.path.join(self.dir, "clock"), os.path.join(self.dir, "keys")
        self.kv = os.path.join(self.dir, "kv")
        self.n_keys = 0
        self.write_keys()
        self.jump(0)
        self.known, self.lock = {}, threading.Lock()
        self.n = dict.fromkeys(("asked", "wrong", "hung up", "refused bodies", "jumps", "reloads",
                                "drains", "kills", "cut", "damaged", "refused files",
                                "disk tokens"), 0)
        self.cold = self.start_cold()

    def start_cold(self):
        return Halod(prefix_cache="no", model=self.talks.model, program=self.program,
                     **{**SETTINGS, "speculative": "off"})

    def start(self):
        env = {**os.environ, "CLOCK_JUMPS": self.offset,
               "LD_PRELOAD": os.path.join(BUILDDIR, "tests/soak/clock_jumps.so"),
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"}
        return Halod(kv_dir=self.kv, kv_disk_limit=DISK, api_key_file=self.keys,
                     model=self.talks.model, program=self.program, popen={"env": env}, **SETTINGS)

    def count(self, what, n=1):
        with self.lock:
            self.n[what] += n

    # --- what happens to it --------------------------------------------------------------------

    def write_keys(self):
        with open(self.keys + ".new", "w") as f:
            f.write("%s agents\nsk-%d other\n" % (KEY, self.n_keys))
        os.rename(self.keys + ".new", self.keys)

    def reload(self, d):
        """Another key in place of the last one."""
        self.n_keys += 1
        self.write_keys()
        seen = len(d.lines)
        d.process.send_signal(signal.SIGHUP)
        d.wait_log("SIGHUP: ", seen)
        for n, want in ((self.n_keys, 200), (self.n_keys - 1, 401)):
            got = d.get("/v1/models", {"Authorization": "Bearer sk-%d" % n}).status
            if got != want:
                self.tell("a key of the last reload", n, got, want)
        self.count("reloads")

    def jump(self, seconds):
        """The time of day, from one moment to the next."""
        with open(self.offset, "r+b" if os.path.exists(self.offset) else "wb") as f:
            f.write(struct.pack("<q", seconds))

    def happen(self, d):
        """Something that may happen at any time."""
        if self.random.random() < 0.5:
            self.jump(self.random.randrange(-400, 400) * 86400 + self.random.randrange(86400))
            self.count("jumps")
        else:
            self.reload(d)

    # --- answers -------------------------------------------------------------------------------

    def expect(self, what):
        with self.lock:
            if what not in self.known:
                self.known[what] = ask(self.cold, *self.talks.of(*what))
            return self.known[what]

    def tell(self, what, *more):
        self.count("wrong")
        print("# wrong: %s: %s\n# %s" % (self.name, what, "\n# ".join(repr(x)[:1000] for x in more)),
              flush=True)

    def explain(self, d, what, got, want):
        """Who else says which of the two."""
        path, body = self.talks.of(*what)
        fresh = self.start_cold()
        for who, a in (("the same daemon with its cache", ask(d, path, body)),
                       ("the same without", ask(d, path, {**body, "cache_salt": os.urandom(8).hex()})),
                       ("the cold daemon", ask(self.cold, path, body)),
                       ("a new cold daemon", ask(fresh, path, body))):
            print("#   %s: %s" % (who, "as expected" if a == want else "as answered" if a == got
                                  else "otherwise: %r" % (a,)), flush=True)
        fresh.stop()

    def turn(self, d, what, is_leaving):
        got, want = ask(d, *self.talks.of(*what)), self.expect(what)
        if got[0] == 503 and is_leaving.is_set():
            return False
        self.count("asked")
        if got != want:
            self.tell(what, got, want)
            self.explain(d, what, got, want)
        return True

    def agent(self, d, seed, is_leaving):
        """Turns until the daemon is gone or goes."""
        r = random.Random(seed)
        while not is_leaving.is_set():
            kind, talk = r.choice(self.talks.kinds), r.randrange(TALKS)
            try:
                if r.random() < 0.05:
                    self.hang_up(d)
                elif r.random() < 0.05:
                    self.send_bad(d, r, is_leaving)
                for turn in range(r.randrange(TURNS), TURNS):
                    if not self.turn(d, (kind, talk, turn), is_leaving):
                        return
            except GONE + (ValueError, AssertionError, KeyError) as e:
                if not is_leaving.is_set():
                    self.tell("an agent: %r" % e, kind, talk)
                elif isinstance(e, http.client.IncompleteRead) and not d.is_killed:
                    self.count("cut")
                return

    def hang_up(self, d):
        conn = d.connect()
        conn.request("POST", "/v1/completions", json.dumps({
            "prompt": self.talks.common, "max_tokens": 500, "ignore_eos": True, "stream": True}),
            {"Authorization": "Bearer " + KEY})
        conn.getresponse().read(40)
        conn.close()
        self.count("hung up")

    def send_bad(self, d, r, is_leaving):
        body = r.choice(("{", '{"prompt": 1, "prompt": {}}', '{"prompt": "a", "n": 1e9}', "[" * 5000))
        a = d.request("POST", "/v1/completions", body, {"Authorization": "Bearer " + KEY})
        if a.status == 503 and is_leaving.is_set():
            return
        if a.status != 400:
            self.tell("a bad body", body[:100], a.status, a.body[:200])
        self.count("refused bodies")

    def agents(self, *daemons):
        """Begins them. Call the result to tell them that the end is near, and again to join."""
        is_leaving = threading.Event()
        threads = [threading.Thread(target=self.agent, args=(
            daemons[i % len(daemons)], self.random.random(), is_leaving)) for i in range(AGENTS)]
        for d in daemons:
            d.is_killed = False
        for t in threads:
            t.start()
        return is_leaving, threads

    # --- the folder ----------------------------------------------------------------------------

    def damage(self):
        found = files(self.kv)
        if found and self.random.random() < 0.5:
            path = self.random.choice(found)
            flip(path, self.random.randrange(os.path.getsize(path)))
            self.count("damaged")

    def look_at_disk(self):
        """A daemon does not know what another one is just writing: one file of it may be over."""
        sizes = [0]
        for f in os.scandir(self.kv):
            try:
                sizes.append(f.stat().st_size)
            except FileNotFoundError:
                pass
        if sum(sizes) > DISK + max(sizes):
            self.tell("kv_dir has %d bytes, of %d" % (sum(sizes), DISK))

    def read_metrics(self, d):
        m = d.metrics()
        self.count("refused files", int(m["kv_disk_refused_total"]))
        self.count("disk tokens", int(m["prompt_tokens_disk_total"]))

    def finish(self, d):
        code = d.stop()
        if code != 0:
            self.tell("an end with status %d" % code, *[x or "(end)" for x in d.lines[-40:]])


def join(threads):
    for t in threads:
        t.join(PATIENCE)
    if any(t.is_alive() for t in threads):
        raise AssertionError("an agent got no answer")


class Killed(Side):
    """Lives for some seconds at a time."""

    def live(self, end):
        while time.monotonic() < end and not self.n["wrong"]:
            d = self.start()
            other = self.start() if self.random.random() < 0.2 else None
            all_of = [x for x in (d, other) if x]
            is_leaving, threads = self.agents(*all_of)
            for _ in range(self.random.randrange(4)):
                time.sleep(self.random.uniform(0.05, 3))
                self.happen(self.random.choice(all_of))
            time.sleep(self.random.uniform(0.05, 3))
            self.read_metrics(d)
            self.look_at_disk()
            is_killed = self.random.random() < 0.6
            for x in all_of:
                x.is_killed = is_killed
            is_leaving.set()
            for x in all_of:
                if is_killed:
                    x.process.send_signal(signal.SIGKILL)
                    x.stop()
                else:
                    self.finish(x)
                self.count("kills" if is_killed else "drains")
            join(threads)
            if is_killed:
                self.damage()
        self.cold.stop()


class Steady(Side):
    """Lives to the end, and is weighed when nobody asks."""
    weights = None

    def weigh(self, d):
        def status(name):
            with open("/proc/%d/status" % d.process.pid) as f:
                return int(re.search(name + r":\s+(\d+)", f.read()).group(1))
        late = time.monotonic() + 40
        want = self.weights[0][2] if self.weights else 0
        time.sleep(12)  # workers that nobody needs end after ten seconds
        while status("Threads") > want and want and time.monotonic() < late:
            time.sleep(1)
        self.weights.append((status("VmRSS") / 1024, len(os.listdir(
            "/proc/%d/fd" % d.process.pid)), status("Threads")))

    def live(self, end):
        self.weights, start = [], time.monotonic()
        d = self.start()
        while time.monotonic() < end and not self.n["wrong"]:
            is_leaving, threads = self.agents(d)
            pause = time.monotonic() + max(15, (end - start) / 15)
            while time.monotonic() < min(pause, end):
                time.sleep(self.random.uniform(0.1, 4))
                self.happen(d)
            is_leaving.set()
            join(threads)
            self.look_at_disk()
            self.weigh(d)
        self.read_metrics(d)
        self.finish(d)
        self.count("drains")
        self.cold.stop()
        self.judge()

    def judge(self):
        mb, fds, threads = zip(*self.weights[len(self.weights) // 3:])
        print("# %s: MB %s, descriptors %s, threads %s" % (self.name, *(
            " ".join("%d" % x for x in row) for row in zip(*self.weights))))
        if mb[-1] - mb[0] > GROWS_MB or fds[-1] > fds[0] or threads[-1] > threads[0]:
            self.tell("growth", self.weights)


# --- the run -----------------------------------------------------------------------------------

def live(side, end, failed):
    try:
        side.live(end)
    except Exception as e:  # noqa: BLE001
        failed.append(e)
        side.tell("%r" % e)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print("# seed", seed, flush=True)
    failed = []
    with tempfile.TemporaryDirectory() as tmp:
        program = shutil.copy(PROGRAM, tmp)
        chats = ("ids", "chat", "stream", "schema")
        halo = os.path.join(SRCDIR, "models/halo-tiny")
        sides = [cls(name, Talks(model, kinds, seed + i), tmp, program, seed + i)
                 for i, (cls, name, model, kinds) in enumerate((
                     (Killed, "halo-tiny", halo, (*chats, "call")),
                     (Killed, "recurrent", HYBRID, ("ids",)),
                     (Steady, "vision", VISION, (*chats, "image"))))]
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=live, args=(s, end, failed)) for s in sides]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    names = list(sides[0].n)
    print("| model | %s |\n|---|%s" % (" | ".join(names), "---|" * len(names)))
    for s in sides:
        print("| %s | %s |" % (s.name, " | ".join("%d" % s.n[k] for k in names)))
    good = not failed and sides[0].n["disk tokens"] > 0 and all(
        s.n["wrong"] + s.n["cut"] == 0 and s.n["asked"] > 0 for s in sides)
    print("ok 1" if good else "not ok 1", "- each answer is the known one, and nothing grows")
    print("1..1")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
