#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sleep_after: a model without requests leaves memory, nothing runs then, and the next request
wakes it."""
import datetime
import json
import os
import shutil
import struct
import tempfile
import threading
import time

from halod import FIBERS, Halod, MODEL, Orders, PATIENCE, SRCDIR, Tap, traceback, wait_for

SMALL = os.path.join(SRCDIR, "tests/golden/models/qwen3-bf16")
READER = os.path.join(SRCDIR, "tests/golden/readers/last")
PROMPT = [(i * 37 + i // 7) % 480 for i in range(150)]
ASLEEP = "has left memory"


def state(d, i=0):
    return d.get("/v1/models").json["data"][i]["status"]


def expires_in(d):
    """Seconds until the model leaves memory, as /api/ps has it."""
    at = d.get("/api/ps").json["models"][0]["expires_at"]
    at = datetime.datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    return at.timestamp() - time.time()


def complete(d, **more):
    return d.request("POST", "/v1/completions", {
        "prompt": PROMPT, "max_tokens": 10, "temperature": 0, "ignore_eos": True,
        "logprobs": 1, **more}).json


def switches(d):
    """How often the process's threads have been woken so far, and how many they are."""
    folder = "/proc/%d/task" % d.process.pid
    n, tasks = 0, os.listdir(folder)
    for t in tasks:
        try:
            with open("%s/%s/status" % (folder, t), encoding="utf-8") as f:
                n += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
        except OSError:  # it has ended
            n += 1
    return n, len(tasks)


def is_quiet(d):
    before = switches(d)
    threading.Event().wait(0.5)
    return switches(d) == before


def test_sleep(t, folder):
    d = Halod(sleep_after="3s", kv_dir=folder)
    t.equal(state(d)["value"], "loaded", "it begins loaded")
    t.equal(d.metrics()["models_loaded"], 1, "and counted")
    left = expires_in(d)
    t.ok(-2 <= left <= 4, "/api/ps tells when it will sleep", left)
    first = complete(d)
    kept = d.request("POST", "/v1/responses", {"input": "Hello", "max_output_tokens": 4}).json
    entry = d.get("/v1/models").json["data"][0]
    d.wait_log(ASLEEP)
    asleep = d.get("/v1/models").json["data"][0]
    t.equal(asleep["status"]["value"], "sleeping", "then it sleeps")
    t.ok(asleep["status"]["load_seconds"] > 0, "and tells how long it takes to wake", asleep)
    t.equal({**asleep, "status": 0}, {**entry, "status": 0}, "all else is as before")
    t.equal(d.get("/health?ready").status, 200, "the server is in service")
    t.equal(d.get("/props").json["total_slots"], 8, "/props is answered")
    t.equal(d.get("/v1/responses/" + kept["id"]).status, 200, "so is a response that is kept")
    t.equal(d.get("/api/ps").json["models"], [], "/api/ps: nothing is loaded")
    m = d.metrics()
    t.equal((m["models_loaded"], m["kv_pages"], m['model_unloads_total{reason="sleep"}'],
             m["kv_disk_queued_bytes"]), (0, 0, 1, 0),
            "/metrics: it is gone, has no pages, and writes none")
    t.equal(m["kv_disk_files"], len([f for f in os.listdir(folder) if f.endswith(".halodkv")]),
            "those in kv_dir are counted as they are")
    for path in ("/lora-adapters", "/v1/responses/%s/cancel" % kept["id"], "/v1/responses/compact"):
        t.ok(d.request("POST", path, {}).status in (400, 501), "refused asleep as awake: " + path)
    t.equal(state(d)["value"], "sleeping", "none of that woke it")
    wait_for("silence", lambda: is_quiet(d))
    t.ok(switches(d)[1] <= 2, "no thread of an engine is left", switches(d))
    again = complete(d)
    t.equal(again["choices"], first["choices"], "a request wakes it: the same answer")
    t.ok(again["timings"]["disk_n"] >= 100, "its prompt came from the disk", again["timings"])
    t.equal(d.request("POST", "/v1/responses", {
        "input": "More", "max_output_tokens": 4, "previous_response_id": kept["id"]}).status,
        200, "a response is gone on with")
    t.ok("loaded in" in d.wait_log("is in memory, "), "the log says how long it took")
    t.ok(d.metrics()['model_loads_total{outcome="ok"}'] >= 2, "two loads")
    t.equal(d.stop(), 0, "it ends well")


def test_end_asleep(t):
    d = Halod(sleep_after="1s", sleep_keep="off", model=SMALL, embedding_model=READER)
    kept = d.request("POST", "/v1/responses", {"input": "Hello", "max_output_tokens": 4}).json
    d.wait_log(ASLEEP, len(d.lines))
    names = {m["id"]: m["status"]["value"] for m in d.get("/v1/models").json["data"]}
    t.equal(names, {"qwen3-bf16": "sleeping", "last": "sleeping"},
            "/v1/models has the model for embeddings, too")
    entry = d.get("/v1/models").json["data"][0]
    t.ok(entry["status"]["value"] == "sleeping" and "meta" not in entry,
         "with sleep_keep = off only its name is known", entry)
    a = d.get("/props")
    t.equal((a.status, a.json["error"]["code"]), (503, "loading_model"), "/props is not")
    t.equal(d.get("/v1/responses/" + kept["id"]).json["id"], kept["id"],
            "a response that is kept is found")
    t.equal(d.stop(), 0, "SIGTERM ends it asleep")


def test_waiting(t, folder):
    with tempfile.TemporaryDirectory() as tmp:
        orders = Orders(tmp)
        d = Halod(sleep_after="1s", kv_dir=folder, max_queue=3, keepalive="1s", max_seqs=1,
                  otlp_endpoint="http://127.0.0.1:1/v1/traces", popen=orders.start)
        complete(d)
        d.wait_log(ASLEEP)
        orders.give("hold-reads")
        long = d.stream("Hello", max_tokens=3, temperature=0)
        t.equal(long.status, 200, "a stream gets its head while the model loads")
        t.equal(long.response.readline(), b": keepalive\n", "and a comment")
        wrong = d.stream("Hello", max_tokens="x")
        t.equal(state(d)["value"], "loading", "the model's state")
        answers = []
        one = threading.Thread(target=lambda: answers.append(d.chat("Hello", max_tokens=3)))
        one.start()
        d.wait_metrics(num_requests_waiting=3)
        t.equal(d.get("/health").json["waiting"], 3, "/health: they wait")
        more = d.chat("Hello")
        t.equal((more.status, more.json["error"]["code"]), (503, "loading_model"),
                "a fourth is refused")
        t.ok(int(more.headers["Retry-After"]) >= 1, "with the seconds to wait", more.headers)
        orders.withdraw("hold-reads")
        events = list(long.events())
        t.equal(events[-1], "[DONE]", "then the stream goes on")
        failed = list(wrong.events())
        t.ok("error" in failed[0] and "max_tokens" in failed[0]["error"]["message"],
             "one whose body is wrong is told in its stream", failed)
        one.join(PATIENCE)
        t.equal(answers[0].status, 200, "one without a stream is answered")
        t.equal(d.stop(), 0, "it ends well")


def test_leaving(t, folder):
    """Clients that go while they wait, and SIGTERM while a model wakes."""
    with tempfile.TemporaryDirectory() as tmp:
        orders = Orders(tmp)
        d = Halod(sleep_after="1s", kv_dir=folder, keepalive="1s", drain_timeout="1s",
                  popen=orders.start)
        complete(d)
        d.wait_log(ASLEEP)
        orders.give("hold-reads")
        s = d.stream("Hello")
        s.close()
        d.wait_metrics(client_disconnects_total=1)
        t.equal(d.metrics()["num_requests_waiting"], 0, "nobody waits any more")
        late = d.stream("Hello", max_tokens=3)
        t.equal(late.status, 200, "another waits")
        d.terminate()
        t.equal(d.wait(), 0, "SIGTERM ends it, though a load hangs")
        shutil.rmtree(d.dir, ignore_errors=True)


def test_broken(t):
    with tempfile.TemporaryDirectory() as tmp:
        model, aside = os.path.join(tmp, "m"), os.path.join(tmp, "aside")
        shutil.copytree(SMALL, model)
        d = Halod(sleep_after="1s", model=model)
        d.wait_log(ASLEEP)
        os.rename(model, aside)
        a = d.request("POST", "/v1/completions", {"prompt": [1, 2], "max_tokens": 2})
        t.equal((a.status, a.json["error"]["code"]), (503, "model_failed"),
                "a model that cannot be loaded any more")
        t.ok("the model `m` cannot be loaded: " in a.json["error"]["message"] and
             "Retry-After" in a.headers, "it says why", a.json)
        s = state(d)
        t.ok(s["value"] == "failed" and "cannot be loaded" in s["error"], "so does its state", s)
        t.equal(d.get("/health?ready").status, 503, "/health: nothing can be served")
        os.rename(aside, model)
        wait_for("the model", lambda: d.request("POST", "/v1/completions", {
            "prompt": [1, 2], "max_tokens": 2}).status == 200)
        t.equal(state(d)["value"], "loaded", "with its files there again it is loaded")
        t.equal(d.stop(), 0, "it ends well")


def link_of(path):
    try:
        return os.readlink(path)
    except OSError:  # it is closed
        return ""


def test_batch(t):
    """A batch is work: who makes one wakes the model, and it sleeps when the batch is done."""
    with tempfile.TemporaryDirectory() as tmp:
        d = Halod(sleep_after="1s", model=SMALL, state_dir=os.path.join(tmp, "state"))
        line = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions",
                           "body": {"prompt": [1, 2], "max_tokens": 2}})
        form = ("--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n"
                "Content-Disposition: form-data; name=\"file\"; filename=\"f.jsonl\"\r\n\r\n%s"
                "\r\n--x--\r\n" % line)
        file = d.request("POST", "/v1/files", form,
                         {"Content-Type": "multipart/form-data; boundary=x"}).json
        d.wait_log(ASLEEP)
        n = len(d.lines)
        batch = d.request("POST", "/v1/batches", {
            "input_file_id": file["id"], "endpoint": "/v1/completions",
            "completion_window": "24h"}).json
        wait_for("the batch", lambda: d.get("/v1/batches/" + batch["id"]).json["status"] ==
                 "completed")
        d.wait_log(ASLEEP, n)
        t.equal(d.get("/v1/batches/" + batch["id"]).json["request_counts"]["completed"], 1,
                "a batch is computed, and the model sleeps again")
        d.request("DELETE", "/v1/files/" + file["id"])
        fds = "/proc/%d/fd/" % d.process.pid
        wait_for("the room of a removed file",
                 lambda: not any(p.endswith("(deleted)") and file["id"] in p
                                 for p in map(link_of, [fds + n for n in os.listdir(fds)])))
        t.equal(state(d)["value"], "sleeping", "a file is removed, and its bytes are free")
        t.equal(d.stop(), 0, "it ends well")


def calls(path):
    """Calls of the HIP runtime so far, by name."""
    with open(path, "rb") as f:
        data = f.read()
    out = {}
    for i in range(0, len(data) - 63, 64):
        name, n = struct.unpack("56sQ", data[i:i + 64])
        out[name.split(b"\0")[0].decode()] = n
    return out


def test_device(t):
    """All that is taken of the GPU is given back."""
    if not os.path.exists(FIBERS):
        t.skip("no " + FIBERS)
        return
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "calls")
        d = Halod(backend="hip", hip_library=FIBERS, ctx=256, max_seqs=2, speculative="off",
                  model=SMALL, sleep_after="1s", popen={"env": {**os.environ,
                                                                "HIP_CPU_CALLS": path}})
        ask = {"prompt": PROMPT[:40], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
        first = d.request("POST", "/v1/completions", ask).json["choices"]
        took = calls(path)
        d.wait_log(ASLEEP)
        gave = calls(path)
        t.ok(took["hipMalloc"] > 0 and
             gave["hipFree"] == gave["hipMalloc"] + gave["hipHostMalloc"],  # it frees both
             "memory is given back", gave)
        for take, give in (("hipModuleLoadData", "hipModuleUnload"),
                           ("hipStreamCreateWithFlags", "hipStreamDestroy")):
            t.ok(took[take] > 0 and gave[take] == gave.get(give, 0), "%s, %s" % (take, give),
                 (gave[take], gave.get(give)))
        t.equal(d.request("POST", "/v1/completions", ask).json["choices"], first,
                "awake again it answers the same")
        t.equal(d.stop(), 0, "it ends well")


def main():
    t = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for test, args in ((test_sleep, (folder,)), (test_end_asleep, ()),
                           (test_waiting, (folder,)), (test_leaving, (folder,)),
                           (test_broken, ()), (test_batch, ()), (test_device, ())):
            try:
                test(t, *args)
            except Exception:  # pylint: disable=broad-except
                t.ok(False, test.__name__, traceback.format_exc())
    t.done()


main()
