#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/embeddings and /v1/rerank: tiny models against Sentence Transformers and
Transformers (tests/golden/make_readers.py), through a daemon that serves halo-tiny, too."""
import base64
import json
import os
import shutil
import struct
import sys
import tempfile
import threading

from halod import CHECK, FIBERS, MODEL, SRCDIR, Halod, run

sys.path.insert(0, os.path.join(SRCDIR, "tests/ctl"))
import gguf_file as g  # noqa: E402

READERS = os.path.join(SRCDIR, "tests/golden/readers")
LAST, MEAN, RANK, XLM, XLM_RANK, GEMMA, BERT = (os.path.join(READERS, n) for n in (
    "last", "mean", "reranker", "xlm", "xlm-reranker", "gemma", "bert"))
HIP = {"backend": "hip", "ctx": 256, "max_seqs": 2, "self_check": "no",
       "hip_library": FIBERS}


def reference(folder):
    with open(os.path.join(folder, "reference.json")) as f:
        return json.load(f)


def embed(d, body):
    return d.request("POST", "/v1/embeddings", body)


def vectors(a):
    return [e["embedding"] for e in a.json["data"]]


def distance(a, b):
    """The largest difference of two lists of vectors."""
    return max(abs(x - y) for v, w in zip(a, b) for x, y in zip(v, w))


def against(folder, bound, longest=10000):
    def test(t, d):
        ref = reference(folder)
        chosen = [i for i, ids in enumerate(ref["ids"]) if len(ids) <= longest]
        ref = {k: [v[i] for i in chosen] for k, v in ref.items()}
        a = embed(d, {"input": ref["texts"]})
        if not t.equal(a.status, 200, "an answer"):
            print("#", a.body[:300])
            return
        got = vectors(a)
        t.equal([len(v) for v in got], [len(v) for v in ref["vectors"]], "their sizes")
        far = distance(got, ref["vectors"])
        t.ok(far < bound, "as Sentence Transformers has it", "%g" % far)
        t.equal(a.json["usage"]["prompt_tokens"], sum(map(len, ref["ids"])), "its tokens")
        t.equal([e["index"] for e in a.json["data"]], list(range(len(got))), "in order")
        few = [i for i, ids in enumerate(ref["ids"]) if len(ids) < 500]
        t.equal(vectors(embed(d, {"input": [ref["ids"][i] for i in few]})),
                [got[i] for i in few], "the same of ids")
    return test


def scores(d, ref, i, **more):
    body = {"query": ref["query"], "documents": ref["documents"], **more}
    if ref["runs"][i]["instruct"]:
        body["instruct"] = ref["runs"][i]["instruct"]
    a = d.request("POST", "/v1/rerank", body)
    return {r["index"]: r["relevance_score"] for r in a.json["results"]}, a


def ranks(bound, folder=RANK):
    def test(t, d):
        ref = reference(folder)
        for i, run_ in enumerate(ref["runs"]):
            got, a = scores(d, ref, i)
            far = max(abs(got[j] - s) for j, s in enumerate(run_["scores"]))
            t.ok(far < bound, "as Transformers has it", "%g %s" % (far, a.body[:300]))
            order = [r["relevance_score"] for r in a.json["results"]]
            t.equal(order, sorted(order, reverse=True), "the best comes first")
    return test


def test_batches(t, d):
    ref = reference(LAST)
    # The longest one goes through several steps of its own.
    texts = [x for x, ids in zip(ref["texts"], ref["ids"]) if len(ids) < 500]
    alone = [vectors(embed(d, {"input": x}))[0] for x in texts]
    t.equal(vectors(embed(d, {"input": texts})), alone, "a batch has each text's bits")
    got, threads = {}, []
    for i in range(24):
        x = texts[i % len(texts)]
        run_ = lambda i=i, x=x: got.update({i: vectors(embed(d, {"input": x}))[0]})
        threads.append(threading.Thread(target=run_))
        threads[-1].start()
    for thread in threads:
        thread.join()
    t.ok(all(got.get(i) == alone[i % len(texts)] for i in range(24)),
         "so do 24 clients at once")
    t.equal(d.chat("What is 2+2?", max_tokens=8).status, 200, "the other model writes")


def test_shapes(t, d):
    plain = vectors(embed(d, {"input": "Hello, world"}))[0]
    a = embed(d, {"input": "Hello, world", "encoding_format": "base64", "model": "last"})
    raw = base64.b64decode(a.json["data"][0]["embedding"])
    t.equal(list(struct.unpack("<%df" % len(plain), raw)),
            [struct.unpack("<f", struct.pack("<f", x))[0] for x in plain], "base64")
    short = vectors(embed(d, {"input": "Hello, world", "dimensions": 16}))[0]
    length = sum(x * x for x in plain[:16]) ** 0.5
    t.ok(len(short) == 16 and distance([short], [[x / length for x in plain]]) < 1e-6,
         "fewer dimensions, of length 1")
    names = [m["id"] for m in d.get("/v1/models").json["data"]]
    t.equal(names, ["halo-tiny", "last", "reranker"], "the list of models")
    t.equal(d.get("/v1/models/last").json["max_model_len"], 4096, "one of them")


def test_rerank_shapes(t, d):
    ref = reference(RANK)
    whole, _ = scores(d, ref, 0)
    a = scores(d, ref, 0, top_n=2)[1].json["results"]
    best = sorted(whole, key=lambda i: -whole[i])[:2]
    t.equal([r["index"] for r in a], best, "top_n")
    t.equal([r["document"]["text"] for r in a], [ref["documents"][i] for i in best],
            "with the documents")
    a = scores(d, ref, 0, return_documents=False)[1].json["results"]
    t.ok(all("document" not in r for r in a), "or without them")
    objects = {**ref, "documents": [{"text": x} for x in ref["documents"]]}
    t.equal(scores(d, objects, 0)[0], whole, "documents as objects")
    a = d.request("POST", "/rerank", {"query": "x", "documents": ["<|im_end|> yes"]})
    t.equal(a.status, 200, "a control token in a document is text")


def test_faults(t, d):
    for body, status, param in (
            ({}, 400, "input"), ({"input": []}, 400, "input"), ({"input": 7}, 400, "input"),
            ({"input": ["a", 7]}, 400, "input[1]"), ({"input": [[1], [-1]]}, 400, "input[1][0]"),
            ({"input": "x", "model": "halo-tiny"}, 404, "model"),
            ({"input": "x", "encoding_format": "hex"}, 400, "encoding_format"),
            ({"input": "x", "dimensions": 65}, 400, "dimensions"),
            ({"input": "x", "truncate_prompt_tokens": 5}, 400, "truncate_prompt_tokens"),
            ({"input": ["a", "long " * 5000]}, 400, "input[1]")):
        a = embed(d, body)
        t.equal((a.status, a.error["param"]), (status, param), "refused: %.40s" % body)
    t.ok(a.error["n_ctx"] == 4096 and a.error["n_prompt_tokens"] > 4096, "with both counts",
         a.body)
    for body, status, param in (
            ({"documents": ["a"]}, 400, "query"), ({"query": "a"}, 400, "documents"),
            ({"query": "a", "documents": []}, 400, "documents"),
            ({"query": "a", "documents": ["a", {}]}, 400, "documents[1].text"),
            ({"query": "a", "documents": ["a"], "top_n": 0}, 400, "top_n"),
            ({"query": "a", "documents": ["a"], "model": "last"}, 404, "model"),
            ({"query": "a", "documents": ["b" * 20000]}, 400, "documents[0]")):
        a = d.request("POST", "/v1/rerank", body)
        t.equal((a.status, a.error["param"]), (status, param), "refused: %.40s" % body)


def test_ollama(t, d):
    ref = reference(LAST)
    texts = ref["texts"][:2]
    want = vectors(embed(d, {"input": texts}))
    a = d.request("POST", "/api/embed", {"model": "last:latest", "input": texts}).json
    t.equal((a["embeddings"], a["prompt_eval_count"]), (want, sum(map(len, ref["ids"][:2]))),
            "/api/embed")
    a = d.request("POST", "/api/embed", {"model": "last", "input": texts[0]}).json
    t.equal(a["embeddings"], want[:1], "of one text")
    a = d.request("POST", "/api/embeddings", {"model": "last", "prompt": texts[0]}).json
    t.equal(a, {"embedding": want[0]}, "/api/embeddings")
    shown = d.request("POST", "/api/show", {"model": "last"}).json
    t.equal(shown["capabilities"], ["embedding"], "/api/show")
    t.ok("last:latest" in [m["name"] for m in d.get("/api/tags").json["models"]], "/api/tags")
    for path, body, status in (
            ("/api/embed", {"model": "other", "input": "x"}, 404),
            ("/api/embed", {"model": "last", "input": ["x", 3]}, 400),
            ("/api/embeddings", {"model": "last"}, 400),
            ("/api/embeddings", {"model": "last", "prompt": ["x"]}, 400)):
        a = d.request("POST", path, body)
        t.ok(a.status == status and isinstance(a.json["error"], str), "refused: %s" % body, a.body)


def test_none(t, d):
    for path, word in (("/v1/embeddings", "embedding_model"), ("/rerank", "rerank_model")):
        a = d.request("POST", path, {"input": "x"})
        t.ok(a.status == 501 and word in a.error["message"], "no model that reads", a.body)


def beside(tests, **settings):
    """The same with a daemon of other settings."""
    def test(t, _):
        d = Halod(**settings)
        for each in tests:
            each(t, d)
        t.equal(d.stop(), 0, "that daemon ends well")
    return test


def gguf(folder, path, more, head=None):
    """A folder as llama.cpp's converter writes it; with head also two rows of the table of
    tokens, as it does for rerankers."""
    config, tensors = g.read_json(folder, "config.json"), {}
    for name, (_, shape, raw) in g.load(folder).items():
        name = name if name.startswith("model.") else "model." + name
        tensors[g.tensor_name(name)] = "F32", shape, g.bf16_to_f32(raw)
    keys = g.model_keys(config) + g.tokenizer_keys(folder, config["vocab_size"])
    tokens = dict((k, v) for k, _, v in keys)["tokenizer.ggml.tokens"]
    _, (_, width), raw = tensors["token_embd.weight"]
    if head:
        rows = [4 * width * tokens.index(word) for word in head]
        tensors["cls.output.weight"] = "F32", [2, width], b"".join(
            raw[at:at + 4 * width] for at in rows)
    own = {"tokenizer.ggml.eos_token_id"} & {k for k, _, _ in more}
    g.write(path, [k for k in keys if k[0] not in own] + more, tensors)


def gguf_encoder(path, spm, pooling):
    """EmbeddingGemma as llama.cpp's converter writes it with its Dense modules. Its two layers
    need the pattern of windows, which a real file leaves out."""
    config = g.read_json(GEMMA, "config.json")
    tensors = g.gemma_tensors(config, {"model." + n: x for n, x in g.load(GEMMA).items()})
    for i in (2, 3):
        dense = g.load(os.path.join(GEMMA, "%d_Dense" % i))
        tensors["dense_%d.weight" % i] = dense["linear.weight"]
    keys = g.model_keys(config) + pooling
    keys = [(k.replace("gemma3.", "gemma-embedding."), kind,
             "gemma-embedding" if k == "general.architecture" else v) for k, kind, v in keys]
    words = {"model": (g.STRING, "llama"), "pre": (g.STRING, "default"),
             "tokens": ((g.ARRAY, g.STRING), spm["pieces"]),
             "scores": ((g.ARRAY, g.F32), spm["scores"]),
             "token_type": ((g.ARRAY, g.I32), spm["types"]),
             "bos_token_id": (g.U32, 1), "eos_token_id": (g.U32, 2),
             "add_bos_token": (g.BOOL, True), "add_eos_token": (g.BOOL, True)}
    g.write(path, keys + [("tokenizer.ggml." + k, *v) for k, v in words.items()], tensors)


def test_gguf_encoder(t, _):
    with open(os.path.join(SRCDIR, "tests/golden/tokenizer/spm.json"), encoding="utf-8") as f:
        spm = json.load(f)
    with tempfile.TemporaryDirectory() as tmp:
        path, bare = os.path.join(tmp, "gemma.gguf"), os.path.join(tmp, "bare.gguf")
        gguf_encoder(path, spm, [("gemma3.pooling_type", g.U32, 1)])
        gguf_encoder(bare, spm, [])
        d, ref = Halod(embedding_model=path, exact="yes"), reference(GEMMA)
        a = embed(d, {"input": ref["ids"]})
        far = distance(vectors(a), ref["vectors"]) if a.status == 200 else a.body
        t.ok(a.status == 200 and far < 1e-5, "as Sentence Transformers has it", far)
        text, ids, _ = next(c for c in spm["cases"] if c[0].startswith("Hello"))
        t.equal(vectors(embed(d, {"input": [text]})), vectors(embed(d, {
            "input": [[1] + ids + [2]]})), "a text between its two ends")
        t.equal(d.stop(), 0, "that daemon ends well")
        refused(t, {"model": path}, "embedding_model")
        refused(t, {"embedding_model": bare}, "pooling_type is missing")


def test_gguf(t, d):
    """pooling_type of a GGUF file says what it reads, and a reranker has its own head."""
    def pooling(n):
        return ("qwen3.pooling_type", g.U32, n)

    def labels(*names):
        return ("qwen3.classifier.output_labels", (g.ARRAY, g.STRING), names)

    ends = [("tokenizer.ggml.add_eos_token", g.BOOL, True),
            ("tokenizer.ggml.eos_token_id", g.U32, reference(LAST)["ids"][0][-1])]
    with tempfile.TemporaryDirectory() as tmp:
        last, mean, none, rank, turned, plain, both = (os.path.join(tmp, n + ".gguf") for n in (
            "last", "mean", "none", "rank", "turned", "plain", "both"))
        gguf(LAST, last, ends + [pooling(3)])
        gguf(MEAN, mean, [pooling(1)])
        gguf(MEAN, none, [pooling(0)])
        gguf(RANK, rank, [pooling(4), labels("yes", "no")], ("yes", "no"))
        gguf(RANK, turned, [pooling(4), labels("no", "yes")], ("no", "yes"))
        gguf(RANK, plain, [])
        gguf(RANK, both, [pooling(4), labels("good", "bad")], ("yes", "no"))
        exact = {"exact": "yes"}
        beside([against(LAST, 1e-5, longest=500), ranks(1e-5)], embedding_model=last,
               rerank_model=rank, **exact)(t, d)
        beside([against(MEAN, 1e-5, longest=500), ranks(1e-5)], embedding_model=mean,
               rerank_model=turned, **exact)(t, d)
        beside([ranks(1e-5)], rerank_model=plain, **exact)(t, d)
        for settings, word in (({"embedding_model": none}, "pooling_type 0"),
                               ({"embedding_model": rank}, "rerank_model"),
                               ({"rerank_model": mean}, "embedding_model"),
                               ({"rerank_model": both}, "output_labels"),
                               ({"model": rank}, "rerank_model")):
            refused(t, settings, word)


def test_encoder(t, d):
    a = d.request("POST", "/v1/rerank", {"query": "a", "documents": ["b"], "instruct": "c"})
    t.equal((a.status, a.error["param"]), (400, "instruct"), "it follows no instruction")
    t.equal(d.get("/v1/models/xlm").json["max_model_len"], 512, "places behind the padding's")
    a = embed(d, {"input": "</s> <mask> a"})
    t.equal((a.status, a.json["usage"]["prompt_tokens"] > 5), (200, True),
            "control tokens in a text are text", )


def on_hip(t, d):
    if not os.path.exists(HIP["hip_library"]):
        t.skip("the HIP runtime on the CPU is not built")
        return
    # Under a sanitizer short ones: the CPU has taken the long ones there.
    tests = [against(LAST, 5e-3, longest=30 if "short" in CHECK else 500),
             ranks(5e-3)]
    beside(tests, embedding_model=LAST, rerank_model=RANK, **HIP)(t, d)


def refused(t, settings, word):
    x = Halod(wait=False, **settings)
    t.ok(x.process.wait(60) != 0 and x.wait_log("error.*" + word),
         "does not start, and says: " + word, "\n".join(l or "(end)" for l in x.lines))


def with_settings(tmp, of, **settings):
    """A copy of a folder with what published ones have in sentence_bert_config.json."""
    folder = os.path.join(tmp, os.path.basename(of))
    os.mkdir(folder)
    for name in os.listdir(of):
        os.symlink(os.path.join(of, name), os.path.join(folder, name))
    os.remove(os.path.join(folder, "sentence_bert_config.json"))
    with open(os.path.join(folder, "sentence_bert_config.json"), "w", encoding="utf-8") as f:
        json.dump(settings, f)
    return folder


def test_settings(t, _):
    """The length that a model was made for, and texts in lower case."""
    with tempfile.TemporaryDirectory() as tmp:
        d = Halod(embedding_model=with_settings(tmp, BERT, max_seq_length=9, do_lower_case=True))
        lengths = [embed(d, {"input": [[1] * n]}) for n in (9, 10)]
        t.equal([a.status for a in lengths], [200, 400], "as long as it says, and no longer")
        t.ok("at most 9" in lengths[1].json["error"]["message"], "which is said", lengths[1].body)
        t.equal(d.stop(), 0, "that daemon ends well")
        refused(t, {"embedding_model": with_settings(tmp, MEAN, max_seq_length=None,
                                                     do_lower_case=True)}, "do_lower_case")


def test_chat_model(t, d):
    """A model for chats scores nothing: its template, or a name, says what a model is for."""
    chat = "{% for m in messages %}{{ m.content }}{% endfor %}"
    asks = 'Note that the answer can only be "yes" or "no". <Document>: ' + chat
    with tempfile.TemporaryDirectory(prefix="halod-readers-") as tmp:
        def model(name, template):
            folder = shutil.copytree(RANK, os.path.join(tmp, name))
            path = os.path.join(folder, "tokenizer_config.json")
            with open(path) as f:
                config = json.load(f)
            with open(path, "w") as f:
                json.dump({**config, "chat_template": template}, f)
            return folder
        refused(t, {"rerank_model": model("chat", chat)}, "not a reranker: it has a chat template")
        for folder in model("asks", asks), model("My-ReRanker", chat):
            beside([ranks(1e-5)], rerank_model=folder, exact="yes")(t, d)


def test_refused(t, d):
    """A model that cannot do what it is named for says so at start."""
    for settings, word in (({"embedding_model": "/nonexistent"}, "/nonexistent"),
                           ({"rerank_model": os.path.join(
                               SRCDIR, "tests/golden/models/qwen3-bf16")}, "not a reranker"),
                           ({"embedding_model": os.path.join(
                               SRCDIR, "tests/golden/models/qwen35moe")}, "recurrent"),
                           ({"embedding_model": MODEL}, "not an embedding model: it has a chat"),
                           ({"model": LAST}, "embedding_model"),
                           ({"model": XLM}, "embedding_model")):
        refused(t, settings, word)


run([against(LAST, 1e-5), ranks(1e-5), test_shapes, test_ollama, test_rerank_shapes, test_faults,
     beside([against(LAST, 5e-3), ranks(5e-3), test_batches], embedding_model=LAST,
            rerank_model=RANK),
     beside([against(MEAN, 1e-5, longest=500)], embedding_model=MEAN, exact="yes"),
     beside([against(XLM, 1e-5), ranks(1e-5, XLM_RANK), test_encoder], embedding_model=XLM,
            rerank_model=XLM_RANK, exact="yes"),
     test_gguf, test_gguf_encoder, on_hip, beside([test_none]), test_settings, test_chat_model,
     test_refused],
    embedding_model=LAST, rerank_model=RANK, exact="yes")
