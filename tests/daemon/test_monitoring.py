#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""conf/monitoring: what the dashboard and the alerts ask for is there. promtool checks and
tests the alerts; a real Prometheus scrapes a halod under load and answers every expression
of both. Without promtool and prometheus that part is skipped."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.environ.get("HALOD_SRCDIR", "."), "tests", "http"))
from halod import PATIENCE, SRCDIR, Halod, Tap, free_port

FOLDER = os.path.join(SRCDIR, "conf", "monitoring")

# What is read under vLLM's names: by its dashboard, and in the second part by routers
# (production-stack, smg, vllm-router, llm-d) and by llm-d's autoscaler. Names that begin with
# gpu_, and time_per_output_token_seconds, are from older versions.
VLLM = ["e2e_request_latency_seconds_bucket", "prompt_tokens_total",
        "generation_tokens_total", "inter_token_latency_seconds_bucket",
        "time_per_output_token_seconds_bucket", "num_requests_running",
        "num_requests_waiting", "time_to_first_token_seconds_bucket", "kv_cache_usage_perc",
        "gpu_cache_usage_perc", "request_prompt_tokens_bucket",
        "request_generation_tokens_bucket", "request_success_total",
        "request_queue_time_seconds_sum", "request_prefill_time_seconds_sum",
        "request_decode_time_seconds_sum", "request_max_num_generation_tokens_sum",

        "cache_config_info", "prefix_cache_hits_total", "prefix_cache_queries_total",
        "gpu_prefix_cache_hits_total", "gpu_prefix_cache_queries_total",
        "request_generation_tokens_sum", "request_generation_tokens_count",
        "request_prompt_tokens_sum", "request_prompt_tokens_count",
        "time_per_output_token_seconds_sum", "time_per_output_token_seconds_count",
        "time_to_first_token_seconds_sum", "time_to_first_token_seconds_count"]


def expressions():
    with open(os.path.join(FOLDER, "grafana.json"), encoding="utf-8") as f:
        dashboard = json.load(f)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], expr.replace("$instance", ".*")
    with open(os.path.join(FOLDER, "alerts.yml"), encoding="utf-8") as f:
        text = f.read()
    for name, expr in re.findall(r"alert: (\w+)\n +expr: (?:>\n)?(.*?)\n +for:", text, re.S):
        yield name, " ".join(expr.split())


def test_names(t, d):
    text = d.get("/metrics").body.decode()
    have = set(re.findall(r"(?m)^(halod_\w+)[ {]", text))
    for title, expr in expressions():
        asked = set(re.findall(r"halod_\w+", expr))
        t.ok(asked <= have, "%s: halod has these metrics" % title, asked - have)
    theirs = set(re.findall(r"(?m)^vllm:(\w+){", text))
    t.equal(set(VLLM) - theirs, set(), "and those that programs made for vLLM read")
    info = re.search(r'(?m)^vllm:cache_config_info{.*block_size="(\d+)",num_gpu_blocks="(\d+)"}',
                     text)
    pages, tokens = (d.metrics()[name] for name in ("kv_pages", "kv_page_tokens"))
    t.equal([int(n) for n in info.groups()], [tokens, pages], "the KV cache's size is told")


def promtool(t, *args):
    p = subprocess.run(["promtool", *args], cwd=FOLDER, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=120)
    t.ok(p.returncode == 0, "promtool " + " ".join(args), p.stdout)


def ask(port, expr):
    url = "http://127.0.0.1:%d/api/v1/query?query=%s" % (port, urllib.parse.quote(expr))
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)["data"]["result"]


def chats(d, until):
    while not until.is_set():
        d.chat("Name a city.", max_tokens=8)


def test_prometheus(t, d, tmp):
    """Every expression is one that Prometheus takes, and those of the load have values."""
    port = free_port()
    with open(os.path.join(tmp, "prometheus.yml"), "w") as f:
        json.dump({"rule_files": [os.path.abspath(os.path.join(FOLDER, "alerts.yml"))],
                   "global": {"evaluation_interval": "1s"},
                   "scrape_configs": [{"job_name": "halod", "scrape_interval": "1s",
                                       "static_configs": [
                                           {"targets": ["127.0.0.1:%d" % d.port]}]}]}, f)
    log = open(os.path.join(tmp, "prometheus.log"), "w+")
    p = subprocess.Popen(["prometheus", "--config.file=prometheus.yml",
                          "--storage.tsdb.path=data",
                          "--web.listen-address=127.0.0.1:%d" % port], cwd=tmp,
                         stdout=log, stderr=subprocess.STDOUT)
    until = threading.Event()
    load = threading.Thread(target=chats, args=(d, until))
    load.start()
    try:
        rate = "sum(rate(halod_generation_tokens_total[1m]))"
        deadline = time.monotonic() + PATIENCE
        value = []
        while time.monotonic() < deadline and not (value and float(value[0]["value"][1])):
            time.sleep(0.5)
            try:
                value = ask(port, rate)
            except OSError:
                value = []
        log.seek(0)
        t.ok(value, "Prometheus scrapes halod", log.read()[-2000:])
        loaded = {"State", "Running", "KV cache", "Whole requests",
                  "Time to first token (TTFT)", "Time between tokens (ITL)",
                  "Finished, by reason", "Prompt tokens of a request"}
        t.equal(loaded - {title for title, _ in expressions()}, set(),
                "the dashboard has what moves under load")
        for title, expr in expressions():
            try:
                rows = ask(port, expr)
            except OSError as e:
                t.ok(False, "%s: an expression that Prometheus takes" % title, (expr, e))
                continue
            if title in loaded:
                t.ok(rows, "%s has a value under load" % title, expr)
        t.equal(ask(port, 'ALERTS{alertstate="firing"}'), [], "no alert rises")
    finally:
        until.set()
        load.join()
        p.terminate()
        p.wait()
        log.close()


def main():
    t = Tap()
    d = Halod()
    tmp = tempfile.mkdtemp(prefix="halod-monitoring-")
    try:
        test_names(t, d)
        if shutil.which("promtool"):
            promtool(t, "check", "rules", "alerts.yml")
            promtool(t, "test", "rules", "alerts_test.yml")
        else:
            t.ok(True, "promtool # SKIP not installed")
        if shutil.which("prometheus"):
            test_prometheus(t, d, tmp)
        else:
            t.ok(True, "prometheus # SKIP not installed")
        t.equal(d.stop(), 0, "halod ends well")
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    t.done()


main()
