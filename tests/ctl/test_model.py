#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl on halo-tiny and on the small checkpoints beside the tests."""
import json
import os
import random
import shutil
import struct
import tempfile

import gguf_file
from tap import CHECK, SRC, TINY, done, eq, haloctl, ok

GOLDEN = os.path.join(SRC, "tests/golden/models")
SHORT = "short" in CHECK


def usage():
    code, out, err = haloctl()
    eq(code, 2, "no command")
    ok("generate" in err, "lists the commands", err)
    code, out, err = haloctl("frobnicate")
    ok(code == 2 and "frobnicate" in err, "an unknown command", err)
    code, out, err = haloctl("bench", "nothing")
    ok(code == 2 and "bench nothing" in err, "an unknown benchmark", err)
    code, out, err = haloctl("bench")
    ok(code == 2 and "haloctl bench model" in err and "haloctl bench serve" in err and
       "generate" not in err, "half of a command tells what completes it", err)
    code, out, err = haloctl("bench", "--help")
    ok(code == 0 and b"bench model" in out and b"bench serve" in out and not err,
       "so does its --help", err)
    code, out, err = haloctl("help")
    ok(code == 0 and b"generate" in out and not err, "help is a command", err)
    code, out, err = haloctl("serve")
    ok(code == 2 and "halod serves" in err, "serve names the program that does", err)
    eq(haloctl("--version")[0], 0, "--version")
    for command in (["generate"], ["verify"], ["tokenize"], ["detokenize"],
                    ["inspect"], ["bench", "model"], ["bench", "serve"]):
        name = " ".join(command)
        code, out, err = haloctl(*command, "--help")
        ok(code == 0 and b"--model" in out and not err, name + " --help", err)
        code, out, err = haloctl(*command, "--bogus")
        ok(code == 2 and "--bogus" in err, name + " with an unknown option", err)
    for command in (["generate", "-p", "x"], ["verify"], ["inspect"],
                    ["tokenize", "-p", "x"], ["bench", "model"]):
        name = " ".join(command)
        code, out, err = haloctl(*command)
        ok(code == 2 and "--model" in err, name + " without a model", err)
        code, out, err = haloctl(*command, "--model", "/nonexistent")
        ok(code == 2 and "/nonexistent" in err, name + " without files", err)
    code, out, err = haloctl("verify", "--model", TINY, "--backend", "abacus")
    ok(code == 2 and "abacus" in err, "an unknown backend", err)


def tokens():
    text = "Hello, wörld! 你好 👋🏽\n\n  tabs\tand  spaces  "
    code, out, err = haloctl("tokenize", "--model", TINY, stdin=text.encode())
    eq(code, 0, "tokenize")
    ids = [int(x) for x in out.split()]
    code, back, err = haloctl("detokenize", "--model", TINY, stdin=out)
    eq(back.decode(), text, "and back")
    code, out, err = haloctl("tokenize", "--model", TINY, "--json", "-p", text)
    v = json.loads(out)
    ok(v["ids"] == ids and v["count"] == len(ids) == len(v["pieces"]), "as JSON", out)
    code, out, err = haloctl("detokenize", "--model", TINY, "--json", "-i",
                             json.dumps(ids))
    eq(json.loads(out)["text"], text, "and back from a JSON list")

    control = "<|im_start|>user"
    plain = haloctl("tokenize", "--model", TINY, "-p", control)[1].split()
    special = haloctl("tokenize", "--model", TINY, "-s", "-p", control)[1].split()
    ok(len(special) < len(plain), "--special reads control tokens", special)
    eq(haloctl("detokenize", "--model", TINY, "-i", special[0].decode())[1], b"",
       "they have no text")
    eq(haloctl("detokenize", "--model", TINY, "-s", "-i", special[0].decode())[1],
       b"<|im_start|>", "but with --special")
    for bad in ("1 x", "-1", "99999999", "1.5"):
        code, out, err = haloctl("detokenize", "--model", TINY, "--ids=" + bad)
        eq(code, 2, "no ids: " + bad)


def inspect():
    code, out, err = haloctl("inspect", "--model", TINY, "--json", "--depth", "100",
                             "--ctx", "1000", "--seqs", "2", "--tensors")
    eq(code, 0, "inspect")
    v = json.loads(out)
    eq(v["config"]["arch"], "qwen3_moe", "the architecture")
    eq(v["tensors"], 1290, "the tensors")
    eq(len(v["list"]), 1290, "each in the list")
    eq(sum(t["bytes"] for t in v["list"]), v["weight_bytes"], "bytes add up")
    eq(sum(p["bytes"] for p in v["parts"].values()), v["weight_bytes"],
       "parts add up")
    eq(v["parts"]["experts"]["bytes_per_token"] * 4, v["parts"]["experts"]["bytes"],
       "4 of 16 experts are read")
    eq(v["kv_bytes"], v["kv_bytes_per_token"] * 2000, "KV of all sequences")
    eq(v["memory_bytes"], v["kv_bytes"] + v["weight_bytes"], "memory")
    eq(v["bytes_per_decoded_token"], v["kv_read_bytes"]
       + sum(p["bytes_per_token"] for p in v["parts"].values()), "a token's reads")
    ok(4 < v["bits_per_weight"] < 6, "bits per weight", v["bits_per_weight"])
    eq(sorted(v["formats"]), ["bf16", "int4"], "its formats")
    eq(sum(f["bytes"] for f in v["formats"].values()), v["weight_bytes"],
       "formats add up")
    eq(v["cpu_panel_bytes"], v["formats"]["int4"]["bytes"], "int4 becomes panels")
    eq(v["int8_head_bytes"], v["config"]["vocab"] * (v["config"]["d_model"] + 4),
       "the head in int8")
    code, out, err = haloctl("inspect", "--model", TINY)
    ok(code == 0 and b"experts" in out, "as text", out)
    for folder, fmt, bits in (("qwen3-awq", "awq4", 4.625),
                              ("qwen3-gptq", "gptq4", 4.625),
                              ("qwen3-nvfp4", "nvfp4", 4.5)):
        folder = os.path.join(GOLDEN, folder)
        code, out, err = haloctl("inspect", "--model", folder, "--json")
        f = json.loads(out)["formats"][fmt]
        ok(f["weights"] == 2 * (128 * 256 * 2 + 128 * 128 * 2 + 3 * 128 * 384),
           fmt + ": its weights", out)
        got = 8 * f["bytes"] / f["weights"]
        # gptq also has the groups of the inputs, nvfp4 a scale for all.
        ok(abs(got - bits) < 0.25, fmt + ": bits of a weight", got)


def part_of_reference(folder):
    """halo-tiny's reference, or under a sanitizer a quarter of it; and how many cases."""
    path = os.path.join(TINY, "reference.json")
    with open(path, encoding="utf-8") as f:
        reference = json.load(f)
    if SHORT:
        path = os.path.join(folder, "reference.json")
        reference["cases"] = reference["cases"][::4]
        with open(path, "w", encoding="utf-8") as f:
            json.dump(reference, f)
    return path, len(reference["cases"])


def rotations():
    """transform_config: rotations in a step are refused; those in the weights run."""
    model = "qwen3moe-ct-mixed"
    for location, fits in (("input", False), ("output", False), ("weight_input", True)):
        with tempfile.TemporaryDirectory() as tmp:
            for name in os.listdir(os.path.join(GOLDEN, model)):
                os.symlink(os.path.abspath(os.path.join(GOLDEN, model, name)),
                           os.path.join(tmp, name))
            with open(os.path.join(tmp, "config.json"), encoding="utf-8") as f:
                config = json.load(f)
            config["quantization_config"]["transform_config"] = {"config_groups": {"R4": {
                "type": "hadamard", "apply": [{"targets": ["Linear"], "location": location}]}}}
            os.remove(os.path.join(tmp, "config.json"))
            with open(os.path.join(tmp, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            code, _, err = haloctl("verify", "--model", tmp)
            refused = code == 2 and "R4 rotates at %s in each step" % location in err
            ok(code == 0 if fits else refused, "rotations at %s" % location, err)


def verify():
    with tempfile.TemporaryDirectory() as tmp:
        verify_models(*part_of_reference(tmp))
    verify_doctored()
    if not SHORT:
        verify_routers()


def verify_models(tiny, n_cases):
    ok(n_cases == (7 if SHORT else 26), "cases of halo-tiny", n_cases)
    # The fast path rounds activations; what is said must be the same.
    for way, most in ([], 0.15), (["--exact"], 0.001):
        code, out, err = haloctl("verify", "--model", TINY, "--json", "--reference", tiny, *way)
        v = json.loads(out)
        ok(code == 0 and v["pass"], "halo-tiny is as its reference",
           out + err.encode())
        # Along the exact path's experts, where a router found two equally good.
        largest = v.get("routing", {}).get("along_max_delta", v["max_delta"])
        ok(largest <= most and v["mean_delta"] <= 0.02
           and v["cases"] == n_cases == v["greedy_cases"]
           and v["top1_agree"] == v["steps"] and v["text_faults"] == 0,
           "in every case", out)
        # Under a sanitizer a few: test_qwen3 takes all of them through the engine.
        names = sorted(os.listdir(GOLDEN))
        for name in names if not SHORT else () if way else names[::8]:
            code, out, err = haloctl("verify", "--model", os.path.join(GOLDEN, name),
                                     *way)
            ok(code == 0 and b"PASS" in out, name, out + err.encode())


def verify_routers():
    """Beyond the bounds, verify runs once more along the exact path's experts: every router."""
    for name in sorted(os.listdir(GOLDEN)):
        with open(os.path.join(GOLDEN, name, "config.json"), encoding="utf-8") as f:
            if "experts" not in f.read():
                continue
        code, out, err = haloctl("verify", "--model", os.path.join(GOLDEN, name), "--backend",
                                 "cpu", "--max-delta", "1e-9", "--max-mean", "1e-9")
        ok(code == 1 and b"FAIL" in out and not err, "a verdict on " + name, (code, out, err))


def verify_doctored():
    with open(os.path.join(TINY, "reference.json"), encoding="utf-8") as f:
        good = json.load(f)
    good["cases"] = good["cases"][2:3]

    def doctored(name, change, want=1, *args):
        bad = json.loads(json.dumps(good))
        change(bad["cases"][0])
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(bad, f)
            f.flush()
            code, out, err = haloctl("verify", "--model", TINY, "--json", "--exact",
                                     "--reference", f.name, *args)
        ok(code == want and json.loads(out)["pass"] == (not want), name,
           out + err.encode())

    def logprob(case):
        case["prompt_logprobs"][5] -= 0.05

    def top(case):
        case["steps"][1]["top"][3][1] += 0.05

    def greedy(case):
        # The last token: no later step is led astray. No text to give it away.
        case["continuation_ids"][-1] = case["steps"][-1]["top"][1][0]
        del case["text"]

    def near_tie(case):
        greedy(case)
        best = case["steps"][-1]["top"]
        best[0][1] = best[1][1]

    def two_errors(case):
        # Its best two are off by 1.5 gaps each, one too high and one too low. So they
        # are two gaps apart in the reference, and the other way round in the model.
        greedy(case)
        best = case["steps"][-1]["top"]
        (a, a_logprob), (b, b_logprob) = best[:2]
        gap, middle = a_logprob - b_logprob, (a_logprob + b_logprob) / 2
        best[:2] = [[b, middle + gap], [a, middle - gap]]

    def prompt(case):
        case["prompt"] += " "

    def text(case):
        case["text"] = case["text"].replace("Paris", "Pari5")

    doctored("a changed log-probability of the prompt fails", logprob)
    doctored("one of the best five fails", top)
    doctored("another continuation fails", greedy)
    doctored("at any tolerance", greedy, 1, "--max-delta", "100")
    doctored("but not where the best two are closer than the error", near_tie, 0,
             "--max-delta", "100")
    doctored("nor than the errors of both together", two_errors, 0, "--max-delta", "100")
    doctored("another prompt text fails", prompt)
    doctored("another answer text fails", text)
    doctored("a tolerance of nothing fails", lambda case: None, 1, "--max-delta", "1e-9")
    doctored("which else is good", lambda case: None, 0)
    code, out, err = haloctl("verify", "--model", TINY, "--reference", "/nonexistent")
    ok(code == 2 and "/nonexistent" in err, "no reference", err)
    with tempfile.NamedTemporaryFile("w") as f:
        f.write('{"cases":[{"prompt_ids":[1,99999],"prompt_logprobs":[-1],'
                '"continuation_ids":[],"steps":[]}]}')
        f.flush()
        code, out, err = haloctl("verify", "--model", TINY, "--reference", f.name)
        ok(code == 2 and "99999" in err, "a token that is none", err)


def copied(folder, into, reference=True):
    """A model's files without its tensors and its config."""
    for file in ("tokenizer.json", "tokenizer_config.json", "reference.json")[:2 + reference]:
        shutil.copy(os.path.join(folder, file), into)


def stacked():
    """qwen35moe as its larger sisters are published: in a wrapper with vision, experts
    of a layer in one tensor (E, 2 F, D) and one (E, D, F)."""
    folder = os.path.join(GOLDEN, "qwen35moe")
    tensors, experts = {}, {}
    for name, (dtype, shape, raw) in gguf_file.load(folder).items():
        name = name.replace("model.", "model.language_model.", 1)
        if ".experts." not in name:
            tensors[name] = (dtype, shape, raw)
            continue
        head, e, proj, _ = name.rsplit(".", 3)
        experts.setdefault(head, {})[int(e), proj] = (shape, raw)
    for head, parts in experts.items():
        n = len(parts) // 3
        (f, d), _ = parts[0, "gate_proj"]
        tensors[head + ".gate_up_proj"] = ("BF16", [n, 2 * f, d], b"".join(
            parts[e, p][1] for e in range(n) for p in ("gate_proj", "up_proj")))
        tensors[head + ".down_proj"] = ("BF16", [n, d, f], b"".join(
            parts[e, "down_proj"][1] for e in range(n)))
    for name in ("model.visual.patch_embed.proj.weight", "mtp.fc.weight"):
        tensors[name] = ("BF16", [1, 2], bytes(4))
    text = gguf_file.read_json(folder, "config.json")
    config = {"model_type": "qwen3_5_moe", "text_config": text, "vision_config": {},
              "architectures": ["Qwen3_5MoeForConditionalGeneration"]}
    with tempfile.TemporaryDirectory() as into:
        copied(folder, into)
        with open(os.path.join(into, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        gguf_file.write_safetensors(os.path.join(into, "model.safetensors"), tensors)
        for way in [], ["--exact"]:
            code, out, err = haloctl("verify", "--model", into, *way)
            ok(code == 0 and b"PASS" in out, "stacked experts in a wrapper",
               out + err.encode())
        code, out, err = haloctl("inspect", "--model", into, "--json")
        v = json.loads(out)
        eq(v["parts"]["experts"]["bytes_per_token"] * 2, v["parts"]["experts"]["bytes"],
           "2 of 4 experts are read of stacks")


def kv_scales():
    """Scales for a KV cache in FP8, under all their names: the cache is float16 and needs
    none. The other numbers stay what they were."""
    folder = os.path.join(GOLDEN, "qwen3-nvfp4")
    tensors = dict(gguf_file.load(folder))
    for name in ("k_scale", "v_scale", "attn.k_scale", "attn.v_scale", "k_proj.k_scale",
                 "v_proj.v_scale", "k_proj.output_scale", "kv_scale", "q_scale"):
        tensors["model.layers.0.self_attn." + name] = ("F32", [1], b"\0\0\0\x42")
    config = gguf_file.read_json(folder, "config.json")
    config["quantization_config"]["kv_cache_scheme"] = {
        "num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True,
        "dynamic": False}
    with tempfile.TemporaryDirectory() as into:
        copied(folder, into)
        with open(os.path.join(into, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        gguf_file.write_safetensors(os.path.join(into, "model.safetensors"), tensors)
        code, out, err = haloctl("verify", "--model", into, "--exact", "--json")
        v = json.loads(out or "{}")
        ok(code == 0 and v["max_delta"] < 2e-4, "scales for an FP8 cache", out + err.encode())
        code, out, err = haloctl("inspect", "--model", into, "--json")
        v = json.loads(out)
        ok(v["asks_fp8_kv"] and v["kv_type"] in ("F16", "F32"),
           "it asks for one, and gets the backend's own type", v)


def as_bf16(values):
    """Numbers that bfloat16 has."""
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def zero_bytes(rng, n, k):
    """compressed-tensors: a layer's bytes and zero points, and its numbers."""
    q = [rng.randrange(-128, 128) for _ in range(n * k)]
    z = [rng.randrange(-100, 100) for _ in range(n)]
    return {"weight": ("I8", [n, k], struct.pack("%db" % len(q), *q)),
            "weight_zero_point": ("I8", [n, 1], struct.pack("%db" % n, *z)),
            "weight_scale": ("BF16", [n, 1], as_bf16([2**-10] * n))}, \
        [(v - z[i // k]) * 2**-10 for i, v in enumerate(q)]


def floats(rng, n, k):
    """ModelOpt: normal numbers of FP8, and what they are."""
    q = [rng.randrange(2) << 7 | rng.randrange(8, 64) for _ in range(n * k)]
    return {"weight": ("F8_E4M3", [n, k], bytes(q)),
            "weight_scale": ("F32", [], struct.pack("<f", 0.125))}, \
        [(-1)**(b >> 7) * (1 + b % 8 / 8) * 2.0**((b >> 3 & 15) - 10) for b in q]


def two_ways(name, layers, pack, about):
    """A model some of whose layers are packed, and the same numbers in bfloat16."""
    packed = dict(gguf_file.load(os.path.join(GOLDEN, name)))
    plain, rng = dict(packed), random.Random(3)
    for layer in [x[:-len(".weight")] for x in packed if layers(x)]:
        n, k = packed.pop(layer + ".weight")[1]
        tensors, values = pack(rng, n, k)
        packed.update((layer + "." + x, t) for x, t in tensors.items())
        plain[layer + ".weight"] = ("BF16", [n, k], as_bf16(values))
    found = []
    for tensors in packed, plain:
        with tempfile.TemporaryDirectory() as into:
            copied(os.path.join(GOLDEN, name), into)
            config = gguf_file.read_json(os.path.join(GOLDEN, name), "config.json")
            if tensors is packed:
                config["quantization_config"] = about
            with open(os.path.join(into, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            gguf_file.write_safetensors(os.path.join(into, "model.safetensors"), tensors)
            code, out, err = haloctl("verify", "--model", into, "--exact", "--json",
                                     "--max-delta", "99")
            v = json.loads(out or "{}")
            found.append((v.get("max_delta"), v.get("mean_delta"), err))
    ok(found[0] == found[1] and found[0][0], name + ": the same numbers in 16 bits", found)


def packed_layers():
    """Rows of q and k that are read in another order, and layers under other names."""
    two_ways("ernie45", lambda x: x.endswith(("q_proj.weight", "k_proj.weight")), zero_bytes,
             {"quant_method": "compressed-tensors", "format": "int-quantized",
              "config_groups": {"g": {"targets": ["re:.*[qk]_proj"], "weights": {
                  "num_bits": 8, "type": "int", "symmetric": False,
                  "strategy": "channel"}}}})
    two_ways("nemotronh", lambda x: x == "backbone.layers.0.mixer.in_proj.weight", floats,
             {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
              "quantized_layers": {"backbone.layers.0.mixer": {"quant_algo": "FP8"}}})


def changed(name, want, cases=slice(None), **changes):
    """The model with other settings (None: without one) beside its own reference."""
    folder = os.path.join(GOLDEN, name)
    config = gguf_file.read_json(folder, "config.json")
    text = config.get("text_config") or config
    text.update(changes)
    for key in [k for k, v in changes.items() if v is None]:
        del text[key]
    reference = gguf_file.read_json(folder, "reference.json")
    reference["cases"] = reference["cases"][cases]
    with tempfile.TemporaryDirectory() as into:
        copied(folder, into, reference=False)
        for file, content in ("config.json", config), ("reference.json", reference):
            with open(os.path.join(into, file), "w", encoding="utf-8") as f:
                json.dump(content, f)
        os.symlink(os.path.join(os.path.abspath(folder), "model.safetensors"),
                   os.path.join(into, "model.safetensors"))
        code, out, err = haloctl("verify", "--model", into, "--exact", "--json")
        v = json.loads(out or "{}")
        ok((v.get("max_delta", 1e9) < 2e-4) == want, "%s with %s" % (name, changes),
           out + err.encode())


def settings():
    """What the tiny models' references hold: chunks, late queries, norms, and a choice of
    positions. Texts shorter than that choice are those of dense attention."""
    changed("llama4", False, attention_chunk_size=64)
    changed("llama4", False, floor_scale=8192)
    changed("llama4", False, use_qk_norm=False)
    changed("llama4", False, no_rope_layers=[1, 1, 1, 1])
    changed("deepseekv32", False, index_topk=4096)
    changed("deepseekv32", True, cases=slice(1), index_topk=4096)
    # The indexer's tensors have no place in a DeepSeek-V3, and none is dropped.
    changed("deepseekv32", False, cases=slice(1), index_topk=None, model_type="deepseek_v3",
            architectures=["DeepseekV3ForCausalLM"], layer_types=None)
    # 8 blocks of 4 are chosen, and layers with blocks of 32 are seen whole.
    changed("deepseekv4", False, index_topk=4096)
    changed("deepseekv4", True, cases=slice(2), index_topk=4096)
    changed("deepseekv4", False, swiglu_limit=10.0)
    changed("deepseekv4", False, hc_sinkhorn_iters=1)
    changed("deepseekv4", False, sliding_window=32)
    changed("deepseekv4", True, compress_rates=None, compress_rate_hca=32, layer_types=None,
            compress_ratios=[0, 4, 128, 4, 0], mlp_layer_types=None, num_hash_layers=2,
            rope_parameters=None, partial_rotary_factor=None,
            rope_scaling={"type": "yarn", "factor": 16.0, "beta_fast": 32, "beta_slow": 1,
                          "original_max_position_embeddings": 256})


def published():
    """DeepSeek-V4 with the names of tensors that its published files have; and with tables of
    experts that cannot be."""
    folder = os.path.join(GOLDEN, "deepseekv4")
    tensors = {}
    for name, tensor in gguf_file.load(folder).items():
        name = name.replace("model.embed_tokens", "embed").replace("model.", "", 1)
        name = name.replace("attn.norm", "attn.kv_norm").replace("hc_head.hc_", "hc_head_")
        tensors[name] = tensor
    ok("layers.1.attn.kv_norm.weight" in tensors and "hc_head_fn" in tensors, "names", tensors)
    with tempfile.TemporaryDirectory() as into:
        path = os.path.join(into, "model.safetensors")
        copied(folder, into)
        shutil.copy(os.path.join(folder, "config.json"), into)
        gguf_file.write_safetensors(path, tensors)
        code, out, err = haloctl("verify", "--model", into, "--exact", "--json")
        v = json.loads(out or "{}")
        ok(code == 0 and v["max_delta"] < 2e-4, "published names", out + err.encode())
        name = "layers.1.ffn.gate.tid2eid"
        dtype, shape, raw = tensors[name]
        for bad in raw[:8] + raw[:8] + raw[16:], b"\x04" + raw[1:], b"\xff" * 8 + raw[8:]:
            tensors[name] = dtype, shape, bad
            gguf_file.write_safetensors(path, tensors)
            code, out, err = haloctl("verify", "--model", into, "--exact")
            ok(code == 2 and "tid2eid: row 0 is not 2 different numbers below 4" in err,
               "a table of experts is checked", err)
        del tensors[name]
        gguf_file.write_safetensors(path, tensors)
        code, out, err = haloctl("verify", "--model", into, "--exact")
        ok(code == 2 and "mlp.gate.tid2eid is missing" in err, "and must be there", err)


def made():
    """bitsandbytes and HQQ: the exact path reads what the checkpoint has."""
    for name, fmt, most, bits in (("nf4", "nf4", 0.03, 4.6), ("llmint8", "int8", 0.03, 8.5),
                                  ("hqq", "q4_1", 0.06, 5.1)):
        folder = os.path.join(GOLDEN, "qwen3-" + name)
        for way, largest in (["--exact"], 2e-4), ([], most):
            code, out, err = haloctl("verify", "--model", folder, "--json", *way)
            v = json.loads(out)
            ok(code == 0 and v["max_delta"] < largest, name + " is near its reference",
               v["max_delta"])
        code, out, err = haloctl("inspect", "--model", folder, "--json")
        v = json.loads(out)
        n = 2 * (4 * 64 * 64 - 2 * 64 * 32 + 3 * 64 * 288)
        ok(v["formats"][fmt]["weights"] == n and v["repack_bytes"] > n / 2,
           name + " becomes " + fmt, out)
        ffn = v["parts"]["ffn"]
        ok(ffn["weights"] == 6 * 64 * 288 and 8 * ffn["bytes"] / ffn["weights"] < bits,
           "and a step does not read what it was made of", out)
    layer = "model.layers.0.mlp.up_proj."
    for name, part in (("nf4", "weight.nested_absmax"), ("nf4", "weight.quant_map"),
                       ("nf4", "weight.quant_state.bitsandbytes__nf4"), ("llmint8", "SCB"),
                       ("hqq", "zero"), ("hqq", "shape")):
        folder = os.path.join(GOLDEN, "qwen3-" + name)
        with tempfile.TemporaryDirectory() as into:
            copied(folder, into, reference=False)
            shutil.copy(os.path.join(folder, "config.json"), into)
            tensors = dict(gguf_file.load(folder))
            del tensors[layer + part]
            gguf_file.write_safetensors(os.path.join(into, "model.safetensors"), tensors)
            code, out, err = haloctl("inspect", "--model", into)
            ok(code == 2 and layer + part in err and "missing" in err,
               "%s without %s" % (name, part), err)


def generate():
    question = "What is 2+2? Answer in one word."
    code, out, err = haloctl("generate", "--model", TINY, "-p", question, "-n", "60",
                             "--temperature", "0", "--no-think")
    eq(out.decode(), "Four\n", "2+2 is Four")
    ok(code == 0 and "tokens/s" in err and "TTFT" in err, "with its speed", err)
    code, out, err = haloctl("generate", "--model", TINY, "-p", question, "-n", "60",
                             "--temperature", "0", "-q")
    ok(code == 0 and out.decode().rstrip().endswith("Four") and b"<think>" in out
       and not err, "and after thinking", out)
    code, out, err = haloctl("generate", "--model", TINY, "--raw", "-n", "5",
                             "--temperature", "0", "-q",
                             stdin=b"The capital of France is")
    eq(out.decode(), " Paris.\n", "--raw from stdin")
    args = ["generate", "--model", TINY, "-p", "Tell me a story.", "-n", "30", "-q",
            "--temperature", "1.2"]
    one = haloctl(*args, "--seed", "7")[1]
    eq(haloctl(*args, "--seed", "7")[1], one, "the same seed, the same answer")
    ok(any(haloctl(*args, "--seed", str(s))[1] != one for s in (8, 9, 10)),
       "another seed, another answer")
    code, out, err = haloctl("generate", "--model", TINY, "--raw", "-q", "-n", "60",
                             "-p", "1, 2, 3, 4,", "--temperature", "0", "--stop", " 8")
    ok(out.decode().endswith("7,\n"), "--stop", out)
    code, out, err = haloctl("generate", "--model", TINY, "--raw", "-n", "12",
                             "-p", "The capital of France is", "--temperature", "0",
                             "--ignore-eos")
    ok("answer 12 tokens" in err, "--ignore-eos goes on", err)
    code, out, err = haloctl("generate", "--model", TINY, "-p",
                             "What is <|im_end|> for?", "-n", "4", "-q")
    eq(code, 0, "control tokens in a prompt are text")
    code, out, err = haloctl("generate", "--model", TINY, "-p", "word " * 6000)
    ok(code == 2 and "4096" in err, "a prompt too long", err)
    code, out, err = haloctl("generate", "--model", TINY, "-p", "x", "--chat", "--raw")
    eq(code, 2, "--chat --raw")
    code, out, err = haloctl("generate", "--model",
                             os.path.join(GOLDEN, "qwen3moe-ct-asym"), "--raw", "-p",
                             "abc", "-n", "3", "--no-mmap", "--ignore-eos")
    ok(code == 0 and "answer 3 tokens" in err, "without mmap", err)


def bench():
    code, out, err = haloctl("bench", "model", "--model", TINY, "-p", "8,40", "-n", "8",
                             "--depth", "20", "--repeat", "2", "--threads", "1",
                             "--json")
    eq(code, 0, "bench model")
    v = json.loads(out)
    eq(sorted(v["prefill"]), ["40", "8"], "a rate for each length")
    ok(all(x > 0 for x in v["prefill"].values()), "above zero", out)
    ok(v["decode_tps"] > 0 and v["load_s"] > 0 and v["rss_bytes"] > 1e6, "others too",
       out)
    ok(v["backend"] == "cpu" and v["depth"] == 20 and v["repeat"] == 2, "what was asked",
       out)
    # 2048 tokens are computed: by a smaller model than halo-tiny.
    code, out, err = haloctl("bench", "model", "--model", os.path.join(GOLDEN, "mixtral"),
                             "-p", "8", "-n", "2", "--depth", "2100", "--depth-copies",
                             "--repeat", "1", "--json")
    eq(code, 0, "bench model behind copies: " + err)
    ok(json.loads(out)["depth"] == 2100, "and the depth is what was asked", out)
    code, out, err = haloctl("bench", "model", "--model", TINY, "-p", "", "-n", "4",
                             "--batch", "3", "--repeat", "1", "--json")
    eq(code, 0, "bench model of three sequences: " + err)
    v = json.loads(out)
    ok(v["batch"] == 3 and abs(3e3 / v["decode_tps"] - v["tpot_ms"]) < 1e-3,
       "three sequences in a step", out)
    code, out, err = haloctl("bench", "model", "--model", TINY, "-p", "", "-n", "0",
                             "--widths", "1,4,64", "--repeat", "1", "--json")
    eq(code, 0, "bench model --widths: " + err)
    v = json.loads(out)["widths_ms"]
    ok(0 < v["1"] < v["4"] and v["64"] is None, "a time for each width that drafts have", out)
    for name, lines, want in (("given", "1,2,3\n4 5\n[6]\n", 0), ("one", "1,2,3\n", 2),
                              ("words", "1,2\nthree\n", 2), ("high", "1\n999999\n", 1)):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(lines)
            f.flush()
            code, out, err = haloctl("bench", "model", "--model", TINY, "-p", "", "-n", "0",
                                     "--feed", f.name, "--json")
        eq(code, want, "bench model --feed, %s: %s" % (name, err))
        v = json.loads(out) if want == 0 else {}
        ok(want or (v["feed_tokens"] == 3 and v["feed_tps"] > 0),
           "tokens behind the first line", out)
    code, out, err = haloctl("bench", "model", "--model", TINY, "--widths", "1,x")
    ok(code == 2 and "1,x" in err, "no list of widths", err)
    code, out, err = haloctl("bench", "model", "--model", TINY, "-p", "5000")
    ok(code == 2 and "4096" in err, "longer than the context", err)
    code, out, err = haloctl("bench", "model", "--model", TINY, "-p", "5,x")
    ok(code == 2 and "5,x" in err, "a malformed list", err)


def bench_profile():
    args = ("bench", "model", "--model", TINY, "-p", "40", "-n", "8", "--depth", "20",
            "--repeat", "1", "--threads", "1", "--profile")
    code, out, err = haloctl(*args, "--layers", "--json")
    v = json.loads(out)["profile"] if code == 0 else {}
    eq(code, 0, "bench model --profile: " + err)
    ok(v["read_gbs"] > 0, "the memory's read rate", v)
    stages = v["token"]["stages"]
    eq(sorted(stages), sorted("embed norm qkv attention out router gate_up down head "
                              "sampling host".split()), "a token's stages")
    ok(all(s["ms"] > 0 for s in stages.values()), "each took some time", stages)
    # Eight layers; 4 of 16 experts of (128, 256) in int4 with a bf16 scale for 128 columns;
    # 28 tokens in the cache at the end, 21 at first: keys and values of two heads of 64.
    with open(os.path.join(TINY, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    group = c["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"]
    one = c["moe_intermediate_size"] * c["hidden_size"] * (0.5 + 2 / group)
    eq(stages["down"]["bytes"], 8 * 4 * one, "bytes of down: the experts it used")
    eq(stages["gate_up"]["bytes"], 2 * 8 * 4 * one, "bytes of gate and up")
    numbers = 8 * 2 * 2 * 64 * sum(range(21, 29)) / 8
    ok(stages["attention"]["bytes"] in (2 * numbers, 4 * numbers),
       "bytes of attention: the cache", (stages["attention"], numbers))
    prompt = v["prompt"]["stages"]
    ok(4 * one * 8 < prompt["down"]["bytes"] <= 16 * one * 8,
       "a prompt reads each expert once", prompt["down"])
    eq(len(v["token"]["layers"]), 8, "by layer, too")
    ok(abs(sum(x["qkv"]["ms"] for x in v["token"]["layers"]) - stages["qkv"]["ms"]) < 1e-6,
       "which add up", v["token"])
    ok("head" not in v["token"]["layers"][0], "the head is of no layer", v)
    code, out, err = haloctl(*args)
    lines = out.decode().splitlines()
    ok(any(x.split()[:1] == ["router"] for x in lines)
       and "a token (8 tokens measured)" in lines
       and "  layer 0" not in lines, "a table", (out, err))
    code, out, err = haloctl("bench", "model", "--model", TINY, "--layers")
    ok(code == 2 and "--profile" in err, "--layers alone", err)
    code, out, err = haloctl(
        "bench", "model", "--model", os.path.join(GOLDEN, "qwen3next"), "-p", "9",
        "-n", "2", "--repeat", "1", "--profile", "--json")
    stages = json.loads(out)["profile"]["token"]["stages"] if code == 0 else {}
    ok({"delta", "shared"} <= set(stages), "delta and the shared expert", (stages, err))


def broken_model():
    with tempfile.TemporaryDirectory() as d:
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(TINY, name), d)
        code, out, err = haloctl("inspect", "--model", d)
        ok(code == 2 and "model.safetensors" in err, "no weights", err)
        with open(os.path.join(TINY, "model.safetensors"), "rb") as f:
            whole = f.read()
        with open(os.path.join(d, "model.safetensors"), "wb") as f:
            f.write(whole[:len(whole) - 100])
        code, out, err = haloctl("inspect", "--model", d)
        ok(code == 2 and "tensor model." in err and "truncated" in err,
           "truncated weights name the tensor", err)
        with open(os.path.join(d, "model.safetensors"), "wb") as f:
            f.write(whole.replace(b"layers.7.mlp.experts.9.up_proj.weight_packed",
                                  b"layers.7.mlp.experts.X.up_proj.weight_packed"))
        code, out, err = haloctl("generate", "--model", d, "-p", "x")
        ok(code == 2 and "layers.7.mlp.experts.9.up_proj" in err,
           "a missing tensor is named", err)
        with open(os.path.join(d, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config["rope_scaling"] = {"rope_type": "spiral", "factor": 4.0}
        with open(os.path.join(d, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        code, out, err = haloctl("inspect", "--model", d)
        ok(code == 2 and "rope_scaling" in err and "spiral" in err,
           "rope scaling is refused by name", err)


usage()
tokens()
inspect()
rotations()
verify()
stacked()
kv_scales()
packed_layers()
settings()
published()
made()
generate()
bench()
bench_profile()
broken_model()
done()
