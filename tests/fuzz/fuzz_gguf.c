/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a GGUF file. Every value and tensor that is accepted can be read from
 * end to end, no two tensors share a byte, and every block decodes; the tokenizer is read as far
 * as it goes. Then the file is opened as a model. What is refused has words.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model/gguf_model.h"
#include "model/formats/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile unsigned char sum;

static void read_bytes(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum ^= (unsigned char)p[i];
}

static void read_value(const struct gguf_value *v)
{
	int64_t i;
	double d;
	const char *at = v->p;
	for (uint64_t k = 0; k < v->n; k++) {
		if (v->type == GGUF_STRING) {
			struct str s = gguf_next_string(&at);
			read_bytes(s.p, s.n);
		} else if (gguf_integer(v, k, &i)) {
			assert(gguf_number(v, k, &d));
		}
	}
	assert(*gguf_type_name(v));
}

static void read_tensor(const struct tensor *t)
{
	read_bytes(t->data, t->n_bytes);
	if (t->dtype != DTYPE_BLOCKS) {
		assert((uintptr_t)t->data % dtype_bytes(t->dtype) == 0);
		return;
	}
	struct block_parts parts;
	size_t size = quant_block_bytes(t->quant);
	for (size_t at = 0; at + size <= t->n_bytes; at += size)
		blocks_split(t->quant, (const char *)t->data + at, &parts);
}

static void read_tokenizer(const struct gguf *g)
{
	struct tokenizer_files f = {0};
	struct fail fail = {0};
	if (gguf_tokenizer_load(g, "fuzz", &f, &fail) != OK) {
		assert(fail.text[0]);
		return;
	}
	struct ids ids = {0};
	if (tokenizer_encode(f.tokenizer, STR("Hello, 12 w\303\266rlds"), TRUST_USER, &ids,
			     NULL) != OK)
		assert(ids.n == 0);
	ids_deinit(&ids);
	tokenizer_files_deinit(&f);
}

static void open_model(const void *p, size_t n)
{
	static int fd = -1;
	char path[40];
	struct model *m = NULL;
	struct fail fail = {0};
	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) != 0 || pwrite(fd, p, n, 0) != (ssize_t)n)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (model_open(path, NULL, &m, &fail) == OK)
		assert(m->config.n_layers >= 1 && m->config.n_vocab >= 2);
	else
		assert(fail.text[0]);
	model_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a;
	struct gguf g;
	struct safetensors s;
	struct fail fail = {0};
	arena_init(&a);
	if (gguf_parse((struct str){(const char *)data, n}, "fuzz", &a, &g, &s, &fail) ==
	    OK) {
		size_t total = 0;
		for (size_t i = 0; i < g.n; i++)
			read_value(&g.pairs[i].value);
		for (size_t i = 0; i < s.n; i++) {
			total += s.tensors[i].n_bytes;
			read_tensor(&s.tensors[i]);
			assert(gguf_names_hf(&g, s.tensors[i].name, &a));
		}
		assert(total <= n);
		read_tokenizer(&g);
		gguf_deinit(&g);
		safetensors_deinit(&s);
		open_model(data, n);
	} else {
		assert(fail.text[0]);
	}
	arena_deinit(&a);
	return 0;
}
