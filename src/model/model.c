/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a folder reads the small files first. So a checkpoint that we cannot run is
 * refused before its gigabytes are read.
 */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/pool.h"
#include "model/encoder_names.h"
#include "model/model_config.h"
#include "model/model_ends.h"
#include "model/experts.h"
#include "model/gguf_beside.h"
#include "model/gguf_model.h"
#include "model/hub.h"
#include "model/model_arch.h"
#include "model/model_path.h"
#include "json/jsonfile.h"
#include "model/formats/quant.h"
#include "model/tokenizer_hf.h"
#include "model/usual_names.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

/* Older ModelOpt checkpoints keep the quantization settings in a file beside config.json. */
static enum status read_modelopt(struct model *m, struct fail *fail)
{
	static const char name[] = "hf_quant_config.json";
	json_t *root = NULL;
	char *path = file_join(m->dir, name);
	enum status st = OK;
	if (file_exists(path))
		st = jsonfile_load(m->dir, name, MAX_CONFIG_BYTES, &root, fail);
	free(path);
	json_t *q = NULL;
	if (st == OK && root) {
		q = json_copy(json_object_get(root, "quantization"));
		if (!json_is_object(q))
			st = fail_at(fail, E_FORMAT, "quantization",
				     "%s: quantization is not an object", name);
		else
			json_object_set_new(q, "quant_method", json_string("modelopt"));
	}
	if (st == OK)
		st = quant_scheme_parse(q, &m->scheme, fail);
	json_decref(q);
	json_decref(root);
	return st;
}

static enum status read_config(struct model *m, struct fail *fail)
{
	json_t *root = NULL;
	enum status st = jsonfile_load(m->dir, "config.json", MAX_CONFIG_BYTES, &root,
				       fail);
	if (st == OK)
		st = model_config_read(root, &m->arena, &m->config, fail);
	if (st == OK) {
		const json_t *outer = model_config_outer(root);
		m->has_vision = json_is_object(jsonfile_get(outer, "vision_config"));
		m->has_audio = json_is_object(jsonfile_get(outer, "audio_config"));
		const json_t *q = jsonfile_get(root, "quantization_config");
		if (!q) /* the key's name before 2024 */
			q = jsonfile_get(root, "compression_config");
		st = q ? quant_scheme_parse(q, &m->scheme, fail)
		       : read_modelopt(m, fail);
	}
	json_decref(root);
	return st;
}

static enum status read_defaults(struct model *m, struct fail *fail)
{
	static const char name[] = "generation_config.json";
	json_t *root = NULL;
	char *path = file_join(m->dir, name);
	enum status st = OK;
	if (file_exists(path))
		st = jsonfile_load(m->dir, name, MAX_CONFIG_BYTES, &root, fail);
	if (st == OK)
		st = model_defaults_read(root, &m->config, &m->defaults, fail);
	json_decref(root);
	free(path);
	return st;
}

/* Take ownership of f's tokenizer, template and texts. */
static enum status keep_tokenizer(struct model *m, const struct tokenizer_files *f,
				  struct fail *fail)
{
	m->tokenizer = f->tokenizer;
	m->chat_template = f->chat_template;
	m->bos_text = f->bos_text;
	m->eos_text = f->eos_text;
	model_ends_find(m->tokenizer, m->eos_text, &m->defaults);
	m->tokenizer_note = f->note;
	if (tokenizer_n_ids(m->tokenizer) > m->config.n_vocab)
		return fail_set(fail, E_FORMAT, "%s: the tokenizer has %d ids, the "
				"model's vocabulary %d", m->dir,
				tokenizer_n_ids(m->tokenizer), m->config.n_vocab);
	return OK;
}

/* True if both tensors have the same type, shape and bytes. */
static bool are_same(const struct tensor *a, const struct tensor *b)
{
	return a->dtype == b->dtype && a->n_bytes == b->n_bytes && a->n_dims == b->n_dims &&
	       memcmp(a->dim, b->dim, (size_t)a->n_dims * sizeof *a->dim) == 0 &&
	       memcmp(a->data, b->data, a->n_bytes) == 0;
}

/* A head of its own wins over tie_word_embeddings, as in Transformers. Many files have the
 * table of tokens twice: such a head is none. */
static void keep_head(struct model *m)
{
	struct model_config *c = &m->config;
	char head[200], table[200];
	snprintf(head, sizeof head, "%slm_head", c->prefix);
	if (!c->tied_embeddings || !model_has(m, head))
		return;
	snprintf(head, sizeof head, "%slm_head.weight", c->prefix);
	snprintf(table, sizeof table, "%s%sembed_tokens.weight", c->prefix, c->body);
	const struct tensor *h = tensors_find(m->tensors, head);
	const struct tensor *t = tensors_find(m->tensors, table);
	c->tied_embeddings = h && t && are_same(h, t);
}

/* Embedding models are saved without the language model around their body. So their tensor
 * names lack the body's name. */
static void find_body(struct model *m)
{
	char name[200];
	snprintf(name, sizeof name, "%s%sembed_tokens", m->config.prefix, m->config.body);
	bool is_bare = m->config.eagle.is_head || model_has(m, "embed_tokens");
	if (!model_has(m, name) && !m->config.prefix[0] && is_bare)
		m->config.body = "";
}

static enum status open_folder(struct model *m, const struct model_opts *opts,
			       struct fail *fail)
{
	struct tokenizer_files f = {0};
	enum status st = read_config(m, fail);
	if (st == OK && m->config.eagle.is_head && !opts->takes_head)
		st = fail_at(fail, E_UNSUPPORTED, "architectures", "%s is an EAGLE-3 head, which "
			     "drafts for another model; name it with draft_model", m->dir);
	if (st == OK)
		st = read_defaults(m, fail);
	if (st == OK && !m->config.eagle.is_head) /* a head has no tokenizer of its own */
		st = tokenizer_hf_load(m->dir, &f, fail);
	if (st == OK && !m->config.eagle.is_head)
		st = keep_tokenizer(m, &f, fail);
	if (st == OK)
		st = tensors_open(m->dir, opts, &m->tensors, fail);
	if (st == OK)
		quant_fp8_exponents(m->tensors);
	if (st == OK && quant_scheme_is_made(m->scheme))
		st = quant_made_all(m->tensors, m->scheme, fail);
	if (st == OK)
		tensors_name_too(m->tensors,
				 m->config.encoder.is_bert ? encoder_names_of : usual_names_of);
	if (st == OK)
		find_body(m);
	if (st == OK)
		keep_head(m);
	return st;
}

/* --- GGUF ----------------------------------------------------------------- */

/* A fault that config.json's reader found in a GGUF file's keys: change the message so that it
 * names the GGUF file. */
static enum status of_file(const char *path, enum status st, struct fail *fail)
{
	static const char file[] = "config.json: ";
	struct fail f;
	if (st == OK || !fail || strncmp(fail->text, file, strlen(file)) != 0)
		return st;
	f = *fail;
	return fail_at(fail, st, f.param, "%s: its keys, as those of config.json: %s",
		       path, f.text + strlen(file));
}

/* Read rope_freqs: the divisor of each rotation frequency, one per pair of elements. Files of
 * Step have ones behind them, as many as pairs of a head. */
static enum status read_factors(struct model *m, struct fail *fail)
{
	static const char name[] = "rope_freqs.weight";
	if (!tensors_find(m->tensors, name))
		return OK;
	int32_t n = model_n_rot(&m->config, 0) / 2, whole = m->config.head_dim / 2;
	bool is_whole = tensors_find(m->tensors, name)->dim[0] == whole;
	enum status st = model_vector(m, name, is_whole ? whole : n,
				      &m->config.ropes[0].factors, fail);
	for (int32_t i = 0; st == OK && i < n; i++)
		if (!(m->config.ropes[0].factors[i] > 0))
			st = fail_set(fail, E_FORMAT, "%s: tensor %s has a factor that is "
				      "not above 0", m->dir, name);
	m->config.ropes[0].kind = ROPE_FACTORS;
	return st;
}

static enum status open_gguf(struct model *m, const char *path,
			     const struct model_opts *opts, struct fail *fail)
{
	json_t *config = NULL, *generation = NULL;
	struct tokenizer_files f = {0};
	enum status st =
		tensors_open_gguf(path, opts, gguf_names_hf, &m->tensors, fail);
	if (st == OK)
		st = gguf_model_config(m->tensors, &config, &generation, fail);
	if (st == OK)
		st = model_config_read(config, &m->arena, &m->config, fail);
	if (st == OK)
		st = model_defaults_read(generation, &m->config, &m->defaults, fail);
	if (st == OK)
		st = quant_scheme_parse(NULL, &m->scheme, fail);
	st = of_file(path, st, fail);
	if (st == OK)
		st = gguf_beside_add_mtp(m->tensors, &m->config, path, opts, fail);
	if (st == OK)
		gguf_model_fix_config(m->tensors, &m->config);
	if (st == OK)
		st = read_factors(m, fail);
	if (st == OK)
		st = gguf_tokenizer_load(tensors_gguf(m->tensors), path, &f, fail);
	if (st == OK)
		st = keep_tokenizer(m, &f, fail);
	json_decref(config);
	json_decref(generation);
	return st;
}

/* From now on, opening a weight of q or k reorders its rows. */
static void begin_pairs(struct model *m)
{
	m->is_paired = true;
	m->repacked = xcalloc(1, sizeof *m->repacked);
	arena_init(m->repacked);
	m->pool = pool_create(0);
}

static bool is_in_pairs(const struct model *m, const char *name)
{
	return m->is_paired && (strstr(name, ".self_attn.q_proj") ||
				strstr(name, ".self_attn.k_proj"));
}

int32_t model_stored_row(int32_t row, int32_t head_dim)
{
	int32_t i = row % head_dim, half = head_dim / 2;
	return row - i + i % half * 2 + i / half;
}

struct row_move {
	const char *from;
	char *to;
	size_t row_bytes;
	int32_t head_dim, each; /* each: new rows that share a row of `from`, such as a row of
				 * scales */
};

static void move_rows(void *arg, int begin, int end)
{
	const struct row_move *v = arg;
	for (int32_t i = begin; i < end; i++)
		memcpy(v->to + (size_t)i * v->row_bytes,
		       v->from + (size_t)(model_stored_row(i, v->head_dim) / v->each) *
					 v->row_bytes,
		       v->row_bytes);
}

static const void *moved(const struct model *m, const void *from, int32_t n, size_t row_bytes,
			 int32_t each)
{
	struct row_move v = {from, arena_alloc(m->repacked, (size_t)n * row_bytes), row_bytes,
			     m->config.head_dim, each};
	pool_for(m->pool, n, 16, move_rows, &v);
	return v.to;
}

/* Reorder zero points of INT4 and INT8. Those of neighbouring rows share a word. */
static const uint32_t *moved_zeros(const struct model *m, const struct weight *w, size_t groups)
{
	size_t bits = (size_t)quant_bits(w->quant), each = 32 / bits;
	size_t n_words = DIV_UP((size_t)w->n, each) * groups;
	const uint32_t *from = w->zero_points;
	uint32_t *to = arena_alloc(m->repacked, n_words * sizeof *to);
	memset(to, 0, n_words * sizeof *to);
	for (size_t i = 0; i < (size_t)w->n; i++) {
		size_t row = (size_t)model_stored_row((int32_t)i, m->config.head_dim);
		for (size_t g = 0; g < groups; g++)
			to[i / each * groups + g] |=
				(uint32_t)blocks_integer(&from[row / each * groups + g],
							 (int)bits, row % each)
				<< i % each * bits;
	}
	return to;
}

/* Reorder whole rows. All rows of one format have the same size, so no decoding is
 * needed. */
static void repack(const struct model *m, struct weight *w)
{
	size_t groups = DIV_UP((size_t)w->k, (size_t)w->group);
	bool is_one = w->group_n >= w->n; /* a scale for all rows */
	w->q = moved(m, w->q, w->n, weight_row_bytes(w), 1);
	if (w->zero_points)
		w->zero_points = moved_zeros(m, w, groups);
	if (w->scales && !is_one) {
		w->scales = moved(m, w->scales, w->n, groups * dtype_bytes(w->scale_type),
				  w->group_n ? w->group_n : 1);
		w->group_n = w->group_n ? 1 : 0;
	}
	w->source = NULL; /* the source has the old order of rows */
	w->is_mapped = false;
}

size_t model_repack_bytes(const struct model *m)
{
	size_t n = 0;
	for (size_t i = 0; i < tensors_count(m->tensors); i++)
		if (is_in_pairs(m, tensors_at(m->tensors, i)->name) ||
		    tensors_at(m->tensors, i)->is_made)
			n += tensors_at(m->tensors, i)->n_bytes;
	return n;
}

/* --- both formats ----------------------------------------------------------- */

static void find_mtp(struct model *m);

/* True if rows of q and k are stored so that rope rotates neighbours, as in many GGUF files. */
static bool is_rope_interleaved(const struct model *m)
{
	const struct gguf *g = tensors_gguf(m->tensors);
	return g ? gguf_model_is_paired(g) : model_arch_pairs(m->config.arch);
}

enum status model_open(const char *dir, const struct model_opts *opts,
		       struct model **out, struct fail *fail)
{
	static const struct model_opts plain = {.use_mmap = true};
	char *gguf = NULL, *found = NULL;
	if (!file_exists(dir) && hub_is_name(dir)) {
		enum status missing = hub_find(dir, &found, fail);
		if (missing != OK)
			return missing;
		dir = found;
	}
	struct model *m = xcalloc(1, sizeof *m);
	m->dir = xstrdup(dir);
	arena_init(&m->arena);
	opts = opts ? opts : &plain;
	m->is_mapped = opts->use_mmap;
	enum status st = model_path_check(dir, fail);
	if (st == OK)
		st = gguf_model_find(dir, &gguf, fail);
	if (st == OK)
		st = gguf ? open_gguf(m, gguf, opts, fail) : open_folder(m, opts, fail);
	free(gguf);
	free(found);
	if (st != OK) {
		model_close(m);
		return st;
	}
	if (is_rope_interleaved(m))
		begin_pairs(m);
	find_mtp(m);
	*out = m;
	return OK;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	tensors_close(m->tensors);
	quant_scheme_destroy(m->scheme);
	tokenizer_destroy(m->tokenizer);
	free(m->chat_template);
	free(m->bos_text);
	free(m->eos_text);
	free(m->dir);
	if (m->repacked)
		arena_deinit(m->repacked);
	free(m->repacked);
	pool_destroy(m->pool);
	arena_deinit(&m->arena);
	free(m);
}

bool model_may_lack(const struct model *m)
{
	return tensors_gguf(m->tensors) != NULL;
}

bool model_has(const struct model *m, const char *name)
{
	struct expert_place place;
	return tensors_find(m->tensors, name) || quant_is_weight(m->tensors, name) ||
	       experts_find(m, name, 0, &place);
}

bool model_converted(const struct model *m, const char *name)
{
	static const char weight[] = ".weight.";
	const char *end = strstr(name, weight);
	const struct tensor *t;
	char full[256];
	if (!quant_scheme_is_made(m->scheme))
		return false;
	end = end ? end : strrchr(name, '.');
	if (!end || strcmp(end, ".bias") == 0)
		return false;
	snprintf(full, sizeof full, "%.*s.weight", (int)(end - name), name);
	t = tensors_find(m->tensors, full);
	return t && t->is_made && !(t = tensors_find(m->tensors, name))->is_made;
}

bool model_reads(const struct model *m, const char *name)
{
	char body[200];
	if (model_converted(m, name))
		return false;
	size_t n = (size_t)snprintf(body, sizeof body, "%s%s", m->config.prefix,
				    m->config.body);
	struct str s = str_of(name), layers = STR("layers.");
	if (!str_starts(s, str_of(body))) {
		n = strlen(m->config.prefix);
		return str_starts(s, str_of(m->config.prefix)) &&
		       str_starts(str_of(name + n), STR("lm_head"));
	}
	return !str_starts(str_of(name + n), layers) ||
	       strtol(name + n + layers.n, NULL, 10) < m->config.n_layers;
}

/* The part of a tensor's name after the layer of config.mtp; NULL if the tensor is of another
 * layer. */
static const char *mtp_part(const struct model *m, const char *name)
{
	char layer[200] = "mtp.";
	if (m->config.mtp == MTP_LAYER)
		snprintf(layer, sizeof layer, "%s%slayers.%d.", m->config.prefix,
			 m->config.body, (int)m->config.n_layers);
	bool is = m->config.mtp && str_starts(str_of(name), str_of(layer));
	return is ? name + strlen(layer) : NULL;
}

/* Embeddings and output head are not counted: DeepSeek's files have copies of the model's own. */
int64_t model_mtp_bytes(const struct model *m)
{
	int64_t n_bytes = 0;
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		const char *part = mtp_part(m, t->name);
		if (part && !str_starts(str_of(part), STR("embed_tokens")) &&
		    !str_starts(str_of(part), STR("shared_head.head")))
			n_bytes += (int64_t)t->n_bytes;
	}
	return n_bytes;
}

static void find_mtp(struct model *m)
{
	struct model_config *c = &m->config;
	char layer[200];
	bool may = false;
	for (size_t i = 0; i < model_n_archs; i++)
		may |= strcmp(model_archs[i].model_type, c->arch) == 0 &&
		       model_archs[i].may_mtp;
	snprintf(layer, sizeof layer, "%s%slayers.%d.eh_proj", c->prefix, c->body,
		 (int)c->n_layers);
	may &= !c->mtp_unlike;
	if (may && (model_has(m, "mtp.fc") || model_has(m, "mtp.fc_hidden")))
		c->mtp = MTP_APART;
	else if (may && model_has(m, layer))
		c->mtp = MTP_LAYER;
}

int64_t model_weight_bytes(const struct model *m)
{
	int64_t n_bytes = 0;
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		if (model_reads(m, t->name) && !strstr(t->name, MODEL_NGRAM_TABLE))
			n_bytes += (int64_t)t->n_bytes;
	}
	return n_bytes;
}

int64_t model_expert_bytes(const struct model *m)
{
	int64_t n_bytes = 0;
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		if (strstr(t->name, ".experts.") && model_reads(m, t->name))
			n_bytes += (int64_t)t->n_bytes;
	}
	return n_bytes;
}

bool model_asks_fp8_kv(const struct model *m)
{
	return quant_scheme_asks_fp8_kv(m->scheme);
}

/* The name of the layer `name` in the checkpoint: itself, or what is in out, which is
 * returned then. */
static const char *stored_name(const struct model *m, const char *name, char out[256])
{
	const struct tensor *t = quant_numbers(m->tensors, name);
	const char *dot = t ? strrchr(t->name, '.') : NULL;
	if (dot)
		snprintf(out, 256, "%.*s", (int)(dot - t->name), t->name);
	else if ((t = tensors_find(m->tensors, name))) /* of all experts */
		snprintf(out, 256, "%s", t->name);
	return t ? out : name;
}

/* Find the setting of a weight by the name that its tensor has in the checkpoint. */
static enum status find_choice(const struct model *m, const char *name,
			       struct quant_choice *out, struct fail *fail)
{
	char full[256];
	return quant_scheme_find(m->scheme, stored_name(m, name, full), out, fail);
}

enum status model_weight(const struct model *m, const char *name, int32_t n,
			 int32_t k, struct weight *out, struct fail *fail)
{
	struct quant_want w = {m->tensors, name, n, k, {0}, NULL, NULL};
	struct expert_place place;
	struct quant_views views = {.n = 0};
	enum status st = find_choice(m, name, &w.choice, fail);
	if (st != OK)
		return st;
	if (experts_find(m, name, n, &place)) {
		w.name = place.name;
		w.part = &place.part;
		w.views = &views;
	}
	if (w.part && !w.choice.is_packed)
		st = find_choice(m, place.name, &w.choice, fail);
	if (st == OK)
		st = quant_open(&w, out, fail);
	const struct tensor *t = st == OK ? tensors_find(m->tensors, out->name) : NULL;
	if (st == OK)
		out->is_mapped = m->is_mapped && !(t && t->is_made);
	if (st != OK || !is_in_pairs(m, name))
		return st;
	bool has_columns = out->quant == QUANT_AWQ4 || out->quant == QUANT_GPTQ4 ||
			   out->quant == QUANT_GPTQ8;
	if (has_columns || !weight_is_dense(out))
		return fail_at(fail, E_UNSUPPORTED, name, "%s: %s: a model that rotates "
			       "neighbours is not read in %s", m->dir, name,
			       quant_name(out->quant));
	repack(m, out);
	return st;
}

enum status model_weight_half(struct model *m, const char *name, int32_t n, int32_t k, int half,
			      struct weight *out, struct fail *fail)
{
	enum status st = model_weight(m, name, n, 2 * k, out, fail);
	if (st != OK)
		return st;
	struct weight whole = *out;
	out->k = k;
	size_t row = weight_row_bytes(&whole), bytes = weight_row_bytes(out);
	/* A block of both halves has one scale, so what is not whole blocks becomes floats. */
	bool is_copied = 2 * bytes == row && !whole.scales && !whole.group_of &&
			 !whole.source && weight_is_dense(&whole);
	if (!is_copied) {
		bytes = (size_t)k * sizeof(float);
		*out = (struct weight){.quant = QUANT_F32, .n = n, .k = k, .group = k,
				       .name = whole.name};
	}
	char *to = arena_alloc(&m->arena, (size_t)n * bytes);
	for (int32_t i = 0; i < n; i++) {
		char *at = to + (size_t)i * bytes;
		if (is_copied)
			memcpy(at, (const char *)whole.q + (size_t)i * row + (size_t)half * bytes,
			       bytes);
		else
			weight_decode_part(&whole, i, half * k, (half + 1) * k, (float *)at);
	}
	out->q = to;
	out->is_mapped = false;
	return OK;
}

/* GGUF files store -exp(A_log) instead of A_log, or exp(A_log) where decays have a lower bound:
 * convert it back. */
static enum status restore_a_log(const struct model *m, const struct tensor *t, float *v,
				 int32_t n, struct fail *fail)
{
	if (!tensors_gguf(m->tensors) || !str_ends(str_of(t->name), STR(".A_log")))
		return OK;
	double sign = m->config.delta.g_min < 0 ? 1 : -1;
	for (int32_t i = 0; i < n; i++) {
		if (!(sign * v[i] > 0))
			return fail_set(fail, E_FORMAT, "%s: tensor %s (ssm_a) is not %s 0",
					t->file, t->name, sign < 0 ? "below" : "above");
		v[i] = (float)log(sign * (double)v[i]);
	}
	return OK;
}

/* Find a tensor of type F32, F16 or BF16. E_MISSING, E_FORMAT. */
static enum status find_floats(const struct model *m, const char *name,
			       const struct tensor **out, struct fail *fail)
{
	const struct tensor *t = *out = tensors_find(m->tensors, name);
	if (!t)
		return fail_set(fail, E_MISSING, "%s: tensor %s is missing", m->dir,
				name);
	if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 &&
	    t->dtype != DTYPE_BF16)
		return fail_set(fail, E_FORMAT, "%s: tensor %s is %s, not F32, F16 or BF16",
				t->file, name, t->dtype == DTYPE_BLOCKS
					       ? quant_name(t->quant) : dtype_name(t->dtype));
	return OK;
}

/* True if t has shape (rows, cols), not counting dimensions of 1. */
static bool is_matrix(const struct tensor *t, int64_t rows, int64_t cols)
{
	int64_t want[2] = {rows, cols}, dims[2] = {1, 1};
	int n = 0;
	for (int i = 0; i < t->n_dims; i++) {
		if (t->dim[i] == 1)
			continue;
		if (n == 2)
			return false;
		dims[n++] = t->dim[i];
	}
	if (rows == 1 || cols == 1)
		return dims[0] * dims[1] == rows * cols && n < 2;
	return dims[0] == want[0] && dims[1] == want[1];
}

enum status model_vector(struct model *m, const char *name, int32_t n,
			 const float **out, struct fail *fail)
{
	const struct tensor *t;
	enum status st = find_floats(m, name, &t, fail);
	if (st != OK)
		return st;
	/* In GGUF the vector may be stored as a matrix, in groups. */
	int64_t total = 1;
	for (int i = 0; i < t->n_dims; i++)
		total *= t->dim[i];
	if (total != n || (!tensors_gguf(m->tensors) && !is_matrix(t, n, 1)))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not a vector of %d",
				t->file, name, n);
	float *v = arena_alloc(&m->arena, (size_t)n * sizeof *v);
	bool in_pairs = is_in_pairs(m, name); /* a bias of q or k */
	for (int32_t i = 0; i < n; i++)
		v[i] = blocks_float(t->data, t->dtype,
				    (size_t)(in_pairs ? model_stored_row(i, m->config.head_dim)
						      : i));
	*out = v;
	return restore_a_log(m, t, v, n, fail);
}

enum status model_matrix(struct model *m, const char *name, int32_t rows, int32_t cols,
			 const float **out, struct fail *fail)
{
	const struct tensor *t;
	enum status st = find_floats(m, name, &t, fail);
	if (st != OK)
		return st;
	if (!is_matrix(t, rows, cols))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not (%d, %d)",
				t->file, name, rows, cols);
	size_t n = (size_t)rows * (size_t)cols;
	float *v = arena_alloc(&m->arena, n * sizeof *v);
	bool is_paired = m->is_paired && (strstr(name, ".self_attn.q_norm") ||
					  strstr(name, ".self_attn.k_norm"));
	for (size_t i = 0; i < n; i++)
		v[i] = blocks_float(t->data, t->dtype, is_paired ?
				    (size_t)model_stored_row((int32_t)i, m->config.head_dim) : i);
	*out = v;
	return OK;
}

/* Number i of a tensor of I32 or I64; -1 if it is not below `most`. */
static int32_t choice_at(const struct tensor *t, size_t i, int32_t most)
{
	int64_t v;
	int32_t small;
	if (t->dtype == DTYPE_I64) {
		memcpy(&v, (const char *)t->data + i * sizeof v, sizeof v);
		return v >= 0 && v < most ? (int32_t)v : -1;
	}
	memcpy(&small, (const char *)t->data + i * sizeof small, sizeof small);
	return small < most ? small : -1;
}

enum status model_choices(struct model *m, const char *name, int32_t rows, int32_t cols,
			  int32_t most, int32_t **out, struct fail *fail)
{
	const struct tensor *t = tensors_find(m->tensors, name);
	if (!t)
		return fail_set(fail, E_MISSING, "%s: tensor %s is missing", m->dir, name);
	if (!is_matrix(t, rows, cols) || (t->dtype != DTYPE_I32 && t->dtype != DTYPE_I64))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not (%d, %d) integers",
				t->file, name, rows, cols);
	size_t n = (size_t)rows * (size_t)cols;
	int32_t *v = arena_alloc(&m->arena, n * sizeof *v);
	for (size_t i = 0; i < n; i++) {
		bool is_new = true;
		v[i] = choice_at(t, i, most);
		for (size_t k = i - i % (size_t)cols; k < i; k++)
			is_new &= v[k] != v[i];
		if (v[i] < 0 || !is_new)
			return fail_set(fail, E_FORMAT, "%s: tensor %s: row %zu is not %d "
					"different numbers below %d", t->file, name,
					i / (size_t)cols, cols, most);
	}
	*out = v;
	return OK;
}

enum quant model_tensor_quant(const struct model *m, const struct tensor *t,
			      int64_t *out_n_weights)
{
	struct quant_choice c;
	char name[256];
	const char *dot = strrchr(t->name, '.');
	snprintf(name, sizeof name, "%.*s", (int)(dot ? dot - t->name : 0), t->name);
	/* Opening the layer would have failed already if a pattern were too slow. */
	if (quant_scheme_find(m->scheme, name, &c, NULL) != OK)
		c = (struct quant_choice){0};
	return quant_of_tensor(t, &c, out_n_weights);
}

int64_t model_n_params(const struct model *m)
{
	int64_t n = 0, holds;
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		if (!str_starts(str_of(t->name), str_of(m->config.prefix)))
			continue;
		model_tensor_quant(m, t, &holds);
		n += holds;
	}
	return n;
}

int64_t model_layer_kv_bytes(const struct model_config *c, int32_t i, enum dtype type)
{
	int64_t n = model_layer_kv_numbers(c, i), scales = 2 * model_kv_heads(c, i);
	int64_t each = type == DTYPE_I8 && n ? (int64_t)dtype_bytes(DTYPE_F16) : 0;
	return n * (int64_t)dtype_bytes(type) + scales * each;
}

int64_t model_kv_bytes(const struct model_config *c, enum dtype type)
{
	int64_t n = 0;
	for (int32_t i = 0; i < c->n_layers; i++)
		n += model_attends(c, i) ? model_layer_kv_bytes(c, i, type) : 0;
	return n;
}
