#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several models in one process: requests name theirs; those that fit are in memory together, the
others take turns, and conversations survive that."""
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

from halod import BUILDDIR, Halod, MODEL, Orders, PATIENCE, SRCDIR, Tap, traceback, wait_for
from sounds import form

GOLDEN = os.path.join(SRCDIR, "tests/golden/models/qwen3-bf16")
READER = os.path.join(SRCDIR, "tests/golden/readers/last")
PROMPT = [(i * 37 + i // 7) % 480 for i in range(150)]
MAX_BODY = 256 << 10
# Room for one model, with what kv_dir takes, and not for two.
ONE = {"memory_limit": "600M", "max_seqs": 2}


def states(d):
    return {m["id"]: m["status"]["value"] for m in d.get("/v1/models").json["data"]}


def complete(d, model, **more):
    return d.request("POST", "/v1/completions", {
        "model": model, "prompt": PROMPT, "max_tokens": 6, "temperature": 0, "ignore_eos": True,
        "logprobs": 1, **more})


def folder(tmp, **models):
    """A models_dir with a link to each model."""
    path = os.path.join(tmp, "models")
    os.mkdir(path)
    for name, target in models.items():
        os.symlink(target, os.path.join(path, name))
    return path


class Many(Halod):
    """Without --model; sections: lines below the settings."""

    def __init__(self, sections="", **settings):
        self.sections = sections
        super().__init__(model=None, **settings)

    def settings_end(self):
        return self.sections


def test_names(t, tmp):
    """What chooses a model, while all are in memory; and one that is damaged."""
    path = folder(tmp, b=GOLDEN, c=GOLDEN)
    bad = os.path.join(path, "bad")
    shutil.copytree(GOLDEN, bad)
    os.truncate(os.path.join(bad, "model.safetensors"), 1000)
    d = Many("[model tiny]\nmodel = %s\naliases = gpt-4o\n[model b]\nctx = 128\n" % MODEL,
             models_dir=path, state_dir=os.path.join(tmp, "state"), max_body=MAX_BODY)
    t.equal(list(states(d).items()),
            [("tiny", "loaded"), ("gpt-4o", "loaded"), ("b", "unloaded"), ("bad", "unloaded"),
             ("c", "unloaded")], "sections first, then the rest of models_dir")
    a = d.request("POST", "/v1/completions", {"prompt": "Hi", "max_tokens": 1}).json
    t.equal(a["model"], "tiny", "who names none gets the first")
    t.equal(d.chat(model="gpt-4o", max_tokens=1).json["model"], "tiny", "an alias")
    a = d.chat(model="none")
    t.equal((a.status, a.error["code"]), (404, "model_not_found"), "a name of none")
    a = d.request("POST", "/api/show", {"model": "b:latest"})
    t.equal((a.status, states(d)["b"]), (200, "unloaded"), "/api/show loads nothing")
    long = {"prompt": PROMPT[:50], "user": "\\\"" * (MAX_BODY // 5)}
    t.equal(complete(d, "b", **long).status, 200, "a name loads a model, in a long body, too")
    t.equal((states(d)["tiny"], states(d)["b"]), ("loaded", "loaded"), "both are in memory")
    t.equal(complete(d, "b").error["code"], "context_length_exceeded", "its ctx is its own")
    t.equal([complete(d, m, **long).json["model"] for m in ("tiny", "b")], ["tiny", "b"],
            "which names its model")
    words = {"content": "a long story"}
    one = d.request("POST", "/tokenize", {"model": "tiny", **words}).json["tokens"]
    t.ok(one != d.request("POST", "/tokenize", {"model": "b", **words}).json["tokens"] and
         one == d.request("POST", "/tokenize", words).json["tokens"], "/tokenize", one)
    props = d.get("/props?model=b").json
    t.equal((props["model_alias"], props["default_generation_settings"]["n_ctx"],
             [m["id"] for m in props["models"]]), ("b", 128, ["tiny", "b", "bad", "c"]), "/props")
    t.equal(d.get("/props?model=c").error["code"], "loading_model", "one that is not there")
    t.equal(d.get("/props?model=gpt%2D4o").json["model_alias"], "tiny", "a name with an escape")
    t.ok("`b%+1`" in d.get("/props?model=b%+1").error["message"], "and with none")
    t.equal({m["name"] for m in d.get("/api/ps").json["models"]}, {"tiny:latest", "b:latest"},
            "/api/ps has those in memory")
    t.equal(len(d.get("/api/tags").json["models"]), 4, "/api/tags has all")
    body, head = form(b"x", model="none", response_format="json")
    a = d.request("POST", "/v1/audio/transcriptions", body, head)
    t.equal((a.status, a.error["code"]), (404, "model_not_found"), "a form names its model, too")
    body, head = form(b"x", model="b")
    a = d.request("POST", "/v1/audio/transcriptions", body, head)
    t.ok(a.status == 501 and "`b`" in a.error["message"], "b hears nothing", a.body)
    said = subprocess.run([os.path.join(BUILDDIR, "haloctl"), "models", "--url",
                           "http://127.0.0.1:%d/" % d.port], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    t.ok(said.returncode == 0 and "loaded      b  (loaded in " in said.stdout and
         "unloaded    c\n" in said.stdout, "haloctl models --url", said)
    a = complete(d, "bad")
    why = a.error["message"]
    t.equal((a.status, a.error["code"]), (503, "model_failed"), "a damaged model")
    t.ok("model.safetensors" in why and tmp not in why and "Retry-After" in a.headers,
         "it is said which file, and not where", why)
    t.equal(states(d)["bad"], "failed", "its state")
    t.equal((d.get("/health?ready").status, complete(d, "b", prompt=PROMPT[:9]).status),
            (200, 200), "others go on")
    batch(t, d)
    m = d.metrics()
    t.ok(m['model_requests_total{model="b"}'] >= 2 and
         m['model_loaded{model="c"}'] == 0, "counted by model", m)
    t.equal(d.stop(), 0, "it ends well")


def switch(d, orders):
    """A model leaves memory, its pages wait for the disk, and a request waits for another. Returns
    what ends when that is answered, and the answers."""
    complete(d, "a", prompt=PROMPT[:9])  # the model before it leaves while writes are free
    orders.give("hold-writes")
    complete(d, "a")
    answers = []
    other = threading.Thread(target=lambda: answers.append(complete(d, "tiny")))
    other.start()
    wait_for("the switch", lambda: states(d)["tiny"] == "loading" and states(d)["a"] != "loaded")
    return other, answers


def test_midway(t, tmp):
    """In the middle of a switch the disk is full, and the next time SIGTERM comes."""
    orders = Orders(tmp)
    settings = {"models_dir": folder(tmp, a=GOLDEN, tiny=MODEL),
                "kv_dir": os.path.join(tmp, "kv"), **ONE}
    d = Many(**settings, popen=orders.start)
    other, answers = switch(d, orders)
    orders.give("fill")
    orders.withdraw("hold-writes")
    other.join(PATIENCE)
    t.equal(answers[0].status, 200, "a disk that is full holds no switch up")
    said = d.wait_log("cannot write")
    t.ok("No space left" in said and "kept in memory only" in said, "the log says it", said)
    again = complete(d, "a").json
    t.ok(again["timings"]["disk_n"] == 0, "what was not kept is computed", again["timings"])
    t.equal(complete(d, "tiny").status, 200, "the other comes back, too")
    orders.withdraw("fill")
    other, answers = switch(d, orders)
    d.terminate()
    d.wait_log("draining")
    orders.withdraw("hold-writes")
    other.join(PATIENCE)
    t.equal((d.wait(), answers[0].status), (0, 200), "SIGTERM: who waits is answered first")
    d = Many(**settings)
    back = complete(d, "a").json
    t.ok(back["timings"]["disk_n"] >= 100, "and what the other had is kept", back["timings"])
    t.equal(back["choices"], again["choices"], "the same answer")
    t.equal(d.stop(), 0, "it ends well")


def make_batch(d, lines):
    body, head = form("\n".join(lines).encode(), purpose="batch")
    file = d.request("POST", "/v1/files", body, head).json
    return d.request("POST", "/v1/batches", {
        "input_file_id": file["id"], "endpoint": "/v1/completions", "completion_window": "24h"})


def batch(t, d):
    """A batch is for the model that its first line names."""
    lines = [json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                         "body": {"prompt": [1, 2], "max_tokens": 2, "model": m}})
             for i, m in enumerate(["b", "b", "tiny"])]
    mixed = make_batch(d, lines).json
    wait_for("its end", lambda: d.get("/v1/batches/" + mixed["id"]).json["status"] == "failed")
    faults = d.get("/v1/batches/" + mixed["id"]).json["errors"]["data"]
    t.equal([(f["code"], f["line"], f["param"]) for f in faults],
            [("mismatched_model", 3, "body.model")], "and no line names another")
    lines.pop()
    made = make_batch(d, lines).json
    t.equal(made["model"], "b", "a batch tells its model")
    a = make_batch(d, [lines[0].replace('"b"', '"%s"' % ("b" * 128))])
    t.equal((a.status, a.error["param"]), (400, "input_file_id"), "a name is not cut")
    a = make_batch(d, [lines[0] + " " * MAX_BODY, lines[1]])
    t.ok(a.status == 400 and "max_body" in a.error["message"], "nor a line", a.body)
    other = make_batch(d, [lines[0].replace('"b"', '"c"')]).json
    gone = "/v1/batches/" + other["id"]
    d.request("POST", gone + "/cancel", {})
    wait_for("its end", lambda: d.get(gone).json["status"] == "cancelled")
    t.equal(states(d)["c"], "unloaded", "one for a model that is not there is cancelled")
    path = "/v1/batches/" + made["id"]
    wait_for("the batch", lambda: d.get(path).json["status"] == "completed")
    end = d.get(path).json
    t.equal((end["request_counts"]["completed"], end["request_counts"]["failed"]), (2, 0),
            "its requests are computed")
    t.equal(d.metrics()["batches_open"], 0, "/metrics: none is open")


def test_switch(t, tmp):
    """Room for one: the other waits until streams have ended."""
    kv = os.path.join(tmp, "kv")
    settings = {"models_dir": folder(tmp, a=GOLDEN, tiny=MODEL), "kv_dir": kv, **ONE}
    d = Many(**settings)
    first = complete(d, "a").json
    kept = d.request("POST", "/v1/responses", {"model": "a", "input": "Hello",
                                               "max_output_tokens": 4}).json
    s = d.stream(model="a", max_tokens=300, temperature=0, ignore_eos=True)
    next(s.events())
    answers = []
    other = threading.Thread(target=lambda: answers.append(complete(d, "tiny")))
    other.start()
    d.wait_metrics(num_requests_waiting=1)
    t.equal(list(s.events())[-1], "[DONE]", "the stream ends first")
    other.join(PATIENCE)
    t.equal((answers[0].status, answers[0].json["model"]), (200, "tiny"), "then the other comes")
    t.equal(states(d), {"a": "unloaded", "tiny": "loaded"}, "and the first has gone")
    t.equal(d.get("/v1/responses/" + kept["id"]).json["model"], "a", "its response is found")
    t.equal(d.request("POST", "/v1/responses", {
        "model": "tiny", "input": "More", "max_output_tokens": 4,
        "previous_response_id": kept["id"]}).status, 200, "another model goes on with it")
    again = complete(d, "a").json
    t.equal(again["choices"], first["choices"], "back again it answers the same")
    t.ok(again["timings"]["disk_n"] >= 100, "and reads its prompt from the disk",
         again["timings"])
    t.equal(d.metrics()['model_unloads_total{reason="room"}'], 2, "two have made room")
    t.equal(d.stop(), 0, "it ends well")
    kill(t, tmp, settings)


def kill(t, tmp, settings):
    """Requests for a model that loads for long, and a kill meanwhile."""
    orders = Orders(tmp)
    d = Many(**settings, max_queue=1, popen=orders.start)
    orders.give("hold-reads")
    s = d.connect()
    s.request("POST", "/v1/completions", json.dumps({"model": "tiny", "prompt": [1, 2],
                                                     "max_tokens": 2}))
    wait_for("the switch", lambda: states(d) == {"a": "unloaded", "tiny": "loading"})
    a = complete(d, "tiny")
    t.equal((a.status, a.error["code"]), (503, "loading_model"), "one more is refused")
    t.ok(int(a.headers["Retry-After"]) >= 1, "with the seconds to wait", a.headers)
    d.process.kill()
    d.process.wait(PATIENCE)
    shutil.rmtree(d.dir, ignore_errors=True)
    s.close()
    d = Many(**settings)
    t.ok(complete(d, "a").json["timings"]["disk_n"] >= 100, "after a kill all is as before")
    t.equal(d.stop(), 0, "it ends well")


def test_late(t, tmp):
    """A batch whose model is not in memory ends when it is too late."""
    settings = {"models_dir": folder(tmp, a=GOLDEN, b=GOLDEN),
                "state_dir": os.path.join(tmp, "state")}
    d = Many(**settings)
    made = make_batch(d, [json.dumps({"custom_id": "x", "method": "POST", "url": "/v1/completions",
                                      "body": {"prompt": [1], "model": "b"}})]).json
    path = "/v1/batches/" + made["id"]
    wait_for("validation", lambda: d.get(path).json["status"] == "in_progress")
    t.equal((states(d)["b"], d.get(path).json["request_counts"]["total"]), ("unloaded", 1),
            "it is validated without its model")
    t.equal(d.stop(), 0, "it ends well")
    record = os.path.join(tmp, "state", "batches", made["id"] + ".json")
    with open(record, encoding="utf-8") as f:
        o = json.load(f)
    o["expires_at"] = int(time.time()) + 3
    with open(record, "w", encoding="utf-8") as f:
        json.dump(o, f)
    d = Many(**settings)
    wait_for("its end", lambda: d.get(path).json["status"] == "expired")
    t.equal(states(d)["b"], "unloaded", "and ended without it")
    t.equal(d.stop(), 0, "it ends well")


def test_start(t, tmp):
    """The first of several cannot be loaded."""
    path = folder(tmp, b=GOLDEN)
    os.mkdir(os.path.join(path, "a"))
    with open(os.path.join(path, "a", "config.json"), "w", encoding="utf-8") as f:
        f.write("{")
    d = Many(models_dir=path, state_dir=os.path.join(tmp, "state"), embedding_model=READER)
    t.equal((d.get("/health?ready").status, states(d)),
            (200, {"a": "failed", "b": "unloaded", "last": "unloaded"}),
            "the start goes on without it")
    for address, status in (("/v1/files", 200), ("/v1/batches", 200), ("/v1/files/x", 404),
                            ("/v1/responses/x", 404), ("/stats", 200)):
        t.equal(d.get(address).status, status, address + " needs no model")
    t.equal(d.get("/api/version").status, 200, "/api/version needs no model")
    t.equal((d.request("POST", "/api/show", {}).status, states(d)["b"]), (400, "unloaded"),
            "a body that names none loads none")
    a = d.request("POST", "/v1/embeddings", {"input": "x"})
    t.equal((a.status, states(d)), (200, {"a": "failed", "b": "loaded", "last": "loaded"}),
            "what any can answer, another does")
    t.equal(complete(d, "b").status, 200, "another is served")
    t.equal(d.stop(), 0, "it ends well")


def main():
    t = Tap()
    for test in (test_names, test_switch, test_midway, test_late, test_start):
        with tempfile.TemporaryDirectory() as tmp:
            try:
                test(t, tmp)
            except Exception:  # pylint: disable=broad-except
                t.ok(False, test.__name__, traceback.format_exc())
    t.done()


main()
