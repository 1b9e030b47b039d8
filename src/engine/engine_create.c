/* SPDX-License-Identifier: Apache-2.0
 *
 * From a model and a backend to an engine: which architecture, how many pages.
 */
#include <string.h>

#include "base/alloc.h"
#include "engine/arch.h"

static const struct {
	const char *model_type;
	const struct arch *arch;
} archs[] = {
#define ARCH(model_type, ident, ...) {model_type, &arch_##ident},
#include "model/archs.def"
#undef ARCH
};

static const struct arch *find_arch(const char *model_type)
{
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (strcmp(archs[i].model_type, model_type) == 0)
			return archs[i].arch;
	return NULL;
}

static enum status check_opts(const struct engine_opts *o, int max_ctx,
			      struct fail *fail)
{
	if (o->n_ctx < 0 || o->n_ctx > max_ctx)
		return fail_at(fail, E_CONFIG, "n_ctx",
			       "a context of %d tokens: the model has 1 to %d",
			       o->n_ctx, max_ctx);
	if (o->page_size < 0 || o->page_size > 1024)
		return fail_at(fail, E_CONFIG, "page_size",
			       "KV pages of %d tokens: 1 to 1024 are possible",
			       o->page_size);
	if (o->max_seqs < 0 || o->max_seqs > 1024)
		return fail_at(fail, E_CONFIG, "max_seqs",
			       "%d sequences a step: 1 to 1024 are possible",
			       o->max_seqs);
	if (o->max_batch_tok < 0 || o->max_batch_tok > 1 << 16)
		return fail_at(fail, E_CONFIG, "max_batch_tok",
			       "%d tokens a step: 1 to 65536 are possible",
			       o->max_batch_tok);
	if (o->n_checkpoints < 0 || o->n_checkpoints > 1 << 16)
		return fail_at(fail, E_CONFIG, "state_checkpoints",
			       "%d checkpoints of recurrent state: 0 to 65536 are "
			       "possible", o->n_checkpoints);
	return OK;
}

/* Without a prefix cache only the slots that forks and steps need in passing. */
static int32_t n_checkpoints(const struct engine_opts *o)
{
	if (!o->prefix_cache)
		return o->max_seqs;
	return o->n_checkpoints ? o->n_checkpoints : 2 * o->max_seqs;
}

/* Fills in the defaults of o, and the pages that kv_bytes are. */
static enum status set_limits(struct engine_opts *o, size_t token_bytes, bool has_states,
			      struct arch_limits *out, struct fail *fail)
{
	o->page_size = o->page_size ? o->page_size : 16;
	o->max_seqs = o->max_seqs ? o->max_seqs : 8;
	o->max_batch_tok = o->max_batch_tok ? o->max_batch_tok : 2048;
	int64_t per_seq = (o->n_ctx + (int64_t)o->page_size - 1) / o->page_size;
	int64_t n_pages = per_seq * o->max_seqs;
	if (o->kv_bytes)
		n_pages = o->kv_bytes / ((int64_t)token_bytes * o->page_size);
	if (n_pages < 1 || n_pages > INT32_MAX / o->page_size)
		return fail_at(fail, E_CONFIG, "kv_bytes",
			       "a KV cache of %lld pages of %d tokens (%zu bytes each) "
			       "cannot be", (long long)n_pages, o->page_size,
			       token_bytes);
	*out = (struct arch_limits){
		.n_ctx = o->n_ctx, .page_size = o->page_size,
		.n_pages = (int32_t)n_pages, .max_seqs = o->max_seqs,
		.max_batch_tok = o->max_batch_tok,
		.n_states = has_states ? o->max_seqs + n_checkpoints(o) : 0};
	return OK;
}

enum status engine_create(struct model *m, struct backend *b,
			  const struct engine_opts *opts, struct engine **out,
			  struct fail *fail)
{
	const struct arch *arch = find_arch(m->config.arch);
	if (!arch)
		return fail_at(fail, E_UNSUPPORTED, "model_type",
			       "config.json: model_type %s is not supported",
			       m->config.arch);
	struct engine_opts o = *opts;
	struct arch_limits limits;
	struct engine_graph graph;
	enum status st = check_opts(&o, m->config.max_ctx, fail);
	if (st != OK)
		return st;
	o.n_ctx = o.n_ctx ? o.n_ctx : m->config.max_ctx;
	size_t token_bytes = (size_t)model_kv_numbers(&m->config) *
			     dtype_bytes(b->kv_type);
	st = set_limits(&o, token_bytes, m->config.n_linear > 0, &limits, fail);
	if (st == OK)
		st = graph_create(m, b, arch, &limits, &graph, fail);
	if (st != OK)
		return st;
	st = engine_create_with(&graph, &o, limits.n_pages, out);
	if (st != OK) {
		graph.destroy(graph.ctx);
		return fail_set(fail, st, "no memory for batches of %d tokens",
				o.max_batch_tok);
	}
	return OK;
}
