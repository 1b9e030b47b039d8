#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl pull, from a hub of its own on the loopback that answers as Hugging Face's does:
small files come from it, large ones from another server that it redirects to. Then
haloctl serves what was pulled, by its name."""
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading

import gguf_families
import gguf_file
from tap import BUILD, SRC, TINY, done, eq, ok

COMMIT = "c0ffee00" * 5
FILES = {}
GGUF = {}      # of a repository with GGUF files


def git_digest(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def fill():
    for name in os.listdir(TINY):
        with open(os.path.join(TINY, name), "rb") as f:
            FILES[name] = f.read()
    FILES["README.md"] = b"not needed\n"
    FILES["onnx/model.safetensors"] = b"not needed either\n"


def fill_gguf():
    """A model that sees, in a folder of its own; towers in the one above; MTP layers, which are of
    another model."""
    vision = os.path.join(SRC, "tests/golden/vision")
    folder = os.path.join(vision, "mistral3")
    config = gguf_file.read_json(folder, "config.json")
    tensors = gguf_families.tensors(config, gguf_file.load(folder))
    path = os.path.join(tmp, "text.gguf")
    gguf_file.write(path, gguf_families.keys(folder, config, tensors), tensors)
    for name, source in (
            ("Q4_0/m-Q4_0.gguf", path), ("m-F16.gguf", path),
            ("mmproj-F16.gguf", os.path.join(vision, "mmproj-mistral3.gguf")),
            ("mmproj-F32.gguf", os.path.join(vision, "mmproj-mistral3.gguf")),
            ("mtp-m-Q4_0.gguf", os.path.join(SRC, "tests/golden/formats/glm4moe-mtp.gguf")),
            ("mtp-m-Q8_0.gguf", os.path.join(SRC, "tests/golden/formats/glm4moe-mtp.gguf"))):
        with open(source, "rb") as f:
            GGUF[name] = f.read()
    GGUF["README.md"] = b"not needed\n"


def is_large(name):
    return name.endswith((".safetensors", ".gguf"))


def files_of(path):
    return GGUF if "/halo/parts/" in path else FILES


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.asked = []         # (path, Range, Authorization)
        self.mode = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, status, data=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def note(self):
        self.server.asked.append((self.path, self.headers["Range"],
                                  self.headers["Authorization"]))


class Hub(Handler):
    def do_GET(self):
        self.note()
        if "/gated" in self.path and self.headers["Authorization"] != "Bearer hf_right":
            return self.answer(401, b'{"error":"Access to model is restricted"}')
        files = files_of(self.path)
        if re.match(r"/api/models/halo/(tiny|gated|parts)/revision/main\?blobs=true$", self.path):
            return self.answer(200, json.dumps({"sha": COMMIT, "siblings": [
                self.sibling(n, d) for n, d in files.items()]}).encode())
        m = re.match(r"/halo/(?:tiny|gated|parts)/resolve/%s/(.*)$" % COMMIT, self.path)
        if not m or m.group(1) not in files:
            return self.answer(404, b"Repository not found")
        if is_large(m.group(1)):
            return self.answer(302, headers=[("Location", cdn.url + "/" + m.group(1))])
        return self.answer(200, files[m.group(1)])

    def sibling(self, name, data):
        row = {"rfilename": name, "size": len(data), "blobId": git_digest(data)}
        if is_large(name):
            row["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return row


class Cdn(Handler):
    """Breaks off in the middle the first time, where `mode` says so."""

    def do_GET(self):
        self.note()
        data = FILES.get(self.path[1:]) or GGUF[self.path[1:]]
        mode = self.server.mode
        if "damaged" in mode:
            data = data[:100] + bytes([data[100] ^ 1]) + data[101:]
        if "failing" in mode:
            return self.answer(503, b"busy")
        begin = 0
        if self.headers["Range"] and "no ranges" not in mode:
            begin = int(re.match(r"bytes=(\d+)-$", self.headers["Range"]).group(1))
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (
                begin, len(data) - 1, len(data)))
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        end = len(data)
        if "breaks" in mode:
            mode.remove("breaks")
            end = begin + (len(data) - begin) // 2
        self.wfile.write(data[begin:end])
        if end < len(data):
            self.close_connection = True
            self.connection.close()


def haloctl(*args, **env):
    p = subprocess.run([os.path.join(BUILD, "haloctl"), *args], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                       env={"PATH": os.environ["PATH"], "HOME": tmp, "HF_ENDPOINT": hub.url,
                            "no_proxy": "127.0.0.1", **env})
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def pull(name="halo/tiny", *args, **env):
    hub.asked.clear()
    cdn.asked.clear()
    return haloctl("pull", name, *args, **env)


def model_dir(cache, name="halo--tiny"):
    return os.path.join(cache, "models--" + name)


def whole(cache, name="halo--tiny"):
    """Names and contents of the snapshot are those of the hub, without what nobody needs."""
    folder = os.path.join(model_dir(cache, name), "snapshots", COMMIT)
    got = {}
    for f in os.listdir(folder):
        with open(os.path.join(folder, f), "rb") as opened:
            got[f] = opened.read()
    want = {n: d for n, d in FILES.items() if n != "README.md" and "/" not in n}
    return got == want


def test_pull():
    cache = os.path.join(tmp, ".cache/huggingface/hub")
    code, out, err = pull()
    ok(code == 0 and whole(cache), "a model comes whole", err)
    ok("halod --model halo/tiny" in err, "and haloctl says how to serve it", err)
    with open(os.path.join(model_dir(cache), "refs/main")) as f:
        eq(f.read(), COMMIT, "the commit is noted")
    link = os.readlink(os.path.join(model_dir(cache), "snapshots", COMMIT, "config.json"))
    eq(link, "../../blobs/" + git_digest(FILES["config.json"]),
       "files are links, which a moved cache keeps")
    ok(all(auth is None for _, _, auth in hub.asked), "nobody is told a token without one")
    code, out, err = pull()
    ok(code == 0 and len(hub.asked) == 1 and not cdn.asked,
       "a second time only the list is asked for", hub.asked)
    code, out, err = haloctl("generate", "--model", "halo/tiny", "-n", "4", "--no-think",
                             "-p", "What is 2+2? Answer in one word.")
    ok(code == 0 and "Four" in out, "the model answers by its name", err)
    said = serve("halo/tiny")
    ok("ready: halo/tiny on" in said, "halod serves it under that name", said)
    code, out, err = haloctl("generate", "--model", "halo/none", "-p", "x")
    ok(code != 0 and "haloctl pull halo/none" in err, "one that is not there: what to do", err)


def serve(*args):
    """What halod says of a model until it is ready, and what it takes."""
    socket = os.path.join(tmp, "served")
    p = subprocess.Popen([os.path.join(BUILD, "halod"), "-c", "/dev/null", "--unix-socket", socket,
                          "--self-check", "off", "--model", *args], stderr=subprocess.PIPE,
                         text=True, env={"PATH": os.environ["PATH"], "HOME": tmp})
    said = []
    for line in p.stderr:
        said.append(line)
        if "ready: " in line:
            break
    p.terminate()
    p.communicate()
    return "".join(said)


def test_beside():
    """What lies beside a GGUF model comes with it, and halod finds it."""
    cache = os.path.join(tmp, ".cache/huggingface/hub")
    folder = os.path.join(model_dir(cache, "halo--parts"), "snapshots", COMMIT)

    def there():
        return sorted(os.path.relpath(os.path.join(at, n), folder)
                      for at, _, names in os.walk(folder) for n in names)

    code, out, err = pull("halo/parts:Q4_0")
    eq((code, there()), (0, ["Q4_0/m-Q4_0.gguf", "mmproj-F16.gguf", "mtp-m-Q4_0.gguf"]),
       "the tower of 16 bits and the MTP layer of the same name come with a model")
    ok(err.endswith("To serve it: halod --model halo/parts:Q4_0\n"), "how to serve it", err)
    said = serve("halo/parts:Q4_0")
    ok("ready: halo/parts:Q4_0" in said and "images: the model's vision tower runs" in said,
       "halod finds the tower in the folder above the model's, as the hub has it", said)
    ok("mtp-m-Q4_0.gguf: not used: it is of a glm4moe" in said, "and the MTP layer", said)
    code, out, err = pull("halo/parts:F16", "--mmproj", "F32", "--mtp", "none")
    eq((code, there()), (0, ["Q4_0/m-Q4_0.gguf", "m-F16.gguf", "mmproj-F16.gguf",
                             "mmproj-F32.gguf", "mtp-m-Q4_0.gguf"]), "others by their names")
    code, out, err = pull("halo/parts:mtp-m-Q8_0")
    ok(code == 0 and "mtp-m-Q8_0.gguf" in there() and "halod --model" not in err and
       "without mtp-" in err, "a layer alone", err)
    said = serve("halo/parts:F16")
    ok(re.search(r"warning: .*/m-F16.gguf: 2 files beside it may hold its MTP layer, and none is "
                 r"used. Call one mtp- and then as the model's file\n", said),
       "of two layers none is used, and the log says how one is chosen", said)
    ok(re.search(r"m-F16.gguf: 2 files beside it may hold its vision tower, and none is used. "
                 r"mmproj names one\n", said) and "images: " not in said,
       "nor of two towers; a part of a tower's name means the model", said)
    said = serve("halo/parts:F16", "--mmproj", os.path.join(folder, "mmproj-F32.gguf"))
    ok("images: the model's vision tower runs" in said and "its vision tower," not in said,
       "which mmproj ends", said)
    code, out, err = pull("halo/parts:mmproj-F16")
    ok(code == 0 and "--mmproj %s/mmproj-F16.gguf\n" % folder in err, "a tower alone", err)
    code, out, err = pull("halo/parts:F16", "--mmproj", "Q8_0")
    ok(code == 1 and "--mmproj Q8_0: no file fits; there are mmproj-F16.gguf, mmproj-F32.gguf" in
       err, "no such tower", err)
    for file, rest in (("F16", ["Q4_0/m-Q4_0.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf",
                                "mtp-m-Q4_0.gguf", "mtp-m-Q8_0.gguf"]),
                       ("Q4_0", ["mmproj-F16.gguf", "mmproj-F32.gguf", "mtp-m-Q8_0.gguf"]),
                       ("mmproj-F32", ["mmproj-F16.gguf", "mtp-m-Q8_0.gguf"])):
        code, out, err = haloctl("models", "--remove", "halo/parts:" + file)
        eq((code, there()), (0, rest), "removed: %s; a tower goes by its name alone" % file)
    code, out, err = pull("halo/tiny", "--mtp", "Q8_0", "--cache", os.path.join(tmp, "none"))
    ok(code == 1 and "--mtp is for models in GGUF files" in err, "a folder has it", err)


def test_address():
    """The address of a model's page, of a branch, of a file."""
    for end in ("", "/", "/tree/main", "?library=transformers#files"):
        code, out, err = pull(hub.url + "/halo/tiny" + end)
        ok(code == 0 and "halod --model halo/tiny\n" in err, "address" + end, err)
    code, out, err = pull("hf.co/halo/tiny/blob/main/x-Q4_K_M.gguf")
    ok(code == 1 and "no GGUF file" in err and "x-Q4_K_M.gguf" in err,
       "the address of a file names that file", err)


def test_models():
    """What was pulled is listed, and goes with all of its files."""
    cache = os.path.join(tmp, "listed")
    code, out, err = haloctl("models", "--cache", cache)
    ok(code == 0 and "haloctl pull" in out, "an empty cache says how to fill it", out)
    pull("halo/tiny", "--cache", cache)
    other = os.path.join(model_dir(cache, "halo--quants"), "snapshots", COMMIT)
    blobs = os.path.join(model_dir(cache, "halo--quants"), "blobs")
    os.makedirs(other)
    os.makedirs(blobs)
    for name in ("x-Q4_K_M.gguf", "x-Q8_0.gguf", "x-Q4_K.gguf"):
        with open(os.path.join(blobs, name[:-5]), "wb") as f:
            f.write(bytes(3 << 20))
        os.symlink("../../blobs/" + name[:-5], os.path.join(other, name))
    code, out, err = haloctl("models", "--cache", cache)
    size = sum(len(d) for n, d in FILES.items() if n != "README.md" and "/" not in n)
    ok("%.1f MiB  halo/tiny\n" % (size / 2**20) in out, "a model with its size", out)
    ok("9.0 MiB  halo/quants  (unfinished" in out and "3.0 MiB    :x-Q8_0.gguf" in out,
       "GGUF files one by one; without a commit it is unfinished", out)
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/quants:Q4_K")
    ok(code == 0 and "3.0 MiB" in out and sorted(os.listdir(other)) ==
       ["x-Q4_K_M.gguf", "x-Q8_0.gguf"] and sorted(os.listdir(blobs)) == ["x-Q4_K_M", "x-Q8_0"],
       "one GGUF file goes, and none with a longer name", (out, err))
    os.symlink("../../blobs/x-Q8_0", os.path.join(other, "y-Q8_0.gguf"))
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/quants:x-Q8_0")
    ok(code == 0 and ", 0.0 MiB" in out and sorted(os.listdir(other)) == ["x-Q4_K_M.gguf", "y-Q8_0.gguf"]
       and sorted(os.listdir(blobs)) == ["x-Q4_K_M", "x-Q8_0"],
       "a file stays while it has another name", (out, err, os.listdir(blobs)))
    os.symlink("../../blobs/x-Q8_0", os.path.join(other, "z-Q8_0.gguf"))
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/quants:Q8_0")
    ok(code == 0 and "3.0 MiB" in out and os.listdir(blobs) == ["x-Q4_K_M"],
       "and goes with the last of its names", (out, err, os.listdir(blobs)))
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/tiny")
    ok(code == 0 and not os.path.exists(model_dir(cache)) and os.path.exists(other),
       "a model goes whole, and no other", (out, err))
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/tiny")
    ok(code == 1 and "no such model" in err, "what is not there is told", err)
    os.makedirs(os.path.join(model_dir(cache, "halo--begun"), "blobs"))
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/begun:Q4_K")
    ok(code == 1 and "no such model" in err, "nor is a file of a pull that broke off", err)
    code, out, err = haloctl("models", "--cache", cache, "--remove", "halo/begun")
    ok(code == 0 and not os.path.exists(model_dir(cache, "halo--begun")),
       "whose folders alone go, too", (out, err))
    code, out, err = haloctl("models", "--cache", cache, "--remove", "../tiny")
    ok(code == 2 and os.path.exists(other), "what is no name is refused", err)


def test_faults():
    weights = next(n for n in FILES if is_large(n) and "/" not in n)
    for mode, what in (({"breaks"}, "a transfer that breaks goes on"),
                       ({"breaks", "no ranges"}, "without ranges it begins anew")):
        cache = os.path.join(tmp, "-".join(sorted(mode)).replace(" ", "-"))
        cdn.mode = set(mode)
        code, out, err = pull("halo/tiny", "--cache", cache)
        ok(code == 0 and whole(cache), what, err)
        ranges = [r for p, r, _ in cdn.asked if p == "/" + weights]
        ok(len(ranges) >= 2 and ranges[0] is None and ranges[1], "as the server sees", ranges)
    cache = os.path.join(tmp, "resumed")
    blobs = os.path.join(model_dir(cache), "blobs")
    os.makedirs(blobs)
    digest = hashlib.sha256(FILES[weights]).hexdigest()
    with open(os.path.join(blobs, digest + ".incomplete"), "wb") as f:
        f.write(FILES[weights][:12345])
    cdn.mode = set()
    code, out, err = pull("halo/tiny", "--cache", cache)
    ok(code == 0 and whole(cache), "an earlier run's bytes are taken up", err)
    eq([r for p, r, _ in cdn.asked if p == "/" + weights], ["bytes=12345-"],
       "and not asked for again")
    cache = os.path.join(tmp, "damaged")
    cdn.mode = {"damaged"}
    code, out, err = pull("halo/tiny", "--cache", cache)
    ok(code == 1 and "digest" in err, "a damaged file is refused", err)
    ok(not os.path.exists(os.path.join(model_dir(cache), "refs/main")) and
       not any(digest in n for n in os.listdir(os.path.join(model_dir(cache), "blobs"))),
       "and is not kept, nor is the model found")
    cdn.mode = {"failing"}
    code, out, err = pull("halo/tiny", "--cache", os.path.join(tmp, "failing"))
    ok(code == 1 and "503" in err, "a server that fails for good is named", err)
    ok(len(cdn.asked) == 5, "after five tries", cdn.asked)
    cdn.mode = set()
    hub_is_away = haloctl("pull", "halo/tiny", HF_ENDPOINT="http://127.0.0.1:9")
    ok(hub_is_away[0] == 1 and "127.0.0.1:9" in hub_is_away[2], "no hub there", hub_is_away)


def test_refused():
    code, out, err = pull("halo/none")
    ok(code == 1 and "404" in err and "no such model" in err, "no such model", err)
    code, out, err = pull("halo/gated")
    ok(code == 1 and "HF_TOKEN" in err and "no such model, or it is private" in err,
       "a hub says 401 for a name that it does not know: both are said", err)
    with open(os.path.join(tmp, "plain"), "w"):
        pass
    code, out, err = pull("halo/tiny", "--cache", os.path.join(tmp, "plain"))
    ok(code == 1 and "plain" in err and " into " not in err,
       "a cache that cannot be made is told before any size", err)
    cache = os.path.join(tmp, "gated")
    code, out, err = pull("halo/gated", "--cache", cache, HF_TOKEN="hf_right")
    ok(code == 0 and whole(cache, "halo--gated"), "with a token it comes", err)
    ok(all(auth == "Bearer hf_right" for _, _, auth in hub.asked) and
       cdn.asked and all(auth is None for _, _, auth in cdn.asked),
       "and no other server is told the token", (hub.asked, cdn.asked))
    home = os.path.join(tmp, "hf")
    os.makedirs(home)
    with open(os.path.join(home, "token"), "w") as f:
        f.write("hf_right\n")
    code, out, err = pull("halo/gated", HF_HOME=home)
    ok(code == 0 and whole(os.path.join(home, "hub"), "halo--gated"),
       "a token and a cache as the hub's own tools keep them", err)
    code, out, err = pull("halo/tiny:Q4_K_M")
    ok(code == 1 and "no GGUF file" in err, "a file that is not there", err)
    for name in ("tiny", "qwen3:8b", "../x/y", "a/b/c", "https://huggingface.co/tiny",
                 "https://example.org/halo/tiny", "https://huggingface.co/../x"):
        code, out, err = pull(name)
        ok(code == 2 and "ORG/NAME" in err, "%s is no name" % name, err)


fill()
hub, cdn = Server(Hub), Server(Cdn)
tmp = tempfile.mkdtemp(prefix="halod-pull-")
try:
    fill_gguf()
    test_pull()
    test_beside()
    test_address()
    test_models()
    test_faults()
    test_refused()
finally:
    shutil.rmtree(tmp)
done()
