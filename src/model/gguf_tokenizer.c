/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of a GGUF file. One word ("qwen2") names the pre-tokenizer and stands for the
 * steps in the model's tokenizer.json. A word that is not in the table is refused, because a
 * guess could give other ids. The tokenizer type "llama" is SentencePiece: it has scores in
 * place of merges, and no pre-tokenizer. Control and user-defined tokens become the added
 * tokens. Unused tokens become ids without text.
 */
#include "base/alloc.h"
#include "model/gguf_model.h"

#define KEY(name) "tokenizer.ggml." name

/* Token types, with their numbers in the format. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define QWEN2 CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+" \
	      "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN35 CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| " \
	       "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3 CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}" \
	       "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|" \
	      "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|" \
	      "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Mistral's "tekken": like O200K, but each digit is a piece of its own and there are no
 * contractions. */
#define TEKKEN "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER \
	       "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|" \
	       "\\s+"
/* DeepSeek-V3 splits a text by each regex in turn: digits, then Chinese and Japanese, then the
 * rest. */
#define DEEPSEEK3_DIGITS "\\p{N}{1,3}"
#define DEEPSEEK3_CJK "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define DEEPSEEK3 "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}" \
	"\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SEED CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r" \
	     "\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" \
	     "\\s+(?!\\S)|\\s+"

enum { MAX_SPLITS = 3 };
static const struct pre {
	const char *name, *regex; /* NULL: GPT-2's regex */
	bool nfc, ignore_merges, adds_bos;
	const char *more[MAX_SPLITS - 1]; /* regexes that split the pieces further, in order;
					   * NULL: no more */
} pres[] = {
	{"gpt-2", NULL, false, false, false, {NULL}},
	{"exaone4", NULL, false, false, false, {NULL}},
	{"refact", "\\p{N}", false, false, false, {GPT2}},
	{"starcoder", "\\p{N}", false, false, false, {GPT2}},
	{"qwen2", QWEN2, true, false, false, {NULL}},
	{"hunyuan", QWEN2, true, false, false, {NULL}},
	{"deepseek-r1-qwen", QWEN2, true, false, true, {NULL}},
	{"qwen35", QWEN35, true, false, false, {NULL}},
	{"llama-bpe", LLAMA3, false, true, true, {NULL}},
	{"lfm2", LLAMA3, false, true, true, {NULL}},
	{"pixtral", LLAMA3, false, true, true, {NULL}},
	{"llama3", LLAMA3, false, true, true, {NULL}},
	{"llama-v3", LLAMA3, false, true, true, {NULL}},
	{"dbrx", LLAMA3, false, false, false, {NULL}},
	{"smaug-bpe", LLAMA3, false, false, false, {NULL}},
	{"olmo", NULL, false, false, false, {NULL}},
	{"minimax-m2", O200K, false, false, false, {NULL}},
	{"gpt-4o", O200K, false, true, false, {NULL}},
	{"llama4", O200K, false, true, false, {NULL}},
	{"tekken", TEKKEN, false, true, true, {NULL}},
	{"seed-coder", SEED, false, false, false, {NULL}},
	{"glm4", LLAMA3, false, true, false, {NULL}},
	{"chatglm-bpe", LLAMA3, false, false, false, {NULL}},
	{"deepseek-v3", DEEPSEEK3_DIGITS, false, false, true, {DEEPSEEK3_CJK, DEEPSEEK3}},
	{"hunyuan-dense", DEEPSEEK3_DIGITS, false, false, false, {DEEPSEEK3_CJK, DEEPSEEK3}},
};

struct gguf_tokenizer_reader {
	const struct gguf *g;
	const char *path;
	struct arena arena;
	struct fail *fail;
	struct tokenizer_def def;
	struct pretok_step steps[MAX_SPLITS + 1];
	const struct pre *pre;
	bool has_merges; /* true: a SentencePiece vocabulary that has merges */
};

static enum status bad(const struct gguf_tokenizer_reader *r, const char *key, const char *what)
{
	return fail_at(r->fail, E_FORMAT, key, "%s: %s %s", r->path, key, what);
}

/* Read a required string that must be in the table of names. */
static enum status need_string(const struct gguf_tokenizer_reader *r, const char *key,
				struct str *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	if (!v)
		return fail_at(r->fail, E_MISSING, key, "%s: %s is missing", r->path, key);
	return gguf_string(v, out) ? OK : bad(r, key, "is not a string");
}

static enum status unknown(const struct gguf_tokenizer_reader *r, const char *key, struct str s)
{
	return fail_at(r->fail, E_UNSUPPORTED, key, "%s: %s \"%.*s\" is not supported",
		       r->path, key, (int)MIN(s.n, 60), s.p);
}

/* Read a boolean; `absent` if the key does not exist. */
static enum status read_switch(const struct gguf_tokenizer_reader *r, const char *key, bool absent,
			       bool *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	int64_t is = absent;
	if (v && (v->is_array || !gguf_integer(v, 0, &is)))
		return bad(r, key, "is not true or false");
	*out = is != 0;
	return OK;
}

/* Check the settings of SentencePiece. It has no pre-tokenizer, and only the
 * normalization "none" is supported. */
static enum status read_spm_kind(struct gguf_tokenizer_reader *r)
{
	static const struct pre none = {.name = "default", .adds_bos = true};
	const struct gguf_value *pre = gguf_find(r->g, KEY("pre"));
	struct str name;
	bool has_spaces_removed = false;
	r->pre = &none;
	if (pre && (!gguf_string(pre, &name) || !str_is(name, none.name)))
		return bad(r, KEY("pre"), "is not \"default\", as SentencePiece needs");
	enum status st = read_switch(r, KEY("remove_extra_whitespaces"), false,
				     &has_spaces_removed);
	if (st == OK && has_spaces_removed)
		st = unknown(r, KEY("remove_extra_whitespaces"), STR("true"));
	if (st == OK && gguf_find(r->g, KEY("precompiled_charsmap")))
		st = unknown(r, KEY("precompiled_charsmap"), STR("(a table)"));
	if (st == OK)
		st = read_switch(r, KEY("add_space_prefix"), true, &r->def.strips_space);
	r->def.space_prefix = r->def.strips_space ? SPACE_EACH : SPACE_NEVER;
	return st;
}

static enum status read_kind(struct gguf_tokenizer_reader *r)
{
	/* A vocabulary of SentencePiece with merges. Prompts begin with bos, whatever the
	 * file says; llama.cpp does so too. */
	static const struct pre gemma4 = {.name = "gemma4", .adds_bos = true};
	struct str model, pre;
	enum status st = need_string(r, KEY("model"), &model);
	r->def.is_spm = st == OK && (str_is(model, "llama") || str_is(model, gemma4.name));
	if (st == OK && str_is(model, gemma4.name)) {
		r->pre = &gemma4;
		r->has_merges = true;
		r->def.space_prefix = SPACE_NEVER;
		return OK;
	}
	if (r->def.is_spm)
		return read_spm_kind(r);
	if (st == OK && !str_is(model, "gpt2"))
		st = unknown(r, KEY("model"), model);
	if (st == OK)
		st = need_string(r, KEY("pre"), &pre);
	if (st != OK)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(pres) && !r->pre; i++)
		if (str_is(pre, pres[i].name))
			r->pre = &pres[i];
	if (!r->pre)
		return unknown(r, KEY("pre"), pre);
	r->def.nfc = r->pre->nfc;
	r->def.ignore_merges = r->pre->ignore_merges;
	struct pretok_step *step = r->steps;
	for (int i = 0; i < MAX_SPLITS; i++) {
		const char *regex = i ? r->pre->more[i - 1] : r->pre->regex;
		if (regex)
			*step++ = (struct pretok_step){.kind = PRETOK_SPLIT,
						       .regex = str_of(regex),
						       .behavior = SPLIT_ISOLATED};
	}
	*step++ = (struct pretok_step){.kind = PRETOK_BYTE_LEVEL,
				       .use_regex = !r->pre->regex};
	r->def.steps = r->steps;
	r->def.n_steps = (int)(step - r->steps);
	return OK;
}

static const struct gguf_value *find_array(const struct gguf_tokenizer_reader *r, const char *key,
					   bool of_strings)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	bool is = v && v->is_array && v->n < INT32_MAX &&
		  (v->type == GGUF_STRING) == of_strings;
	return is ? v : NULL;
}

static enum status read_tokens(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *tokens = find_array(r, KEY("tokens"), true);
	const struct gguf_value *types = find_array(r, KEY("token_type"), false);
	if (!tokens)
		return bad(r, KEY("tokens"), "is missing, or no array of strings");
	if (!types || types->n != tokens->n)
		return bad(r, KEY("token_type"), "is missing, or not one for each token");
	size_t n = tokens->n;
	struct str *pieces = arena_alloc(&r->arena, n * sizeof *pieces);
	struct added_token *added = arena_alloc(&r->arena, n * sizeof *added);
	const char *at = tokens->p;
	for (size_t i = 0; i < n; i++) {
		struct str s = gguf_next_string(&at);
		int64_t type;
		if (!gguf_integer(types, i, &type) || type < NORMAL || type > BYTE)
			return bad(r, KEY("token_type"), "has a type that is none");
		/* SentencePiece's unknown token counts as special, so that no text can
		 * produce it. */
		bool special = type == CONTROL || (type == UNKNOWN && r->def.is_spm);
		if (special || type == USER_DEFINED) {
			added[r->def.n_added++] = (struct added_token){
				.text = s, .id = (int32_t)i, .special = special};
		} else if (type != UNUSED) {
			pieces[i] = s;
		}
	}
	r->def.pieces = pieces;
	r->def.n_pieces = (int32_t)n;
	r->def.added = added;
	return OK;
}

static enum status read_scores(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *v = find_array(r, KEY("scores"), false);
	if (!v || v->n != (uint64_t)r->def.n_pieces)
		return bad(r, KEY("scores"), "is missing, or not one for each token");
	float *scores = arena_alloc(&r->arena, v->n * sizeof *scores);
	for (uint64_t i = 0; i < v->n; i++) {
		double d;
		if (!gguf_number(v, i, &d))
			return bad(r, KEY("scores"), "has one that is no number");
		scores[i] = (float)d;
	}
	r->def.scores = scores;
	return OK;
}

static enum status read_merges(struct gguf_tokenizer_reader *r)
{
	const struct gguf_value *v = find_array(r, KEY("merges"), true);
	if (!v)
		return bad(r, KEY("merges"), "is missing, or no array of strings");
	struct merge *merges = arena_alloc(&r->arena, v->n * sizeof *merges);
	const char *at = v->p;
	for (size_t i = 0; i < v->n; i++) {
		struct str s = gguf_next_string(&at);
		ptrdiff_t space = str_find(s, STR(" "), 1);
		if (space < 0 || (size_t)space + 1 == s.n)
			return bad(r, KEY("merges"), "has one that is no pair of pieces");
		merges[i].left = (struct str){s.p, (size_t)space};
		merges[i].right = (struct str){s.p + space + 1, s.n - (size_t)space - 1};
	}
	r->def.merges = merges;
	r->def.n_merges = (int32_t)v->n;
	return OK;
}

/* Read the token id under a key; -1 if the key does not exist. */
static enum status read_id(const struct gguf_tokenizer_reader *r, const char *key, int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, key);
	int64_t id = -1;
	*out = -1;
	if (!v)
		return OK;
	if (v->is_array || !gguf_integer(v, 0, &id) || id < 0 || id >= r->def.n_pieces)
		return bad(r, key, "is no token's id");
	*out = (int32_t)id;
	return OK;
}

/* Read whether a token is added at the start or end of a prompt, and which. */
static enum status read_ends(struct gguf_tokenizer_reader *r, const char *switch_key, bool absent,
			     int32_t id, const int32_t **out, int *n)
{
	bool is;
	enum status st = read_switch(r, switch_key, absent, &is);
	if (st != OK || !is || id < 0)
		return st;
	int32_t *p = arena_alloc(&r->arena, sizeof *p);
	*p = id;
	*out = p;
	*n = 1;
	return OK;
}

static char *token_text(const struct gguf_tokenizer_reader *r, int32_t id)
{
	struct str s = {0};
	for (int i = 0; id >= 0 && i < r->def.n_added; i++)
		if (r->def.added[i].id == id)
			s = r->def.added[i].text;
	if (id >= 0 && !s.p)
		s = r->def.pieces[id];
	return s.p ? xstrndup(s.p, s.n) : xstrdup("");
}

static enum status read_files(struct gguf_tokenizer_reader *r, struct tokenizer_files *out)
{
	int32_t bos = -1, eos = -1;
	struct str template = STR("");
	enum status st = read_kind(r);
	if (st == OK)
		st = read_tokens(r);
	if (st == OK)
		st = r->def.is_spm && !r->has_merges ? read_scores(r) : read_merges(r);
	if (st == OK)
		st = read_id(r, KEY("bos_token_id"), &bos);
	if (st == OK)
		st = read_id(r, KEY("eos_token_id"), &eos);
	if (st == OK)
		st = read_ends(r, KEY("add_bos_token"), r->pre->adds_bos, bos,
			       &r->def.prefix, &r->def.n_prefix);
	if (st == OK)
		st = read_ends(r, KEY("add_eos_token"), false, eos, &r->def.suffix,
			       &r->def.n_suffix);
	const struct gguf_value *v = gguf_find(r->g, "tokenizer.chat_template");
	if (st == OK && v && !gguf_string(v, &template))
		st = bad(r, "tokenizer.chat_template", "is not a string");
	if (st != OK)
		return st;
	struct fail why = {0};
	st = tokenizer_create(&r->def, &out->tokenizer, &why);
	if (st != OK)
		return fail_at(r->fail, st, why.param, "%s: its tokenizer: %s", r->path,
			       why.text);
	out->chat_template = xstrndup(template.p, template.n);
	out->bos_text = token_text(r, bos);
	out->eos_text = token_text(r, eos);
	return OK;
}

enum status gguf_tokenizer_load(const struct gguf *g, const char *path,
				struct tokenizer_files *out, struct fail *fail)
{
	struct gguf_tokenizer_reader *r = xcalloc(1, sizeof *r);
	r->g = g;
	r->path = path;
	r->fail = fail;
	arena_init(&r->arena);
	enum status st = read_files(r, out);
	arena_deinit(&r->arena);
	free(r);
	return st;
}
