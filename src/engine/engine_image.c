/* SPDX-License-Identifier: Apache-2.0
 *
 * Images and sounds in prompts.
 *
 * Keys of the cache. All tokens of images are one id, so in the cache's keys other words
 * stand for them. They are negative, which no token is, and hold 31 bits of the image's hash,
 * different ones for each token. A page in which an image begins may hold only one of its tokens:
 * there the words of the tokens before it are mixed with the hash, too. So nobody finds the page
 * of another image but by breaking the hash.
 *
 * Positions. Text goes on by one on all three axes. An image begins where the text before
 * it ended. Its time stands still; height and width go through its rows and columns. Text after
 * the image begins after the larger of both. Images that go on with a video share its beginning,
 * each at a later time, and text begins after the largest of all. A sound goes on as text does.
 * Parts of a video's sound stand between its images, at their own times from the same beginning.
 * Text behind such a part that is the video's last begins where the part ends.
 * Sources: modeling_qwen3_vl.py and modeling_qwen3_omni_moe.py of Hugging Face Transformers,
 * get_rope_index.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "engine/engine_private.h"

/* 31 bits of the image's hash for the image's token i; below 0: for a token before the image. */
static uint32_t hash_word(const struct engine_image *m, int i)
{
	uint64_t part;
	size_t n_parts = sizeof m->hash / sizeof part;
	memcpy(&part, m->hash + (size_t)(unsigned)i % n_parts * sizeof part, sizeof part);
	return (uint32_t)(hash_bytes((uint64_t)(int64_t)i, &part, sizeof part) >> 33);
}

/* m: the first image that ends behind the token; NULL: none. */
static int32_t word_of(const struct engine_image *m, int page_size, int at, int32_t token)
{
	if (!m || m->at >= (at / page_size + 1) * page_size)
		return token;
	uint32_t word = hash_word(m, at - m->at) + (m->at > at ? (uint32_t)token : 0);
	return (int32_t)(word | 1u << 31);
}

/* The first image of s that ends behind token `at`; NULL: none. */
static const struct engine_image *image_from(const struct engine_seq *s, int at)
{
	int i = 0;
	while (i < s->n_images && s->images[i].at + s->images[i].n <= at)
		i++;
	return i < s->n_images ? &s->images[i] : NULL;
}

int32_t engine_image_word(const struct engine *e, const struct engine_seq *s, int at,
			  int32_t token)
{
	return word_of(image_from(s, at), kvcache_page_size(e->kv), at, token);
}

int32_t engine_image_token(const struct engine *e, const struct engine_seq *s, int at,
			   int32_t word)
{
	const struct engine_image *m = image_from(s, at);
	if (word >= 0 || !m || !e->image_rules)
		return word;
	if (m->at <= at)
		return e->image_rules->token;
	return (int32_t)(((uint32_t)word - hash_word(m, at - m->at)) & ~(1u << 31));
}

const int32_t *engine_image_words(const struct engine *e, const struct engine_prompt *p,
				  int32_t **own)
{
	*own = NULL;
	if (p->n_images == 0)
		return p->tokens;
	int32_t *words = xmalloc(sizeof *words * (size_t)MAX(p->n, 1));
	int size = kvcache_page_size(e->kv);
	const struct engine_image *m = p->images, *end = m + p->n_images;
	for (int i = 0; i < p->n; i++) {
		while (m < end && m->at + m->n <= i)
			m++;
		words[i] = word_of(m < end ? m : NULL, size, i, p->tokens[i]);
	}
	return *own = words;
}

int engine_image_common(const struct engine_prompt *a, const struct engine_prompt *b)
{
	int n = MIN(a->n_images, b->n_images), i = 0;
	while (i < n && a->images[i].at == b->images[i].at && a->images[i].n == b->images[i].n &&
	       memcmp(a->images[i].hash, b->images[i].hash, sizeof a->images[i].hash) == 0)
		i++;
	return MIN(i < a->n_images ? a->images[i].at : a->n,
		   i < b->n_images ? b->images[i].at : b->n);
}

/* Time, height and width of token `at` of s. */
static void get_position(const struct engine_seq *s, int at, int32_t out[3])
{
	int32_t shift = 0; /* how far text after the images so far is shifted */
	int32_t begin = 0; /* of the last image, or of its video */
	for (int i = 0; i < s->n_images && s->images[i].at <= at; i++) {
		const struct engine_image *m = &s->images[i];
		int32_t in = at - m->at;
		if (m->is_sound && !m->goes_on)
			continue;
		begin = m->goes_on ? begin : m->at + shift;
		if (m->is_sound) {
			shift = begin + m->time - m->at;
			continue;
		}
		if (in < m->n) {
			out[0] = begin + m->time;
			out[1] = begin + in / m->n_cols;
			out[2] = begin + in % m->n_cols;
			return;
		}
		shift = begin + MAX(m->time + 1, MAX(m->n_rows, m->n_cols)) - m->at - m->n;
	}
	out[0] = out[1] = out[2] = at + shift;
}

/* The image of s to which token `at` belongs; NULL: none. */
static const struct engine_image *image_at(const struct engine_seq *s, int at)
{
	const struct engine_image *m = image_from(s, at);
	return m && m->at <= at ? m : NULL;
}

void engine_image_place(struct engine *e, const struct engine_seq *s, int at, int t)
{
	const struct engine_image *m = image_at(s, at);
	get_position(s, at, e->arrays.rope_position + 3 * (size_t)t);
	if (e->graph.block_ratio)
		get_position(s, at - at % e->graph.block_ratio,
			     e->arrays.block_position + 3 * (size_t)t);
	e->arrays.last_seen[t] = m && !m->is_sound ? m->at + m->n - 1 : at;
	const struct engine_image_rules *rules = e->image_rules;
	if (m && rules && rules->has_stand_in &&
	    (at - m->at) % (m->n_cols + m->n_gap) < m->n_cols)
		e->arrays.token[t] = rules->stand_in;
}

int engine_seq_whole(const struct engine *e, const struct engine_seq *s, int n, int most)
{
	const struct engine_image_rules *rules = e->image_rules;
	int last = s->length + n - 1;
	const struct engine_image *m = n > 0 ? image_at(s, last) : NULL;
	if (!m || m->is_sound || !rules || rules->seen == IMAGE_CAUSAL ||
	    last == m->at + m->n - 1)
		return n;
	int whole = m->at + m->n - s->length;
	return m->at > s->length ? m->at - s->length : whole <= most ? whole : 0;
}

static void add_view(struct engine *e, struct engine_view v)
{
	if (e->batch.n_views == e->n_view_room) {
		e->n_view_room = 2 * e->n_view_room + 4;
		e->views = xrealloc(e->views, (size_t)e->n_view_room * sizeof *e->views);
		e->batch.views = e->views;
	}
	e->views[e->batch.n_views++] = v;
}

void engine_image_note(struct engine *e, const struct engine_seq *s, int tok, int n)
{
	int begin = s->length, end = s->length + n;
	for (int i = 0; i < s->n_images; i++) {
		const struct engine_image *m = &s->images[i];
		/* Rows without a gap are one run of tokens. */
		int shown = m->n_gap ? m->n_cols : m->n, pitch = shown + m->n_gap;
		int at = MAX(m->at, begin), to = MIN(m->at + m->n, end), length;
		for (; at < to; at += length) {
			int line = (at - m->at) / pitch, in = (at - m->at) % pitch;
			length = MIN(to - at, in < shown ? shown - in : pitch - in);
			if (in < shown)
				add_view(e, (struct engine_view){tok + at - begin, length,
								 line * shown + in, m});
		}
	}
}
