#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own server, as the PyPI package xllamacpp brings it, built, with its defaults:

    agents_llama.py FILE PORT THREADS TEMPLATE [CTX]      (ends with its standard input)

CTX: tokens of all its slots together; the model's context unless given."""
import sys

import xllamacpp

p = xllamacpp.CommonParams()
p.model.path, p.port = sys.argv[1], int(sys.argv[2])
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[3])
p.use_jinja = True
p.n_parallel, p.kv_unified = 4, True # llama-server's own choice; the package's is one slot
with open(sys.argv[4], encoding="utf-8") as f:
    p.chat_template = f.read()
if len(sys.argv) > 5:
    p.n_ctx = int(sys.argv[5])
server = xllamacpp.Server(p)
sys.stdin.read()
