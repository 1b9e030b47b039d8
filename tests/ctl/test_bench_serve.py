#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl bench serve against a stand-in server whose every answer is known."""
import http.server
import json
import threading

from stand_in import StandIn
from tap import done, eq, haloctl, ok

bodies = []
active = 0
peak = 0
arrived = threading.Condition()


class Server(StandIn):
    def do_GET(self):
        if "/bare" in self.path:
            self.send(404, b"{}")
        else:
            super().do_GET()

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for e in events:
            data = e if isinstance(e, str) else "data: " + json.dumps(e) + "\n\n"
            data = data.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        global active, peak
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with arrived:
            bodies.append(body)
            active += 1
            peak = max(peak, active)
            arrived.notify_all()
            # Answer when as many are here as the client said it would send.
            if "/three" in self.path:
                arrived.wait_for(lambda: len(bodies) >= 3, 20)
        n = body["max_tokens"]
        chunks = [{"choices": [{"text": " x", "finish_reason": None}]}
                  for _ in range(n)]
        end = [{"choices": [{"text": "", "finish_reason": "length"}]},
               {"choices": [], "usage": {"completion_tokens": n}},
               "data: [DONE]\n\n"]
        if "/busy" in self.path and len(bodies) > 2:
            self.send(429, b'{"error":{"message":"too many"}}')
        elif "/cut" in self.path:
            self.stream(chunks)
        elif "/long" in self.path:
            self.stream(["data: " + "x" * (17 << 20)])
        elif "/error" in self.path:
            self.stream(chunks[:1] + [{"error": {"message": "the GPU is tired"}}])
        elif "/short" in self.path:
            end[1]["usage"]["completion_tokens"] = n - 1
            self.stream(chunks[1:] + end)
        elif "/mute" in self.path:
            self.stream(end)
        else:
            self.stream([": keepalive\n\n"] + chunks + end)
        with arrived:
            active -= 1


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = "http://127.0.0.1:%d" % server.server_port


def bench(path, *args):
    global peak
    bodies.clear()
    peak = 0
    return haloctl("bench", "serve", "--url", URL + path, "--timeout", "30", *args)


code, out, err = bench("/three", "--input-len", "17", "--output-len", "5",
                       "--concurrency", "3", "--num-prompts", "7", "--json",
                       "--vocab", "50")
eq(code, 0, "seven good answers")
v = json.loads(out)
eq((v["completed"], v["failed"], v["short"], v["total_output_tokens"]), (7, 0, 0, 35),
   "are counted")
eq(v["model"], "stand-in", "the model's name is asked for")
eq(len(bodies), 7, "seven requests")
eq(peak, 3, "three at a time")
ok(all(len(b["prompt"]) == 17 and max(b["prompt"]) < 50 and b["max_tokens"] == 5
       and b["ignore_eos"] and b["stream"] and b["model"] == "stand-in"
       for b in bodies), "of the length and size asked for", bodies)
eq(len({tuple(b["prompt"]) for b in bodies}), 7, "all different")
first = sorted(b["prompt"] for b in bodies)
ok(all(v[k + s] is not None and v[k + s] >= 0
       for k in ("mean_", "median_", "p90_", "p99_")
       for s in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")), "all percentiles", out)
ok(v["mean_ttft_ms"] <= v["mean_e2e_ms"] and v["median_itl_ms"] <= v["p99_itl_ms"],
   "in their order", out)
ok(v["output_throughput"] > 0 and v["total_throughput"] > v["output_throughput"],
   "throughput", out)

bench("", "-i", "17", "-o", "5", "-k", "7", "--vocab", "50", "-m", "other")
eq(sorted(b["prompt"] for b in bodies), first, "the same seed, the same prompts")
ok(all(b["model"] == "other" for b in bodies), "a model by name", bodies[:1])
bench("", "-i", "17", "-o", "5", "-k", "7", "--vocab", "50", "--seed", "1")
ok(not any(b["prompt"] in first for b in bodies), "another seed, others: none is the same")

code, out, err = bench("/", "-k", "2", "-o", "3")
ok(code == 0 and b"TPOT" in out and b"2 good, 0 failed" in out, "as text", out)

for path, said in (("/busy", "HTTP 429"), ("/cut", "[DONE]"),
                   ("/error", "the GPU is tired"), ("/long", "too long")):
    code, out, err = bench(path, "-k", "4", "-o", "3", "--json")
    v = json.loads(out)
    ok(code == 1 and v["failed"] == (2 if path == "/busy" else 4)
       and said in v["error"], "failures are told: " + said, out)
v = json.loads(bench("/short", "-k", "4", "-o", "3", "--json")[1])
eq((v["completed"], v["short"], v["total_output_tokens"]), (4, 4, 8), "short answers")
code, out, err = haloctl("bench", "serve", "--url", "http://127.0.0.1:1")
ok(code == 2 and "127.0.0.1:1" in err, "no server", err)
code, out, err = bench("/bare")
ok(code == 2 and "404" in err, "no such server", err)
code, out, err = bench("/mute", "--num-prompts", "2", "--output-len", "5", "--concurrency", "1")
ok(code == 0 and b"2 good, 0 failed" in out and b"10 out" in out and
   b"no text      2 answers" in out, "tokens without text count as the server says", out)
done()
