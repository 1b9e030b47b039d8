/* SPDX-License-Identifier: Apache-2.0 */
#include "sound/sound_tower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sound/sound_tower_private.h"

#define NORM_EPS 1e-5F /* of layer norms: torch's default */

/* A step. */
struct sound_run {
	struct sound_tower *t;
	const struct sound_piece *piece;
	int32_t n_cols; /* frames of a chunk, zeros behind the clip's end included */
	int32_t n_tok;  /* places of the step, which are the layers' tokens */
	struct fail *fail;
};

/* Queue an operation, or return from the caller with its failure. */
#define RUN(op, ...) do { \
	struct backend *b_ = r->t->b; \
	enum status st_ = b_->ops->op(b_, &(struct op##_args){__VA_ARGS__}); \
	if (st_ != OK) \
		return fail_set(r->fail, st_, "sound: " #op " failed: %s", \
				backend_why(b_, st_)); \
} while (0)

#define LINEAR(lin, in, out_, n_, ...) \
	RUN(linear, .n_tok = n_, .x = in, .n_out = 1, \
	    .out = {{.w = &(lin)->w, .bias = (lin)->bias, .y = out_, __VA_ARGS__}})

/* --- sizes -------------------------------------------------------------------------- */

/* Places of a step at most. */
static int32_t most_tokens(const struct sound_config *c)
{
	return sound_windows(c) * sound_config_window(c);
}

static int32_t pages_of_window(const struct sound_config *c)
{
	return DIV_UP(sound_config_window(c), SOUND_PAGE);
}

struct grid {
	int32_t n_rows, n_cols;
};

/* What convolution i leaves of a chunk of n_cols frames. */
static struct grid grid_of(const struct sound_config *c, int i, int32_t n_cols)
{
	struct grid g = {c->n_mels, n_cols};
	if (c->is_conv1d)
		return (struct grid){1, i > 0 ? sound_config_halved(n_cols) : n_cols};
	for (int k = 0; k <= i; k++)
		g = (struct grid){sound_config_halved(g.n_rows), sound_config_halved(g.n_cols)};
	return g;
}

/* Places of it. */
static int32_t places_of(const struct sound_config *c, int i, int32_t n_cols)
{
	struct grid g = grid_of(c, i, n_cols);
	return g.n_rows * g.n_cols;
}

/* The same of sound_chunks whole chunks. */
static int32_t most_places(const struct sound_config *c, int i)
{
	return i < sound_convs(c) ? sound_chunks(c) * places_of(c, i, c->chunk) : 0;
}

int32_t sound_tower_step(const struct sound_tower *t)
{
	return sound_windows(&t->c) * t->c.window * t->c.chunk;
}

/* --- memory ------------------------------------------------------------------------- */

struct want {
	void *out;
	size_t n_bytes;
};

/* Lists the arrays of a step. */
static void list_wanted(const struct sound_config *c, const struct backend *b,
			struct sound_work *w, struct want out[SOUND_ARRAYS])
{
	size_t t = (size_t)most_tokens(c), d = (size_t)c->width, act = dtype_bytes(b->act_type);
	size_t place = (size_t)c->channels * act, n_windows = (size_t)sound_windows(c);
	size_t n_pages = n_windows * (size_t)pages_of_window(c);
	size_t cache = n_pages * SOUND_PAGE * d * dtype_bytes(b->kv_type);
	size_t n[CONVS], side = (size_t)sound_side(c), n_out = t / (size_t)c->joined;
	for (int i = 0; i < CONVS; i++)
		n[i] = (size_t)most_places(c, i);
	const struct want wanted[SOUND_ARRAYS] = {
		{&w->seen, n[0] * (size_t)sound_first_k(c) * act},
		{&w->left[0], (n[0] + 1) * place}, {&w->left[1], (n[1] + 1) * place},
		{&w->left[2], (n[2] + 1) * place}, {&w->gathered, n[1] * side * place},
		{&w->from[0], n[1] * side * sizeof **w->from},
		{&w->from[1], MAX(n[2], 1) * side * sizeof **w->from},
		{&w->x, t * d * sizeof *w->x},
		{&w->norm, t * d * act}, {&w->q, t * d * act}, {&w->k, t * d * act},
		{&w->v, t * d * act}, {&w->y, t * d * act},
		{&w->wide, t * (size_t)c->ffn_dim * act},
		{&w->mid, n_out * (size_t)c->mid_width * act},
		{&w->out, n_out * (size_t)c->out_width * sizeof *w->out},
		{&w->k_pages, cache}, {&w->v_pages, cache},
		/* (T) each */
		{&w->slot, 3 * t * sizeof *w->slot}, {&w->last, t * sizeof *w->last},
		{&w->first_tok, (n_windows + 1) * sizeof *w->first_tok},
		{&w->table, n_pages * sizeof *w->table},
	};
	memcpy(out, wanted, sizeof wanted);
}

/* Numbers that the first convolution reads. */
static size_t host_numbers(const struct sound_config *c)
{
	return (size_t)most_places(c, 0) * (size_t)sound_first_k(c);
}

int64_t sound_tower_work_bytes(const struct sound_config *c, struct backend *b)
{
	struct sound_work w;
	struct want wanted[SOUND_ARRAYS];
	size_t n = (size_t)c->channels, side = (size_t)sound_side(c);
	size_t ordered = n * n * side * (size_t)(sound_convs(c) - 1) +
			 n * (size_t)sound_first_k(c);
	size_t per = (size_t)(sound_chunks(c) * sound_config_left(c, c->chunk));
	if (!c->is_conv1d)
		ordered += (size_t)c->width * (size_t)sound_config_left(c, c->n_mels) * n;
	/* On the CPU reordered matrices are there beside those of the file. */
	int64_t n_bytes = (int64_t)(2 * host_numbers(c) * sizeof(float)) +
			  (int64_t)(per * (size_t)c->width * sizeof(float)) +
			  (b->act_type == DTYPE_F32 ? (int64_t)(ordered * sizeof(float)) : 0);
	list_wanted(c, b, &w, wanted);
	for (size_t i = 0; i < SOUND_ARRAYS; i++)
		n_bytes += (int64_t)wanted[i].n_bytes;
	return n_bytes;
}

static enum status take(struct sound_tower *t)
{
	struct want wanted[SOUND_ARRAYS];
	enum status st = OK;
	list_wanted(&t->c, t->b, &t->work, wanted);
	for (size_t i = 0; i < SOUND_ARRAYS && st == OK; i++) {
		st = t->b->ops->alloc(t->b, wanted[i].n_bytes, &t->arrays[i]);
		memcpy(wanted[i].out, &t->arrays[i], sizeof t->arrays[i]);
	}
	if (st != OK)
		return st;
	t->work.position = t->work.slot + most_tokens(&t->c);
	t->work.seq_of = t->work.position + most_tokens(&t->c);
	t->host = malloc(host_numbers(&t->c) * sizeof *t->host);
	t->sent = malloc(host_numbers(&t->c) * sizeof *t->host);
	return t->host && t->sent ? OK : E_NOMEM;
}

/* Uploads, and waits: an upload may still be reading the host's memory. */
static enum status put(struct sound_tower *t, void *to, const void *from, size_t n_bytes,
		       struct fail *fail)
{
	enum status st = t->b->ops->upload(t->b, to, from, n_bytes);
	if (st == OK)
		st = t->b->ops->sync(t->b, fail);
	return st == OK ? OK : fail_default(fail, st);
}

/* Where tokens of whole windows are in the cache. */
static enum status put_ids(struct sound_tower *t, struct fail *fail)
{
	size_t n = (size_t)most_tokens(&t->c);
	int32_t window = sound_config_window(&t->c), per = pages_of_window(&t->c);
	int32_t *ids = xmalloc(3 * n * sizeof *ids), pages = sound_windows(&t->c) * per;
	for (int32_t i = 0; i < (int32_t)n; i++) {
		ids[i] = i / window * per * SOUND_PAGE + i % window;
		ids[n + (size_t)i] = i % window;
		ids[2 * n + (size_t)i] = i / window;
	}
	enum status st = put(t, t->work.slot, ids, 3 * n * sizeof *ids, fail);
	for (int32_t i = 0; i < pages; i++)
		ids[i] = i;
	if (st == OK)
		st = put(t, t->work.table, ids, (size_t)pages * sizeof *ids, fail);
	free(ids);
	return st;
}

/* --- convolutions ------------------------------------------------------------------- */

struct sound_place {
	int32_t x, y; /* column and row */
};

/* Number `side` of the places that convolution i reads for (col, row): they begin before it in
 * steps of 2, or of 1; the order is that of a convolution's weights. A line has one row. */
static struct sound_place place_read(const struct sound_config *c, int i,
				     struct sound_place made, int side)
{
	int32_t step = c->is_conv1d && i == 0 ? 1 : 2;
	return (struct sound_place){step * made.x - 1 + side % 3,
				    c->is_conv1d ? 0 : 2 * made.y - 1 + side / 3};
}

/* Sets work.from[i] for chunks of n_cols frames: convolution 1 + i reads what i left. */
static enum status put_from(struct sound_tower *t, int i, int32_t n_cols, struct fail *fail)
{
	struct grid read = grid_of(&t->c, i, n_cols), made = grid_of(&t->c, i + 1, n_cols);
	int32_t n = made.n_cols * made.n_rows, zeros = most_places(&t->c, i);
	int32_t n_chunks = sound_chunks(&t->c), n_sides = sound_side(&t->c);
	size_t n_bytes = (size_t)(n_chunks * n * n_sides) * sizeof(int32_t);
	int32_t *from = xmalloc(n_bytes), *to = from;
	for (int32_t k = 0; k < n_chunks * n * n_sides; k++) {
		int32_t c = k / n_sides / n, p = k / n_sides % n;
		const struct sound_place own = {p / made.n_rows, p % made.n_rows};
		struct sound_place at = place_read(&t->c, i + 1, own, k % n_sides);
		*to++ = at.x < 0 || at.x >= read.n_cols || at.y < 0 || at.y >= read.n_rows
				? zeros : (c * read.n_cols + at.x) * read.n_rows + at.y;
	}
	enum status st = put(t, t->work.from[i], from, n_bytes, fail);
	free(from);
	return st;
}

/* Number y of frame x of the chunk that begins at frame `at`; 0 beside it. */
static float mel_at(const struct sound_run *r, int32_t at, int32_t x, int32_t y)
{
	const struct sound_piece *p = r->piece;
	bool is_in = x >= 0 && x < r->n_cols && y >= 0 && y < r->t->c.n_mels &&
		     at + x < p->n_frames;
	return is_in ? p->mel[(size_t)y * (size_t)p->n_frames + (size_t)(at + x)] : 0;
}

/* Sends what the first convolution reads of n chunks from frame `at` on: of a line all numbers of
 * its frames. */
static enum status put_seen(const struct sound_run *r, int32_t at, int32_t n)
{
	struct sound_tower *t = r->t;
	const struct sound_config *cfg = &t->c;
	struct grid made = grid_of(cfg, 0, r->n_cols);
	int32_t per = sound_first_k(cfg), n_sides = sound_side(cfg);
	float *to = t->host;
	for (int32_t c = 0; c < n; c++, at += cfg->chunk)
		for (int32_t k = 0; k < made.n_cols * made.n_rows; k++, to += per) {
			const struct sound_place own = {k / made.n_rows, k % made.n_rows};
			float *each = to;
			for (int side = 0; side < n_sides; side++) {
				struct sound_place from = place_read(cfg, 0, own, side);
				for (int32_t y = 0; y < (cfg->is_conv1d ? cfg->n_mels : 1); y++)
					*each++ = mel_at(r, at, from.x, from.y + y);
			}
			memset(each, 0, (size_t)(to + per - each) * sizeof *each);
		}
	size_t n_numbers = (size_t)(to - t->host);
	backend_to_act(t->b, t->host, n_numbers, t->sent);
	return put(t, t->work.seen, t->sent, n_numbers * dtype_bytes(t->b->act_type), r->fail);
}

/* x of the places [tok, tok + n_tok), which are those of n chunks from frame `at` on. */
static enum status embed_chunks(const struct sound_run *r, int32_t at, int32_t n, int32_t tok,
				int32_t n_tok)
{
	struct sound_tower *t = r->t;
	struct sound_work *w = &t->work;
	const struct sound_config *c = &t->c;
	/* gather_rows copies words of 32 bits. */
	int32_t words = c->channels * (int32_t)(dtype_bytes(t->b->act_type)) / 4;
	size_t d = (size_t)c->width;
	float *x = w->x + (size_t)tok * d;
	enum status st = put_seen(r, at, n);
	if (st != OK)
		return st;
	int n_convs = sound_convs(c);
	for (int i = 0; i < n_convs; i++) {
		int32_t places = n * places_of(c, i, r->n_cols);
		if (i > 0)
			RUN(gather_rows, .n_rows = places * sound_side(c), .dim = words,
			    .x = w->left[i - 1], .row = w->from[i - 1], .y = w->gathered);
		LINEAR(&t->conv[i], i > 0 ? w->gathered : w->seen, w->left[i], places);
		RUN(gelu, .n_tok = places, .dim = c->channels, .x = w->left[i]);
	}
	RUN(copy_words, .n = n_tok * c->width, .x = (const int32_t *)(const void *)t->positions,
	    .y = (int32_t *)(void *)x);
	if (c->is_conv1d) /* rms_norm adds activations to x; its result is not used */
		RUN(rms_norm, .n_tok = n_tok, .dim = c->width, .eps = NORM_EPS, .x = x,
		    .add = w->left[n_convs - 1], .weight = t->norm.weight, .y = w->norm);
	else
		LINEAR(&t->embed, w->left[n_convs - 1], x, n_tok, .adds = true);
	return OK;
}

static enum status embed(const struct sound_run *r)
{
	const struct sound_config *c = &r->t->c;
	int32_t most = sound_chunks(c) * c->chunk;
	int32_t end = MIN(r->piece->at + sound_tower_step(r->t), r->piece->n_frames);
	enum status st = OK;
	for (int32_t at = r->piece->at, tok = 0, n_tok; at < end && st == OK;
	     at += most, tok += n_tok) {
		int32_t n = MIN(most, end - at);
		n_tok = sound_config_places(c, n);
		st = embed_chunks(r, at, DIV_UP(n, c->chunk), tok, n_tok);
	}
	return st;
}

/* --- layers ------------------------------------------------------------------------- */

/* Where the windows of the step begin and end. */
static enum status put_windows(const struct sound_run *r)
{
	struct sound_tower *t = r->t;
	int32_t window = sound_config_window(&t->c), n = DIV_UP(r->n_tok, window);
	int32_t *first = xmalloc((size_t)(n + 1) * sizeof *first);
	int32_t *last = xmalloc((size_t)r->n_tok * sizeof *last);
	for (int32_t i = 0; i <= n; i++)
		first[i] = MIN(i * window, r->n_tok);
	for (int32_t i = 0; i < r->n_tok; i++)
		last[i] = MIN(window, r->n_tok - i / window * window) - 1;
	enum status st = put(t, t->work.first_tok, first, (size_t)(n + 1) * sizeof *first,
			     r->fail);
	if (st == OK)
		st = put(t, t->work.last, last, (size_t)r->n_tok * sizeof *last, r->fail);
	free(first);
	free(last);
	return st;
}

static enum status norm(const struct sound_run *r, const struct sound_norm *w)
{
	struct sound_work *work = &r->t->work;
	RUN(layer_norm, .n_tok = r->n_tok, .dim = r->t->c.width, .eps = NORM_EPS, .x = work->x,
	    .weight = w->weight, .bias = w->bias, .y = work->norm);
	return OK;
}

static enum status attend(const struct sound_run *r)
{
	const struct sound_config *c = &r->t->c;
	const struct sound_work *w = &r->t->work;
	int32_t k = c->width / c->n_heads, window = sound_config_window(c);
	const struct kv_pages kv = {.k = w->k_pages, .v = w->v_pages, .type = r->t->b->kv_type,
				    .page_size = SOUND_PAGE};
	RUN(qk_norm_rope_kv, .n_tok = r->n_tok, .n_heads = c->n_heads, .n_kv_heads = c->n_heads,
	    .head_dim = k, .q = w->q, .k = w->k, .v = w->v, .rope = w->x, .slot = w->slot,
	    .kv = kv);
	RUN(attention, .n_tok = r->n_tok, .n_seq = DIV_UP(r->n_tok, window),
	    .n_heads = c->n_heads, .n_kv_heads = c->n_heads, .head_dim = k,
	    .max_pages_per_seq = pages_of_window(c), .n_ctx_max = window,
	    .scale = (float)(1 / sqrt(k)), .q = w->q, .kv = kv, .seq_of = w->seq_of,
	    .position = w->position, .last_seen = w->last, .first_tok = w->first_tok,
	    .page_table = w->table, .y = w->y);
	return OK;
}

static enum status run_layer(const struct sound_run *r, const struct sound_layer *l)
{
	const struct sound_work *w = &r->t->work;
	enum status st = norm(r, &l->norm1);
	if (st != OK)
		return st;
	RUN(linear, .n_tok = r->n_tok, .x = w->norm, .n_out = 3,
	    .out = {{.w = &l->q.w, .bias = l->q.bias, .y = w->q},
		    {.w = &l->k.w, .bias = l->k.bias, .y = w->k},
		    {.w = &l->v.w, .bias = l->v.bias, .y = w->v}});
	st = attend(r);
	if (st != OK)
		return st;
	LINEAR(&l->out, w->y, w->x, r->n_tok, .adds = true);
	st = norm(r, &l->norm2);
	if (st != OK)
		return st;
	LINEAR(&l->up, w->norm, w->wide, r->n_tok);
	RUN(gelu, .n_tok = r->n_tok, .dim = r->t->c.ffn_dim, .x = w->wide);
	LINEAR(&l->down, w->wide, w->x, r->n_tok, .adds = true);
	return OK;
}

/* The rows of the step's tokens, to the host. Places that are joined are neighbours in memory. */
static enum status finish(const struct sound_run *r, float *rows)
{
	struct sound_tower *t = r->t;
	struct sound_work *w = &t->work;
	int32_t n = r->n_tok / t->c.joined;
	size_t n_bytes = (size_t)n * (size_t)t->c.out_width * sizeof *rows;
	enum status st = norm(r, &t->norm);
	if (st != OK)
		return st;
	LINEAR(&t->up, w->norm, w->mid, n);
	RUN(gelu, .n_tok = n, .dim = t->c.mid_width, .x = w->mid);
	LINEAR(&t->down, w->mid, w->out, n, .is_f32 = true);
	st = t->b->ops->download(t->b, rows, w->out, n_bytes);
	if (st == OK)
		st = t->b->ops->sync(t->b, r->fail);
	return st == OK ? OK : fail_default(r->fail, st);
}

static enum status prepare(const struct sound_run *r)
{
	struct sound_tower *t = r->t;
	enum status st = OK;
	bool is_set = t->n_cols == r->n_cols;
	t->n_cols = 0;
	for (int i = 0; i < sound_convs(&t->c) - 1 && st == OK && !is_set; i++)
		st = put_from(t, i, r->n_cols, r->fail);
	if (st == OK)
		t->n_cols = r->n_cols;
	return st == OK ? put_windows(r) : st;
}

enum status sound_tower_run(struct sound_tower *t, const struct sound_piece *p, float *rows,
			    struct fail *fail)
{
	const struct sound_config *c = &t->c;
	int32_t n = MIN(sound_tower_step(t), p->n_frames - p->at);
	bool is_short = p->n_frames < c->chunk && !c->pads;
	const struct sound_run r = {.t = t, .piece = p, .n_cols = is_short ? p->n_frames : c->chunk,
			      .n_tok = sound_config_places(c, n), .fail = fail};
	enum status st = prepare(&r);
	if (st == OK)
		st = embed(&r);
	for (int32_t i = 0; i < c->n_layers && st == OK; i++)
		st = run_layer(&r, &t->layers[i]);
	return st == OK ? finish(&r, rows) : st;
}

/* --- life --------------------------------------------------------------------------- */

/* Runs attention on no token, so that a backend that cannot compute it fails at start. */
static enum status try_attention(struct sound_tower *t, struct fail *fail)
{
	const struct sound_run r = {.t = t, .fail = fail};
	return attend(&r);
}

enum status sound_tower_create(const struct tensors *tensors, struct backend *b,
			       const struct sound_config *c, struct sound_tower **out,
			       struct fail *fail)
{
	struct sound_tower *t = xcalloc(1, sizeof *t);
	t->c = *c;
	t->b = b;
	t->layers = xcalloc((size_t)c->n_layers, sizeof *t->layers);
	enum status st = sound_load(t, tensors, fail);
	if (st == OK)
		st = take(t);
	if (st == OK)
		st = put_ids(t, fail);
	if (st == OK)
		st = try_attention(t, fail);
	if (st != OK) {
		sound_tower_destroy(t);
		return fail_default(fail, st);
	}
	*out = t;
	return OK;
}

void sound_tower_destroy(struct sound_tower *t)
{
	if (!t)
		return;
	tower_free(&t->memory, t->b);
	for (size_t i = 0; i < SOUND_ARRAYS; i++)
		if (t->arrays[i])
			t->b->ops->free(t->b, t->arrays[i]);
	free(t->host);
	free(t->sent);
	free(t->layers);
	free(t);
}
