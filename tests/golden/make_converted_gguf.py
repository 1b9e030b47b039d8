#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny checkpoints as llama.cpp's own converter writes them in GGUF, what llama.cpp makes of
them, and what halod does.

    pip install torch transformers safetensors gguf llama-cpp-python
                                                     (in a venv outside the repository)
    make_converted_gguf.py LLAMA_CPP HALOCTL [NAME...]
                           (a tree of llama.cpp's sources; from the top of this repository)

Writes tests/golden/converted.tsv (or the lines of NAME...): for each model the largest differences of log-probabilities
between Hugging Face Transformers, llama.cpp and `haloctl verify --exact`. And it writes
tests/golden/formats/qwen4exp.gguf with its reference.

The converter expects what published configs say, and Transformers leaves out of those that it
writes: `published` puts it there. It knows tokenizers by a hash of theirs, and this tiny one is
not known: it is said to be Qwen2's. Models of VARIANTS are those of tests/golden/models with
sizes and switches that llama.cpp can take."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

import make_hf_models as tiny
import numpy as np

hf, GOLDEN, OUT = tiny.hf, tiny.GOLDEN, "tests/golden/converted.tsv"
FIXTURE = "qwen4exp"
ERNIE = {**tiny.SMALL, "num_hidden_layers": 3, "moe_num_experts": 4, "moe_k": 2,
         "moe_intermediate_size": 24, "moe_num_shared_experts": 2, "intermediate_size": 96}
# One table of n-grams, and as few parts as can be.
QWEN4 = {**tiny.QWEN4, **tiny.MROPE, "num_hidden_layers": 2, "ple_layer_ids": [1],
         "layer_types": tiny.QWEN4["layer_types"][:2], "hc_lowrank": 16, "hc_count": 2}
UNTIED = {"tie_word_embeddings": False}
ONE_SCALE = {"rope_parameters": {**tiny.MLA["rope_parameters"], "mscale_all_dim": 1.0}}
VARIANTS = {
    "exaone4": (hf.Exaone4Config, hf.Exaone4ForCausalLM,
                {**tiny.SMALL, "head_dim": 8, "sliding_window": None,
                 "num_hidden_layers": 30, "layer_types": ["full_attention"] * 30}),
    "phi3": (hf.Phi3Config, hf.Phi3ForCausalLM,
             {**tiny.PHI, "head_dim": 8, "sliding_window": 2048}),
    "phi3-long": (hf.Phi3Config, hf.Phi3ForCausalLM,
                  {**tiny.PHI_LONG, "sliding_window": 2048}),
    "phi3-short": (hf.Phi3Config, hf.Phi3ForCausalLM,
                   {**tiny.PHI_SHORT, "sliding_window": 2048}),
    "minimaxm2": (hf.MiniMaxM2Config, hf.MiniMaxM2ForCausalLM, {**tiny.MINIMAX, **UNTIED}),
    "olmo2": (hf.Olmo2Config, hf.Olmo2ForCausalLM,
              {**tiny.SMALL, **UNTIED, "head_dim": 8}),
    "olmo3": (hf.Olmo3Config, hf.Olmo3ForCausalLM, {**tiny.OLMO, **UNTIED, "head_dim": 8}),
    # llama.cpp takes norms of heads from 64 layers on, which Command R+ has.
    "cohere": (hf.CohereConfig, hf.CohereForCausalLM,
               {**tiny.MODELS["cohere"][2], "head_dim": 8, "num_hidden_layers": 64}),
    "cohere2": (hf.Cohere2Config, hf.Cohere2ForCausalLM,
                {**tiny.MODELS["cohere2"][2], "head_dim": 8}),
    "qwen2-bias": (hf.Qwen2Config, hf.Qwen2ForCausalLM, {**tiny.PLAIN, "head_dim": 8}),
    "granitehybrid": (hf.GraniteMoeHybridConfig, hf.GraniteMoeHybridForCausalLM,
                      {**tiny.SPACE, "intermediate_size": 40}),
    "ernie45moe": (hf.Ernie4_5_MoeConfig, hf.Ernie4_5_MoeForCausalLM, ERNIE),
    "deepseekv3-yarn": (hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM,
                        {**tiny.MLA, **ONE_SCALE}),
    "deepseekv32": (hf.DeepseekV32Config, hf.DeepseekV32ForCausalLM,
                    {**tiny.SPARSE, "index_head_dim": 64}),
    # The converter leaves out what scales queries up behind the first context.
    "mistral4": (hf.Mistral3Config, hf.Mistral3ForConditionalGeneration, tiny.seeing(
        {**tiny.MISTRAL4, "rope_parameters": {
            **tiny.LATE["rope_parameters"], "original_max_position_embeddings": 256}},
        tiny.PIXTRAL)),
    "qwen4exp": (hf.Qwen4ExpConfig, hf.Qwen4ExpForConditionalGeneration,
                 tiny.seeing(QWEN4, tiny.VISION)),
    "llama4": (hf.Llama4TextConfig, hf.Llama4ForCausalLM,
               {**tiny.LLAMA4, "attention_chunk_size": 8192, "floor_scale": 8192,
                "attn_scale": 0.1}),
    "gemma3": (hf.Gemma3TextConfig, hf.Gemma3ForCausalLM,
               {**tiny.GEMMA, "query_pre_attn_scalar": 16,
                "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}),
    "gptoss": (hf.GptOssConfig, hf.GptOssForCausalLM, {
        **tiny.OSS, "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}}),
}
# Formats of weights that the converter does not know, or that tests of formats compare; and
# windows, of which a file says nothing.
LEFT_OUT = ("qwen3-awq", "qwen3-hqq", "qwen3-llmint8", "qwen3-nf4", "qwen3-nvfp4",
            "qwen3moe-ct-mixed", "qwen2-yarn-window", "mistral-window", "deepseekv3-mtp",
            "deepseekv4-fp8")
HYBRID = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}


def published(name, c, tokenizer):
    """What a published config.json and tokenizer say, and this one does not."""
    text = c.get("text_config", c)
    if name.startswith(("deepseek", "glm4moelite", "minimax", "exaonemoe")):
        c["scoring_func"] = "sigmoid"
    if name.startswith("minimax"):
        part = c["rope_parameters"]["partial_rotary_factor"]
        c["rotary_dim"] = int(c["head_dim"] * part)
    if name == "cohere2":
        c["rotary_pct"] = 1.0
    if name == "hunyuan":
        c["max_position_embeddings"] = 32768
    if name == "hunyuanmoe":
        n = c["num_hidden_layers"]
        c.update(moe_intermediate_size=[c["intermediate_size"]] * n,
                 moe_topk=[c["moe_topk"]] * n, num_shared_expert=[1] * n)
    if name.startswith("granitehybrid"):
        c["layer_types"] = ["attention" if t == "full_attention" else "mamba"
                            for t in c["layer_types"]]
    if name == "nemotronh":
        c["hybrid_override_pattern"] = "".join(HYBRID[t] for t in c["layers_block_type"])
        for key in [k for k in c if "expert" in k or "topk" in k or "moe" in k
                    or k == "n_group"]:
            del c[key]
    if name == "bamba":
        c["attn_rotary_emb"] = c["head_dim"] // 2
    if name == "qwen4exp":
        text["layer_types"] = [t.replace("indexed", "full") for t in text["layer_types"]]
    if name.startswith("gemma"):  # rows of tokens without a name would be cut off
        words = tokenizer["model"]["vocab"]
        used = {*words.values(), *(a["id"] for a in tokenizer["added_tokens"])}
        words.update(("<unused%d>" % i, i) for i in range(512) if i not in used)


def load_converter(llama):
    sys.path[:0] = [os.path.join(llama, "gguf-py"), llama]
    import convert_hf_to_gguf
    from conversion import load_all_models
    from conversion.base import ModelBase, TextModel
    from conversion.nemotron import NemotronHModel
    load_all_models()
    old = ModelBase.load_hparams

    def load_hparams(folder, is_mistral_format=False):
        """Of these as it is written: Transformers would put back what is taken away."""
        if os.path.basename(folder) in ("nemotronh", "qwen4exp", "ling3", "step37"):
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
                return json.load(f)
        return old(folder, is_mistral_format)

    def classes(of):
        for c in of.__subclasses__():
            yield c
            yield from classes(c)

    ModelBase.load_hparams = staticmethod(load_hparams)
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
    NemotronHModel._MLP_LAYER_TYPES = {"moe", "mlp"}
    for c in set(classes(TextModel)):
        if "set_vocab" in c.__dict__:
            c.set_vocab = TextModel._set_vocab_gpt2
    return convert_hf_to_gguf


def edit(path, change):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    change(data)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f)


def convert(converter, name, source, tmp, kind="f32"):
    """The checkpoint `source` as GGUF, with `kind` for its matrices."""
    folder, out = os.path.join(tmp, "hf", name), os.path.join(tmp, name + kind + ".gguf")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    edit(os.path.join(folder, "config.json"), lambda c: published(name, c, tokenizer))
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)
    sys.argv = ["convert_hf_to_gguf.py", folder, "--outtype", kind, "--outfile", out,
                "--model-name", "tiny"]  # llama.cpp looks for "phi-3" in it
    if name.startswith(("qwen35", "qwen3next", "ling3", "step37")) and "mtp" not in name:
        sys.argv.append("--no-mtp")
    converter.main()
    return out


def llama_rows(path, prompts):
    """Log-probabilities of llama.cpp, a matrix for each prompt."""
    import llama_cpp as L
    quiet = L.llama_log_callback(lambda *a: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    how = L.llama_model_default_params()
    how.n_gpu_layers = 0
    m = L.llama_model_load_from_file(path.encode(), how)
    if not m:
        raise RuntimeError("llama.cpp does not load it")
    width = L.llama_vocab_n_tokens(L.llama_model_get_vocab(m))
    opts, out = L.llama_context_default_params(), []
    opts.n_ctx = opts.n_batch = opts.n_ubatch = 512
    opts.n_threads = opts.n_threads_batch = 1
    opts.type_k = opts.type_v = opts.flash_attn_type = 0  # float32, and plain attention
    for ids in prompts:
        c, b = L.llama_init_from_model(m, opts), L.llama_batch_init(len(ids), 0, 1)
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, i, 1, 1
            b.seq_id[i][0] = 0
        if L.llama_decode(c, b):
            raise RuntimeError("llama.cpp does not run it")
        x = np.stack([np.ctypeslib.as_array(L.llama_get_logits_ith(c, i), (width,)).astype(
            np.float64) for i in range(len(ids))])
        L.llama_batch_free(b)
        L.llama_free(c)
        x -= x.max(1, keepdims=True)
        out.append(x - np.log(np.exp(x).sum(1, keepdims=True)))
    L.llama_model_free(m)
    return out


def of_llama(path, reference):
    """The same reference with llama.cpp's numbers, and how far they are from the others."""
    out, worst = json.loads(json.dumps(reference)), 0.0
    prompts = [c["prompt_ids"] + c["continuation_ids"] for c in out["cases"]]
    for c, ids, rows in zip(out["cases"], prompts, llama_rows(path, prompts)):
        n = len(c["prompt_ids"])
        for i, p in enumerate(c["prompt_logprobs"]):
            worst = max(worst, abs(p - rows[i, ids[i + 1]]))
            c["prompt_logprobs"][i] = round(float(rows[i, ids[i + 1]]), 5)
        for i, step in enumerate(c["steps"]):
            row = rows[n - 1 + i]
            worst = max([worst, *(abs(p - row[t]) for t, p in step["top"])])
            step["top"] = [[t, round(float(row[t]), 5)] for t, _ in step["top"]]
    return out, worst


def verify(haloctl, path, reference, tmp):
    """The largest difference of haloctl; its words where it refuses the file."""
    file = os.path.join(tmp, "reference.json")
    with open(file, "w", encoding="utf-8") as f:
        json.dump(reference, f)
    run = subprocess.run([haloctl, "verify", "--exact", "--json", "--model", path,
                          "--reference", file], capture_output=True, text=True)
    if not run.stdout:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)["max_delta"]


def old_rows():
    if not os.path.exists(OUT):
        return {}
    with open(OUT, encoding="utf-8") as f:
        return {line.split("\t")[1]: line.rstrip("\n") for line in list(f)[1:]}


def write_rows(rows):
    with open(OUT, "w", encoding="utf-8") as f:
        f.write("model_type\tmodel\tllama.cpp-transformers\thalod-transformers\t"
                "halod-llama.cpp\n")
        f.writelines(rows[n] + "\n" for n in sorted(rows))


def main(llama, haloctl, *only):
    converter, rows = load_converter(llama), old_rows() if only else {}
    for name, of in VARIANTS.items():
        tiny.MODELS[name + "~"] = (*of, True)
    names = list(tiny.MODELS)
    with tempfile.TemporaryDirectory() as tmp:
        for name in sorted(only or os.listdir(GOLDEN)):
            source = os.path.join(GOLDEN, name)
            if name in LEFT_OUT or name == "deepseekv4":  # of convert_deepseek4.py
                continue
            if name in VARIANTS:
                source = os.path.join(tmp, name + "~")
                tiny.make(names.index(name + "~"), name + "~", tmp)
            with open(os.path.join(source, "reference.json"), encoding="utf-8") as f:
                reference = json.load(f)
            path = convert(converter, name, source, tmp)
            llamas, far = of_llama(path, reference)
            with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
                c = json.load(f)
            kind = c["model_type"] if "text_config" not in c else \
                c["text_config"]["model_type"]
            rows[name] = "%s\t%s\t%.0e\t%.0e\t%.0e" % (
                kind, name, far, verify(haloctl, path, reference, tmp),
                verify(haloctl, path, llamas, tmp))
            print(rows[name], flush=True)
            if name == FIXTURE:
                out = os.path.join("tests/golden/formats", name)
                shutil.copy(convert(converter, name, source, tmp, "bf16"), out + ".gguf")
                with open(out + ".json", "w", encoding="utf-8") as f:
                    json.dump({**reference, "model": name,
                               "reference": "tests/golden/make_converted_gguf.py"}, f)
    write_rows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
