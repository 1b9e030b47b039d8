#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""halod through the HIP backend, on the runtime of tests/hip-on-cpu; what it does when
the device fails, hangs, or is not there."""
import os
import struct
import subprocess
import tempfile
import time

from halod import CHECK, FIBERS, Halod, MODEL, PATIENCE, PROGRAM, SRCDIR, Tap, traceback

SHORT = "short" in CHECK  # under a sanitizer
HIP = {"backend": "hip", "hip_library": FIBERS, "ctx": 256, "max_seqs": 2,
       "self_check": "no"}
# Two layers: where a fault or a page is the matter, and not the model. Under a sanitizer this
# one alone. The start measures no widths: how many steps these take depends on the machine, and
# faults come at a launch by its number.
SMALL = {**HIP, "model": os.path.join(SRCDIR, "tests/golden/models/qwen3-bf16"),
         "speculative": "off"}


def test_sampled(t, d):
    """What is drawn from the best alone is what is drawn from all logits."""
    want = {"max_tokens": 5, "ignore_eos": True, "seed": 7, "temperature": 0.6}
    for cut in ({"top_k": 20}, {"top_p": 0.8}, {"min_p": 0.2}):
        before = d.metrics()["logit_fetches_total"]
        some = d.chat("Tell me more", **want, **cut)
        between = d.metrics()["logit_fetches_total"]
        # A token that the device may know nothing of may not be raised.
        every = d.chat("Tell me more", **want, **cut, logit_bias={"3001": 0.0001})
        after = d.metrics()["logit_fetches_total"]
        t.equal(some.json["choices"][0]["message"], every.json["choices"][0]["message"],
                "drawn with %s" % cut)
        t.ok(after - between == 5 and between - before < 5, "from little",
             (before, between, after))


def test_serve(t):
    d = Halod(**{**(SMALL if SHORT else HIP), "backend": "auto"})
    events = list(d.stream("What is 2+2?", temperature=0, max_tokens=6,
                           ignore_eos=True,
                           stream_options={"include_usage": True}).events())
    t.equal(events[-1], "[DONE]", "a stream through HIP")
    t.equal(events[-2]["usage"]["completion_tokens"], 6, "of six tokens")
    health = d.get("/health").json
    t.equal(health["backend"], "hip", "/health: the backend")
    t.ok(health["backend_reason"].startswith("auto: ") and
         "gfx1151" in health["backend_reason"], "/health: and why", health)
    m = d.metrics()
    t.ok(any(k.startswith('backend_info{backend="hip",reason="auto: ') for k in m),
         "/metrics: backend_info", list(m))
    t.equal(m["graph_captures_total"], 1, "a step was recorded")
    t.ok(m["graph_replays_total"] >= 3, "and replayed", m["graph_replays_total"])
    t.equal(m["profiled_steps_total"], 0, "no step was measured by stage")
    if not SHORT:
        test_sampled(t, d)
    d.wait_log(r"backend hip \(auto: .*gfx1151")
    t.equal(d.stop(), 0, "halod ends well")


def test_kv_dir(t):
    """Pages leave the device, and come back after a restart: what is computed behind them
    has the bits that it has behind the pages that never left. They do without pinned memory for
    their rooms, too, of which a line then tells."""
    with tempfile.TemporaryDirectory() as tmp:
        answers, told = [], []
        for n, fault in ((2, ""), (2, ""), (1, "pinned:4")):
            d = Halod(popen={"env": {**os.environ, "HIP_CPU_FAULT": fault}}, **SMALL,
                      kv_dir=os.path.join(tmp, "kv"))
            for _ in range(n):
                a = d.request("POST", "/v1/completions", {
                    "prompt": list(range(300, 340)), "max_tokens": 3, "temperature": 0,
                    "ignore_eos": True, "logprobs": 1}).json
                answers.append((a["choices"][0]["logprobs"]["token_logprobs"],
                                a["timings"]["cache_n"], a["timings"]["disk_n"]))
            t.equal(d.stop(), 0, "halod ends well")
            told.append("\n".join(x for x in d.lines if x).count("no pinned memory"))
        t.equal([x[1:] for x in answers], [(0, 0), (32, 0), (32, 32), (32, 0), (32, 32)],
                "pages come from nowhere, memory, disk, memory, disk")
        t.equal(answers[2][0], answers[1][0], "from disk the answer is that from memory")
        t.equal(answers[4][0], answers[1][0], "and so it is without pinned memory")
        t.equal(told, [0, 0, 1], "of which the log tells once")


def test_profile(t):
    """One step of 64 is measured, the first; the others are replayed as before."""
    d = Halod(**SMALL, profile="yes")
    d.chat("What is 2+2?", temperature=0, max_tokens=6, ignore_eos=True)
    m = d.metrics()
    t.equal(m["profiled_steps_total"], 1, "profile = on: a step was measured")
    t.ok(m['stage_seconds_total{stage="attention"}'] > 0 and
         m['stage_bytes_total{stage="down"}'] > 0, "by stage", m)
    t.ok(m["graph_replays_total"] >= 2, "and later ones replayed", m["graph_replays_total"])
    t.equal(d.stop(), 0, "halod ends well")


def read_calls(path):
    """[(function, calls)] in the order of first calls: tests/hip-on-cpu/runtime.c."""
    with open(path, "rb") as f:
        return [(name.rstrip(b"\0").decode(), n)
                for name, n in struct.iter_unpack("56sQ", f.read()) if name[0]]


def test_idle(t):
    """Between requests no function of the runtime is called, and its threads may sleep."""
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "calls")
        d = Halod(popen={"env": {**os.environ, "HIP_CPU_CALLS": path}}, **SMALL)
        d.chat("Hello", temperature=0, max_tokens=4, ignore_eos=True)
        time.sleep(0.2)
        before = read_calls(path)
        time.sleep(2)
        t.equal(read_calls(path), before, "an idle daemon calls nothing")
        d.chat("Hello", temperature=0, max_tokens=4, ignore_eos=True)
        t.ok(read_calls(path) != before, "a request does")
        names = [name for name, _ in before]
        t.ok("hipSetDeviceFlags" in names[:names.index("hipStreamCreateWithFlags")] and
             names.index("hipSetDeviceFlags") < names.index("hipMalloc"),
             "waits that sleep are asked for before anything is taken", names)
        t.equal(d.stop(), 0, "halod ends well")


def test_no_graphs(t):
    """Where a step cannot be recorded, its kernels are launched one by one."""
    answers = []
    for fault in "", "calls:hipStreamEndCapture:1", "calls:hipGraphInstantiate:1":
        d = Halod(popen={"env": {**os.environ, "HIP_CPU_FAULT": fault}}, **SMALL)
        a = d.chat("What is 2+2?", temperature=0, max_tokens=6, ignore_eos=True)
        answers.append(a.json["choices"][0]["message"])
        m = d.metrics()
        t.equal((m["graph_failures_total"], m["graphs_off"], m["graph_replays_total"] > 0),
                (int(fault != ""), int(fault != ""), fault == ""), "graphs, %s" % fault)
        t.equal(d.stop(), 0, "halod ends well")
        log = "\n".join(line for line in d.lines if line)
        t.equal(log.count("from now on each kernel is launched by itself"), int(fault != ""),
                "a line of the log")
    t.ok(answers[0] == answers[1] == answers[2], "the same answer", answers)


def test_no_restart_loop(t):
    """The third start does without the graphs at which two ended."""
    with tempfile.TemporaryDirectory() as tmp:
        env = {"CACHE_DIRECTORY": tmp, "HIP_CPU_FAULT": "calls:hipGraphLaunch:2"}
        for _ in range(2):
            _, log = broken(t, env, "a graph that fails")
            t.ok("a step's graph: hipErrorUnknown" in log, "the log says where", log)
        d = Halod(popen={"env": {**os.environ, **env}}, **SMALL)
        a = d.chat("Hello", temperature=0, max_tokens=20, ignore_eos=True)
        t.equal(a.json["usage"]["completion_tokens"], 20, "the third start answers")
        t.equal(d.metrics()["graphs_off"], 1, "without graphs")
        t.equal(d.stop(), 0, "halod ends well")
        log = "\n".join(line for line in d.lines if line)
        t.ok("ended twice at the same place (a launch of a graph)" in log and
             os.path.join(tmp, "graph-failures") in log, "and says why", log)


def broken(t, fault, what, **settings):
    env = fault if isinstance(fault, dict) else {"HIP_CPU_FAULT": fault}
    d = Halod(popen={"env": {**os.environ, **env}}, **SMALL, **settings)
    s = d.stream("Hello", temperature=0, max_tokens=200, ignore_eos=True)
    events = []
    try:
        events = list(s.events())
    except (ConnectionError, ValueError):
        pass
    t.equal(d.wait(), 5, what + ": exit status 5")
    d.stop()
    return events, "\n".join(line for line in d.lines if line)


def test_device_fails(t):
    events, log = broken(t, "launch:300", "a launch that fails")
    t.ok(events and "hipErrorLaunchFailure" in str(events[-1]) + str(events[-2:]),
         "the client is told", events[-2:])
    t.ok("its device has failed" in log, "and the log", log)


def test_context_breaks(t):
    """An error that every later call of the runtime returns, too."""
    events, log = broken(t, "illegal:300", "an access outside of memory")
    t.ok(events and "hipErrorIllegalAddress" in str(events[-2:]), "the client is told",
         events[-2:])
    t.ok(log.count("its device has failed") == 1, "and the log, once", log)


def test_device_hangs(t):
    _, log = broken(t, "hang:300", "a launch that never ends", heartbeat_stall="2s")
    t.ok("no sign of life for 2 s" in log, "and why", log)


def test_no_device(t):
    for setting, code, word in (
            (["--backend", "hip", "--hip-library", "/nonexistent.so"], 2,
             "tried /nonexistent.so"),
            (["--hip-library", "/nonexistent.so"], 2, "/nonexistent.so"),
            (["--backend", "abacus"], 2, "abacus")):
        p = subprocess.run([PROGRAM, "-c", os.devnull, "--model", MODEL, "--port", "0",
                            *setting], stderr=subprocess.PIPE, timeout=PATIENCE)
        t.ok(p.returncode == code and word in p.stderr.decode(),
             "halod %s: exit status %d" % (" ".join(setting), code), p.stderr)
    d = Halod(backend="auto")
    health = d.get("/health").json
    t.ok(health["backend"] == "hip" or (health["backend"] == "cpu" and
         "GPU" in health["backend_reason"]), "auto without a GPU: the CPU, and why", health)
    t.equal(d.stop(), 0, "halod ends well")


t = Tap()
for test in (test_serve, test_kv_dir, test_profile, test_idle, test_no_graphs, test_no_restart_loop,
             test_device_fails, test_context_breaks,
             test_device_hangs,
             test_no_device):
    print("# ---", test.__name__)
    try:
        test(t)
    except Exception:
        t.ok(False, test.__name__, traceback.format_exc())
t.done()
