#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's side of peers.py, run in its own environment (llama-cpp-python, gguf).

    peers_llama.py make SHAPE FORMAT FILE [TOKENIZER]
                                               a GGUF file of random weights, with the
                                               tokenizer of a folder of Hugging Face
    peers_llama.py load FILE THREADS           prints seconds and bytes, as JSON
    peers_llama.py feed FILE THREADS IDS       decodes the tokens of the file IDS, each line
                                               a sequence of its own; weights stay mapped.
                                               Prints tokens a second, without the first
    peers_llama.py run FILE THREADS [mapped]   reads names of cases from stdin and prints
                                               tokens a second for each, on lines; mapped:
                                               weights stay in the mapped file, unpacked

SHAPE is JSON: layers, d, heads, kv_heads, head_dim, ffn, experts, used, vocab, tied;
context: tokens (40960); outliers: norm weights are spread, and one of a hundred is large;
signs: half of the blocks' scales are negative, so that weights have no mean. With a mean all
tokens choose the same experts.
delta: {k_heads, v_heads, dim, conv, every}: layers but each every'th are gated delta nets, as in
Qwen3.5; shared: rows of a shared expert.
zipf: experts are chosen by Zipf's law, each layer in an order of its own (q4_0 with signs only).
FORMAT is bf16 or one of BLOCKS. Cases: prefill512, prefill4096, decode, decode4096,
decode16384, batch8."""
import ctypes
import json
import os
import resource
import sys
import time


# Of GGUF's formats: weights and bytes of a block, and where its float16 scales stand,
# each with what makes random codes of deviation 1 (or takes their mean off).
BLOCKS = {
    "q4_0": (32, 18, {0: 1 / 4.6}),
    "q5_0": (32, 22, {0: 1 / 9.2}),
    "q8_0": (32, 34, {0: 1 / 74}),
    "iq4_nl": (32, 18, {0: 1 / 73}),
    "q2_k": (256, 84, {80: 1 / 14, 82: 1.5 / 14}),
    "q3_k": (256, 110, {108: 1 / 42}),
    "q4_k": (256, 144, {0: 1 / 240, 2: 7.5 / 240}),
    "q5_k": (256, 176, {0: 1 / 490, 2: 15.5 / 490}),
    "q6_k": (256, 210, {208: 1 / 1370}),
    "iq4_xs": (256, 136, {0: 1 / 1350}),
}


# With zipf: the size of a token's numbers, to which a layer adds about 1; and the deviation of
# the routers' normal noise. With 1.8 the most used 10, 25 and 50 % of 128 experts get 0.48,
# 0.70 and 0.86 of the uses, 8 a token. Zipf's law itself, drawn without repeats: 0.51, 0.70, 0.85.
LARGE, NOISE = 16, 1.8


def add_tokenizer(w, folder, n_vocab):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../ctl"))
    import gguf_file as g
    add = {g.U32: w.add_uint32, g.F32: w.add_float32, g.STRING: w.add_string}
    for name, kind, value in g.tokenizer_keys(folder, n_vocab):
        (w.add_array if isinstance(kind, tuple) else add[kind])(name, value)


def add_delta(w, shape, delta):
    w.add_expert_shared_feed_forward_length(shape["shared"])
    w.add_ssm_conv_kernel(delta["conv"])
    w.add_ssm_inner_size(delta["v_heads"] * delta["dim"])
    w.add_ssm_state_size(delta["dim"])
    w.add_ssm_time_step_rank(delta["v_heads"])
    w.add_ssm_group_count(delta["k_heads"])
    w.add_full_attention_interval(delta["every"])
    w.add_rope_dimension_count(shape["head_dim"] // 4)
    w.add_rope_dimension_sections([11, 11, 10, 0])


def make(shape, fmt, path, tokenizer=None):
    import gguf
    import numpy
    rng = numpy.random.default_rng(1)
    moe = shape["experts"] > 0
    delta = shape.get("delta")
    w = gguf.GGUFWriter(path, "qwen35moe" if delta else "qwen3moe" if moe else "qwen3")
    w.add_context_length(shape.get("context", 40960))
    w.add_embedding_length(shape["d"])
    w.add_block_count(shape["layers"])
    w.add_feed_forward_length(shape["ffn"])
    w.add_head_count(shape["heads"])
    w.add_head_count_kv(shape["kv_heads"])
    w.add_key_length(shape["head_dim"])
    w.add_value_length(shape["head_dim"])
    w.add_rope_freq_base(1e6)
    w.add_layer_norm_rms_eps(1e-6)
    if moe:
        w.add_expert_count(shape["experts"])
        w.add_expert_used_count(shape["used"])
        w.add_expert_feed_forward_length(shape["ffn"])
    if delta:
        add_delta(w, shape, delta)
    w.add_vocab_size(shape["vocab"])
    if tokenizer:
        add_tokenizer(w, tokenizer, shape["vocab"])
    else:
        w.add_tokenizer_model("no_vocab")

    def norm(name, n):
        scale = numpy.ones(n, dtype=numpy.float32)
        if shape.get("outliers"): # as trained models have them
            scale = numpy.exp(0.5 * rng.standard_normal(n)).astype(numpy.float32)
            scale[rng.random(n) < 0.01] *= 8
        w.add_tensor(name, scale)

    def weight(name, *dims, change=None):
        k = dims[-1]
        dev = k ** -0.5
        rows = int(numpy.prod(dims[:-1]))
        if fmt == "bf16":
            f = rng.standard_normal((rows, k), dtype=numpy.float32) * dev
            raw = (f.view(numpy.uint32) >> 16).astype(numpy.uint16)
            w.add_tensor(name, raw.reshape(dims).view(numpy.uint8),
                         raw_dtype=gguf.GGMLQuantizationType.BF16)
            return
        n, size, scales = BLOCKS[fmt]
        blocks = rng.integers(0, 256, (rows, k // n, size), dtype=numpy.uint8)
        for at, factor in scales.items():
            blocks[:, :, at:at + 2] = numpy.frombuffer(
                numpy.float16(dev * factor).tobytes(), dtype=numpy.uint8)
            if shape.get("signs"):
                blocks[:, :, at + 1] ^= rng.integers(0, 2, blocks.shape[:2],
                                                     dtype=numpy.uint8) << 7
        if change and shape.get("zipf"):
            change(blocks)
        w.add_tensor(name, blocks.reshape(*dims[:-1], k // n * size),
                     raw_dtype=gguf.GGMLQuantizationType[fmt.upper()])

    d, nq = shape["d"], shape["heads"] * shape["head_dim"]

    # Zipf's law needs a router with a constant: the first number of each token is one, and no
    # layer adds to it. The others come from the token more than from the layers, so that their
    # size changes little, too.
    def to_one(blocks):
        scales = blocks[:, :, :2].copy().view(numpy.float16)
        blocks[:, :, :2] = (scales * (LARGE * d ** 0.5)).view(numpy.uint8)
        blocks[:, 0, :2] = numpy.frombuffer(numpy.float16(LARGE / 7).tobytes(), numpy.uint8)
        blocks[:, 0, 2:] = 0x88   # zeros …
        blocks[:, 0, 2] = 0x8F    # … but for the first: 7

    def silence(blocks):
        blocks[::d, :, :2] = 0    # row 0 of each matrix

    # Float32, but numbers of bf16: a converter's input is bf16.
    def router(e):
        return (wide_router(e).view(numpy.uint32) & 0xFFFF0000).view(numpy.float32)

    def wide_router(e):
        if not shape.get("zipf"):
            return rng.standard_normal((e, d), dtype=numpy.float32) * d ** -0.5
        g = rng.standard_normal((e, d), dtype=numpy.float32) * (NOISE * d ** -0.5)
        g[:, 0] = -numpy.log(1 + rng.permutation(e))
        return g

    nkv, f, e = shape["kv_heads"] * shape["head_dim"], shape["ffn"], shape["experts"]
    weight("token_embd.weight", shape["vocab"], d, change=to_one)
    norm("output_norm.weight", d)
    if not shape["tied"]:
        weight("output.weight", shape["vocab"], d)

    def attention(b):
        for name in ("attn_q_norm", "attn_k_norm"):
            norm(b + name + ".weight", shape["head_dim"])
        weight(b + "attn_q.weight", nq * (2 if delta else 1), d)
        weight(b + "attn_k.weight", nkv, d)
        weight(b + "attn_v.weight", nkv, d)
        weight(b + "attn_output.weight", d, nq, change=silence)

    def delta_net(b):
        heads, nv = delta["v_heads"], delta["v_heads"] * delta["dim"]
        channels = 2 * delta["k_heads"] * delta["dim"] + nv
        weight(b + "attn_qkv.weight", channels, d)
        weight(b + "attn_gate.weight", nv, d)
        weight(b + "ssm_out.weight", d, nv)
        for name in ("ssm_alpha", "ssm_beta"):
            w.add_tensor(b + name + ".weight", router(heads))
        w.add_tensor(b + "ssm_conv1d.weight", rng.standard_normal(
            (channels, delta["conv"]), dtype=numpy.float32) * delta["conv"] ** -0.5)
        w.add_tensor(b + "ssm_dt.bias", numpy.zeros(heads, dtype=numpy.float32))
        w.add_tensor(b + "ssm_a", -numpy.ones(heads, dtype=numpy.float32))
        norm(b + "ssm_norm.weight", delta["dim"])

    def shared(b):
        w.add_tensor(b + "ffn_gate_inp_shexp.weight", router(1)[0])
        weight(b + "ffn_gate_shexp.weight", shape["shared"], d)
        weight(b + "ffn_up_shexp.weight", shape["shared"], d)
        weight(b + "ffn_down_shexp.weight", d, shape["shared"])

    for i in range(shape["layers"]):
        b = "blk.%d." % i
        for name in ("attn_norm", "post_attention_norm" if delta else "ffn_norm"):
            norm(b + name + ".weight", d)
        (delta_net if delta and (i + 1) % delta["every"] else attention)(b)
        if shape.get("shared"):
            shared(b)
        if moe:
            w.add_tensor(b + "ffn_gate_inp.weight", router(e))
        tail, lead = ("_exps.weight", (e,)) if moe else (".weight", ())
        weight(b + "ffn_gate" + tail, *lead, f, d)
        weight(b + "ffn_up" + tail, *lead, f, d)
        weight(b + "ffn_down" + tail, *lead, d, f, change=silence)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Peer:
    def __init__(self, path, threads, mapped=False):
        import llama_cpp
        self.l = l = llama_cpp
        self.silent = l.llama_log_callback(lambda level, text, user: None)
        l.llama_log_set(self.silent, ctypes.c_void_p(0))
        begin = time.monotonic()
        p = l.llama_model_default_params()
        if mapped:
            p.use_extra_bufts = False
        self.model = l.llama_model_load_from_file(path.encode(), p)
        # One context for a sequence alone and one for eight: a context's cells are
        # shared out evenly between its sequences.
        self.one = self.context(threads, 1, 1024 if mapped else 8192)
        self.load_s = time.monotonic() - begin
        self.eight = None
        self.is_long = False
        self.at = 0  # tokens that `one` has of the longest prompt
        self.threads = threads
        self.n_vocab = l.llama_vocab_n_tokens(l.llama_model_get_vocab(self.model))
        self.batch = l.llama_batch_init(512, 0, 1)

    def context(self, threads, n_seqs, n_ctx):
        p = self.l.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = n_ctx, 512, 512, n_seqs
        p.n_threads = p.n_threads_batch = threads
        return self.l.llama_init_from_model(self.model, p)

    def feed(self, ctx, tokens, seqs, positions, all_logits=False):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, t in enumerate(tokens):
            batch.token[i] = t
            batch.pos[i] = positions[i]
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = seqs[i]
            batch.logits[i] = all_logits or i == len(tokens) - 1
        if self.l.llama_decode(ctx, batch) != 0:
            raise SystemExit("llama_decode failed")
        self.l.llama_synchronize(ctx)

    def prefill(self, ctx, n, seq=0):
        for at in range(0, n, 512):
            m = min(512, n - at)
            self.feed(ctx, [(at + i) * 7919 % self.n_vocab for i in range(m)], [seq] * m,
                      list(range(at, at + m)))

    def clear(self, ctx):
        self.at = 0
        self.l.llama_memory_clear(self.l.llama_get_memory(ctx), True)

    def time_prefill(self, n):
        self.clear(self.one)
        begin = time.monotonic()
        self.prefill(self.one, n)
        return n / (time.monotonic() - begin)

    def prefill512(self):
        return self.time_prefill(512)

    def prefill4096(self):
        return self.time_prefill(4096)

    def decode(self, n=32, depth=16):
        if self.at == depth: # what the last run fed is taken away
            self.l.llama_memory_seq_rm(self.l.llama_get_memory(self.one), 0, depth, -1)
        else:
            self.clear(self.one)
            self.prefill(self.one, depth)
        self.at = depth
        begin = time.monotonic()
        for i in range(n):
            self.feed(self.one, [i * 104729 % self.n_vocab], [0], [depth + i])
        return n / (time.monotonic() - begin)

    def feed_line(self, ids):
        self.clear(self.one)
        begin = time.monotonic()
        for i, t in enumerate(ids):
            self.feed(self.one, [t], [0], [i])
        return time.monotonic() - begin

    def decode4096(self):
        return self.decode(16, 4096)

    def decode16384(self):
        if not self.is_long: # a context of its own, since a long one takes much memory
            self.l.llama_free(self.one)
            self.one, self.is_long, self.at = self.context(self.threads, 1, 17408), True, 0
        return self.decode(16, 16384)

    def batch8(self):
        if not self.eight:
            self.eight = self.context(self.threads, 8, 4096)
        self.clear(self.eight)
        for s in range(8):
            self.prefill(self.eight, 16, s)
        begin = time.monotonic()
        for i in range(24):
            self.feed(self.eight, [(i * 8 + s) * 104729 % self.n_vocab for s in range(8)],
                      list(range(8)), [16 + i] * 8, True)
        return 8 * 24 / (time.monotonic() - begin)


def main():
    if sys.argv[1] == "make":
        make(json.loads(sys.argv[2]), *sys.argv[3:])
        return
    is_fed = sys.argv[1] == "feed"
    peer = Peer(sys.argv[2], int(sys.argv[3]), is_fed or "mapped" in sys.argv[4:])
    if is_fed:
        with open(sys.argv[4]) as f:
            first, *lines = [[int(i) for i in line.split(",")] for line in f]
        peer.feed_line(first)
        print(sum(map(len, lines)) / sum(map(peer.feed_line, lines)))
        return
    if sys.argv[1] == "load":
        peer.decode(1)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"load": peer.load_s, "rss": rss}))
        return
    for case in sys.stdin:
        print(getattr(peer, case.strip())(), flush=True)


if __name__ == "__main__":
    main()
