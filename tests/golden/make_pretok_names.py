#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/pretok_names.json: for each name that tokenizer.ggml.pre of a
GGUF file may have, the ids of awkward texts. The vocabulary is trained on these texts as
wholes. So its merges cross every border that a pre-tokenizer may draw, and a wrong border shows.

  {"texts": [...], "alphabet": pieces, "merges": [[left, right], ...], whose pieces follow,
   "groups": [ids of each text, null: as in the first group],
   "names": {name: index of its group}}

llama.cpp makes them (pip install llama-cpp-py-sync, 0.11739 was used, which needs glibc 2.38),
from a file of the vocabulary alone. Where llama.cpp only comes near a model's own
expression, Hugging Face `tokenizers` (0.22.2) makes them with that expression.
"""
import json
import os
import pathlib
import sys
import tempfile

from llama_cpp_py_sync import _cffi_bindings as bindings
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import make_tokenizer_goldens as goldens

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ctl"))
import gguf_file as g

NAMES = """default gpt-2 phi-2 gigachat a.x-4.0 mellum jais trillion granite-docling exaone4 mpt
olmo jina-es jina-de jina-v2-es jina-v2-de modern-bert jina-v1-en jina-v2-code roberta-bpe
starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 falcon llama-bpe llama3
llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5 chatglm-bpe dbrx
smaug-bpe jais-2 minicpm5 qwen2 kormo megrez f2llmv2 hunyuan deepseek-r1-qwen stablelm2
solar-open grok-2 qwen35 ufakzeka laguna seed-coder bailingmoe bailingmoe2 llada-moe exaone-moe
gpt-4o llama4 kanana2 talkie granite-embed-multi-97m minimax-m2 tekken kimi-k2 youtu tiny_aya
cohere2moe deepseek-v3 hunyuan-dense hy_v4 joyai-llm spark2_5 afmoe deepseek-llm deepseek-coder
bloom gpt3-finnish poro-chat viking chameleon superbpe""".split()

CUTS, O200K = goldens.CONTRACTIONS, goldens.WORDS["o200k"]
HAN = r"&&[^\p{Han}]]"
UPPER, LOWER = goldens.UPPER[:-1] + HAN, goldens.LOWER[:-1] + HAN
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CUTS + "?"
        r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CUTS + "?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + goldens.SPACES)
YOUTU = ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
         O200K.replace(r"\p{N}{1,3}", r"\p{N}")]
AYA = [r"\d{1,3}(?=(?:\d{3})*\b)", O200K]
# name: (expressions, NFC, ignore_merges)
OWN = {"gpt-4o": ([O200K], False, True), "llama4": ([O200K], False, True),
       "kanana2": ([O200K], False, False), "talkie": ([O200K], False, False),
       "granite-embed-multi-97m": ([O200K], False, True),
       "minimax-m2": ([O200K], False, False), "tekken": ([goldens.WORDS["tekken"]], False, True),
       "kimi-k2": ([KIMI], False, False), "youtu": (YOUTU, False, True),
       "tiny_aya": (AYA, False, False), "cohere2moe": (AYA, False, False)}
for name in "qwen2", "megrez", "f2llmv2", "hunyuan", "deepseek-r1-qwen":
    OWN[name] = ([goldens.WORDS["qwen2"]], True, False)
# Of these, llama.cpp's \\s and \\d know ASCII alone: texts with others are not compared (false).
ASCII_ONLY = "deepseek-llm", "deepseek-coder", "superbpe"
OWN["qwen35"] = ([goldens.WORDS["qwen35"]], True, False)


def texts():
    return goldens.texts()[2:74] + [
        "1234567 ١٢٣٤٥٦٧ 12345 a1234b 1,234.5", "<sentinel:12> IMGIMGABCZ  x    y", " " * 1000 + "x",
        "\n" + " " * 300 + "\n\t\t x", "ไทย1ລາວ ខ្មែរ ᄒ ﾊﾝ 〿⼀", "ㄅㄆ…“x”‘y’—：；，、〜︰", "don'T I'D '.s 's'", "a.b,c!d?e…f。g(h|i)j s",
        "안녕 하세요 a b\n/c./\n", "¹²³4ⅷⅸ5 ½12", "x  = 3;\r\n\r\n  y", "\u00b5\u01bb\u0250\u0561\u13a0\U00010400\u1c90 ！～‘’。", "ABcDEf ÀÉîÖ ΑΒγΔ Ǆa", "it'sx don'Tx I'llama we'REx",
        "x" + " \t\t" * 3 + " x" + " " * 40 + "y"]


class LlamaCpp:
    def __init__(self):
        self.ffi, self.lib = bindings.get_ffi(), bindings.get_lib()
        self.log = self.ffi.callback("void(enum ggml_log_level, const char *, void *)",
                                     lambda level, text, ctx: None)
        self.lib.llama_log_set(self.log, self.ffi.NULL)
        self.lib.llama_backend_init()

    def ids(self, path, samples):
        params = self.lib.llama_model_default_params()
        params.vocab_only = True
        model = self.lib.llama_model_load_from_file(path.encode(), params)
        assert model != self.ffi.NULL, path
        vocab, out = self.lib.llama_model_get_vocab(model), []
        for text in samples:
            raw = text.encode()
            room = self.ffi.new("int32_t[]", len(raw) + 8)
            n = self.lib.llama_tokenize(vocab, raw, len(raw), room, len(raw) + 8, False, False)
            out.append(list(room[0:n]))
        self.lib.llama_model_free(model)
        return out


def own_ids(base, regexes, nfc, whole, samples):
    steps = goldens.sequence(*[goldens.split(r) for r in regexes])
    top = goldens.overlay(base, {"pre_tokenizer": steps,
                                 "normalizer": {"type": "NFC"} if nfc else None},
                          {"ignore_merges": whole})
    tok = Tokenizer.from_str(json.dumps(top))
    return [tok.encode(t, add_special_tokens=False).ids for t in samples]


def train(samples):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(samples * 2, trainers.BpeTrainer(
        vocab_size=1800, show_progress=False, max_token_length=12, initial_alphabet=alphabet))
    return json.loads(tok.to_str()), alphabet


def main():
    samples, llama, groups, names = texts(), LlamaCpp(), [], {}
    base, alphabet = train(samples)
    pieces = sorted(base["model"]["vocab"], key=base["model"]["vocab"].get)
    assert pieces == list(dict.fromkeys(alphabet + ["".join(m) for m in base["model"]["merges"]]))
    merges = [" ".join(m) for m in base["model"]["merges"]]
    head = "tokenizer.ggml."
    for name in NAMES:
        if name in OWN:
            ids = own_ids(base, *OWN[name], samples)
        else:
            with tempfile.TemporaryDirectory() as tmp:
                path = os.path.join(tmp, "pre.gguf")
                g.write(path, [
                    ("general.architecture", g.STRING, "llama"),
                    (head + "model", g.STRING, "gpt2"), (head + "pre", g.STRING, name),
                    (head + "tokens", (g.ARRAY, g.STRING), pieces),
                    (head + "token_type", (g.ARRAY, g.I32), [1] * len(pieces)),
                    (head + "merges", (g.ARRAY, g.STRING), merges)], {})
                ids = llama.ids(path, samples)
        if name in ASCII_ONLY:
            ids = [not any(c > "\x7f" and (c.isspace() or c.isdecimal()) for c in t) and i
                   for t, i in zip(samples, ids)]
        if ids not in groups:
            groups.append(ids)
        names[name] = groups.index(ids)
    first = groups[0]
    groups = [first] + [[None if a == b else a for a, b in zip(ids, first)]
                        for ids in groups[1:]]
    (HERE / "tokenizer" / "pretok_names.json").write_text(
        '{"texts":' + goldens.dump(samples) + ',\n"alphabet":' + goldens.dump(alphabet)
        + ',\n"merges":' + goldens.dump(base["model"]["merges"]) + ',\n"groups":[\n'
        + ",\n".join(goldens.dump(x) for x in groups) + '],\n"names":'
        + goldens.dump(names) + "}\n")


if __name__ == "__main__":
    main()
