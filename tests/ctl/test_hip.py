#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl on the HIP backend, with the runtime of tests/hip-on-cpu; and what it says
where there is no GPU."""
import json
import os
import tempfile

import gguf_families
import gguf_file
from tap import BUILD, CHECK, FIBERS, SRC, TINY, done, eq, haloctl, ok

HIP = ["--backend", "hip", "--hip-library", FIBERS]
GOLDEN = os.path.join(SRC, "tests/golden/models")
SMALL = os.path.join(GOLDEN, "qwen3moe-ct-asym")  # for what does not ask how well a model works
DELTA_MOST = "0.1"
SHORT = "short" in CHECK


def devices():
    code, out, err = haloctl("devices", "--hip-library", FIBERS, "--json")
    eq(code, 0, "devices")
    v = json.loads(out)
    eq(v["error"], None, "no error")
    eq(len(v["devices"]), 1, "one device")
    d = v["devices"][0]
    eq((d["architecture"], d["compute_units"], d["integrated"], d["kernels"]),
       ("gfx1151", 40, True, True), "what it is")
    code, out, err = haloctl("devices", "--hip-library", FIBERS)
    ok(code == 0 and b"gfx1151" in out, "as text", out)


def errors():
    code, out, err = haloctl("devices", "--hip-library", "/nonexistent/libhip.so")
    ok(code == 1 and "tried /nonexistent/libhip.so" in err, "no library", err)
    libc = "libc.so.6"
    code, out, err = haloctl("devices", "--hip-library", libc)
    ok(code == 1 and libc + " has no function hipRuntimeGetVersion" in err, "another library", err)
    if not os.path.exists("/dev/kfd"):
        code, out, err = haloctl("devices")
        ok(code == 1 and "no AMD GPU visible: /dev/kfd is missing" in err, "no GPU", err)
        code, out, err = haloctl("verify", "--model", TINY, "--backend", "hip")
        ok(code == 2 and "/dev/kfd is missing" in err, "never the CPU instead", err)


def shorten(model, wanted, folder):
    """A reference of some of the model's cases: {number: tokens to continue}. What runs
    a thread of a GPU as a fiber is slow."""
    with open(os.path.join(model, "reference.json")) as f:
        ref = json.load(f)
    cases = []
    for i, n in wanted.items():
        case = ref["cases"][i]
        if len(case["continuation_ids"]) > n:
            case.pop("text", None)
            case["continuation_ids"] = case["continuation_ids"][:n]
            case["steps"] = case["steps"][:n]
        cases.append(case)
    path = os.path.join(folder, "reference.json")
    with open(path, "w") as f:
        json.dump({**ref, "cases": cases}, f)
    return path


def verify(model, wanted, *more):
    name = os.path.basename(model)
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = haloctl("verify", "--model", model, *HIP, *more, "--json",
                                 "--reference", shorten(model, wanted, folder))
    v = json.loads(out) if out else {}
    # Where a router's tie sent a token elsewhere, along the exact run's experts (docs/gpu.md).
    at, kind = (v["routing"], "along_") if (v.get("routing") or {}).get("ties") else (v, "")
    ok(code == 0 and v["pass"] and at[kind + "max_delta"] <= 0.15 and
       at[kind + "mean_delta"] <= 0.02, "verify " + " ".join([name, *more]), (out, err))
    ok(v.get("backend") == "hip" and v["tokens"] >= sum(wanted.values()),
       "compares all of it", v)


def delta_nets():
    """Some tokens amplify every rounding (docs/gpu.md), so the first layer is sharp. All of
    the reference is within the usual bound. The mean is held to that of Transformers in
    float16."""
    bounds = {}
    with open(os.path.join(SRC, "tests/golden/half_errors.tsv"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                model, kind, _, _, _, mean = line.split()
                bounds.setdefault(model, {})[kind] = mean
    ok(len(bounds) == 2, "bounds of two models", bounds)
    for model, types in bounds.items():
        code, out, err = haloctl("verify", "--model", os.path.join(GOLDEN, model), *HIP,
                                 "--max-delta", DELTA_MOST, "--max-mean", types["float16"],
                                 "--json")
        v = json.loads(out or b"{}")
        ok(code == 0 and v["pass"] and v["tokens"] == 207,
           "verify %s: below %s, mean %s" % (model, DELTA_MOST, types["float16"]), (out, err))


def few_tokens():
    """A step of a few tokens has the bits of steps of one. Ten have twenty rows in the sharp
    layer, which are done in two calls (sum_up in parts/delta.c)."""
    folder = os.path.join(GOLDEN, "qwen35")
    with open(os.path.join(folder, "reference.json"), encoding="utf-8") as f:
        ref = json.load(f)
    ids, found = ref["cases"][2]["prompt_ids"][:10], ref["cases"][2]["prompt_logprobs"][:9]
    steps = [{"token": t, "top": [[t, p]]} for t, p in zip(ids[1:], found)]
    off = []
    for n, steps in (10, []), (1, steps):
        case = {"prompt_ids": ids[:n], "prompt_logprobs": found[:n - 1],
                "continuation_ids": ids[n:], "steps": steps}
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "reference.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump({**ref, "cases": [case]}, f)
            _, out, err = haloctl("verify", "--model", folder, *HIP, "--json",
                                  "--reference", path)
        v = json.loads(out or b"{}")
        ok(v.get("tokens") == 9, "nine tokens behind %d" % n, (out, err))
        off.append((v.get("max_delta"), v.get("mean_delta"), v.get("worst_token")))
    ok(off[0] == off[1] and off[0][1] > 0, "ten tokens at once: the bits of each alone", off)


def gguf():
    """MLA as its files have it: what makes keys and values in two tensors."""
    folder = os.path.join(GOLDEN, "glm4moelite")
    config = gguf_file.read_json(folder, "config.json")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "model.gguf")
        tensors = gguf_families.tensors(config, gguf_file.load(folder))
        gguf_file.write(path, gguf_families.keys(folder, config, tensors), tensors)
        code, out, err = haloctl("verify", "--model", path, *HIP, "--json",
                                 "--reference", shorten(folder, {0: 4, 1: 2}, tmp))
    v = json.loads(out or b"{}")
    ok(code == 0 and v["pass"] and v["max_delta"] <= 0.15, "MLA in GGUF", (out, err))


def shared_formats():
    """One kernel does a shared expert's gate and up, also where they have two formats."""
    folder = os.path.join(GOLDEN, "qwen35moe")
    tensors = gguf_file.load(folder)
    for name, (_, shape, raw) in tensors.items():
        if "shared_expert.gate_proj" in name:
            tensors[name] = ("F16", shape, gguf_file.f32_to_f16(gguf_file.bf16_to_f32(raw)))
    with tempfile.TemporaryDirectory() as tmp:
        for name in os.listdir(folder):
            if not name.endswith(".safetensors"):
                os.symlink(os.path.join(os.path.abspath(folder), name), os.path.join(tmp, name))
        gguf_file.write_safetensors(os.path.join(tmp, "model.safetensors"), tensors)
        code, out, err = haloctl("verify", "--model", tmp, *HIP, "--reference",
                                 os.path.join(folder, "reference.json"))
    ok(code == 0 and b"PASS" in out, "a shared expert in two formats", (code, out, err))


def delta_formats():
    """b and a of a gated delta net in another format than q, k, v and z, as in most files
    of 4 bits: they are done beside the convolution, so a step has no launch more."""
    folder = os.path.join(GOLDEN, "qwen35moe")
    tensors = gguf_file.load(folder)
    for name, (_, shape, raw) in tensors.items():
        if "in_proj_qkv" in name or "in_proj_z" in name:
            tensors[name] = ("F16", shape, gguf_file.f32_to_f16(gguf_file.bf16_to_f32(raw)))
    launches = []
    with tempfile.TemporaryDirectory() as tmp:
        for name in os.listdir(folder):
            if not name.endswith(".safetensors"):
                os.symlink(os.path.join(os.path.abspath(folder), name), os.path.join(tmp, name))
        gguf_file.write_safetensors(os.path.join(tmp, "model.safetensors"), tensors)
        verify(tmp, {0: 4, 1: 2})
        for model in folder, tmp:
            code, out, err = haloctl("bench", "model", "--model", model, *HIP, "-p", "5", "-n",
                                     "3", "--repeat", "1", "--json")
            launches.append(json.loads(out or b"{}").get("launches_per_step"))
    ok(launches[0] and launches[0] == launches[1], "as many launches as in one format", launches)


def speed():
    code, out, err = haloctl("bench", "model", "--model", SMALL, *HIP, "-p", "5", "-n", "4",
                             "--repeat", "1", "--json")
    v = json.loads(out) if out else {}
    ok(code == 0 and v["backend"] == "hip", "bench model", err)
    layers = gguf_file.read_json(SMALL, "config.json")["num_hidden_layers"]
    # Nine a layer; ids, embedding, angles, norm, head and its best (two) once.
    ok(layers <= v.get("launches_per_step", 0) <= layers * 9 + 7, "launches a step", v)
    ok("step_gpu_ms" in v, "and the GPU's part of one", v)
    ok(v.get("graph_captures", 0) == 1 and v["graph_replays"] >= 3, "replayed", v)


def profile():
    """Events of the device's stream in place of the host's clock."""
    code, out, err = haloctl("bench", "model", "--model", SMALL, *HIP, "-p", "5", "-n", "2",
                             "--repeat", "1", "--profile", "--json")
    v = json.loads(out)["profile"] if code == 0 else {}
    ok(code == 0 and v["read_gbs"] > 0, "bench model --profile", err)
    for part in ("prompt", "token"):
        s = v[part]["stages"]
        ok({"embed", "qkv", "attention", "out", "gate_up", "down", "head", "host"} <= set(s)
           and s["attention"]["ms"] > 0 and s["gate_up"]["ms"] > 0, part + ": stages", s)
    ok(s["down"]["bytes"] * 2 == s["gate_up"]["bytes"], "bytes of experts", s)


def ties():
    """In case 9 the fourth and the fifth expert of a layer are 0.0006 apart, and halves
    take the other, for 0.2 of a log-probability."""
    with tempfile.TemporaryDirectory() as folder:
        path = shorten(TINY, {9: 2}, folder)
        args = ("verify", "--model", TINY, *HIP, "--json", "--reference", path)
        code, out, err = haloctl(*args)
        v = json.loads(out)
        r = v.get("routing", {})
        ok(code == 0 and v["pass"] and v["max_delta"] > 0.15 and r["ties"] == 1
           and r["wrong_choices"] == 0 and r["along_max_delta"] < 0.02
           and r["max_delta"] < 0.02 and r["exact_max_delta"] < 0.001,
           "a tie of two experts is counted", (out, err))
        ok(r["list"][0]["token"] == 11 and 0 < r["list"][0]["margin"] < 0.001,
           "and listed", r)
        mean, untied = v["mean_delta"], r["untied_mean_delta"]
        ok(0 < r["untied_share"] < 1 and r["untied_max_delta"] < 0.02
           and 0 < untied < mean / 2, "what it does not reach is told apart", r)
        for most, want in (mean / 2, 0), (untied / 2, 1):
            code, out, err = haloctl(*args, "--max-mean", str(most))
            ok(code == want, "a mean of %f is for that: exit %d" % (most, want), out)
        with open(path, encoding="utf-8") as f:
            bad = json.load(f)
        bad["cases"][0]["prompt_logprobs"][3] += 0.2
        with open(path, "w", encoding="utf-8") as f:
            json.dump(bad, f)
        code, out, err = haloctl(*args)
        ok(code == 1 and not json.loads(out)["pass"],
           "but not taken for the reason of another difference", (out, err))


devices()
errors()
verify(os.path.join(GOLDEN, "qwen3moe-ct-asym"), {0: 4, 1: 2} if SHORT else {1: 4, 2: 2})
if not SHORT:
    ties()
    verify(TINY, {0: 2, 17: 3, 19: 5, 20: 2})
    verify(TINY, {19: 3}, "--no-graphs")
    verify(os.path.join(GOLDEN, "qwen3-bf16"), {0: 6, 2: 3})
    verify(os.path.join(GOLDEN, "mistral-window"), {0: 4, 2: 2})
    verify(os.path.join(GOLDEN, "qwen2-yarn-window"), {1: 4})
    verify(os.path.join(GOLDEN, "gemma3"), {0: 4, 1: 6})
families = ("qwen3vl", "qwen3vlmoe", "mistral3", "seedoss", "granite", "smollm3",
            "glm4moelite", "ministral3", "phi3-long", "minimaxm2", "olmo3", "exaone4",
            "granitemoe", "lfm2", "lfm2moe", "gemma4", "gemma4moe",
            "granitehybrid", "granitehybridmoe", "nemotronh", "nemotronhmoe",
            "granitemoeshared", "ernie45", "ernie45moe", "hunyuan", "hunyuanmoe",
            "bamba", "qwen3-nf4", "qwen3-hqq", "qwen3moe-ct-mixed", "qwen4exp", "llama4",
            "llama4-dense", "nemotronhsuper", "deepseekv32", "deepseekv4", "deepseekv4-fp8",
            "glm4moe-groups", "cohere", "cohere2", "exaonemoe", "hyv3", "mistral4", "laguna",
            "museglimmer", "falconh1", "kimilinear", "ling3", "step37", "glm5next")
# check_gfx11.py verifies these on machine code, where the build has some.
if os.path.exists(os.path.join(BUILD, "kernels/gfx1151.hsaco")):
    families = tuple(f for f in families if f not in (
        "deepseekv4-fp8", "falconh1", "gemma4", "glm4moelite", "nemotronhsuper", "qwen3-nf4",
        "qwen3-hqq", "qwen3moe-ct-mixed", "qwen4exp"))
# Time is short under a sanitizer (HALOD_CHECK=short): every twelfth. What else there is are
# numbers, and the kernels' and the engine's own work, whose own tests it runs.
for family in families[::12 if SHORT else 1]:
    verify(os.path.join(GOLDEN, family), {0: 4, 1: 2})
if not SHORT:
    delta_nets()
    gguf()
    shared_formats()
    delta_formats()
    speed()
    profile()
    few_tokens()
done()
