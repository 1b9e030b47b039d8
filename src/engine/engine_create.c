/* SPDX-License-Identifier: Apache-2.0
 *
 * From a model and a backend to an engine: which architecture, how many pages.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "engine/family.h"
#include "engine/eagle.h"
#include "engine/engine_disk.h"
#include "engine/engine_private.h"
#include "engine/memory_plan.h"
#include "engine/mtp.h"
#include "engine/rope.h"
#include "model/lora.h"

static const struct {
	const char *model_type;
	const struct family *family;
} archs[] = {
#define ARCH(model_type, ident, ...) {model_type, &family_##ident},
#include "model/archs.def"
#undef ARCH
};

static const struct family *find_family(const char *model_type)
{
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (strcmp(archs[i].model_type, model_type) == 0)
			return archs[i].family;
	return NULL;
}

static const struct family *family_of_draft(const struct model *draft)
{
	return draft->config.eagle.is_head ? &family_eagle : find_family(draft->config.arch);
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

/* Default number of checkpoints. Without a prefix cache only the slots that forks and steps need
 * for a short time. */
static int32_t n_checkpoints(const struct engine_opts *o)
{
	if (!o->prefix_cache)
		return o->max_seqs;
	return o->n_checkpoints ? o->n_checkpoints : 2 * o->max_seqs;
}

static void set_defaults(struct engine_opts *o, int32_t max_ctx)
{
	o->n_ctx = o->n_ctx ? o->n_ctx : max_ctx;
	o->page_size = o->page_size ? o->page_size : 16;
	o->max_seqs = o->max_seqs ? o->max_seqs : 8;
	o->max_batch_tok = o->max_batch_tok ? o->max_batch_tok : 4096;
}

/* If experts may be read from a file, sets b->expert_bytes, and counts that in need->weights in
 * place of all experts. Returns their bytes in memory. */
static int64_t plan_experts(const struct model *m, struct backend *b,
			 const struct memory_have *have, const struct memory_wish *wish,
			 struct memory_need *need)
{
	b->expert_bytes = 0;
	int64_t experts = b->expert_memory ? model_expert_bytes(m) : 0;
	if (experts == 0)
		return 0;
	need->weights -= experts;
	b->expert_bytes = b->expert_memory > 0
				  ? b->expert_memory
				  : memory_plan_experts(need, have, wish, experts);
	experts = b->expert_bytes ? MIN(b->expert_bytes, experts) : experts;
	need->weights += experts;
	return experts;
}

/* Bytes of a token in the cache, and in the memory where the backend widens one
 * layer at a time. */
static int64_t token_kv_bytes(const struct model_config *c, const struct backend *b,
			      const struct graph_limits *l)
{
	int64_t n = model_kv_bytes(c, l->kv_type), most = 0;
	if (l->mtp)
		n += model_layer_kv_bytes(c, c->n_layers, l->kv_type);
	for (int32_t i = 0; i < c->n_layers + l->mtp; i++)
		if (i >= c->n_layers || model_attends(c, i))
			most = MAX(most, model_layer_kv_bytes(c, i, DTYPE_F16));
	return n + (l->kv_type == DTYPE_I8 && b->widens_kv ? most : 0);
}

/* OK if the model's keys and values can be in 8 bits. */
static enum status check_int8_kv(const struct model_config *c, const struct family *family,
				 struct fail *fail)
{
	if (family->no_int8_kv)
		return fail_at(fail, E_CONFIG, "kv_type",
			       "kv_type = int8 is not possible with this model: %s. Set "
			       "kv_type to auto", family->no_int8_kv);
	for (int32_t i = 0; i < c->n_layers; i++) {
		int32_t dim = model_head_dim(c, i);
		if (model_attends(c, i) && (dim % KV_PAGES_ALIGN || dim > KV_PAGES_WIDEST))
			return fail_at(fail, E_CONFIG, "kv_type",
				       "kv_type = int8 is not possible with this model: heads "
				       "of %d elements (multiples of %d up to %d can be). Set "
				       "kv_type to auto", (int)dim, KV_PAGES_ALIGN,
				       KV_PAGES_WIDEST);
	}
	return OK;
}

/* The limits of the graph of o->draft. It reads prompts behind the model, in short steps. */
enum { DRAFT_TOK = 512 };
static void set_draft_limits(const struct backend *b, const struct engine_opts *o,
			     const struct family *family, struct graph_limits *l)
{
	const struct model_config *c = &o->draft->config;
	bool is_int8 = o->int8_kv && check_int8_kv(c, family, NULL) == OK;
	bool is_head = c->eagle.is_head; /* it runs in all steps of the model */
	*l = (struct graph_limits){
		.n_ctx = is_head ? o->n_ctx : MIN(o->n_ctx, c->max_ctx),
		.page_size = o->page_size, .max_seqs = o->max_seqs,
		.max_batch_tok = is_head ? o->max_batch_tok : MIN(o->max_batch_tok, DRAFT_TOK),
		.kv_type = is_int8 ? DTYPE_I8 : b->kv_type, .drafts = true,
		.mtp_vocab = o->mtp_vocab, .load = o->load};
}

void engine_memory(struct backend *b, struct memory_have *out)
{
	struct backend_memory m;
	b->ops->memory(b, &m);
	*out = (struct memory_have){m.total, m.free, m.is_system, b->device};
}

static bool uses_disk(const struct engine_opts *o)
{
	return o->kv_dir && *o->kv_dir && o->prefix_cache;
}

/* Sets all limits except those that depend on the memory. */
static void set_limits(const struct model *m, const struct backend *b,
		       const struct engine_opts *o, struct graph_limits *l)
{
	*l = (struct graph_limits){.n_ctx = o->n_ctx, .page_size = o->page_size,
				  .max_seqs = o->max_seqs,
				  .max_batch_tok = o->max_batch_tok,
				  .kv_type = o->int8_kv ? DTYPE_I8 : b->kv_type,
				  .gives_rows = o->gives_rows,
				  .moves = uses_disk(o),
				  .mtp = o->mtp && m->config.mtp && !o->gives_rows,
				  .mtp_vocab = o->mtp_vocab,
				  .image_rules = o->image_rules,
				  .loras = o->loras, .n_loras = o->n_loras,
				  .load = o->load};
	if (o->draft && o->draft->config.eagle.is_head) {
		l->has_taps = true;
		draft_model_taps(m, o->draft, l->taps);
	}
}

static int32_t n_states(const struct model *m, const struct engine_opts *o)
{
	return m->config.n_linear > 0 ? o->max_seqs + n_checkpoints(o) : 0;
}

/* If o->draft is a head, its graph is one for `target`. */
static void set_target(const struct engine_opts *o, const struct engine_graph *target,
		       struct graph_limits *l)
{
	if (!o->draft->config.eagle.is_head)
		return;
	l->target = target;
	l->mtp = true;
}

/* Adds what o->draft needs: it has as many pages as the model. */
static void count_draft(struct backend *b, const struct engine_opts *o, struct memory_need *need)
{
	const struct family *family = family_of_draft(o->draft);
	const struct engine_graph target = {.ctx = NULL};
	struct graph_limits l;
	set_draft_limits(b, o, family, &l);
	need->weights += model_weight_bytes(o->draft);
	need->page += token_kv_bytes(&o->draft->config, b, &l) * o->page_size;
	set_target(o, &target, &l);
	need->scratch += graph_measure(o->draft, b, family, &l);
}

/* Bytes of the adapters as their files have them, which stay until the graph has its own. */
static int64_t lora_file_bytes(const struct engine_opts *o)
{
	size_t n = 0;
	for (int i = 0; i < o->n_loras; i++)
		n += lora_bytes(o->loras[i]);
	return (int64_t)n;
}

/* Decides the number of pages, and a smaller context if needed. Nothing large is allocated
 * before this. */
static enum status plan_pages(struct model *m, struct backend *b, const struct family *family,
			      const struct engine_opts *o, bool ctx_is_asked,
			      struct memory_plan *p, struct fail *fail)
{
	struct graph_limits limits, *l = &limits;
	if (o->int8_kv && b->lacks_int8_kv)
		return fail_at(fail, E_CONFIG, "kv_type", "kv_type = int8 is not possible on "
			       "backend %s. Set kv_type to auto", b->name);
	set_limits(m, b, o, l);
	struct memory_need need = {
		.weights = model_weight_bytes(m) + (l->mtp ? model_mtp_bytes(m) : 0),
		.scratch = graph_measure(m, b, family, l),
		.page = token_kv_bytes(&m->config, b, l) * o->page_size,
		.beside = o->beside};
	l->n_states = n_states(m, o);
	need.states = graph_measure(m, b, family, l) - need.scratch;
	if (o->draft)
		count_draft(b, o, &need);
	struct memory_have have;
	if (o->have)
		have = *o->have;
	else
		engine_memory(b, &have);
	int64_t buffers = 0;
	if (have.is_system && uses_disk(o))
		buffers = engine_disk_bytes(
			o->max_seqs, l->n_states ? (size_t)(need.states / l->n_states) : 0);
	need.beside += buffers + (have.is_system ? lora_file_bytes(o) : 0);
	const struct memory_wish wish = {
		.page_size = o->page_size, .n_ctx = o->n_ctx,
		.max_seqs = o->kv_seqs ? o->kv_seqs : o->max_seqs,
		.ctx_is_asked = ctx_is_asked, .kv_bytes = o->kv_bytes, .model_key = o->model_key,
		.ctx_key = o->ctx_key, .is_shared = o->shares_memory};
	int64_t experts = plan_experts(m, b, &have, &wish, &need);
	enum status st = memory_plan(&need, &have, &wish, p, fail);
	if (st != OK)
		return st;
	p->experts = experts;
	p->taken += buffers;
	if (p->n_pages > INT32_MAX / o->page_size)
		return fail_at(fail, E_CONFIG, "kv_cache",
			       "a KV cache of %lld pages of %d tokens: %d tokens are possible",
			       (long long)p->n_pages, o->page_size, INT32_MAX);
	return OK;
}

/* Check the model's architecture and *opts; fill *o with defaults. */
static enum status check_model(struct model *m, const struct engine_opts *opts,
			       const struct family **family, struct engine_opts *o,
			       struct fail *fail)
{
	*family = find_family(m->config.arch);
	if (m->config.is_encoder)
		return fail_at(fail, E_UNSUPPORTED, "model_type", "%s is an encoder, which "
			       "reads and does not write; name it with embedding_model or "
			       "rerank_model", m->dir);
	if (!*family)
		return fail_at(fail, E_UNSUPPORTED, "model_type",
			       "config.json: model_type %s is not supported",
			       m->config.arch);
	if (!m->config.has_head && !opts->gives_rows)
		return fail_at(fail, E_UNSUPPORTED, "architectures",
			       "%s has no output head and cannot write text; name it with "
			       "embedding_model or rerank_model", m->dir);
	if (m->config.n_classes && !opts->gives_classes)
		return fail_at(fail, E_UNSUPPORTED, "architectures", "%s is a forced aligner, "
			       "which writes no text; name it with aligner_model", m->dir);
	*o = *opts;
	enum status st = check_opts(o, m->config.max_ctx, fail);
	if (st != OK)
		return st;
	st = o->int8_kv ? check_int8_kv(&m->config, *family, fail) : OK;
	if (st != OK)
		return st;
	set_defaults(o, m->config.max_ctx);
	char lacks[200];
	if (o->mtp && m->config.mtp_unlike)
		log_warn("the MTP layer (multi-token prediction) is not used: config.json has a "
			 "%s of its own, which halod does not know", m->config.mtp_unlike);
	if (o->mtp && graph_mtp_lacks(m, *family, lacks)) {
		log_warn("the MTP layer (multi-token prediction) is not used: the "
			 "model's files have no %s", lacks);
		o->mtp = false;
	}
	o->mtp &= !o->draft;
	if (o->draft && !family_of_draft(o->draft))
		return fail_at(fail, E_CONFIG, "draft_model", "draft_model: config.json: "
			       "model_type %s is not supported", o->draft->config.arch);
	st = o->draft ? draft_model_check(m, o->draft, fail) : OK;
	const struct graph_limits loras = {.loras = o->loras, .n_loras = o->n_loras};
	return st == OK && o->n_loras ? graph_check_loras(m, *family, &loras, fail) : st;
}

enum status engine_plan(struct model *m, struct backend *b, const struct engine_opts *opts,
			struct memory_plan *out, struct fail *fail)
{
	const struct family *family;
	struct engine_opts o;
	enum status st = check_model(m, opts, &family, &o, fail);
	return st == OK ? plan_pages(m, b, family, &o, opts->n_ctx != 0, out, fail) : st;
}

enum status engine_plan_beside(struct model *m, struct backend *b, const struct engine_opts *opts,
			       struct memory_ledger *l, struct memory_plan *out, struct fail *fail)
{
	struct engine_opts o = *opts;
	o.have = l ? &l->device : NULL;
	/* The ledger measured memory before this backend existed. */
	o.beside = l ? l->device_taken + b->own_bytes : 0;
	enum status st = engine_plan(m, b, &o, out, fail);
	if (st == OK && l)
		memory_ledger_take(l, true, out->taken + b->own_bytes);
	return st;
}

static enum status open_disk(struct engine *e, const struct model *m, const struct backend *b,
			     const struct engine_opts *o, struct fail *fail)
{
	struct buf key = {0};
	struct fail f = {0};
	if (!uses_disk(o))
		return OK;
	enum status st = engine_disk_key(m, b, o, &key, &f);
	if (st == OK)
		st = engine_disk_open(e, o->kv_dir, o->kv_disk_limit, buf_str(&key), &f);
	buf_deinit(&key);
	if (st != OK && o->kv_dir_is_needed)
		return fail_set(fail, st, "kv_dir cannot be used: %.400s", f.text);
	if (st != OK)
		log_warn("kv_dir is not used: %s", f.text);
	return OK;
}

/* Logs which factors are in use. Both are right for prompts of their length, so the owner may
 * want the other. */
static void tell_rope(const struct rope *r, int32_t n_ctx)
{
	if (r->kind == ROPE_LONG)
		log_info("longrope: sequences of up to %d tokens, the first training had %.0f: "
			 "positions rotate by %s", (int)n_ctx, r->original_ctx,
			 rope_is_long(r, n_ctx) ? "long_factor" : "short_factor");
}

/* Takes the memory of o->draft. Its experts, if it has any, all stay in memory. */
static enum status create_draft(struct backend *b, const struct engine_opts *o, int n_pages,
				const struct engine_graph *target, struct draft_model **out,
				struct fail *fail)
{
	const struct family *family = family_of_draft(o->draft);
	struct graph_limits limits;
	struct engine_graph graph;
	int64_t expert_bytes = b->expert_bytes;
	set_draft_limits(b, o, family, &limits);
	set_target(o, target, &limits);
	limits.n_pages = n_pages;
	b->expert_bytes = 0;
	enum status st = graph_create(o->draft, b, family, &limits, &graph, fail);
	b->expert_bytes = expert_bytes;
	if (st == OK)
		*out = draft_model_create(&graph, n_pages, limits.max_batch_tok);
	return st == OK ? OK : fail_within(fail, st, "draft_model");
}

/* Who watches sees one sum: the weights of the model, and then those of o->draft. */
struct load_sum {
	struct load_watch watch;
	int64_t before, behind, total; /* bytes; total: of what is being loaded */
};
static void tell_sum(void *ctx, int64_t done, int64_t total)
{
	struct load_sum *s = ctx;
	s->total = total;
	if (s->watch.fn)
		s->watch.fn(s->watch.ctx, s->before + done, s->before + total + s->behind);
}

enum status engine_create(struct model *m, struct backend *b,
			  const struct engine_opts *opts, struct engine **out,
			  struct fail *fail)
{
	const struct family *family;
	struct engine_opts o;
	struct graph_limits limits;
	struct engine_graph graph;
	struct memory_plan p;
	enum status st = check_model(m, opts, &family, &o, fail);
	if (st == OK && o.plan)
		p = *o.plan;
	else if (st == OK)
		st = plan_pages(m, b, family, &o, opts->n_ctx != 0, &p, fail);
	if (st != OK)
		return st;
	struct load_sum sum = {.watch = o.load,
			       .behind = o.draft ? model_weight_bytes(o.draft) : 0};
	o.load = (struct load_watch){tell_sum, &sum};
	set_limits(m, b, &o, &limits);
	limits.n_states = n_states(m, &o);
	limits.n_pages = (int32_t)p.n_pages;
	limits.n_ctx = o.n_ctx = p.n_ctx;
	st = graph_create(m, b, family, &limits, &graph, fail);
	if (st != OK)
		return st;
	st = engine_create_with(&graph, &o, limits.n_pages, out);
	if (st != OK) {
		graph.destroy(graph.ctx);
		return fail_set(fail, st, "no memory for batches of %d tokens",
				o.max_batch_tok);
	}
	tell_rope(&m->config.ropes[0], p.n_ctx);
	sum.before = sum.total;
	sum.behind = 0;
	if (o.draft)
		st = create_draft(b, &o, limits.n_pages, &(*out)->graph, &(*out)->beside, fail);
	if (st == OK)
		st = open_disk(*out, m, b, &o, fail);
	if (st != OK) {
		engine_destroy(*out);
		*out = NULL;
	}
	return st;
}
