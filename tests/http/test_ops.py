#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What operators see: health while loading, serving and draining, metrics, the end."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

from halod import CHECK, Halod, MODEL, PATIENCE, Tap, traceback, SRCDIR


def health(d, path="/health"):
    a = d.get(path)
    return a.status, a.json["status"]


def test_loading(t):
    """config.json is a pipe, so loading takes until we have written it."""
    d = Halod.__new__(Halod)
    model = os.path.abspath("loading-model.%d" % os.getpid())
    os.mkdir(model)
    for name in os.listdir(MODEL):
        os.symlink(os.path.abspath(os.path.join(MODEL, name)),
                   os.path.join(model, name))
    os.unlink(os.path.join(model, "config.json"))
    os.mkfifo(os.path.join(model, "config.json"))
    try:
        d.__init__(wait=False, model=model, state_dir=os.path.join(model, "state"))
        t.equal(health(d, "/livez"), (200, "loading"), "it lives while it loads")
        for path in ("/health", "/health?ready", "/readyz"):
            t.equal(health(d, path), (503, "loading"), "%s: not in service" % path)
        models = d.get("/v1/models")
        t.equal((models.status, models.json["data"][0]["status"]), (200, {"value": "loading"}),
                "/v1/models says that it loads")
        t.equal(models.json["data"][0]["id"], models.json["first_id"], "and its name")
        t.equal([d.get(p).status for p in ("/v1/files", "/v1/batches")], [200, 200],
                "files and batches are listed")
        a = d.chat("Hi")
        t.equal((a.status, a.error["message"], a.error["type"]),
                (503, "Loading model", "unavailable_error"), "chat: 503")
        t.ok(int(a.headers["Retry-After"]) > 0, "chat: Retry-After")
        t.ok('engine_state{state="loading"}' in d.metrics(), "metrics are there")
        t.equal(d.metrics()['engine_state{state="loading"}'], 1, "and say so")
        with open(os.path.join(model, "config.json"), "w") as f:
            f.write(open(os.path.join(MODEL, "config.json")).read())
        d.wait_ready()
        for path in ("/health", "/health?ready", "/readyz", "/livez"):
            t.equal(health(d, path), (200, "ok"), "%s: then it is ready" % path)
        entry = d.get("/v1/models").json["data"][0]
        t.equal((entry["id"], entry["status"]["value"]), (models.json["first_id"], "loaded"),
                "the same name is loaded")
        t.equal(d.chat("Hi", max_tokens=1).status, 200, "and answers")
        t.equal(d.stop(), 0, "and ends")
    finally:
        shutil.rmtree(model)
        if d.process.poll() is None:
            d.process.kill()


def test_metrics(t, d):
    before = d.metrics()
    whole = d.chat("What is 2+2?", temperature=0, max_tokens=16).json["usage"]
    events = list(d.stream("Tell me a story.", temperature=0, max_tokens=16,
                           ignore_eos=True).events())
    t.equal(events[-1], "[DONE]", "two requests")
    after = d.metrics()

    def moved(name):
        return after[name] - before[name]

    t.equal(moved("generation_tokens_total"), whole["completion_tokens"] + 16,
            "tokens are counted")
    t.ok(moved("prompt_tokens_total") > whole["prompt_tokens"], "prompts, too")
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds",
                 "request_time_per_output_token_seconds", "request_queue_time_seconds",
                 "request_prefill_time_seconds", "request_decode_time_seconds"):
        t.equal(moved(name + "_count"), 2, name)
        t.ok(moved(name + "_sum") > 0, "%s has a sum" % name)
    t.ok(moved("inter_token_latency_seconds_count") >= 15, "inter-token latency")
    t.ok(moved('http_responses_total{code="200"}') >= 2, "responses by code")
    t.ok(sum(moved(k) for k in after if k.startswith("request_success_total")) == 2,
         "requests by reason")
    t.ok(any(k.startswith("build_info{") for k in after), "build_info")
    t.ok(after["process_resident_memory_bytes"] > 1e6, "process_*")
    t.ok(after["engine_heartbeat_age_seconds"] < PATIENCE, "the heartbeat")
    text = d.get("/metrics").body
    promtool = shutil.which("promtool")
    if promtool:
        p = subprocess.run([promtool, "check", "metrics"], input=text,
                           capture_output=True)
        # vLLM's names have a colon, against the custom that it looks for.
        found = [line for line in (p.stdout + p.stderr).decode().splitlines()
                 if not (line.startswith("vllm:") and "contain ':'" in line)]
        t.equal(found, [], "promtool check metrics")
    else:
        print("# no promtool here")


def test_health(t, d):
    a = d.get("/health?ready")
    t.equal(a.status, 200, "ready")
    t.ok(a.json["ready"] is True and a.json["load"] == 1 and
         a.json["heartbeat_age_s"] < PATIENCE, "and says so", a.json)
    t.equal(a.headers["Cache-Control"], "no-store", "not to be cached")


def test_probes(t, d):
    """What a balancer and Prometheus ask each second has no lines in the access log."""
    for path in ("/health", "/readyz", "/livez", "/metrics"):
        t.equal(d.get(path, {"X-Request-Id": "probe-fine"}).status, 200, path)
    d.request("POST", "/health", "{}", {"X-Request-Id": "probe-wrong"})
    d.request("GET", "/v1/models", headers={"X-Request-Id": "after-probes"})
    d.access("after-probes")
    t.equal(d.access("probe-wrong")["status"], 405, "a probe that fails is logged")
    t.ok(not any(line and "probe-fine" in line for line in d.lines),
         "probes and scrapes that are answered are not")


def test_drain(t, d):
    """A stream runs when SIGTERM comes: it ends whole, others are refused."""
    idle = d.connect()  # connections from before
    idle.request("GET", "/health")
    idle.getresponse().read()
    s = d.stream("Tell me a story.", ignore_eos=True, temperature=0, max_tokens=400)
    events = s.events()
    next(events)
    d.terminate()
    d.wait_log("draining")
    t.equal(health(d, "/livez"), (200, "draining"), "draining: alive")
    t.equal(health(d), (503, "draining"), "draining: not in service")
    a = d.chat("Hi")
    t.equal((a.status, a.error["type"], a.error["code"]),
            (503, "unavailable_error", "shutting_down"), "new work is refused")
    t.ok(int(a.headers["Retry-After"]) > 0 and a.headers["Connection"] == "close",
         "with Retry-After, and the connection closed")
    idle.request("GET", "/v1/models")
    r = idle.getresponse()
    t.equal((r.status, r.headers["Connection"]), (200, "close"),
            "old connections are closed after their answer")
    rest = list(events)
    t.equal(rest[-1], "[DONE]", "the running stream ends whole")
    t.equal(sum(len(e["choices"]) and e["choices"][0]["finish_reason"] == "length"
                for e in rest[:-1]), 1, "with all its tokens")
    t.equal(d.wait(), 0, "then halod ends")


def test_drain_delay(t):
    """After SIGTERM balancers hear 503, and clients are served until the delay is over."""
    d = Halod(drain_delay="1h")
    kept = d.connect()
    kept.request("GET", "/health")
    kept.getresponse().read()
    d.terminate()
    d.wait_log("leaving")
    t.equal(health(d), (503, "leaving"), "leaving: not in service")
    t.equal(health(d, "/livez"), (200, "leaving"), "but alive")
    t.equal(d.metrics()['engine_state{state="leaving"}'], 1, "a metric says so")
    kept.request("POST", "/v1/chat/completions", json.dumps(
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}))
    r = kept.getresponse()
    t.equal((r.status, r.headers["Connection"]), (200, "close"),
            "a new request is served, and its connection closed")
    d.process.send_signal(signal.SIGTERM)
    t.equal(d.wait(), 6, "a second signal ends it at once")

    d = Halod(drain_delay="200ms", drain_timeout="10m")
    # Long enough for the delay; under a sanitizer a token takes ten times as long.
    s = d.stream("Tell me a story.", ignore_eos=True,
                 max_tokens=400 if "short" in CHECK else 2000)
    events = s.events()
    next(events)
    d.terminate()
    d.wait_log("draining: 1 request,")
    t.equal(d.chat("Hi").status, 503, "after the delay new work is refused")
    t.equal(list(events)[-1], "[DONE]", "and the running stream ends whole")
    t.equal(d.wait(), 0, "then halod ends")


def test_abort(t):
    """What does not finish in time gets an error and no [DONE]."""
    answers = []
    d = Halod(drain_timeout="0s", max_seqs=1)
    s = d.long_stream()
    conn = d.connect()
    conn.request("POST", "/v1/chat/completions",
                 json.dumps({"messages": [{"role": "user", "content": "Hi"}]}))
    waiting = threading.Thread(target=lambda: answers.append(d.chat("Hi", stream=True)))
    waiting.start()
    d.wait_metrics(num_requests_waiting=2)
    d.terminate()
    events = list(s.events())
    t.ok(events[-1] != "[DONE]" and events[-1]["error"]["code"] == "shutting_down",
         "a cut stream ends with an error", events[-1])
    r = conn.getresponse()
    t.equal((r.status, json.loads(r.read())["error"]["code"]),
            (503, "shutting_down"), "a waiting request gets a 503")
    t.ok(int(r.headers["Retry-After"]) > 0, "with Retry-After")
    waiting.join()
    t.equal((answers[0].status, answers[0].error["code"]), (503, "shutting_down"),
            "so does a waiting stream")
    t.equal(d.stop(), 0, "and halod ends")


def test_full_buffer(t):
    """Without a limit in time the one in bytes still ends a stream nobody reads."""
    d = Halod(stall_timeout="1h", idle_timeout="1h",
              model=os.path.join(SRCDIR, "tests/golden/models/qwen3-bf16"))
    s = d.slow_stream(3500, "full")
    d.wait_metrics(sse_clients_stalled_total=1, num_requests_running=0)
    log = d.access("full")
    t.ok(log["end"] == "stalled" and log["output_tokens"] < 3500,
         "a stream that outgrows its buffer is dropped", log)
    s.close()
    t.equal(d.stop(), 0, "halod ends")


def test_unix(t):
    path = os.path.abspath("test_ops.%d.sock" % os.getpid())
    d = Halod(wait=False, unix_socket=path)

    def ask(target):
        conn = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.connect(path)
        conn.request("GET", target)
        return conn.getresponse().status

    while ask("/health?ready") != 200:
        pass
    t.equal(ask("/v1/models"), 200, "a unix socket serves")
    t.equal(d.stop(), 0, "halod ends")
    t.ok(not os.path.exists(path), "and removes it")


def test_user_signals(t):
    """As a rotation of logs may send them to every daemon."""
    d = Halod()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        d.process.send_signal(number)
        t.equal(d.get("/health").status, 200, "%s ends nothing" % number.name)
    t.equal(d.stop(), 0, "halod ends well")


def main():
    t = Tap()
    d = None
    try:
        test_loading(t)
        d = Halod()
        test_metrics(t, d)
        test_health(t, d)
        test_probes(t, d)
        test_drain(t, d)
        test_drain_delay(t)
        test_abort(t)
        test_full_buffer(t)
        test_unix(t)
        test_user_signals(t)
    except Exception:
        t.ok(False, "no exception", traceback.format_exc())
    if d:
        d.stop()
    t.done()


main()
