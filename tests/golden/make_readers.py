#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random models that read: embedders as Sentence Transformers saves them, and a
reranker of Qwen3-Reranker's kind. Their reference is what Sentence Transformers and
Hugging Face Transformers compute in float32 on the CPU.

    pip install torch transformers sentence-transformers   (in a venv outside the repository)
    make_readers.py

Writes tests/golden/readers/NAME."""
import json
import os
import shutil
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as models

OUT = "tests/golden/readers"
SOURCE = "tests/golden/models/qwen3-bf16"
CONFIG = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "intermediate_size": 96, "max_position_embeddings": 4096,
          "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 503,
          "pad_token_id": 504}
TEXTS = ["Hello, world", "The capital of France is Paris.", "a", "Zürich, 北京, 😀",
         "int main(void)\n{\n\treturn 0;\n}\n", "word " * 150,
         " ".join("%d and %d make %d." % (i, i + 1, 2 * i + 1) for i in range(200))]
QUERY = "What is the capital of France?"
DOCUMENTS = ["The capital of France is Paris.", "Cats sleep all day.",
             "France is a country in Europe. " * 12, "42", "Zürich liegt am See."]
INSTRUCT = "Find the passage that answers the question"


def tokenizer(folder, ends):
    """The tokenizer of SOURCE with the words yes and no; with ends it closes each text."""
    with open(os.path.join(SOURCE, "tokenizer.json")) as f:
        t = json.load(f)
    vocab, merges = t["model"]["vocab"], t["model"]["merges"]
    for left, right in (("y", "e"), ("ye", "s"), ("n", "o")):
        pair = [left, right] if isinstance(merges[0], list) else left + " " + right
        vocab[left + right] = len(vocab)
        merges.append(pair)
    for token in t["added_tokens"]:  # they follow the vocabulary, whatever the file says
        token["id"] = len(vocab) + t["added_tokens"].index(token)
    end = next(a for a in t["added_tokens"] if a["content"] == "<|endoftext|>")
    if ends:
        t["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<|endoftext|>": {
                "id": "<|endoftext|>", "ids": [end["id"]], "tokens": ["<|endoftext|>"]}}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(t, f, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(SOURCE, "tokenizer_config.json")) as f:
        settings = json.load(f)
    settings.pop("chat_template", None)  # Sentence Transformers would write texts as chats
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(settings, f)


def write(model, folder, ends):
    torch.manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.15 + (1 if "norm" in name else 0))
            p.copy_(p.to(torch.bfloat16).float())
    os.makedirs(folder, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer(folder, ends)


def keep(folder, name, reference):
    to = os.path.join(OUT, name)
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("README.md", ".git*", "*.jinja"))
    with open(os.path.join(to, "reference.json"), "w") as f:
        json.dump(reference, f, ensure_ascii=False)


def embedder(name, pooling, ends, body_alone):
    with tempfile.TemporaryDirectory() as tmp:
        base, whole = os.path.join(tmp, "base"), os.path.join(tmp, "whole")
        cls = hf.Qwen3Model if body_alone else hf.Qwen3ForCausalLM
        write(cls(hf.Qwen3Config(**CONFIG)), base, ends)
        body = models.Transformer(base, model_kwargs={"dtype": torch.float32})
        st = SentenceTransformer(modules=[
            body, models.Pooling(CONFIG["hidden_size"], pooling_mode=pooling),
            models.Normalize()], device="cpu")
        vectors = [st.encode([t], convert_to_numpy=True)[0].tolist() for t in TEXTS]
        st.save(whole)
        # Saved in float32: as it was, in bf16, and with the class and the names of base.
        for f in ("model.safetensors", "config.json", "tokenizer.json",
                  "tokenizer_config.json"):
            shutil.copy(os.path.join(base, f), whole)
        ids = hf.AutoTokenizer.from_pretrained(base)(TEXTS)["input_ids"]
        keep(whole, name, {"texts": TEXTS, "ids": ids, "vectors": vectors})
        print(name, sorted(os.listdir(whole)), [len(i) for i in ids])


def prompt(query, document, instruct):
    return ("<|im_start|>system\nJudge whether the Document meets the requirements based on "
            "the Query and the Instruct provided. Note that the answer can only be \"yes\" "
            "or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: " + instruct +
            "\n<Query>: " + query + "\n<Document>: " + document +
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def reranker(name):
    with tempfile.TemporaryDirectory() as tmp:
        write(hf.Qwen3ForCausalLM(hf.Qwen3Config(**CONFIG)), tmp, False)
        model = hf.Qwen3ForCausalLM.from_pretrained(tmp, dtype=torch.float32)
        tok = hf.AutoTokenizer.from_pretrained(tmp)
        yes, no = tok.convert_tokens_to_ids("yes"), tok.convert_tokens_to_ids("no")
        out = []
        for instruct in (None, INSTRUCT):
            scores = []
            for d in DOCUMENTS:
                text = prompt(QUERY, d, instruct or "Given a web search query, retrieve "
                              "relevant passages that answer the query")
                ids = tok(text, return_tensors="pt", add_special_tokens=False)
                logits = model(ids["input_ids"]).logits[0, -1].double()
                scores.append(torch.softmax(logits[[no, yes]], 0)[1].item())
            out.append({"instruct": instruct, "scores": scores})
        keep(tmp, name, {"query": QUERY, "documents": DOCUMENTS, "runs": out})
        print(name, yes, no, out)


embedder("last", "lasttoken", True, True)
embedder("mean", "mean", False, False)
reranker("reranker")
