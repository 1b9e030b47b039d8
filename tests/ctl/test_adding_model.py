#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/adding.md promises of an architecture, a weight format, a GPU target and an
endpoint: each
patch of tests/adding applies to a copy of the tree, touches no more files than said, and
those that stand in the list of its section. What was added compiles. The architecture
answers as its reference, the target is known to haloctl, the endpoint answers over HTTP."""
import functools
import glob
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

from tap import BUILD, SRC, done, eq, ok

MODELS = os.path.join(SRC, "tests/golden/models")
NORMS = {"input_layernorm": "norm_before_attention",
         "post_attention_layernorm": "norm_behind_attention",
         "pre_feedforward_layernorm": "norm_before_mlp",
         "post_feedforward_layernorm": "norm_behind_mlp"}


def shell(args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=300, **more)
    return p.returncode, p.stdout.decode(errors="replace")


@functools.lru_cache(None)
def variable(name):
    """Of the build's Makefile."""
    code, out = shell(["make", "-s", "--no-print-directory", "-C", BUILD,
                       "--eval", "print-it: ; @echo IT: $(%s)" % name, "print-it"])
    assert code == 0, out
    lines = [x for x in out.splitlines() if x.startswith("IT:")]
    return shlex.split(lines[-1][3:])


def listed(section):
    """The files in the first table of a section of docs/adding.md."""
    with open(os.path.join(SRC, "docs/adding.md"), encoding="utf-8") as f:
        text = f.read().split("\n## " + section + "\n")[1].split("\n## ")[0]
    table = re.search(r"\| file \| what \|\n.*?\n((?:\|.*\n)+)", text).group(1)
    return re.findall(r"^\| `([^`]+)`", table, re.M)


def patched(name, section, most, into):
    """A copy of the tree with the patch; the files it touches."""
    for part in ("src", "kernels", "docs", "conf"):
        shutil.copytree(os.path.join(SRC, part), os.path.join(into, part),
                        ignore=shutil.ignore_patterns("*.o", "*.a", "*.s"))
    for folder, _, names in os.walk(into):  # a distribution's tree is not writable
        for path in [folder] + [os.path.join(folder, n) for n in names]:
            os.chmod(path, os.stat(path).st_mode | 0o200)
    patch = os.path.abspath(os.path.join(SRC, "tests/adding", name + ".patch"))
    code, out = shell(["patch", "-p1", "--no-backup-if-mismatch", "-i", patch], cwd=into)
    ok(code == 0, name + ".patch applies", out)
    with open(patch, encoding="utf-8") as f:
        files = re.findall(r"^\+\+\+ b/(\S+)", f.read(), re.M)
    own = [f for f in files if not f.startswith(("docs/", "tests/"))]
    ok(0 < len(own) <= most, "%s: at most %d files beside docs and tests" % (name, most), own)
    known = [re.escape(n).replace("NAME", r"\w+") for n in listed(section)]
    strange = [f for f in files if not any(re.fullmatch(k, f) for k in known)]
    eq(strange, [], name + ": all stand in docs/adding.md")
    return files


def compiled(tree, sources):
    """Objects of the sources, with the patched headers and tables."""
    build = os.path.abspath(BUILD)
    flags = variable("AM_CFLAGS") + variable("JANSSON_CFLAGS") + ["-D_GNU_SOURCE"]
    out = []
    for i, source in enumerate(sources):
        out.append(os.path.join(tree, "object%d.o" % i))
        code, text = shell([*variable("CC"), *flags, "-Isrc", "-I.", "-I" + build, "-c",
                            source, "-o", out[-1]], cwd=tree)
        ok(code == 0 and "warning" not in text, source + " compiles", text)
    return out


def renamed_model(folder, golden, name, norms):
    """A golden model as one of the new architecture: other names of norms."""
    golden = os.path.join(MODELS, golden)
    os.makedirs(folder)
    for path in glob.glob(os.path.join(golden, "*.json")):
        shutil.copy(path, folder)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    config["model_type"] = name
    config["architectures"] = [name.capitalize() + "ForCausalLM"]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    with open(os.path.join(golden, "model.safetensors"), "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    head = {".".join(norms.get(part, part) for part in tensor.split(".")): t
            for tensor, t in head.items()}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def linked(tree, main, objects, ldadd):
    """A program of the build with these objects in the place of its own."""
    program = os.path.join(tree, "program")
    libs = [os.path.join(os.path.abspath(BUILD), x) if x.endswith(".a") else x
            for x in variable(ldadd)]
    code, out = shell([*variable("CC"), *variable("CFLAGS"), *variable("SANITIZE_FLAGS"),
                       "-o", program, os.path.join(BUILD, main), *objects, *libs,
                       *variable("LIBS")])
    ok(code == 0, "it links", out)
    return program if code == 0 else None


def added(tree, patch, golden, name, norms):
    files = patched(patch, "An architecture", 3, tree)
    new = [f for f in files if f.endswith(".c") and "/families/" in f]
    objects = compiled(tree, ["src/model/model_config.c", "src/model/gguf_model.c",
                              "src/engine/engine_create.c", *new])
    program = linked(tree, "src/ctl/haloctl.o", objects, "haloctl_LDADD")
    model = os.path.join(tree, "model")
    renamed_model(model, golden, name, norms)
    if not program:
        return
    code, out = shell([program, "verify", "--exact", "--json", "--model", model])
    v = json.loads(out) if code == 0 else {}
    ok(v.get("pass") and v["max_delta"] < 2e-4, "it answers as its reference", out)


def architecture(tree):
    added(tree, "architecture", "gemma3", "sandwich", NORMS)


def parallel(tree):
    """Two parts that read one norm, which subtracts the mean."""
    added(tree, "parallel", "cohere2", "twofold", {"input_layernorm": "norm_before_both"})


def without_others(tree, row):
    """Leaves of the formats' kernels those of one format: the build has compiled the others."""
    with open(os.path.join(tree, "src/model/formats/quant.def"), encoding="utf-8") as f:
        found = [line for line in f if line.startswith(row)]
    eq(len(found), 1, "a format is a row: " + row)
    with open(os.path.join(tree, "one.def"), "w", encoding="utf-8") as f:
        f.writelines(found)
    path = os.path.join(tree, "kernels/weights/weight_units.def")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("src/model/formats/quant.def\"", "one.def\""))


def weight_format(tree):
    patched("format", "A weight format", 6, tree)
    compiled(tree, ["src/model/dtype.c", "src/model/gguf.c", "src/model/formats/weight.c",
                    "src/model/formats/quant_blocks.c", "src/backend/cpu/cpu_panels.c",
                    "src/backend/hip/hip_repack.c", "src/backend/hip/hip_launch.c"])
    clang = variable("HIP_CLANG")
    if not clang:
        return
    without_others(tree, "QUANT_BLOCK(Q2_FLAT,")
    for unit in ("rows/embed_rows", "linear/linear_blocks"):
        to = os.path.join(tree, "unit.s")
        code, out = shell([*clang, *variable("HIPFLAGS"), "-I.", "-S", "-o", to,
                           "--offload-arch=" + variable("GPU_TARGETS")[0],
                           "kernels/%s.hip" % unit], cwd=tree)
        text = open(to, encoding="utf-8").read() if code == 0 else ""
        ok(code == 0 and "_q2_flat_" in text, unit + ".hip has kernels for it", out)


def target(tree):
    patched("target", "A GPU target", 4, tree)
    objects = compiled(tree, ["src/lab/chip.c"])
    ok(b"gfx1102" in open(objects[0], "rb").read(), "the laboratory knows it")
    with open(os.path.join(SRC, "configure.ac"), encoding="utf-8") as f:
        pattern = re.search(r"sed -n 's/(\^GPU_TARGET.*?),\.\*", f.read()).group(1)
    ok(pattern, "configure reads the list")
    with open(os.path.join(tree, "src/backend/hip/gpu_targets.def"), encoding="utf-8") as f:
        eq(re.findall(r"^GPU_TARGET\((\w+),", f.read(), re.M),
           ["gfx1151", "gfx1100", "gfx1102"], "and finds it there")


def described(tree):
    """The description of the API, in the form in which page.c includes it."""
    with open(os.path.join(tree, "conf/openapi.json"), "rb") as f:
        numbers = ",".join(str(b) for b in f.read())
    with open(os.path.join(tree, "src/http/openapi.inc"), "w", encoding="ascii") as f:
        f.write(numbers + ",")


def endpoint(tree):
    files = patched("endpoint", "An endpoint", 4, tree)
    described(tree)
    new = [f for f in files if f.endswith(".c")]
    objects = compiled(tree, ["src/http/route.c", "src/http/page.c", *new])
    program = linked(tree, "src/daemon/halod-halod.o", objects, "halod_LDADD")
    if not program:
        return
    build = os.path.join(tree, "build")
    os.makedirs(build)
    os.rename(program, os.path.join(build, "halod"))
    sys.path.insert(0, os.path.join(SRC, "tests/http"))
    import halod
    d = halod.Halod(program=os.path.join(build, "halod"))
    try:
        a = d.request("POST", "/words", {"content": "one  two three"})
        eq((a.status, a.json), (200, {"words": 3}), "the endpoint answers")
        a = d.request("POST", "/words", {"content": 7})
        eq((a.status, a.error["param"]), (400, "content"), "and names what is wrong")
        eq(d.get("/words").status, 405, "it takes POST only")
        ok("/words" in d.get("/openapi.json").json["paths"], "it is described")
    finally:
        d.stop()
    code, out = shell(["awk", "-f", os.path.join(SRC, "man/endpoints.awk"),
                       os.path.join(tree, "src/api/endpoint.def"),
                       os.path.join(SRC, "man/halod.8.in")])
    ok(code == 0 and ".It Li POST /words\nThe number of words.\n" in out,
       "and stands in halod(8)", out[:500])


for add in (architecture, parallel, weight_format, target, endpoint):
    with tempfile.TemporaryDirectory() as scratch:
        add(scratch)
done()
