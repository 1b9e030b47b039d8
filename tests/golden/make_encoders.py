#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random encoders as Sentence Transformers saves them, and what it computes with them
in float32 on the CPU: of EmbeddingGemma's, bge-m3's and nomic-embed's kinds, and a reranker
of bge-reranker-v2-m3's. Beside them tokenizers of these kinds, with what Hugging Face
`tokenizers` makes of awkward texts.

    pip install torch transformers sentence-transformers sentencepiece protobuf   (in a venv)
    tests/golden/make_encoders.py        from the top of the tree

Writes tests/golden/readers/NAME and tests/golden/tokenizer/encoders.json."""
import base64
import io
import json
import os
import re
import shutil
import tempfile

import sentencepiece as spm
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer import modules as models
from tokenizers import Regex, Tokenizer, decoders
from tokenizers import models as token_models
from tokenizers import normalizers, pre_tokenizers, processors, trainers

OUT = "tests/golden/readers"
SOURCE = "tests/golden/models/qwen3-bf16"
TEXTS = ["Hello, world", "a", "The capital of France is Paris.", "Zürich, 北京, 😀 ﬁne",
         "int main(void)\n{\n\treturn 0;\n}\n", "one two three four five six seven. " * 12]
QUERY = "What is the capital of France?"
DOCUMENTS = ["The capital of France is Paris.", "Cats sleep all day.", "42",
             "France is a country in Europe. " * 4, "Zürich liegt am See."]
AWKWARD = TEXTS + [
    "", " ", "   ", "a b", " a", "a ", "  two  spaces   three  ", "tabs\tand\nlines\r\n\n",
    "naïve café CAFÉ", "e\u0301\u0301 A\u030a ÅÅ", "İstanbul ıI ΣΑΣ ß", "你好,世界 안녕 한국",
    "ｆｕｌｌ ｗｉｄｔｈ １２", "ﬁ ﬂ ½ ² ™ …", "x\u00a0y\u3000z\u2028w\u200bv\u00adu\x00t\x07s",
    "\ufffd\ue000\u0378", "👋🏽 👨\u200d👩\u200d👧 🇩🇪x", "\u2581looks like a space", "x\u2581y \u2581z", "<s>a</s> <unk><mask> b",
    "[CLS] a [SEP] b[MASK]c", "don't stop-it (now)! $5 #a ~b `c` ^d |e «f» ¿g? —h",
    "supercalifragilisticexpialidocious" * 4, "0123456789 3.14e-10", "q" * 300, "क्षि ก็ שָׁלוֹם",
    "\r\n", "a\u0300\u0316 b\u0316\u0300", "Hello,  world . The  capital"]


def corpus():
    text = ""
    for name in ("README.md", "docs/tour.md", "docs/testing.md"):
        with open(name, encoding="utf-8") as f:
            text += f.read()
    return [l for l in text.splitlines() if l] + TEXTS


# --- tokenizers -----------------------------------------------------------------

def unigram():
    """Pieces with their scores, and a small table of normal forms."""
    rules = {"\u212b": "\u00c5", "A\u030a": "\u00c5", "e\u0301": "é", "ﬁ": "fi", "ﬂ": "fl", "½": "1/2",
             "…": "...", "\t": " ", "\n": " ", "\r": " ", "\u3000": " ", "\u200b": " ",
             "\u00ad": "", "１": "1", "２": "2", "ｆ": "f", "ｕ": "u", "\u0301": "",
             "\u200d": " ", "क्ष": "K", "🇩": "D"}
    with tempfile.TemporaryDirectory() as tmp:
        tsv = os.path.join(tmp, "rules.tsv")
        with open(tsv, "w", encoding="utf-8") as f:
            for a, b in rules.items():
                f.write("%s\t%s\n" % (" ".join("%X" % ord(c) for c in a),
                                      " ".join("%X" % ord(c) for c in b)))
        out = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=out, model_type="unigram",
            vocab_size=400, normalization_rule_tsv=tsv, character_coverage=0.998,
            num_threads=1, minloglevel=2)
    p = spm.SentencePieceProcessor(model_proto=out.getvalue())
    pieces = [(p.id_to_piece(i), round(p.get_score(i), 5)) for i in range(3, p.vocab_size())]
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto.FromString(out.getvalue())
    return pieces, proto.normalizer_spec.precompiled_charsmap


def xlm_tokenizer(pieces, charsmap, kind="words"):
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces
    vocab.append(("<mask>", 0.0))
    t = Tokenizer(token_models.Unigram(vocab, unk_id=3, byte_fallback=False))
    steps = [normalizers.Precompiled(charsmap)]
    if kind == "old":
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    if kind == "strip":
        steps += [normalizers.Strip(left=False, right=True),
                  normalizers.Replace(Regex(" {2,}"), "▁")]
    t.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    meta = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always",
                                    split=kind != "whole")
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta]) \
        if kind == "words" else meta
    t.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    t.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A", "</s>"], pair=["<s>", "$A", "</s>", "</s>", "$B", "</s>"],
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def bert_tokenizer(**how):
    t = Tokenizer(token_models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(**how)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##")
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=420, limit_alphabet=120, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.TemplateProcessing(
        single=["[CLS]", "$A", "[SEP]"], pair=["[CLS]", "$A", "[SEP]", "$B:1", "[SEP]:1"],
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def gemma_tokenizer():
    with open(os.path.join(SOURCE, "tokenizer.json")) as f:
        t = json.load(f)
    ids = {a["content"]: a["id"] for a in t["added_tokens"]}
    around = ["<|im_start|>", "<|im_end|>"]
    t["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": around[0], "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": around[1], "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                 {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in around}}
    return Tokenizer.from_str(json.dumps(t))


def tokenizer_goldens(pieces, charsmap):
    cases = {"xlm-" + k: xlm_tokenizer(pieces, charsmap, k)
             for k in ("words", "old", "strip", "whole")}
    cases["bert"] = bert_tokenizer()
    cases["bert-cased"] = bert_tokenizer(lowercase=False)
    cases["bert-raw"] = bert_tokenizer(clean_text=False, handle_chinese_chars=False,
                                       strip_accents=False, lowercase=True)
    out = [{"name": n, "tokenizer": json.loads(t.to_str()),
            "ids": [t.encode(x, add_special_tokens=True).ids for x in AWKWARD]}
           for n, t in cases.items()]
    for o in out:  # the vocabulary of the first of a kind serves all
        if o["name"] not in ("xlm-words",) and o["name"].startswith("xlm"):
            assert o["tokenizer"]["model"]["vocab"] == out[0]["tokenizer"]["model"]["vocab"]
            o["tokenizer"]["model"]["vocab"] = None
    with open("tests/golden/tokenizer/encoders.json", "w", encoding="utf-8") as f:
        json.dump({"texts": AWKWARD, "cases": out}, f, ensure_ascii=False,
                  separators=(",", ":"))
        f.write("\n")


# --- models ---------------------------------------------------------------------

# The names that nomic-embed's own config.json has, and what stands beside them there.
NOMIC_NAMES = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer",
               "num_attention_heads": "n_head", "intermediate_size": "n_inner",
               "max_position_embeddings": "n_positions",
               "layer_norm_eps": "layer_norm_epsilon"}
NOMIC_ONLY = {"activation_function": "swiglu", "causal": False, "max_trained_positions": 2048,
              "mlp_fc1_bias": False, "mlp_fc2_bias": False, "parallel_block": False,
              "prenorm": False, "qkv_proj_bias": False, "rotary_emb_base": 1000,
              "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
              "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
              "scale_attn_weights": True, "use_rms_norm": False}


def publish(folder):
    """config.json as the published checkpoints of the kind have it."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        c = json.load(f)
    if c["model_type"] == "nomic_bert":
        c = {NOMIC_NAMES.get(k, k): v for k, v in c.items()
             if k not in ("hidden_act", "head_dim", "rope_parameters")}
        c.update(NOMIC_ONLY)
    if c["model_type"] == "gemma3_text":
        c["dtype"] = "float32"
    with open(path, "w") as f:
        json.dump(c, f, indent=1)
        f.write("\n")

def randomize(model):
    torch.manual_seed(11)
    with torch.no_grad():
        for name, p in model.named_parameters():
            one = "norm" in name.lower() and name.endswith("weight") and "Gemma" not in \
                type(model).__name__
            p.copy_(torch.randn_like(p) * 0.15 + (1 if one else 0))
            p.copy_(p.to(torch.bfloat16).float())


def save(model, tokenizer, folder, **special):
    os.makedirs(folder, exist_ok=True)
    randomize(model)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512,
                   **special}, f)


def keep(folder, name, reference):
    to = os.path.join(OUT, name)
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns(
        "README.md", ".git*", "*.jinja", "special_tokens_map.json"))
    publish(to)
    with open(os.path.join(to, "reference.json"), "w") as f:
        json.dump(reference, f, ensure_ascii=False)
    print(name, sorted(os.listdir(to)))


def embedder(name, model, tokenizer, pooling, dense=(), **special):
    with tempfile.TemporaryDirectory() as tmp:
        base, whole = os.path.join(tmp, "base"), os.path.join(tmp, "whole")
        save(model, tokenizer, base, **special)
        body = models.Transformer(base, model_kwargs={"dtype": torch.float32})
        width = body.get_embedding_dimension()
        parts = [body, models.Pooling(width, pooling_mode=pooling)]
        torch.manual_seed(3)
        for n in dense:
            parts.append(models.Dense(width, n, bias=False,
                                      activation_function=torch.nn.Identity()))
            width = n
        parts.append(models.Normalize())
        st = SentenceTransformer(modules=parts, device="cpu")
        vectors = [st.encode([t], convert_to_numpy=True)[0].tolist() for t in TEXTS]
        st.save(whole)
        for f in ("model.safetensors", "config.json", "tokenizer.json",
                  "tokenizer_config.json"):
            shutil.copy(os.path.join(base, f), whole)
        ids = hf.PreTrainedTokenizerFast(
            tokenizer_file=os.path.join(base, "tokenizer.json"))(TEXTS)["input_ids"]
        assert ids == st.tokenizer(TEXTS, add_special_tokens=True)["input_ids"] if \
            callable(getattr(st, "tokenizer", None)) else True
        keep(whole, name, {"texts": TEXTS, "ids": ids, "vectors": vectors})


def reranker(name, model, tokenizer, **special):
    with tempfile.TemporaryDirectory() as tmp:
        save(model, tokenizer, tmp, **special)
        ce = CrossEncoder(tmp, device="cpu", model_kwargs={"dtype": torch.float32})
        scores = [float(ce.predict([(QUERY, d)])[0]) for d in DOCUMENTS]
        print(scores)
        keep(tmp, name, {"query": QUERY, "documents": DOCUMENTS,
                         "runs": [{"instruct": None, "scores": scores}]})


def main():
    pieces, charsmap = unigram()
    tokenizer_goldens(pieces, charsmap)
    xlm, bert, gemma = xlm_tokenizer(pieces, charsmap), bert_tokenizer(), gemma_tokenizer()
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 48}
    roberta = hf.XLMRobertaConfig(
        **size, vocab_size=xlm.get_vocab_size(), max_position_embeddings=514,
        type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, num_labels=1)
    names = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>",
             "cls_token": "<s>", "unk_token": "<unk>", "pad_token": "<pad>",
             "mask_token": "<mask>"}
    embedder("gemma", hf.Gemma3TextModel(hf.Gemma3TextConfig(
        **size, vocab_size=512, num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16,
        max_position_embeddings=512, sliding_window=16, use_bidirectional_attention=True,
        layer_types=["sliding_attention", "full_attention"], pad_token_id=504)), gemma,
        "mean", dense=(48, 32), pad_token="<|endoftext|>")
    embedder("xlm", hf.XLMRobertaModel(roberta, add_pooling_layer=False), xlm, "cls", **names)
    embedder("nomic", hf.NomicBertModel(hf.NomicBertConfig(
        **size, vocab_size=bert.get_vocab_size() + 3, max_position_embeddings=512)), bert,
        "mean", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]",
        mask_token="[MASK]")
    embedder("bert", hf.BertModel(hf.BertConfig(
        **size, vocab_size=bert.get_vocab_size(), max_position_embeddings=512),
        add_pooling_layer=False), bert, "cls", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", unk_token="[UNK]", mask_token="[MASK]")
    reranker("xlm-reranker", hf.XLMRobertaForSequenceClassification(roberta), xlm, **names)


main()
