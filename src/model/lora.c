/* SPDX-License-Identifier: Apache-2.0
 *
 * A module's name becomes that of Hugging Face's models, from "layers." on, as those of the base
 * model's tensors do. B has rows in the order of the files that the adapter was made for: GGUF's or
 * Hugging Face's. Where rope rotates neighbours there, rows of q and k are put in the order of the
 * opened model (model_stored_row). So are value heads of delta nets, which GGUF has in another
 * order for some models.
 *
 * All experts of a layer may be one module. GGUF has A (E, R, K) and B (E, N, R). PEFT wraps the
 * parameters gate_up_proj and down_proj of one module, "experts", in each other. It saves A
 * (E R, K) and B (N, R E), whose names do not tell the parameter: the sizes do.
 */
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/formats/quant.h"
#include "model/gguf_model.h"
#include "model/lora_peft.h"
#include "model/model_arch.h"
#include "model/safetensors.h"
#include "model/usual_names.h"

/* One file that is being read. */
struct lora_reader {
	struct lora *l;
	const struct model *m;
	const char *path;           /* of the tensors' file, for messages */
	struct lora_peft *peft;     /* NULL: GGUF */
	struct gguf gguf;
	bool looks;                 /* shapes alone are wanted */
	double alpha;               /* GGUF: of all modules; 0: their factors are 1 */
	bool is_paired;             /* rows of q and k are stored in pairs */
	bool is_tiled;              /* as the model's delta.heads_tiled */
	struct strmap by_file_name; /* index of a module */
	struct fail *fail;
};

/* --- names ---------------------------------------------------------------------------- */

/* Sets the module's layer and name. The text model's layers are below one of `bodies`; a tower's
 * are not. */
static void place(struct lora_module *o, const char *hf, struct arena *a)
{
	static const char *const bodies[] = {
		"", "model.", "language_model.", "language_model.model.", "model.language_model.",
		"thinker.model.", "backbone.", "backbone.model.", "transformer."};
	static const char layers[] = "layers.";
	const char *at = strstr(hf, layers);
	bool is_text = false;
	for (size_t i = 0; at && i < ARRAY_LEN(bodies); i++)
		is_text |= str_is((struct str){hf, (size_t)(at - hf)}, bodies[i]);
	char *end = NULL;
	long n = is_text ? strtol(at + strlen(layers), &end, 10) : -1;
	bool is = is_text && end != at + strlen(layers) && *end == '.' && n >= 0 && n < INT32_MAX;
	o->layer = is ? (int32_t)n : -1;
	o->name = is ? arena_strdup(a, at) : hf;
}

/* The name in Hugging Face's models of a module that the file calls `name`. */
static const char *usual_name(struct lora_reader *r, const char *name)
{
	static const struct str weight = STR(".weight");
	struct arena *a = &r->l->arena;
	struct buf full = {0};
	buf_addf(&full, "%s%s%c", name, r->peft ? weight.p : "", 0);
	const char *usual = r->peft ? usual_names_of(full.p, a)
				    : gguf_names_hf(&r->gguf, full.p, a);
	usual = usual ? usual : full.p;
	struct str module = str_of(usual);
	if (str_ends(module, weight))
		module.n -= weight.n;
	const char *out = arena_str(a, module).p;
	buf_deinit(&full);
	return out;
}

/* The module whose matrix the tensor is, and which of both: 'A' or 'B'. */
static enum status read_name(struct lora_reader *r, const char *tensor, struct str *out_module,
			     char *out_which)
{
	static const char *const of_gguf[] = {".lora_a", ".lora_b"};
	static const char *const of_peft[] = {".lora_A.weight", ".lora_B.weight"};
	static const struct str begin = STR("base_model.model.");
	const char *const *ends = r->peft ? of_peft : of_gguf;
	struct str name = str_of(tensor);
	if (r->peft && str_starts(name, begin))
		name = (struct str){name.p + begin.n, name.n - begin.n};
	for (int i = 0; i < 2; i++)
		if (str_ends(name, str_of(ends[i]))) {
			*out_module = (struct str){name.p, name.n - strlen(ends[i])};
			*out_which = "AB"[i];
			return OK;
		}
	return fail_at(r->fail, E_UNSUPPORTED, "tensor", "%.200s: the tensor %.120s is %s, which "
		       "is not supported", r->path, tensor,
		       r->peft ? lora_peft_other(tensor) : "no matrix A or B");
}

/* The name of the module that parameters of PEFT wrap; 0: it is no such module. */
static size_t wrapped_name(const struct lora_reader *r, struct str name)
{
	static const struct str base = STR(".base_layer"), experts = STR(".experts");
	while (str_ends(name, base))
		name.n -= base.n;
	return r->peft && str_ends(name, experts) ? name.n : 0;
}

/* The module of this name in the file, which is made where it is new. */
static struct lora_module *module_of(struct lora_reader *r, struct str name)
{
	uint32_t i;
	struct lora *l = r->l;
	size_t n_wrapped = wrapped_name(r, name);
	if (strmap_get(&r->by_file_name, name, &i))
		return &l->modules[i];
	struct lora_module *o = &l->modules[l->n_modules];
	*o = (struct lora_module){.file_name = arena_str(&l->arena, name).p, .layer = -1};
	place(o, usual_name(r, n_wrapped ? arena_str(&l->arena, (struct str){name.p, n_wrapped}).p
					 : o->file_name), &l->arena);
	strmap_put(&r->by_file_name, str_of(o->file_name), (uint32_t)l->n_modules++);
	return o;
}

/* --- numbers --------------------------------------------------------------------------- */

static enum status bad(struct lora_reader *r, const char *name, const char *what)
{
	return fail_at(r->fail, E_FORMAT, "tensor", "%.200s: %.120s %s", r->path, name, what);
}

/* Rows of a matrix, or of those of all experts; 0: it is none, or larger than any. */
static int64_t rows_of(const struct tensor *t, bool is_stack)
{
	bool is_matrix = t->n_dims == 2 + is_stack;
	for (int i = 0; i < t->n_dims; i++)
		is_matrix &= t->dim[i] >= 1 && t->dim[i] <= INT32_MAX;
	int64_t n = is_matrix ? t->dim[0] * (is_stack ? t->dim[1] : 1) : 0;
	return n <= INT32_MAX ? n : 0;
}

/* The numbers of a matrix, or of those of all experts, in the arena; NULL for a look. Blocks become
 * float32. */
static enum status decode(struct lora_reader *r, const struct tensor *t, bool is_stack,
			  enum dtype *out_type, const void **out)
{
	int64_t n_rows = rows_of(t, is_stack), k = t->dim[1 + is_stack];
	bool is_plain = t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16;
	if (!is_plain && t->dtype != DTYPE_BLOCKS)
		return bad(r, t->name, "has no type of numbers that a matrix can have");
	if (n_rows == 0)
		return bad(r, t->name, is_stack ? "is no matrix for each expert" : "is no matrix");
	*out_type = is_plain ? t->dtype : DTYPE_F32;
	if (r->looks)
		return OK;
	size_t n = (size_t)n_rows * (size_t)k, n_bytes = n * dtype_bytes(*out_type);
	void *x = arena_alloc(&r->l->arena, n_bytes);
	const struct weight w = {.quant = t->quant, .n = (int32_t)n_rows, .k = (int32_t)k,
				 .q = t->data, .name = t->name};
	if (is_plain)
		memcpy(x, t->data, n_bytes);
	else
		weight_decode(&w, 0, w.n, x);
	for (size_t i = 0; i < n; i++)
		if (!isfinite(blocks_float(x, *out_type, i)))
			return bad(r, t->name, "has numbers that are not finite");
	*out = x;
	return OK;
}

/* The same n numbers in float32. */
static const void *widen(struct lora_reader *r, const void *p, enum dtype type, size_t n)
{
	if (!p || type == DTYPE_F32)
		return p;
	float *x = arena_alloc(&r->l->arena, n * sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = blocks_float(p, type, i);
	return x;
}

/* Gives the module its A or B. It has one type for both. */
static void put(struct lora_reader *r, struct lora_module *o, char which, enum dtype type,
		const void *x)
{
	const void **other = which == 'A' ? &o->b : &o->a;
	size_t rank = (size_t)o->rank * lora_module_count(o);
	size_t n_other = rank * (size_t)(which == 'A' ? o->n : o->k);
	if (n_other && type != o->type) {
		*other = widen(r, *other, o->type, n_other);
		x = widen(r, x, type, rank * (size_t)(which == 'A' ? o->k : o->n));
		type = DTYPE_F32;
	}
	o->type = type;
	*(which == 'A' ? &o->a : &o->b) = x;
}

/* Divides the rank of a wrapped parameter among the experts. */
static enum status share_rank(struct lora_reader *r, struct lora_module *o, int32_t *rank)
{
	int32_t n = r->m->config.n_experts;
	o->n_experts = n;
	if (n && *rank % n == 0) {
		*rank /= n;
		return OK;
	}
	return fail_at(r->fail, E_CONFIG, "lora", "%.200s: %.120s has %d rows of A, and this model "
		       "%d routed experts, which would have as many each: the adapter was made for "
		       "another base model", r->path, o->file_name, (int)*rank, (int)n);
}

/* Takes A (R, K) or B (N, R), or those of all experts. */
static enum status take_matrix(struct lora_reader *r, const struct tensor *t)
{
	struct str name;
	char which = 0;
	const void *x = NULL;
	enum dtype type = DTYPE_F32;
	enum status st = read_name(r, t->name, &name, &which);
	if (st != OK)
		return st;
	struct lora_module *o = module_of(r, name);
	bool is_stack = !r->peft && strstr(o->name, "mlp.experts.");
	st = decode(r, t, is_stack, &type, &x);
	if (st != OK)
		return st;
	const int64_t *dim = t->dim + is_stack;
	int32_t rank = (int32_t)dim[which == 'B'], wide = (int32_t)dim[which == 'A'];
	int32_t *seen = which == 'A' ? &o->k : &o->n;
	if (is_stack && o->n_experts && o->n_experts != t->dim[0])
		return bad(r, o->file_name, "has an A and a B of different counts of experts");
	if (is_stack)
		o->n_experts = (int32_t)t->dim[0];
	if (wrapped_name(r, name))
		st = share_rank(r, o, &rank);
	if (st != OK)
		return st;
	if (*seen)
		return bad(r, t->name, "is there twice");
	if (o->rank && o->rank != rank)
		return bad(r, o->file_name, "has an A and a B of different ranks");
	if (rank > LORA_MAX_RANK)
		return fail_at(r->fail, E_UNSUPPORTED, "r", "%.200s: %.120s has rank %d: up to %d "
			       "are supported", r->path, o->file_name, (int)rank, LORA_MAX_RANK);
	o->rank = rank;
	r->l->rank = MAX(r->l->rank, rank);
	*seen = wide;
	put(r, o, which, type, x);
	return OK;
}

/* Puts rows of B in the order of the opened model. */
static enum status unpair(struct lora_reader *r, struct lora_module *o)
{
	int32_t dim = r->m->config.head_dim;
	size_t row = (size_t)o->rank * dtype_bytes(o->type);
	if (!r->is_paired || !(str_ends(str_of(o->name), STR(".self_attn.q_proj")) ||
			       str_ends(str_of(o->name), STR(".self_attn.k_proj"))))
		return OK;
	if (dim < 2 || o->n % dim)
		return bad(r, o->file_name, "has a B that is no whole heads: it was made for "
			   "another model");
	if (r->looks)
		return OK;
	char *to = arena_alloc(&r->l->arena, (size_t)o->n * row);
	for (int32_t i = 0; i < o->n; i++)
		memcpy(to + (size_t)i * row,
		       (const char *)o->b + (size_t)model_stored_row(i, dim) * row, row);
	o->b = to;
	return OK;
}

/* The value head in the order of the file that is head h in the order of the opened model. */
static int32_t head_of(const struct lora_reader *r, int32_t h)
{
	int32_t hk = r->m->config.delta.k_heads, each = r->m->config.delta.v_heads / hk;
	return r->is_tiled ? h % each * hk + h / each : h % hk * each + h / hk;
}

/* Puts heads of `size` numbers, of `bytes` each, in the order of the opened model: those of a row
 * (of `row` numbers) from number `first` on. */
static const void *reorder(struct lora_reader *r, const void *from, size_t n_rows, size_t row,
			   size_t first, size_t size, size_t bytes)
{
	int32_t n = r->m->config.delta.v_heads;
	char *to = arena_alloc(&r->l->arena, n_rows * row * bytes);
	memcpy(to, from, n_rows * row * bytes);
	for (size_t i = 0; i < n_rows; i++)
		for (int32_t h = 0; h < n; h++)
			memcpy(to + (i * row + first + (size_t)h * size) * bytes,
			       (const char *)from +
				       (i * row + first + (size_t)head_of(r, h) * size) * bytes,
			       size * bytes);
	return to;
}

/* Puts value heads of a delta net's projections in the order of the opened model: rows of B, or
 * columns of A. A module of other sizes stays, and is refused where the model's are known. */
static enum status untile(struct lora_reader *r, struct lora_module *o)
{
	static const char own[] = ".linear_attn.";
	const struct model_config *c = &r->m->config;
	const char *part = strstr(o->name, own);
	size_t bytes = dtype_bytes(o->type), v = (size_t)c->delta.v_dim, rank = (size_t)o->rank;
	int32_t n_v = c->delta.v_heads * c->delta.v_dim;
	int32_t keys = 2 * c->delta.k_heads * c->delta.k_dim;
	if (!part || r->is_tiled == c->delta.heads_tiled || c->delta.k_heads == c->delta.v_heads)
		return OK;
	part += strlen(own);
	bool is_qkv = strcmp(part, "in_proj_qkv") == 0, is_out = strcmp(part, "out_proj") == 0;
	bool is_z = strcmp(part, "in_proj_z") == 0;
	bool is_gate = strcmp(part, "in_proj_b") == 0 || strcmp(part, "in_proj_a") == 0;
	if (!is_qkv && !is_out && !is_z && !is_gate)
		return bad(r, o->file_name, "has its heads in another order than the model");
	if (r->looks || (is_out ? o->k != n_v
				: o->n != (is_qkv ? keys + n_v : is_z ? n_v : c->delta.v_heads)))
		return OK;
	if (is_out)
		o->a = reorder(r, o->a, rank, (size_t)n_v, 0, v, bytes);
	else
		o->b = reorder(r, o->b, 1, (size_t)o->n * rank, is_qkv ? (size_t)keys * rank : 0,
			       (is_gate ? 1 : v) * rank, bytes);
	return OK;
}

/* Copies n[0] n[1] n[2] n[3] numbers: number (h, i, j, l) is at place h at[0] + i at[1] + j at[2] +
 * l at[3]. */
static const void *restack(struct lora_reader *r, const void *from, const size_t n[4],
			   const size_t at[4], size_t bytes)
{
	char *to = arena_alloc(&r->l->arena, n[0] * n[1] * n[2] * n[3] * bytes), *p = to;
	for (size_t h = 0; h < n[0]; h++)
		for (size_t i = 0; i < n[1]; i++)
			for (size_t j = 0; j < n[2]; j++)
				for (size_t l = 0; l < n[3]; l++, p += bytes)
					memcpy(p, (const char *)from + (h * at[0] + i * at[1] +
									j * at[2] + l * at[3]) *
									       bytes, bytes);
	return to;
}

/* Which parameter a wrapped one of K inputs and N outputs is; NULL: none. *is_swapped: the file has
 * inputs for outputs. Of square ones the version tells that, but for files whose parameters are
 * (E, K, N), where all versions agree. */
static const char *parameter_of(const struct lora_reader *r, const struct lora_module *o,
				bool *is_swapped)
{
	const struct model_config *c = &r->m->config;
	bool is_mine = strcmp(c->arch, "gpt_oss") == 0 || strncmp(c->arch, "llama4", 6) == 0;
	bool is_old = lora_peft_swaps_sides(r->peft) && !is_mine;
	int32_t d = c->latent_dim ? c->latent_dim : c->d_model, f = c->expert_dim;
	const struct {
		const char *name;
		int32_t k, n;
	} all[] = {{"gate_up_proj", d, 2 * f}, {"down_proj", f, d}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		bool is = o->k == all[i].k && o->n == all[i].n;
		bool is_other = o->n == all[i].k && o->k == all[i].n;
		*is_swapped = is_other && is_old;
		if (is || *is_swapped)
			return all[i].name;
	}
	return NULL;
}

/* Names a wrapped parameter, and puts its A and B in the order of the experts. */
static enum status unwrap(struct lora_reader *r, struct lora_module *o, const char **out_name)
{
	bool is_swapped;
	const char *name = parameter_of(r, o, &is_swapped);
	size_t n_e = (size_t)o->n_experts, rank = (size_t)o->rank, bytes = dtype_bytes(o->type);
	size_t k = (size_t)o->k, n = (size_t)o->n;
	struct arena *arena = &r->l->arena;
	if (!name)
		return fail_at(r->fail, E_CONFIG, "lora", "%.200s: %.120s is for experts of %d "
			       "inputs and %d outputs, and is neither gate_up_proj nor down_proj "
			       "of this model: the adapter was made for another base model",
			       r->path, o->file_name, (int)o->k, (int)o->n);
	/* gpt-oss has a row of gate and one of up in turns. */
	bool in_turns = strcmp(r->m->config.arch, "gpt_oss") == 0 && *name == 'g';
	size_t parts = in_turns ? 2 : 1, row = rank * n_e;
	const void *a = o->a, *b = o->b;
	if (is_swapped) {
		o->n = (int32_t)k;
		o->k = (int32_t)n;
	}
	if (!r->looks && is_swapped) {
		o->a = restack(r, b, (const size_t[]){n_e, 1, rank, n},
			       (const size_t[]){1, 0, n_e, row}, bytes);
		o->b = restack(r, a, (const size_t[]){n_e, 1, k, rank},
			       (const size_t[]){rank * k, 0, 1, k}, bytes);
	} else if (!r->looks) {
		o->b = restack(r, b, (const size_t[]){n_e, parts, n / parts, rank},
			       (const size_t[]){1, row, parts * row, n_e}, bytes);
	}
	size_t n_file = wrapped_name(r, str_of(o->file_name));
	struct buf full = {0};
	buf_addf(&full, "%.*s.%s%c", (int)n_file, o->file_name, name, 0);
	*out_name = arena_strdup(arena, full.p);
	full.n = 0;
	buf_addf(&full, "%s.%s%c", o->name, name, 0);
	o->name = arena_strdup(arena, full.p);
	buf_deinit(&full);
	return OK;
}

static enum status finish_module(struct lora_reader *r, struct lora_module *o)
{
	if (!o->k || !o->n)
		return bad(r, o->file_name, o->k ? "has no B" : "has no A");
	o->scale = (float)(r->alpha != 0 ? r->alpha / o->rank : 1);
	const char *full_name = o->file_name;
	enum status st = wrapped_name(r, str_of(full_name)) ? unwrap(r, o, &full_name) : OK;
	if (st == OK)
		st = unpair(r, o);
	if (st == OK)
		st = untile(r, o);
	if (st == OK && r->peft)
		st = lora_peft_scale(r->peft, full_name, o->rank, &o->scale, r->fail);
	if (st == OK && strmap_put(&r->l->by_name, str_of(o->name),
				   (uint32_t)(o - r->l->modules)))
		st = bad(r, o->file_name, "is there by two names");
	return st;
}

static enum status take_all(struct lora_reader *r, const struct safetensors *file)
{
	struct lora *l = r->l;
	enum status st = OK;
	l->modules = xcalloc(file->n + 1, sizeof *l->modules);
	strmap_init(&r->by_file_name, file->n);
	strmap_init(&l->by_name, file->n);
	for (size_t i = 0; i < file->n && st == OK; i++)
		st = take_matrix(r, &file->tensors[i]);
	for (size_t i = 0; i < l->n_modules && st == OK; i++)
		st = finish_module(r, &l->modules[i]);
	strmap_deinit(&r->by_file_name);
	if (st == OK && !l->n_modules)
		st = fail_set(r->fail, E_FORMAT, "%.200s: no tensors", r->path);
	for (size_t i = 0; i < l->n_modules && st == OK && !r->looks; i++) {
		const struct lora_module *o = &l->modules[i];
		size_t rank = (size_t)o->rank * dtype_bytes(o->type) * lora_module_count(o);
		l->hash = hash_bytes(l->hash, o->name, strlen(o->name));
		l->hash = hash_bytes(l->hash, &o->scale, sizeof o->scale);
		l->hash = hash_bytes(l->hash, &o->type, sizeof o->type);
		l->hash = hash_bytes(l->hash, o->a, rank * (size_t)o->k);
		l->hash = hash_bytes(l->hash, o->b, rank * (size_t)o->n);
	}
	return st;
}

/* --- files ------------------------------------------------------------------------------ */

static enum status need_word(struct lora_reader *r, const char *key, const char *want)
{
	const struct gguf_value *v = gguf_find(&r->gguf, key);
	struct str word;
	if (!v)
		return fail_at(r->fail, E_MISSING, key, "%.200s: %s is missing: it is no adapter",
			       r->path, key);
	if (!gguf_string(v, &word) || !str_is(word, want))
		return fail_at(r->fail, E_UNSUPPORTED, key, "%.200s: %s is not \"%s\"", r->path,
			       key, want);
	return OK;
}

/* Has the base model the adapter's architecture, as far as can be told? Several model_types have
 * one name in GGUF, and some have none. */
static bool is_of_base(const struct lora_reader *r, struct str *out_name)
{
	const struct gguf *base = tensors_gguf(r->m->tensors);
	const struct gguf_value *v = gguf_find(&r->gguf, "general.architecture");
	const struct gguf_value *own = base ? gguf_find(base, "general.architecture") : NULL;
	struct str own_name;
	*out_name = STR("");
	if (!v || !gguf_string(v, out_name))
		return false;
	if (own && gguf_string(own, &own_name))
		return str_eq(*out_name, own_name);
	for (const struct model_arch *a = model_archs; a < model_archs + model_n_archs; a++)
		if (strcmp(a->model_type, r->m->config.arch) == 0 && a->gguf)
			return str_is(*out_name, a->gguf);
	return true;
}

static enum status read_keys(struct lora_reader *r)
{
	static const char key[] = "adapter.lora.alpha";
	struct str name;
	enum status st = need_word(r, "general.type", "adapter");
	if (st == OK)
		st = need_word(r, "adapter.type", "lora");
	if (st != OK)
		return st;
	const struct gguf_value *alpha = gguf_find(&r->gguf, key);
	if (alpha && (!gguf_number(alpha, 0, &r->alpha) || !isfinite(r->alpha)))
		return fail_at(r->fail, E_FORMAT, key, "%.200s: %s is no number", r->path, key);
	if (gguf_find(&r->gguf, "adapter.alora.invocation_tokens"))
		return fail_at(r->fail, E_UNSUPPORTED, "adapter.alora.invocation_tokens",
			       "%.200s: activated LoRA begins within a prompt, which is not "
			       "supported", r->path);
	if (!is_of_base(r, &name))
		return fail_at(r->fail, E_CONFIG, "general.architecture", "%.200s: it was made for "
			       "a base model of architecture \"%.*s\", and this one is %s",
			       r->path, (int)MIN(name.n, 60), name.p, r->m->config.arch);
	r->is_paired = gguf_model_is_paired(&r->gguf);
	r->is_tiled = gguf_model_is_tiled(&r->gguf);
	return OK;
}

static enum status read_file(struct lora_reader *r)
{
	struct safetensors tensors = {0};
	struct file_view view = {0};
	enum status st = file_view_open(r->path, true, NULL, &view, r->fail);
	if (st != OK)
		return st;
	struct str file = {view.p, view.n};
	if (file_is_lfs_pointer(file, r->path, r->fail))
		st = E_FORMAT;
	else if (r->peft)
		st = safetensors_parse(file, r->path, &r->l->arena, &tensors, r->fail);
	else
		st = gguf_parse(file, r->path, &r->l->arena, &r->gguf, &tensors, r->fail);
	if (st == OK && !r->peft)
		st = read_keys(r);
	if (st == OK)
		st = take_all(r, &tensors);
	safetensors_deinit(&tensors);
	gguf_deinit(&r->gguf);
	file_view_close(&view);
	return st;
}

static enum status open_folder(struct lora_reader *r, const char *dir)
{
	enum status st = lora_peft_open(dir, &r->peft, r->fail);
	char *path = file_join(dir, "adapter_model.safetensors");
	char *older = file_join(dir, "adapter_model.bin");
	r->path = path;
	r->is_paired = model_arch_pairs(r->m->config.arch);
	if (st == OK && !file_exists(path) && file_exists(older))
		st = fail_set(r->fail, E_UNSUPPORTED, "%.200s is in pickle, which can run code: "
			      "save it as adapter_model.safetensors", older);
	if (st == OK)
		st = read_file(r);
	lora_peft_close(r->peft);
	free(path);
	free(older);
	return st;
}

enum status lora_open(const char *path, const struct model *m, bool looks, struct lora **out,
		      struct fail *fail)
{
	struct stat sb;
	struct lora *l = xcalloc(1, sizeof *l);
	struct lora_reader r = {.l = l, .m = m, .path = path, .looks = looks,
				.fail = fail};
	l->path = xstrdup(path);
	arena_init(&l->arena);
	bool is_folder = stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
	enum status st = is_folder ? open_folder(&r, path) : read_file(&r);
	if (st == OK)
		*out = l;
	else
		lora_close(l);
	return st;
}

void lora_close(struct lora *l)
{
	if (!l)
		return;
	strmap_deinit(&l->by_name);
	arena_deinit(&l->arena);
	free(l->modules);
	free(l->path);
	free(l);
}

size_t lora_bytes(const struct lora *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n_modules; i++) {
		const struct lora_module *o = &l->modules[i];
		n += (size_t)o->rank * (size_t)(o->n + o->k) * dtype_bytes(o->type) *
		     lora_module_count(o);
	}
	return n;
}

size_t lora_layers(const struct lora *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n_modules; i++)
		n += lora_module_count(&l->modules[i]);
	return n;
}

const struct lora_module *lora_find(const struct lora *l, int32_t layer, const char *part)
{
	char name[160];
	uint32_t i;
	int n = snprintf(name, sizeof name, "layers.%d.%s", (int)layer, part);
	bool is = n > 0 && (size_t)n < sizeof name && strmap_get(&l->by_name, str_of(name), &i);
	return is ? &l->modules[i] : NULL;
}
