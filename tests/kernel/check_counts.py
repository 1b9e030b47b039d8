#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `haloctl kernels report --grids` and `predict` count, beside what the interpreter of
tests/hip-on-gfx11 counts when it executes the same launches: some operations of three real
models, and every kernel of a decode step at their widths. Skipped without code objects.

check_counts.py --all: all operations of these models, minutes long."""
import json
import os
import re
import subprocess
import sys
import tempfile

SRC = os.path.abspath(os.environ.get("HALOD_SRCDIR", "."))
sys.path.insert(0, os.path.join(SRC, "tests/ctl"))
import tap  # pylint: disable=wrong-import-position
from tap import ok  # pylint: disable=wrong-import-position
BUILD = os.path.abspath(os.environ.get("HALOD_BUILDDIR", "build"))
CODE = os.path.join(BUILD, "kernels/gfx1151.hsaco")
LIB = os.path.join(BUILD, "tests/hip-on-gfx11/libhip_gfx11.so")
WITHIN = 0.10
# Their loops depend on the numbers that they read: all of them, or the scalar ones of the
# router's choice.
BY_DATA = ("logits_top_kernel",)
SCALARS_BY_DATA = ("moe_router_bf16_kernel",)
PARTS = {"qwen3-30b-a3b": ("qkv", "router", "experts", "attention"),
         "qwen3.5-35b-a3b": ("attention",), "qwen3-8b": ("o",)}
PARTS_ALL = {
    "qwen3-30b-a3b": ("qkv", "o", "router", "experts", "attention", "norm", "head",
                      "head-int8", "head-int4", "top"),
    "qwen3.5-35b-a3b": ("linear-qkvz", "linear-out", "qkv", "router", "experts", "attention",
                        "norm", "head", "top"),
    "qwen3-8b": ("qkv", "o", "gate-up", "ffn-up", "down", "attention", "norm", "head",
                 "head-int8", "head-int4", "top")}
# Layers that have all of a shape's kernels.
SHAPES = {"qwen3-30b-a3b": 1, "qwen3.5-35b-a3b": 4, "qwen3-8b": 1}


def haloctl(*args, counts=None):
    env = dict(os.environ)
    if counts:
        env["HALOD_GFX11"] = "counts=" + counts
    p = subprocess.run([os.path.join(BUILD, "haloctl"), *args], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def slots(r):
    """Issue slots of vector instructions, by either program."""
    return (r["valu"] + r.get("dual", r.get("vopd", 0)) + 4 * r["trans"] +
            32 * r.get("matrix", r.get("wmma", 0)))


def compare(name, walked, run):
    if walked["kernel"] in BY_DATA:
        return
    bad = []
    for what, a, b in (("vector slots", slots(walked), slots(run)),
                       ("scalar instructions", walked["salu"], run["salu"]),
                       ("bytes loaded", walked["load_bytes"], run["load_bytes"]),
                       ("LDS instructions", walked["lds"], run["lds"])):
        if what.startswith("scalar") and walked["kernel"] in SCALARS_BY_DATA:
            continue
        if abs(a - b) > WITHIN * b:
            bad.append("%s: %.0f, executed %.0f" % (what, a, b))
    ok(not bad, "%s %s: %.3f of the executed slots" %
       (name, walked["kernel"], slots(walked) / max(slots(run), 1)), "\n".join(bad))


def report(parts):
    """{(model, part): what is reported of its launches}."""
    code, out, err = haloctl("kernels", "report", "--code", CODE, "-k", "none", "-g", "--json",
                             "-m", ",".join(parts),
                             "-p", ",".join({p for of in parts.values() for p in of}))
    ok(code == 0, "report of grids", err)
    found = {}
    for row in map(json.loads, out.splitlines()):
        found.setdefault((row["model"], row["part"]), []).append(row)
    return found


def check_grids(model, part, walked, tmp):
    """The launches of one part: others may have the same kernel and grid."""
    path, name = os.path.join(tmp, "counts"), model + " " + part
    ok(walked, name + ": reported")
    code, out, err = haloctl("kernels", "bench", "--model", model, "--part", part, "--cold-mb",
                             "1", "-r", "1", "--depth", "1024", "--hip-library", LIB,
                             counts=path)
    ok(code == 0, name + ": executed", err)
    run = {(r["kernel"], *r["grid"]): r for r in lines(path)}
    os.unlink(path)
    for w in walked:
        if "error" in w or (w["kernel"], *w["grid"]) not in run:
            ok(False, name + ": counted and executed", w)
        else:
            compare(name, w, run[w["kernel"], *w["grid"]])


def check_steps(model, tmp, depth=40):
    """All launches of a decode step, in order."""
    path, name, prompt = os.path.join(tmp, "counts"), os.path.basename(model), min(depth, 16)
    code, out, err = haloctl("kernels", "record", "--model", model, "--hip-library", LIB, "-p",
                             str(depth), "--out", os.path.join(tmp, "rec-" + name), counts=path)
    ok(code == 0, name + ": a step executed", err)
    code, out, err = haloctl("kernels", "predict", "--model", model, "-d", str(depth), "-p",
                             str(prompt), "--json", "--launches", "--code", CODE)
    rows = [json.loads(line) for line in out.splitlines()]
    ok(code == 0 and all(r["predicted"] for r in rows), name + ": a step predicted", err)
    steps = [r for r in rows if "launch" not in r]
    ok([s["step"] for s in steps] == ["decode behind %d tokens" % depth,
                                      "prefill of %d tokens" % prompt],
       name + ": the steps", steps)
    walked = [r for r in rows if "launch" in r and r["step"].startswith("decode")]
    run = lines(path)[-len(walked):]
    os.unlink(path)
    ok([r["kernel"] for r in run] == [r["kernel"] for r in walked],
       name + ": the same launches")
    ok(sum(w["kernel"] == "rms_norm_kernel" for w in walked) == 1,
       name + ": one norm by itself, before the head")
    done = set()
    for w, r in zip(walked, run):
        if w["kernel"] not in done:
            done.add(w["kernel"])
            compare(name, w, r)
    for s in steps:
        mine = [r for r in rows if "launch" in r and r["step"] == s["step"]]
        total = sum(r["us"] for r in mine)
        ok(abs(total - s["total_us"]) < 0.001 * total + 0.1 and len(mine) == s["launches"] and
           s["low_us"] < s["total_us"] < s["high_us"],
           "%s: %s is the sum of its launches" % (name, s["step"]), s)
        most = max(mine, key=lambda r: r["us"])
        ok(abs(s["longest_us"] - most["us"]) < 0.1 and s["longest_kernel"] == most["kernel"],
           "%s: %s names its longest launch" % (name, s["step"]), s)
        bad = [r for r in mine if
               abs(r["us"] - sum(r[k] for k in ("node", "ramp", "stream", "tail"))) > 1e-3 * r["us"] or
               not r["low_us"] < r["us"] < r["high_us"]]
        ok(not bad, "%s: each launch is a node, a ramp, a stream and a tail" % name, bad)
        bad = [r for r in mine if r["stream"] < 0.999 * max(
            r[k + "_us"] for k in ("issue", "LDS", "cache", "MALL", "DRAM"))]
        ok(not bad, "%s: no stream is shorter than what it needs of one thing" % name, bad)


def check_shape(shape, n_layers, tmp):
    """Each kernel of a decode step at a model's real widths: some of its layers, with a few
    experts, of which a token uses as many as ever. Weights are zero."""
    model = os.path.join(tmp, shape)
    few = ["--experts", "8"] if "-a3b" in shape else []
    code, out, err = haloctl("synth", "--shape", shape, "--layers", str(n_layers), *few,
                             "--vocab", "4096", "--empty", "--out", model)
    ok(code == 0, shape + ": made", err)
    check_steps(model, tmp, depth=3)


def check_depth(tiny, chip, kv_type):
    """Bytes of DRAM behind a cache: each key and value that a token sees, once. What merges
    segments reads their sums. Prompts read a cache in 8 bits as halves."""
    with open(os.path.join(tiny, "config.json")) as f:
        config = json.load(f)
    dim, name = config["head_dim"], "%s, cache %s" % (chip, kv_type)
    code, out, err = haloctl("kernels", "predict", "--model", tiny, "-d", "1900", "-p", "64",
                             "-b", "1836", "--json", "--launches", "--chip", chip,
                             "--kv-type", kv_type)
    ok(code == 0, name + ": steps behind a cache: predicted", err)
    for step, n_tok in (("decode behind 1900 tokens", 1), ("prefill of 64 tokens behind 1836", 64)):
        n_seen = 1901 if n_tok == 1 else 1900
        row = dim + 2 if kv_type == "int8" and n_tok == 1 else 2 * dim
        want = (2 * row * config["num_key_value_heads"] * n_seen +
                2 * dim * config["num_attention_heads"] * n_tok)
        got = [r["dram_bytes"] for r in map(json.loads, out.splitlines())
               if r["step"] == step and r.get("kernel", "").startswith("attention_") and
               r["kernel"] != "attention_merge_kernel"]
        ok(got and all(want * 0.99 <= x <= want * 1.01 for x in got),
           "%s: %s: attention reads %d bytes" % (name, step, want), got)


def check_share():
    """The share of the chip's peak that tiles are predicted to reach lies where that of published
    kernels lies (COST_MATRIX_SHARE and its bars), or a little below. Experts have blocks that are
    partly empty: trained routers choose unevenly."""
    lab = "".join(open(os.path.join(SRC, "src/lab/launch_cost." + x)).read() for x in "ch")
    published = float(re.search(r"#define COST_MATRIX_SHARE (\S+)", lab)[1])
    bars = re.findall(r"{([^,{]+), ([^}]+)}", re.search("#define PROMPTS (.*)", lab)[1])
    product, attention = [tuple(map(float, bar)) for bar in bars]
    code, out, err = haloctl("kernels", "report", "--code", CODE, "-k", "none")
    peak = float(re.search(r"([\d.]+) TFLOP/s", out)[1])
    code, out, err = haloctl("kernels", "report", "--code", CODE, "-k", "none", "-g", "--json",
                             "-m", "qwen3-30b-a3b", "-p", "qkv,o,experts,attention", "-t", "2048",
                             "-d", "2048")
    rows = [r for r in map(json.loads, out.splitlines()) if r.get("matrix")]
    ok(code == 0 and len(rows) >= 5, "launches of 2,048 tokens", (out, err))
    for r in rows:
        low, high = attention if r["part"] == "attention" else product
        share = r["matrix"] * 2 * 16 ** 3 / r["us"] * 1e-6 / peak
        below = 0.85 if r["part"] == "experts" else 0.95
        ok(below * published / high < share < published / low, "%s, %s: %.2f of the peak" %
           (r["part"], r["kernel"], share))


def check_text():
    tiny = os.path.join(SRC, "models/halo-tiny")
    for chip in ("gfx1151", "gfx1100"):
        code, out, err = haloctl("kernels", "predict", "--model", tiny, "--chip", chip, "-p",
                                 "16")
        ok(code == 0 and "predicted for" in out and "), predicted;" in out and
           "ramps and tails" in out and "\nlongest launch: " in out,
           "text for " + chip, err)
    seen = os.path.join(SRC, "tests/golden/vision/gemma4")
    code, out, err = haloctl("kernels", "predict", "--model", seen, "--image", "64", "--json")
    row = json.loads(out or "{}")
    ok(code == 0 and row["step"] == "image of 64 x 64 pixels: 144 patches, 16 tokens" and
       row["launches"] > 40 and row["high_us"] > row["total_us"] > 0, "an image", (out, err))
    code, out, err = haloctl("kernels", "predict", "--model", tiny, "--image", "64")
    ok(code != 0 and not out and "no vision tower" in err, "but not of a model of text", err)
    heard = os.path.join(SRC, "tests/golden/vision/qwen3asr")
    code, out, err = haloctl("kernels", "predict", "--model", heard, "--audio", "9", "--json")
    row = json.loads(out or "{}")
    ok(code == 0 and row["step"] == "audio of 9 s: 117 tokens" and row["launches"] > 40 and
       row["high_us"] > row["total_us"] > 0, "audio", (out, err))
    code, out, err = haloctl("kernels", "predict", "--model", seen, "--audio", "9")
    ok(code != 0 and not out and "no audio tower" in err, "but not of one that hears none", err)
    drafts = os.path.join(SRC, "tests/golden/models/qwen35-mtp")
    code, out, err = haloctl("kernels", "predict", "--model", drafts, "--json", "--mtp", "-d", "9",
                             "-p", "96", "--chunk", "32")
    rows = {r["step"]: r["launches"] for r in map(json.loads, out.splitlines())}
    alone = haloctl("kernels", "predict", "--model", drafts, "--json", "-d", "9", "-p", "32")[1]
    plain = {r["step"]: r["launches"] for r in map(json.loads, alone.splitlines())}
    ok(code == 0 and 0 < rows["a draft token behind 10 tokens"] <
       rows["decode behind 9 tokens"], "a draft token of the MTP layer", (out, err))
    ok(rows["decode behind 9 tokens"] > plain["decode behind 9 tokens"], "which each step fills",
       (out, alone))
    ok(rows["prefill of 96 tokens"] > 2 * plain["prefill of 32 tokens"],
       "a prompt in chunks of 32 tokens", (out, alone))
    code, out, err = haloctl("kernels", "predict", "--model", tiny, "--mtp")
    ok(code != 0 and not out and "no MTP layer" in err, "and a model without one", err)
    for args in (("--model", tiny, "--chip", "gfx906"), (), ("--model", tiny, "-p", "x"),
                 ("--model", heard, "--image", "64", "--audio", "9")):
        code, out, err = haloctl("kernels", "predict", *args)
        ok(code == 2 and err, "refused: predict " + " ".join(args)[-12:], (code, err))
    code, out, err = haloctl("kernels", "predict", "--model", tiny, "-d", "1000000")
    ok(code != 0 and not out and "1000001 tokens" in err,
       "nothing is predicted of a step that cannot run", (out, err))


def check_chosen_wide(tmp):
    """At real widths the cache is larger than L2. Tokens choose different positions, and each
    workgroup misses each of its lines at most once."""
    where = os.path.join(tmp, "chosen")
    haloctl("synth", "--shape", "qwen3.8-flash-next", "--layers", "4", "--experts", "16", "--vocab",
            "4096", "--ngrams", "64", "--format", "q8_0", "--empty", "--out", where)
    code, out, err = haloctl("kernels", "predict", "--model", os.path.join(where, "model.gguf"),
                             "-p", "96", "-b", "3000", "--json", "--launches")
    single = [r for r in map(json.loads, out.splitlines())
              if r.get("kernel") == "attention_d256_single_kernel"]
    ok(code == 0 and len(single) == 1, "a layer with an indexer, as wide as it is", err)
    missed = single[0]["MALL_us"] * 1e-6 * 1000e9 # bytes, at the rate of launch_cost.c
    most = single[0]["stream_bytes"] + 128 * single[0]["group_lines"]
    ok(2 << 20 < missed < 1.001 * most, "no line is missed twice by one workgroup", single)


def check_chosen():
    """Attention to what an indexer chooses, here 32 positions: a prompt that is no longer is read
    as others are, by tiles of tokens. A longer one has a workgroup a token and key head, and DRAM
    supplies queries and the cache once, since MALL holds them."""
    model = os.path.join(SRC, "tests/golden/models/qwen4exp")
    code, out, err = haloctl("kernels", "predict", "--model", model, "-d", "8", "-p", "32,400",
                             "--json", "--launches")
    seen = {r["step"]: r for r in map(json.loads, out.splitlines())
            if r.get("kernel", "").startswith("attention_")}
    ok(code == 0 and len(seen) == 3, "steps of a model with an indexer: predicted", err)
    few, many = seen["prefill of 32 tokens"], seen["prefill of 400 tokens"]
    ok(few["kernel"] == "attention_d64_prefill_kernel", "32 tokens: by tiles", few)
    ok(many["kernel"] == "attention_d64_single_kernel" and many["grid"] == [1, 2 * 400],
       "400 tokens: a workgroup each", many)
    queries, cache = 400 * 4 * 16 * 2, 400 * 2 * (16 + 16) * 2
    ok(many["dram_bytes"] == queries + cache, "whose bytes come from DRAM once", many)


def main():
    if not os.path.exists(CODE) or not os.path.exists(LIB):
        print("1..0 # SKIP there are no code objects, or nothing to execute them")
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        all_parts = PARTS_ALL if "--all" in sys.argv else PARTS
        walked = report(all_parts)
        for model, parts in all_parts.items():
            for part in parts:
                check_grids(model, part, walked.get((model, part), []), tmp)
        check_steps(os.path.join(SRC, "models/halo-tiny"), tmp)
        for shape, n_layers in SHAPES.items():
            check_shape(shape, n_layers, tmp)
        for chip, kv_type in ("gfx1151", "auto"), ("gfx1100", "int8"):
            check_depth(os.path.join(SRC, "models/halo-tiny"), chip, kv_type)
        check_share()
        check_chosen()
        check_chosen_wide(tmp)
        check_text()
    print("1..%d" % tap.count)
    return tap.failed != 0


sys.exit(main())
