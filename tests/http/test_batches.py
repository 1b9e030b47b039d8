#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/files and /v1/batches: what is taken and what is refused, the answers of each endpoint, errors
by the line, the end of a window, cancelling, restarts, kill -9, a disk that is full, and files that
were damaged. Other requests go first."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from halod import BUILDDIR, CHECK, PATIENCE, SRCDIR, Halod, Tap

CHAT = "/v1/chat/completions"
EMBEDS = os.path.join(SRCDIR, "tests/golden/readers/last")
PROGRAM = os.path.join(BUILDDIR, "halod")
SHORT = "short" in CHECK  # under a sanitizer a token takes ten times as long
ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"


def form(parts, boundary="xYx"):
    out = []
    for name, filename, data in parts:
        head = 'Content-Disposition: form-data; name="%s"' % name
        if filename is not None:
            head += '; filename="%s"' % filename
        out.append(("--%s\r\n%s\r\n\r\n" % (boundary, head)).encode() + data + b"\r\n")
    return b"".join(out) + ("--%s--\r\n" % boundary).encode()


def as_form(headers={}):
    return {"Content-Type": "multipart/form-data; boundary=xYx", **headers}


def send(d, data, more=(), headers={}):
    return d.request("POST", "/v1/files", form(
        [("purpose", None, b"batch"), ("file", "in.jsonl", data), *more]), as_form(headers))


def line(custom_id, body, url=CHAT, **more):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body, **more})


def chat(i, **more):
    return line("c%d" % i, {"messages": [{"role": "user", "content": "Say %d." % i}],
                            "max_tokens": 4, "temperature": 0, **more})


def make(d, lines, headers={}, url=CHAT, window="24h", **more):
    """The batch of a file with these lines."""
    f = send(d, "\n".join(lines).encode(), headers=headers)
    assert f.status == 200, f.body
    return d.request("POST", "/v1/batches", {
        "input_file_id": f.json["id"], "endpoint": url, "completion_window": window, **more},
        headers).json


def wait_end(d, batch, headers={}):
    deadline = time.monotonic() + PATIENCE
    while True:
        b = d.get("/v1/batches/" + batch["id"], headers).json
        if b["status"] in ("completed", "failed", "expired", "cancelled"):
            return b
        assert time.monotonic() < deadline, b
        time.sleep(0.02)


def content(d, file_id, headers={}):
    if not file_id:
        return []
    a = d.get("/v1/files/%s/content" % file_id, headers)
    assert a.status == 200, a.body
    return [json.loads(x) for x in a.body.decode().splitlines()]


def answers(d, b, headers={}):
    """({custom_id: line of the output}, {custom_id: line of the errors}); none stands twice."""
    out = [content(d, b[k], headers) for k in ("output_file_id", "error_file_id")]
    for k in out:
        assert len({x["id"] for x in k}) == len(k), k
    return [{x["custom_id"]: x for x in k} for k in out]


def test_files(t, d):
    a = send(d, b'{"a": 1}\n', [("expires_after[anchor]", None, b"created_at"),
                                ("expires_after[seconds]", None, b"3600")])
    f = a.json
    t.equal((a.status, f["object"], f["bytes"], f["filename"], f["purpose"], f["status"]),
            (200, "file", 9, "in.jsonl", "batch", "processed"), "a file is kept")
    t.equal(f["expires_at"] - f["created_at"], 3600, "as long as was asked")
    g = send(d, b"x").json
    t.equal(g["expires_at"] - g["created_at"], 30 * 86400, "else as the setting says")
    t.equal(d.get("/v1/files/" + f["id"]).json, f, "it is found")
    raw = d.get("/v1/files/%s/content" % f["id"])
    t.equal((raw.status, raw.body), (200, b'{"a": 1}\n'), "its bytes come back")
    t.equal(d.request("HEAD", "/v1/files/%s/content" % f["id"]).status, 200, "HEAD")
    ids = [x["id"] for x in d.get("/v1/files").json["data"]]
    t.equal(ids[:2], [g["id"], f["id"]], "a list has the newest first")
    page = d.get("/v1/files?limit=1&order=asc&purpose=batch").json
    t.equal((page["data"][0]["id"], page["has_more"], page["last_id"]), (f["id"], True, f["id"]),
            "or the oldest, and a page")
    t.equal([x["id"] for x in d.get("/v1/files?order=asc&after=" + f["id"]).json["data"]],
            [g["id"]], "and the next one")
    gone = d.request("DELETE", "/v1/files/" + g["id"])
    t.equal(gone.json, {"id": g["id"], "object": "file", "deleted": True}, "it is deleted")
    for what in "", "/content":
        t.equal(d.get("/v1/files/" + g["id"] + what).status, 404, "and is gone" + what)
    t.equal(d.request("DELETE", "/v1/files/" + g["id"]).status, 404, "nor deleted again")


def test_files_refused(t, d):
    purpose, file = ("purpose", None, b"batch"), ("file", "a", b"x")
    for what, parts, word in (
            ("no file", [purpose], "file"), ("two files", [purpose, file, file], "one part"),
            ("no purpose", [file], "purpose"),
            ("another purpose", [("purpose", None, b"vision"), file], "batch"),
            ("an empty file", [purpose, ("file", "a", b"")], "empty"),
            ("a field that is not known", [purpose, file, ("color", None, b"red")], "color"),
            ("another anchor", [purpose, file, ("expires_after[anchor]", None, b"x")], "created_at"),
            ("a short life", [purpose, file, ("expires_after[seconds]", None, b"5")], "3600")):
        a = d.request("POST", "/v1/files", form(parts), as_form())
        t.ok(a.status == 400 and word in a.error["message"], what, a.body)
    t.equal(d.request("POST", "/v1/files", "{}", {"Content-Type": "application/json"}).status, 415,
            "JSON")
    a = d.request("POST", "/v1/files", form([purpose, ("file", "a", b"x" * 300000)]), as_form())
    t.ok(a.status == 413 and "max_upload" in a.error["message"], "a file that is too large", a.body)
    for query in "limit=0", "limit=x", "limit=10001", "order=up":
        t.equal(d.get("/v1/files?" + query).status, 400, query)


def test_batch(t, d):
    lines = [chat(i) for i in range(6)] + ["", " "]
    lines[2] = chat(2, temperature="hot")
    lines[3] = chat(3, stream=True)
    lines[4] = chat(4, seed=12345678901234567890123)
    lines[5] = chat(5, model="another")
    b = make(d, lines, metadata={"who": "me"})
    t.equal((b["object"], b["status"], b["endpoint"], b["completion_window"], b["metadata"]),
            ("batch", "validating", CHAT, "24h", {"who": "me"}), "a batch is made")
    t.equal(b["expires_at"] - b["created_at"], 86400, "it knows its end")
    end = wait_end(d, b)
    out, errors = answers(d, end)
    t.equal((end["status"], end["request_counts"]),
            ("completed", {"total": 6, "completed": len(out), "failed": len(errors)}), "it ends")
    t.ok(all(end[k + "_at"] for k in ("in_progress", "finalizing", "completed")) and
         not any(end[k + "_at"] for k in ("failed", "expired", "cancelling", "cancelled")),
         "and says when", end)
    same = d.chat("Say 1.", max_tokens=4, temperature=0).json
    r = out["c1"]["response"]
    t.equal((r["status_code"], out["c1"]["error"], r["body"]["choices"]),
            (200, None, same["choices"]), "an answer is the one that a request has")
    t.equal(out["c1"]["id"], r["request_id"], "it has an id")
    want = {"c2": (400, "temperature"), "c3": (400, "stream"), "c4": (400, "seed"),
            "c5": (404, "model")}
    t.equal({k: (v["response"]["status_code"], v["response"]["body"]["error"]["param"])
             for k, v in errors.items()}, want, "errors are in a file of their own")
    f = d.get("/v1/files/" + end["output_file_id"]).json
    t.equal((f["purpose"], f["filename"]), ("batch_output", b["id"] + "_output.jsonl"),
            "the output is a file")
    a = d.request("POST", "/v1/batches", {"input_file_id": f["id"], "endpoint": CHAT,
                                          "completion_window": "24h"})
    t.equal((a.status, a.error["param"]), (400, "input_file_id"), "which is no input")
    a = d.request("POST", "/v1/batches/%s/cancel" % b["id"])
    t.ok(a.status == 400 and "completed" in a.error["message"], "what has ended is not cancelled")
    d.wait_metrics(batches_open=0, num_requests_running=0)
    m = d.metrics()
    t.equal((m['batch_requests_total{outcome="completed"}'],
             m['batch_requests_total{outcome="failed"}'], m["batches_open"],
             m["batch_requests_left"]), (2, 4, 0, 0), "metrics count")
    t.equal(m["num_requests_running"], 0, "of other requests, too")
    t.equal(m["time_to_first_token_seconds_count"], 1, "latencies are of other requests only")


def test_endpoints(t, d):
    kinds = {"/v1/completions": {"prompt": "One", "max_tokens": 3, "n": 2},
             "/v1/responses": {"input": "Hi", "max_output_tokens": 3},
             "/v1/embeddings": {"input": ["a", "b"]}}
    made = {url: make(d, [line(i, body, url) for i in "ab"], url=url) for url, body in kinds.items()}
    keys = {"/v1/completions": "choices", "/v1/responses": "output", "/v1/embeddings": "data"}
    for url, b in made.items():
        end = wait_end(d, b)
        out, errors = answers(d, end)
        t.ok(len(out) == 2 and not errors and out["a"]["response"]["body"][keys[url]],
             url, (end, out, errors))


def test_refused(t, d):
    f = send(d, chat(1).encode()).json
    good = {"input_file_id": f["id"], "endpoint": CHAT, "completion_window": "24h"}
    for change, param in (({"input_file_id": "file-x"}, "input_file_id"),
                          ({"input_file_id": None}, "input_file_id"),
                          ({"endpoint": "/v1/messages"}, "endpoint"),
                          ({"completion_window": "8d"}, "completion_window"),
                          ({"completion_window": "h"}, "completion_window"),
                          ({"completion_window": "-1h"}, "completion_window"),
                          ({"metadata": {"a": 1}}, "metadata.a"),
                          ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
                          ({"output_expires_after": {"anchor": "created_at", "seconds": 1}},
                           "output_expires_after.seconds"),
                          ({"color": "red"}, "color")):
        a = d.request("POST", "/v1/batches", {**good, **change})
        t.equal((a.status, a.error["param"]), (400, param), "refused: %s" % param)
    for path in "/v1/batches/batch_x", "/v1/batches/%s" % f["id"]:
        t.equal(d.get(path).status, 404, path[:20])
    t.equal(d.request("POST", "/v1/batches/batch_x/cancel").status, 404, "nothing to cancel")


def test_validation(t, d):
    ok = chat(1)
    bad = {"no JSON": ("{", "invalid_json_line"), "no object": ("[]", "invalid_json_line"),
           "no custom_id": (line(None, {}), "missing_required_parameter"),
           "no body": (line("x", None), "missing_required_parameter"),
           "another method": (line("x", {}, method="GET"), "invalid_method"),
           "another endpoint": (line("x", {}, "/v1/completions"), "invalid_url"),
           "a custom_id again": (ok, "duplicate_custom_id")}
    b = wait_end(d, make(d, [ok, *(x for x, _ in bad.values())]))
    t.equal((b["status"], b["output_file_id"], b["request_counts"]["completed"]),
            ("failed", None, 0), "a file with bad lines is not begun")
    t.equal([(x["line"], x["code"]) for x in b["errors"]["data"]],
            [(i + 2, code) for i, (_, code) in enumerate(bad.values())], "it says which, and why")
    t.ok(all(x["message"] for x in b["errors"]["data"]), "in words", b)
    for what, lines, code in (("blank lines", ["", " "], "empty_file"),
                              ("too many", [chat(i) for i in range(41)], "too_many_requests")):
        b = wait_end(d, make(d, lines))
        t.equal((b["status"], b["errors"]["data"][0]["code"]), ("failed", code), what)


def long_lines(n, tokens=200):
    return [chat(i, max_tokens=tokens, ignore_eos=True) for i in range(n)]


def test_cancel(t, d):
    b, behind = make(d, long_lines(30, 2000)), make(d, [chat(i) for i in range(3)])
    d.wait_metrics(batches_open=2)
    d.request("POST", "/v1/batches/%s/cancel" % behind["id"])
    end = wait_end(d, behind)
    t.equal((end["status"], len(answers(d, end)[1])), ("cancelled", 3),
            "one that waits is cancelled beside the one that runs")
    a = d.request("POST", "/v1/batches/%s/cancel" % b["id"]).json
    t.ok(a["status"] in ("cancelling", "cancelled") and a["cancelling_at"], "it is cancelling", a)
    end = wait_end(d, b)
    out, errors = answers(d, end)
    t.equal((end["status"], len(out) + len(errors)), ("cancelled", 30), "each request is told of")
    t.ok(len(errors) > 20 and all(x["error"]["code"] == "batch_cancelled" and not x["response"]
                                  for x in errors.values()), "why it has no answer", end)
    d.wait_metrics(num_requests_running=0)


def test_behind(t, d):
    """A request beside a batch is answered before it goes on."""
    stream = d.stream("Hi", max_tokens=600 if SHORT else 2000, ignore_eos=True)
    next(stream.events())
    b = make(d, long_lines(3, 30))
    d.wait_metrics(batches_open=1, batch_requests_left=3)
    d.chat("Ho", max_tokens=50, ignore_eos=True)
    m = d.metrics()
    if d.metrics()["num_requests_running"]:  # then it ran before, too
        t.equal((m["num_requests_running"], m["batch_requests_running"]), (1, 0),
                "a batch is not begun beside a stream")
    else:
        t.skip("the stream was over already")
    for _ in stream.events():
        pass
    t.equal(wait_end(d, b)["request_counts"], {"total": 3, "completed": 3, "failed": 0},
            "and is computed then")


def with_daemon(t, folder, test, kill=False, **settings):
    d = Halod(state_dir=folder, max_seqs=4, **settings)
    try:
        return test(d)
    finally:
        if kill:
            d.process.send_signal(signal.SIGKILL)
            d.wait()
            shutil.rmtree(d.dir, ignore_errors=True)
        else:
            t.equal(d.stop(), 0, "halod ends well")


def journal(folder, b):
    try:
        with open(os.path.join(folder, "batches", b["id"] + ".output"), "rb") as f:
            return f.read().splitlines(True)
    except FileNotFoundError:
        return []  # it is still validated


def await_journal(folder, b, n):
    deadline = time.monotonic() + PATIENCE
    while len(journal(folder, b)) < n:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_restarts(t, folder):
    def begin(d):
        b = make(d, long_lines(24, 50 if SHORT else 150), {}, output_expires_after={
            "anchor": "created_at", "seconds": 3600})
        await_journal(folder, b, 3)
        return b
    b = with_daemon(t, folder, begin, kill=True)
    kept = journal(folder, b)
    path = os.path.join(folder, "batches", b["id"] + ".output")
    whole = b"".join(x for x in kept if x.endswith(b"\n"))
    n_whole = whole.count(b"\n")
    with open(path, "wb") as f:  # as a process that was killed within a write leaves it
        f.write(whole + whole.splitlines()[0][:50])

    def go_on(d):
        line = d.wait_log(r"cut off, and those requests")
        t.ok(b["id"] in line, "half an answer is cut off, and the log says so", line)
        await_journal(folder, b, n_whole + 3)
        b2 = make(d, [chat(1)])
        t.equal(d.request("DELETE", "/v1/files/" + b["input_file_id"]).status, 400,
                "a file that a batch reads is kept")
        return b2
    b2 = with_daemon(t, folder, go_on)  # a drain

    def finish(d):
        end = wait_end(d, b)
        out, errors = answers(d, end)
        t.equal((end["status"], sorted(out), errors),
                ("completed", sorted("c%d" % i for i in range(24)), {}),
                "behind a kill and a drain each request has one answer")
        raw = d.get("/v1/files/%s/content" % end["output_file_id"]).body
        t.ok(raw.startswith(whole), "those that were there stay as they are")
        f = d.get("/v1/files/" + end["output_file_id"]).json
        t.ok(3500 < f["expires_at"] - f["created_at"] <= 3600, "the output has its own age")
        t.equal(wait_end(d, b2)["status"], "completed", "the next batch follows")
        t.equal(d.request("DELETE", "/v1/files/" + b["input_file_id"]).status, 200,
                "then the file may go")
        return end
    end = with_daemon(t, folder, finish)
    other = subprocess.run([PROGRAM, "--state-dir", folder + "/none/there", "--check-config"],
                           stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    t.ok(other.returncode == 2 and "state_dir" in other.stderr, "a folder that cannot be is named",
         other.stderr)
    # Damage: a record, and an output that was to be named when the process was killed.
    record = os.path.join(folder, "batches", b["id"] + ".json")
    with open(record, "r+") as f:
        o = json.load(f)
        o["status"], o["completed_at"] = "finalizing", None
        f.seek(0)
        f.truncate()
        json.dump(o, f)
    os.rename(os.path.join(folder, "files", end["output_file_id"]),
              os.path.join(folder, "batches", b["id"] + ".output"))
    with open(os.path.join(folder, "batches", b2["id"] + ".json"), "w") as f:
        f.write("{")
    open(os.path.join(folder, "files", "file-%024d.part" % 1), "w").close()

    def mend(d):
        t.ok(d.wait_log(r"batches/%s.json is damaged" % b2["id"]), "what is damaged is named")
        t.equal(d.get("/v1/batches/" + b2["id"]).status, 404, "and left out")
        t.equal(len(answers(d, wait_end(d, b))[0]), 24, "a batch is ended by another process")
        t.ok(not [x for x in os.listdir(folder + "/files") if x.endswith(".part")],
             "what was half written is removed")
        second = subprocess.run([PROGRAM, "--state-dir", folder, "--port", "0"],
                                stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        t.ok(second.returncode == 2 and "another halod has" in second.stderr,
             "a second daemon does not take the folder", second.stderr)
    with_daemon(t, folder, mend)


def test_window(t, folder):
    """One that is too late when the daemon comes back."""
    def begin(d):
        return make(d, long_lines(40, 2000), window="1m")
    b = with_daemon(t, folder, begin, kill=True)
    path = os.path.join(folder, "batches", b["id"] + ".json")
    with open(path) as f:
        o = json.load(f)
    o["expires_at"] = o["created_at"]
    with open(path, "w") as f:
        json.dump(o, f)

    def look(d):
        end = wait_end(d, b)
        out, errors = answers(d, end)
        t.ok(end["status"] == "expired" and end["expired_at"], "it is expired", end)
        t.equal(len(out) + len(errors), 40, "each request is told of")
        t.ok(errors and all(x["error"]["code"] == "batch_expired" for x in errors.values()),
             "why it has no answer")
    with_daemon(t, folder, look)


def test_keys(t, folder):
    keys = os.path.join(folder, "keys")
    with open(keys, "w") as f:
        f.write("%s alice\n%s bob\n" % (ALICE, BOB))
    os.chmod(keys, 0o600)
    a, b = ({"Authorization": "Bearer " + k} for k in (ALICE, BOB))

    def look(d):
        made = make(d, [chat(1)], a)
        end = wait_end(d, made, a)
        paths = ["/v1/batches/" + made["id"], "/v1/files/" + made["input_file_id"],
                 "/v1/files/%s/content" % end["output_file_id"]]
        for path in paths:
            t.equal((d.get(path, a).status, d.get(path, b).status, d.get(path).status),
                    (200, 404, 401), path.split("/")[2] + " are the key's that made them")
        t.equal([d.get(p, b).json["data"] for p in ("/v1/files", "/v1/batches")], [[], []],
                "another key's lists are empty")
        t.equal([len(d.get(p, a).json["data"]) for p in ("/v1/files", "/v1/batches")], [2, 1],
                "its own are not")
        taken = d.request("POST", "/v1/batches", {
            "input_file_id": made["input_file_id"], "endpoint": CHAT, "completion_window": "1h"}, b)
        t.equal(taken.status, 400, "nor does it run another's file")
    with_daemon(t, os.path.join(folder, "state"), look, api_key_file=keys)


def test_limits(t, folder):
    def look(d):
        one = [send(d, b"x" * 400000).status for _ in range(3)]
        t.equal(one, [200, 200, 400], "max_files_bytes bounds all files")
        t.ok("max_files_bytes" in send(d, b"x" * 400000).error["message"], "in words")
        for f in d.get("/v1/files").json["data"]:
            d.request("DELETE", "/v1/files/" + f["id"])
        small = [send(d, b"x").status for _ in range(4)]
        t.equal(small, [200, 200, 200, 400], "max_files their number")
        t.ok("max_files" in send(d, b"x").error["message"], "in words")
    with_daemon(t, folder, look, max_files=3, max_files_bytes="1M")


def test_full(t, folder):
    """A disk that takes no more: a file system of its own."""
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", disk],
                      stderr=subprocess.DEVNULL).returncode:
        t.skip("no file system can be mounted here")
        return
    try:
        def look(d):
            b = make(d, [chat(i, max_tokens=30, ignore_eos=True) for i in range(20)])
            ballast = os.path.join(disk, "ballast")
            with open(ballast, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(b"x" * 4096)
                except OSError:
                    pass
            a = send(d, b"x" * 50000)
            t.ok(a.status == 500 and "No space left" in a.error["message"], "a file is refused",
                 a.body)
            d.wait_log(r"batches wait: .*No space left")
            t.equal(d.chat("Hi", max_tokens=2).status, 200, "other requests are answered")
            t.ok(d.metrics()["batch_disk_errors_total"] > 0, "a metric counts it")
            os.remove(ballast)
            end = wait_end(d, b)
            out, errors = answers(d, end)
            t.equal((end["status"], len(out), errors), ("completed", 20, {}),
                    "the batch goes on when there is room")
        with_daemon(t, os.path.join(disk, "state"), look)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_none(t):
    d = Halod()
    for method, path in (("GET", "/v1/files"), ("GET", "/v1/files/file-x"),
                         ("GET", "/v1/batches"), ("POST", "/v1/batches")):
        a = d.request(method, path, {} if method == "POST" else None)
        t.ok(a.status == 501 and "state_dir" in a.error["message"], "%s %s" % (method, path), a.body)
    t.equal(d.stop(), 0, "halod ends well")


def main():
    t = Tap()
    tmp = tempfile.mkdtemp(prefix="halod-batches-")

    def all_of_one(d):
        for test in (test_files, test_files_refused, test_batch, test_endpoints, test_refused,
                     test_validation, test_cancel, test_behind):
            print("# ---", test.__name__)
            test(t, d)
    try:
        with_daemon(t, os.path.join(tmp, "one"), all_of_one, max_upload="256K", batch_requests=40,
                    embedding_model=EMBEDS)
        for test in test_restarts, test_window, test_keys, test_limits, test_full:
            print("# ---", test.__name__)
            folder = os.path.join(tmp, test.__name__)
            os.mkdir(folder, 0o700)
            test(t, folder)
        test_none(t)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    t.done()


if __name__ == "__main__":
    main()
