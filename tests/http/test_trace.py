#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces: traceparent in the access log, spans at a collector of the test's own."""
import http.server
import json
import threading
import time

from halod import Halod, PATIENCE, Tap, find, traceback
from quiet import Quiet

trace_service_pb2 = find("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = "00-%s-%s-01" % (TRACE, PARENT)


class Collector:
    def __init__(self, status=200):
        outer = self
        self.status, self.bodies, self.news = status, [], threading.Condition()

        class Handler(Quiet):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.news:
                    outer.bodies.append((self.path, self.headers["Content-Type"], body))
                    outer.news.notify_all()
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = "http://127.0.0.1:%d/v1/traces" % self.server.server_port

    def spans(self):
        return [s for _, _, body in self.bodies for r in json.loads(body)["resourceSpans"]
                for scope in r["scopeSpans"] for s in scope["spans"]]

    def wait(self, request_id):
        """The spans of the trace that has this request."""
        deadline = time.monotonic() + PATIENCE
        with self.news:
            while time.monotonic() < deadline:
                for s in self.spans():
                    if attributes(s).get("halod.request_id") == request_id:
                        return [x for x in self.spans() if x["traceId"] == s["traceId"]]
                self.news.wait(1)
        raise AssertionError("no spans of " + request_id)


def attributes(span):
    return {a["key"]: list(a["value"].values())[0] for a in span["attributes"]}


def test_spans(t, d, c):
    a = d.chat("Hi", {"traceparent": GOOD, "X-Request-Id": "traced"}, max_tokens=5,
               ignore_eos=True)
    t.equal(a.status, 200, "a request with traceparent")
    t.equal(d.access("traced")["trace_id"], TRACE, "the access log has its trace")
    spans = {s["name"]: s for s in c.wait("traced")}
    root = spans["chat halo-tiny"]
    t.equal((root["traceId"], root["parentSpanId"], root["kind"]), (TRACE, PARENT, 2),
            "the root span hangs on the caller's")
    its = attributes(root)
    usage = a.json["usage"]
    t.equal((its["gen_ai.usage.input_tokens"], its["gen_ai.usage.output_tokens"]),
            (str(usage["prompt_tokens"]), str(usage["completion_tokens"])), "tokens")
    t.equal((its["gen_ai.operation.name"], its["gen_ai.response.model"],
             its["http.response.status_code"]), ("chat", "halo-tiny", "200"), "what it was")
    t.equal(sorted(spans), ["chat halo-tiny", "decode", "prefill", "queue"], "four spans")
    times = [int(spans[n][k]) for n in ("queue", "prefill", "decode")
             for k in ("startTimeUnixNano", "endTimeUnixNano")]
    t.ok(int(root["startTimeUnixNano"]) == times[0] and times == sorted(times) and
         times[1] == times[2] and times[3] == times[4] and
         times[5] <= int(root["endTimeUnixNano"]), "one phase behind the other", times)
    t.ok(abs(times[0] / 1e9 - time.time()) < 3600, "in the time since 1970", times[0])
    t.ok(all(spans[n]["parentSpanId"] == root["spanId"] for n in
             ("queue", "prefill", "decode")), "below the root")
    t.equal(len({s["spanId"] for s in spans.values()}), 4, "each with its own id")


def test_others(t, d, c):
    for sent in ({}, {"traceparent": GOOD.upper()}, {"traceparent": "00-1-2-3"}):
        d.chat("Hi", {**sent, "X-Request-Id": "own"}, max_tokens=1)
        spans = c.wait("own")
        t.ok(len(spans[0]["traceId"]) == 32 and spans[0]["traceId"] != TRACE and
             "parentSpanId" not in spans[0], "%s: a trace of its own" % sent, spans[0])
        c.bodies.clear()
    a = d.request("POST", "/v1/chat/completions", "{", {"X-Request-Id": "wrong"})
    its = attributes(c.wait("wrong")[0])
    t.equal((a.status, its["http.response.status_code"], its["error.type"]),
            (400, "400", "E_JSON"), "a refused request has one span, with the reason")
    d.chat("Secret words", {"traceparent": GOOD[:-1] + "0", "X-Request-Id": "unsampled"},
           max_tokens=1)
    d.chat("Secret words", {"X-Request-Id": "last"}, max_tokens=1)
    c.wait("last")
    t.ok(not any(attributes(s).get("halod.request_id") == "unsampled" for s in c.spans()),
         "what is not sampled has no spans")
    t.equal(d.access("unsampled")["trace_id"], TRACE, "but its trace is in the log")
    t.ok(b"Secret" not in b"".join(body for _, _, body in c.bodies), "no text of prompts")
    t.equal({x[:2] for x in c.bodies}, {("/v1/traces", "application/json")}, "as OTLP has it")


def test_proto(t, c):
    """What OpenTelemetry's own definition of the format says of it."""
    if not trace_service_pb2:
        t.skip("opentelemetry-proto is not installed")
        return
    from google.protobuf import json_format
    n = 0
    for _, _, body in c.bodies:
        request = json_format.Parse(body, trace_service_pb2.ExportTraceServiceRequest())
        n += sum(len(s.spans) for r in request.resource_spans for s in r.scope_spans)
    t.equal(n, len(c.spans()), "opentelemetry-proto reads every span")


def test_away(t):
    for what, endpoint in (("away", "http://127.0.0.1:1/v1/traces"),
                           ("unwilling", Collector(503).endpoint)):
        d = Halod(otlp_endpoint=endpoint)
        t.equal(d.chat("Hi", max_tokens=2, ignore_eos=True).status, 200,
                "a collector that is %s holds nobody up" % what)
        d.wait_metrics(**{'trace_spans_dropped_total{reason="not_taken"}': 4})
        d.wait_log("the collector at .* has not taken 4 spans")
        t.equal(d.stop(), 0, "and halod ends")


def test_off(t):
    d = Halod()
    d.chat("Hi", {"traceparent": GOOD, "X-Request-Id": "off"}, max_tokens=1)
    t.equal(d.access("off")["trace_id"], TRACE, "without a collector the log has the trace")
    d.chat("Hi", {"X-Request-Id": "none"}, max_tokens=1)
    t.ok("trace_id" not in d.access("none"), "and none where there is none")
    conn = d.connect()
    conn.putrequest("POST", "/v1/chat/completions")
    for name, value in (("traceparent", GOOD), ("traceparent", GOOD.replace("4b", "5b")),
                        ("X-Request-Id", "two"), ("Content-Length", "0")):
        conn.putheader(name, value)
    conn.endheaders()
    conn.getresponse().read()
    t.ok("trace_id" not in d.access("two"), "nor where there are two")
    t.equal(d.stop(), 0, "halod ends")


def main():
    t = Tap()
    try:
        c = Collector()
        d = Halod(otlp_endpoint=c.endpoint)
        test_spans(t, d, c)
        test_others(t, d, c)
        d.wait_metrics(**{'trace_spans_dropped_total{reason="not_taken"}': 0})
        t.ok(d.metrics()["trace_spans_sent_total"] > 4, "sent spans are counted")
        t.equal(d.stop(), 0, "halod ends")
        test_proto(t, c)
        test_away(t)
        test_off(t)
    except Exception:
        t.ok(False, "no exception", traceback.format_exc())
    t.done()


main()
