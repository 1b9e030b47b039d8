/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/alloc.h"
#include "backend/backend.h"
#include "backend/cpu/cpu_panels.h"
#include "backend/hip/hip_weight.h"
#include "ctl/command.h"
#include "ctl/session.h"
#include "ctl/survey.h"

struct inspect_args {
	const char *dir, *backend, *hip_library;
	int64_t ctx, seqs, depth;
	bool json, tensors, int8_kv;
};

struct inspect_report {
	const struct model *model;
	const struct inspect_args *args;
	struct survey survey;
	enum dtype kv_type;
	int64_t kv_token_bytes, kv_bytes; /* of a token; of seqs * ctx tokens */
	int64_t kv_read_bytes;            /* bytes read for one token at depth */
	int64_t state_bytes;              /* recurrent state of one sequence */
};

static double mib(int64_t n)
{
	return (double)n / (1 << 20);
}

static double bits_per_weight(int64_t n_bytes, int64_t n_weights)
{
	return n_weights ? 8.0 * (double)n_bytes / (double)n_weights : 0;
}

static void add_shape(struct buf *b, const struct tensor *t)
{
	buf_add_c(b, '[');
	for (int i = 0; i < t->n_dims; i++)
		buf_addf(b, "%s%lld", i ? "," : "", (long long)t->dim[i]);
	buf_add_c(b, ']');
}

static void add_tensors(struct buf *b, const struct model *m, bool json)
{
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		if (json) {
			buf_add_z(b, i ? ",{\"name\":" : "{\"name\":");
			buf_add_json(b, str_of(t->name));
			buf_addf(b, ",\"dtype\":\"%s\",\"shape\":",
				 dtype_name(t->dtype));
			add_shape(b, t);
			buf_addf(b, ",\"bytes\":%zu}", t->n_bytes);
		} else {
			buf_addf(b, "%-8s ", dtype_name(t->dtype));
			add_shape(b, t);
			buf_addf(b, " %zu %s\n", t->n_bytes, t->name);
		}
	}
}

static void add_formats(struct buf *b, const struct survey *s, bool json)
{
	bool is_first = true;
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		int64_t n = s->format[q].n_weights, n_bytes = s->format[q].n_bytes;
		if (n_bytes == 0)
			continue;
		if (json)
			buf_addf(b, "%s\"%s\":{\"weights\":%lld,\"bytes\":%lld,\"bits\":"
				 "%.4f}", is_first ? "" : ",", quant_name(q),
				 (long long)n, (long long)n_bytes,
				 bits_per_weight(n_bytes, n));
		else
			buf_addf(b, "%-10s %8s %14lld %10.2f %6.2f\n", quant_name(q), "",
				 (long long)n, mib(n_bytes),
				 bits_per_weight(n_bytes, n));
		is_first = false;
	}
}

/* Bytes of weights of at most 8 bits that the CPU's fast path copies at load. All of them are
 * multiplied, so all are copied. (Of bf16 only some are, on some processors.) */
static int64_t panel_bytes(const struct survey *s)
{
	double n = 0;
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		if (quant_bits(q) <= 8)
			n += (double)(s->format[q].n_bytes - s->format[q].stay_bytes) *
			     cpu_panels_growth(q);
	return (int64_t)n;
}

/* Bytes that HIP converts to another layout of the same size before it uploads them. Other
 * weights are uploaded as they are. */
static int64_t hip_repack_bytes(const struct survey *s)
{
	int64_t n = 0;
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		if (hip_quant(q) != q)
			n += s->format[q].n_bytes - s->format[q].stay_bytes;
	return n;
}

/* Bytes of the output head that a token reads if the head is int8 with an f32 scale for each
 * row. 0: lm-head = int8 changes nothing. */
static int64_t int8_head_bytes(const struct inspect_report *r)
{
	const struct model_config *c = &r->model->config;
	enum part p = c->tied_embeddings ? PART_EMBEDDING : PART_LM_HEAD;
	int64_t now = r->survey.part[p].n_bytes;
	int64_t small = (int64_t)c->n_vocab * (c->d_model + (int64_t)sizeof(float));
	return now >= (int64_t)c->n_vocab * c->d_model * 2 ? small : 0;
}

/* Tables of n-grams stay in the files. */
static int64_t memory_bytes(const struct inspect_report *r)
{
	return r->survey.n_bytes - r->survey.part[PART_NGRAMS].n_bytes + r->kv_bytes +
	       r->state_bytes * r->args->seqs;
}

static void add_text(struct buf *b, const struct inspect_report *r)
{
	const struct model_config *c = &r->model->config;
	const struct survey *s = &r->survey;
	buf_addf(b, "%s: %s, %d layers of width %d, %d/%d heads of %d, vocabulary %d, "
		 "context %d\n", r->model->dir, c->arch, c->n_layers, c->d_model,
		 c->n_heads, c->n_kv_heads, c->head_dim, c->n_vocab, c->max_ctx);
	if (c->n_experts)
		buf_addf(b, "%d experts of %d, %d a token\n", c->n_experts,
			 c->expert_dim, c->n_experts_used);
	buf_addf(b, "\n%-10s %8s %14s %10s %6s %14s\n", "part", "tensors", "weights",
		 "MiB", "bits", "MiB/token");
	for (enum part p = 0; p < PART_COUNT; p++)
		if (s->part[p].n_tensors || s->part[p].token_bytes)
			buf_addf(b, "%-10s %8lld %14lld %10.2f %6.2f %14.3f\n",
				 part_name(p), (long long)s->part[p].n_tensors,
				 (long long)s->part[p].n_weights,
				 mib(s->part[p].n_bytes),
				 bits_per_weight(s->part[p].n_bytes,
						 s->part[p].n_weights),
				 mib(s->part[p].token_bytes));
	buf_addf(b, "%-10s %8s %14s %10.2f %6s %14.3f\n", "KV", "", "",
		 mib(r->kv_bytes), "", mib(r->kv_read_bytes));
	if (r->state_bytes) /* read and written */
		buf_addf(b, "%-10s %8s %14s %10.2f %6s %14.3f\n", "state", "", "",
			 mib(r->state_bytes * r->args->seqs), "",
			 mib(2 * r->state_bytes));
	buf_addf(b, "%-10s %8lld %14lld %10.2f %6.2f %14.3f\n", "all",
		 (long long)s->n_tensors, (long long)s->n_weights,
		 mib(memory_bytes(r) + s->part[PART_NGRAMS].n_bytes),
		 bits_per_weight(s->n_bytes, s->n_weights),
		 mib(s->token_bytes + r->kv_read_bytes + 2 * r->state_bytes));
	buf_addf(b, "\n%-10s %8s %14s %10s %6s\n", "format", "", "weights", "MiB", "bits");
	add_formats(b, s, false);
	if (model_repack_bytes(r->model))
		buf_addf(b, "put in another order or format at load: %.2f MiB\n",
			 mib((int64_t)model_repack_bytes(r->model)));
	if (s->part[PART_NGRAMS].n_bytes)
		buf_addf(b, "n-grams that stay in the model's files, and are not in the memory: "
			 "%.2f MiB\n", mib(s->part[PART_NGRAMS].n_bytes));
	if (panel_bytes(s))
		buf_addf(b, "copied into panels by the CPU at load: up to %.2f MiB\n",
			 mib(panel_bytes(s)));
	buf_addf(b, "repacked for HIP at load: %.2f MiB\n", mib(hip_repack_bytes(s)));
	if (int8_head_bytes(r))
		buf_addf(b, "output head where lm-head is int8: %.3f MiB/token, copied at "
			 "load\n", mib(int8_head_bytes(r)));
	buf_addf(b, "\nKV: %s, %lld bytes a token, for %lld sequences of %lld; "
		 "read at depth %lld\n", dtype_name(r->kv_type),
		 (long long)r->kv_token_bytes, (long long)r->args->seqs,
		 (long long)r->args->ctx, (long long)r->args->depth);
	if (model_asks_fp8_kv(r->model))
		buf_add_z(b, "the checkpoint asks for a KV cache in FP8 or less: it gets this "
			  "one\n");
}

static void add_key(struct buf *b, const char *key, int64_t v)
{
	buf_addf(b, ",\"%s\":%lld", key, (long long)v);
}

static void add_config(struct buf *b, const struct model_config *c)
{
	buf_addf(b, "{\"arch\":\"%s\"", c->arch);
	add_key(b, "layers", c->n_layers);
	add_key(b, "d_model", c->d_model);
	add_key(b, "heads", c->n_heads);
	add_key(b, "kv_heads", c->n_kv_heads);
	add_key(b, "head_dim", c->head_dim);
	add_key(b, "ffn_dim", c->ffn_dim);
	add_key(b, "experts", c->n_experts);
	add_key(b, "experts_used", c->n_experts_used);
	add_key(b, "expert_dim", c->expert_dim);
	add_key(b, "vocab", c->n_vocab);
	add_key(b, "max_ctx", c->max_ctx);
	buf_addf(b, ",\"tied_embeddings\":%s}", c->tied_embeddings ? "true" : "false");
}

static void add_json(struct buf *b, const struct inspect_report *r)
{
	const struct survey *s = &r->survey;
	buf_add_z(b, "{\"model\":");
	buf_add_json(b, str_of(r->model->dir));
	buf_add_z(b, ",\"config\":");
	add_config(b, &r->model->config);
	buf_add_z(b, ",\"parts\":{");
	for (enum part p = 0; p < PART_COUNT; p++) {
		buf_addf(b, "%s\"%s\":{\"tensors\":%lld", p ? "," : "", part_name(p),
			 (long long)s->part[p].n_tensors);
		add_key(b, "weights", s->part[p].n_weights);
		add_key(b, "bytes", s->part[p].n_bytes);
		add_key(b, "bytes_per_token", s->part[p].token_bytes);
		buf_add_c(b, '}');
	}
	buf_add_z(b, "},\"formats\":{");
	add_formats(b, s, true);
	buf_addf(b, "},\"tensors\":%lld", (long long)s->n_tensors);
	add_key(b, "weights", s->n_weights);
	add_key(b, "weight_bytes", s->n_bytes);
	add_key(b, "repack_bytes", (int64_t)model_repack_bytes(r->model));
	add_key(b, "cpu_panel_bytes", panel_bytes(s));
	add_key(b, "hip_repack_bytes", hip_repack_bytes(s));
	add_key(b, "int8_head_bytes", int8_head_bytes(r));
	buf_add_z(b, ",\"bits_per_weight\":");
	buf_add_json_num(b, bits_per_weight(s->n_bytes, s->n_weights));
	buf_addf(b, ",\"kv_type\":\"%s\",\"asks_fp8_kv\":%s", dtype_name(r->kv_type),
		 model_asks_fp8_kv(r->model) ? "true" : "false");
	add_key(b, "kv_bytes_per_token", r->kv_token_bytes);
	add_key(b, "kv_bytes", r->kv_bytes);
	add_key(b, "state_bytes", r->state_bytes);
	add_key(b, "memory_bytes", memory_bytes(r));
	add_key(b, "depth", r->args->depth);
	add_key(b, "kv_read_bytes", r->kv_read_bytes);
	add_key(b, "bytes_per_decoded_token",
		s->token_bytes + r->kv_read_bytes + 2 * r->state_bytes);
	if (r->args->tensors) {
		buf_add_z(b, ",\"list\":[");
		add_tensors(b, r->model, true);
		buf_add_c(b, ']');
	}
	buf_add_z(b, "}\n");
}

/* The type of the KV cache is the backend's choice, unless int8 was asked for. */
static enum status kv_type_of(const struct inspect_args *a, enum dtype *out, struct fail *fail)
{
	struct backend_opts o = {.name = a->backend, .n_threads = 1,
				 .hip_library = a->hip_library};
	struct backend *b;
	enum status st = backend_create(&o, &b, fail);
	if (st != OK)
		return st;
	*out = a->int8_kv ? DTYPE_I8 : b->kv_type;
	backend_destroy(b);
	return OK;
}

static void print_report(const struct model *m, struct inspect_args *a,
			 enum dtype kv_type)
{
	struct inspect_report r = {.model = m, .args = a, .kv_type = kv_type};
	struct buf out = {0};
	if (a->ctx == 0 || a->ctx > m->config.max_ctx)
		a->ctx = m->config.max_ctx;
	survey_model(m, &r.survey);
	r.kv_token_bytes = survey_kv_bytes(&m->config, kv_type);
	r.kv_bytes = r.kv_token_bytes * a->ctx * a->seqs;
	r.kv_read_bytes = survey_kv_read(&m->config, kv_type, a->depth);
	r.state_bytes = model_state_numbers(&m->config) * (int64_t)sizeof(float);
	if (a->json) {
		add_json(&out, &r);
	} else {
		if (a->tensors) {
			add_tensors(&out, m, false);
			buf_add_c(&out, '\n');
		}
		add_text(&out, &r);
	}
	fwrite(out.p, 1, out.n, stdout);
	buf_deinit(&out);
}

int cmd_inspect(int argc, char **argv)
{
	struct inspect_args a = {.backend = "cpu", .seqs = 1};
	const char *kv = NULL;
	const struct option_row rows[] = {
		MODEL_OPTION(a.dir),
		{"backend", 0, OPTION_TEXT, &a.backend, 0, 0, "NAME",
		 "whose KV cache to count (cpu)"},
		{"hip-library", 0, OPTION_TEXT, &a.hip_library, 0, 0, "FILE",
		 "the HIP runtime (libamdhip64.so of the system)"},
		{"kv-type", 0, OPTION_TEXT, &kv, 0, 0, "TYPE",
		 "the KV cache to count: the backend's (auto), or int8 (auto)"},
		{"ctx", 'c', OPTION_INT, &a.ctx, 0, 1 << 27, "N",
		 "tokens a sequence (0: the model's context)"},
		{"seqs", 's', OPTION_INT, &a.seqs, 1, 4096, "N",
		 "sequences at once (1)"},
		{"depth", 'd', OPTION_INT, &a.depth, 0, 1 << 27, "N",
		 "tokens in the cache when one is decoded (0)"},
		{"tensors", 0, OPTION_FLAG, &a.tensors, 0, 0, NULL,
		 "list every tensor"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"inspect",
				 "What a checkpoint holds, the memory it needs, and what "
				 "a decoded token reads.", rows, ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.dir)
		return options_fault(&set, "--model is needed");
	if (!session_is_int8("kv-type", kv, "auto", &a.int8_kv))
		return EXIT_USAGE;
	struct model *m = NULL;
	enum dtype kv_type;
	struct fail fail = {0};
	enum status st = model_open(a.dir, NULL, &m, &fail);
	if (st == OK)
		st = kv_type_of(&a, &kv_type, &fail);
	if (st == OK) {
		print_report(m, &a, kv_type);
	} else {
		fail_default(&fail, st);
		options_failure("%s", fail.text);
	}
	model_close(m);
	return st == OK ? EXIT_OK : EXIT_USAGE;
}
