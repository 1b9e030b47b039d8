#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl kernels: bench, tune, record, replay, on the HIP runtime of tests/hip-on-cpu."""
import glob
import json
import os
import re
import shutil
import tempfile

from tap import BUILD, CHECK, FIBERS, SRC, TINY, done, eq, haloctl, ok

LIB = ["--hip-library", FIBERS]
CODE = os.path.join(BUILD, "kernels/gfx1151.hsaco")
SHORT = "short" in CHECK  # under a sanitizer
# The C library keeps freed memory: a replay's blocks come and go.
os.environ["GLIBC_TUNABLES"] = ("glibc.malloc.mmap_threshold=4294967296:"
                                "glibc.malloc.trim_threshold=4294967296")


def bench_decode():
    """What a decode step does beside plain products: an int8 head, the best of the logits,
    gate and up with their norm and silu. The norm is part of the product for one and two
    tokens."""
    for part, args, group, launches in (
            ("head-int8", [], "0", 1), ("head-int8", ["-t", "2"], "0", 1),
            ("top", [], "0", 2), ("top", ["-t", "3"], "0", 2),
            ("ffn-up", [], "32", 2), ("ffn-up", ["-a", "t16y2w8c16", "-t", "3"], "32", 3),
            )[::3 if SHORT else 1]:
        code, out, err = haloctl("kernels", "bench", "--csv", "--cold-mb", "1", "-r", "1",
                                 "-m", "tiny", "-p", part, *args, *LIB)
        lines = out.decode().splitlines()
        rows = [dict(zip(lines[1].split(","), line.split(","))) for line in lines[2:]]
        ok(code == 0 and [(r["model"], r["part"], r["group"], r["launches"]) for r in rows] ==
           [("tiny", part, group, str(launches))] and
           all(float(rows[0][x]) > 0 for x in ("us", "percent_of_alone")),
           " ".join(["bench", part] + args), (out, err))


# Bytes of a weight (n, k), with its scales.
BYTES = {"int4": lambda n, k: n * (k / 2 + k / 32 * 2),
         "nvfp4": lambda n, k: n * (k / 2 + k / 16),
         "fp8": lambda n, k: n * k + -(-n // 128) * -(-k // 128) * 4,
         "q8_0": lambda n, k: n * k / 32 * 34}


def bench_formats():
    """Experts in several formats beside int4: bytes by the sizes of the shape, and the ratio
    of the two rates."""
    shapes = ([(256, 512)] * 2 + [(512, 256)]) * 2
    formats = ["int4", "nvfp4"] if SHORT else ["int4", "nvfp4", "fp8", "q8_0"]
    code, out, err = haloctl("kernels", "bench", "--csv", "--cold-mb", "1", "-r", "1", "-m",
                             "tiny", "-p", "experts", "-f",
                             ",".join(formats[::-1] + formats[-1:]), *LIB)
    lines = out.decode().splitlines()
    rows = [dict(zip(lines[1].split(","), line.split(","))) for line in lines[2:]]
    ok(code == 0 and rows[0]["format"] == "int4" and
       [r["format"] for r in rows[1:]] == formats[:0:-1], "formats, int4 first", (out, err))
    for r in rows:
        mb = sum(BYTES[r["format"]](n, k) for n, k in shapes) * 1e-6
        ratio = mb / float(r["us"]) / (float(rows[0]["mb"]) / float(rows[0]["us"]))
        ok(abs(float(r["mb"]) - mb) < 0.001, "bytes of " + r["format"], (r, mb))
        ok(abs(float(r["of_int4"]) - ratio) < 0.002 + 0.02 * ratio,
           "beside int4: " + r["format"], r)
    code, out, err = haloctl("kernels", "bench", "--cold-mb", "1", "-r", "1", "-m", "tiny",
                             "-p", "ffn-up,top", "-f", "q6_k", *LIB)
    words = [line.split() for line in out.decode().splitlines()[2:]]
    ok(code == 0 and words[0][3] == "format" and [w[1:4] for w in words[1:]] ==
       [["ffn-up", "1", "int4"], ["ffn-up", "1", "q6_k"]], "what has no format stays away",
       (out, err))
    for text in ("nvfp5", "q4_k,", ""):
        for more in (["bench", *LIB], ["report", "--code", CODE]):
            code, out, err = haloctl("kernels", *more, "-f", text)
            ok(code == 2 and "there is no format" in err and "iq2_xxs" in err,
               "%s refuses the format '%s'" % (more[0], text), err)


def bench():
    code, out, err = haloctl("kernels", "bench", "--csv", "--cold-mb", "1", "-r", "1",
                             "-m", "qwen3-30b-a3b", "-p", "norm", "-t", "1,3", *LIB)
    rows = [line.split(",") for line in out.decode().splitlines()]
    ok(code == 0 and [r[:3] for r in rows[2:]] ==
       [["qwen3-30b-a3b", "norm", "1"], ["qwen3-30b-a3b", "norm", "3"]], "bench", (out, err))
    ok(all(float(r[4]) > 0 and float(r[7]) > 0 and r[9] == "1" for r in rows[2:]),
       "times, and one launch", out)
    bench_decode()
    bench_formats()
    for args, word in ((["-t", "0"], "--tokens"), (["-g", "48"], "--group"),
                       (["-a", "none"], "none"), (["--hip-library", "/nonexistent.so"],
                                                  "nonexistent")):
        code, out, err = haloctl("kernels", "bench", *LIB, *args)
        ok(code == 2 and word in err, "bench refuses " + " ".join(args), err)


def tune(tmp):
    """A table names what is fastest; the backend takes it, and leaves out what is wrong."""
    table = os.path.join(tmp, "gfx1151.tune")
    with open(table, "w") as f:
        f.write("# a comment\nint4 1024 1024 t32y1w16c32\nint4 5 5 nothing\nnonsense\n"
                "linear-tiles 3\nlinear-tiles 99\nexpert-tiles 1\nexpert-tiles few\n"
                "moe-tile 768 2048 none\nmoe-tile 768 2048 m16n64\nmoe-up 768 2048 slim\n"
                "tile 4096 1024 m64n64 256\nmoe-tile 768 2048 m64n128\n"
                "tile 4096 1024 m64n64 0\nint4 1024 1024 t32y1w16c32 9\nmoe-tile 5 5 m64n128 1 2\n")
    model = os.path.join(tmp, "model")
    haloctl("synth", "-s", "qwen3-0.6b", "-l", "1", "-v", "3200", "-o", model)
    code, out, err = haloctl("generate", "--model", model, "--backend", "hip", *LIB,
                             "--hip-kernels", tmp, "--raw", "-p", "Once", "-n", "2")
    left_out = [n for n in range(1, 17) if "gfx1151.tune:%d: not" % n in err]
    ok(code == 0 and left_out == [3, 4, 6, 7, 8, 9, 11, 14, 15, 16],
       "wrong lines of a table are left out with a word", err)
    folder = os.path.join(tmp, "tuned")
    table = os.path.join(folder, "gfx1151.tune")
    os.mkdir(folder)
    code, out, err = haloctl("kernels", "tune", "-m", "tiny", "-p", "experts",
                             "-t", "17,20", "--cold-mb", "1", "-r", "1", "-o", table, *LIB)
    ok(code == 0, "experts are tuned", (out, err))
    with open(table) as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    tiles = [line.split(":") for line in out.decode().splitlines() if "moe-tile" in line]
    tiles = [(re.search(r"(\d+) tokens", name)[1], v.split()) for name, v in tiles]
    best = [min(zip(map(float, v[1::2]), v[::2]))[1] for _, v in tiles]
    with open(os.path.join(SRC, "kernels/moe/moe_tile.def")) as f:
        rows = re.findall(r"TILE\((m\d+n\d+),", f.read())
    ok([t for t, _ in tiles] == ["17", "20"] and rows and all(v[::2] == rows for _, v in tiles),
       "every tile for experts is tried at each number of tokens", out)
    want = [["moe-tile", "256", "512", best[0], "34"], ["moe-tile", "256", "512", best[1]]]
    ok(lines[:-1] == want and lines[-1][0] == "expert-tiles",
       "the table has the fastest rows", (out, lines))
    code, out, err = haloctl("generate", "--model", model, "--backend", "hip", *LIB,
                             "--hip-kernels", folder, "--raw", "-p", "Once", "-n", "2")
    ok(code == 0 and "gfx1151.tune" not in err, "and is understood whole", err)
    code, out, err = haloctl("kernels", "tune", "-m", "tiny", "-p", "gate-up", "-t", "17",
                             "--cold-mb", "1", "-r", "1", "-o", table, *LIB)
    tried = [(m[1], m[2].split()) for m in re.finditer(r"^(int4|tile) N=512 K=512.*?: (.*)$",
                                                       out.decode(), re.M)]
    best = [[op, "512", "512", min(zip(map(float, v[1::2]), v[::2]))[1]] for op, v in tried]
    with open(table) as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    ok(code == 0 and out.count(b"(tiny ffn-up):") == 2 and [b[0] for b in best] ==
       ["int4", "tile"] and lines[:2] == best and {"t32y4w16c32", "t16y2w8c16"} < set(tried[0][1]),
       "gate and up are tuned with the norm and the activation they have", (out, lines))
    # The case with both is no entry of its own: its weights are gate-up's.
    for part in ("ffn-up", "head-int8", "top"):
        none = os.path.join(tmp, "none.tune")
        code, out, err = haloctl("kernels", "tune", "-m", "tiny", "-p", part, "-r", "1",
                                 "--cold-mb", "1", "-o", none, *LIB)
        ok(b"int4 N=" not in out and out.count(b"nothing to measure") == 2 and
           not os.path.exists(none), "tune leaves %s out" % part, (code, out, err))
    code, out, err = haloctl("kernels", "tune", *LIB)
    ok(code == 2 and "--out" in err, "tune wants --out", err)
    code, out, err = haloctl("kernels", "tune", "-o", table, "-t", "512,128", *LIB)
    ok(code == 2 and "ascending" in err, "tune wants ascending numbers of tokens", err)


def kernels_of(rows, part):
    return [r[2] for r in rows if r[1] == part]


def grids():
    code, out, err = haloctl("kernels", "report", "--code", CODE, "-k", "no such", "-g")
    text = out.decode()
    ok(code == 0 and "40 compute units" in text, "report of grids", err)
    rows = [line.split() for line in text.splitlines() if line.startswith("qwen3-8b")]
    parts = {r[1] for r in rows}
    ok({"qkv", "o", "gate-up", "ffn-up", "down", "head", "head-int8", "top"} <= parts,
       "the launches of a step", parts)
    for part, wanted in (("head-int8", ["linear_rows_int8_m1_kernel"]),
                         ("top", ["logits_runs_kernel", "logits_top_kernel"]),
                         ("ffn-up", [kernels_of(rows, "gate-up")[0], "silu_mul_kernel"])):
        eq(kernels_of(rows, part), wanted, "the launches of " + part)
    code, out, err = haloctl("kernels", "report", "--code", CODE, "-k", "no such", "-g", "-j",
                             "-f", "q8_0,iq3_xxs", "-m", "qwen3-8b", "-p", "down,head")
    found = [json.loads(line) for line in out.decode().splitlines()]
    eq([(r["part"], r["format"], r["kernel"]) for r in found],
       [("down", "q8_0", "linear_rows_int8_m1_kernel"),
        ("down", "iq3_xxs", "linear_blocks_iq3_xxs_m1_kernel")], "the launches in a format")
    down = next(r for r in rows if r[1] == "down")
    ok(float(down[6]) == int(down[3]) / 40, "workgroups beside compute units", down)


def recorded(tmp, model, step, again="", n_tok=9, *more):
    out = os.path.join(tmp, "rec-%s-%s%s" % (os.path.basename(model), step, again))
    code, text, err = haloctl("kernels", "record", "--model", model, "--step", step,
                              "-p", str(n_tok), "--out", out, *LIB, *more)
    ok(code == 0 and "launches" in text.decode(),
       "record %s %s" % (os.path.basename(model), step), err)
    return out


def replayed(folder):
    n = len(launches(folder)[0])
    code, out, err = haloctl("kernels", "replay", folder, *LIB)
    ok(code == 0 and out.decode().startswith("%d launches: %d the same" % (n, n)),
       "replay of %s is the same, bit for bit" % os.path.basename(folder), (out, err))


def launches(folder):
    files = sorted(glob.glob(os.path.join(folder, "launch-*.json")))
    return files, [json.load(open(f)) for f in files]


def record(tmp):
    model = os.path.join(tmp, "model")
    decode, prefill = recorded(tmp, model, "decode"), recorded(tmp, model, "prefill")
    with open(os.path.join(decode, "recording.json")) as f:
        about = json.load(f)
    files, all_of = launches(decode)
    eq(about["launches"], len(all_of), "as many files as launches")
    ok(os.path.exists(os.path.join(decode, about["code_object"])), "the code object")
    names = [v["kernel"] for v in all_of]
    ok(any(n.startswith("linear_int4_") for n in names) and "rms_norm_kernel" in names,
       "the kernels of a step", names)
    for v in all_of:
        args = bytearray.fromhex(v["kernarg"])
        whole = all(a + n <= len(args) for a, n in v["args"])
        places = all(args[p["at"]:p["at"] + 8] == bytes(8) and
                     p["offset"] < v["buffers"][p["buffer"]]["bytes"]
                     for p in v["pointers"])
        sizes = all(os.path.getsize(os.path.join(decode, b[x])) <= b["bytes"]
                    for b in v["buffers"] for x in ("before", "after"))
        if not (whole and places and sizes and v["pointers"] and v["buffers"]):
            ok(False, "launch %d is whole" % v["index"], v)
    ok(all(any(b["before"] != b["after"] for b in v["buffers"]) for v in all_of),
       "every launch changed something")
    # Memory goes on from launch to launch: what one left, the next one that reads finds.
    after = {b["after"] for v in all_of for b in v["buffers"]}
    ok(sum(b["before"] in after for b in all_of[-1]["buffers"]) > 1, "and the next finds it")

    replayed(decode)
    replayed(prefill)

    # Another input must give another output, or nothing was compared.
    i = names.index("rms_norm_kernel")
    v = all_of[i]
    changed = next(b for b in v["buffers"] if b["before"] == b["after"])
    path = os.path.join(decode, "blobs", "changed.bin")
    shutil.copy(os.path.join(decode, changed["before"]), path)
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        data[3] ^= 0x7F
        f.seek(0)
        f.write(data)
    changed["before"] = "blobs/changed.bin"
    with open(files[i], "w") as f:
        json.dump(v, f)
    code, out, err = haloctl("kernels", "replay", "--in", decode, *LIB)
    ok(code == 1 and b"rms_norm_kernel" in out, "a changed input is seen", (out, err))
    v["pointers"][0]["buffer"] = 999
    with open(files[i], "w") as f:
        json.dump(v, f)
    code, out, err = haloctl("kernels", "replay", "--in", decode, *LIB)
    ok(code == 2 and "pointers" in err, "a damaged file is refused", err)
    code, out, err = haloctl("kernels", "record", "--model", TINY, "--step", "walk",
                             "--out", decode, *LIB)
    ok(code == 2 and "--step" in err, "an unknown step", err)


def tuned(tmp):
    """From how many tokens on tiles are used is the table's to say."""
    model = os.path.join(tmp, "model")
    for table, n_tok, wanted in ((tmp, 2, False), (tmp, 3, True), ("", 3, False)):
        folder = recorded(tmp, model, "prefill", "-tuned-%d%d" % (n_tok, wanted), n_tok,
                          *(["--hip-kernels", table] if table else []))
        eq(any(v["kernel"].startswith("linear_tile_") for v in launches(folder)[1]), wanted,
           "tiles for %d tokens" % n_tok)


KINDS = ("qwen3moe-ct-asym", "glm4moe-groups", "qwen3next", "deepseekv3-yarn",
         "mistral-window")


def record_kinds(tmp):
    """Every kind of layer, the first by both steps, the others by turns; memory that holds addresses is that of experts."""
    for name in KINDS[::2 if SHORT else 1]:
        model = os.path.join(SRC, "tests/golden/models", name)
        for step in ("decode", "prefill") if name == KINDS[0] else (
                ("prefill", "decode")[KINDS.index(name) % 2],):
            folder = recorded(tmp, model, step)
            replayed(folder)
            in_memory = {v["kernel"] for v in launches(folder)[1]
                         if any(b["pointers"] for b in v["buffers"])}
            ok((in_memory != set()) == (name != "mistral-window") and
               all(k.startswith("moe_") for k in in_memory), "whose tables are followed",
               in_memory)
            if name == "qwen3moe-ct-asym":
                # Addresses differ from process to process: nothing of them is left. Blobs
                # have the names of their contents.
                again = recorded(tmp, model, step, "-again")
                differ = [a["index"] for a, b in zip(launches(folder)[1], launches(again)[1])
                          if a != b]
                eq(differ, [], "another process records the same")


with tempfile.TemporaryDirectory() as tmp:
    bench()
    tune(tmp)
    if os.path.exists(CODE):
        grids()
        record(tmp)
        tuned(tmp)
        record_kinds(tmp)
    else:
        print("# no code objects in this build: recording is not tried")
    done()
