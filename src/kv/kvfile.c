/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kvfile.h"

#include "base/alloc.h"
#include "base/hash.h"

static uint64_t tokens_at(const struct kvfile *f)
{
	return ROUND_UP(sizeof(struct kvfile_head) + f->key.n, 8);
}

static uint64_t sums_at(const struct kvfile *f)
{
	return ROUND_UP(tokens_at(f) + sizeof *f->tokens * (uint64_t)f->n_tok, 8);
}

static uint64_t states_at(const struct kvfile *f)
{
	return sums_at(f) + sizeof *f->page_sums * (uint64_t)kvfile_n_pages(f);
}

uint64_t kvfile_data_at(const struct kvfile *f)
{
	return ROUND_UP(states_at(f) + sizeof *f->states * (uint64_t)f->n_states, KVFILE_ALIGN);
}

uint64_t kvfile_page_at(const struct kvfile *f, uint32_t i)
{
	return kvfile_data_at(f) + i * f->page_bytes;
}

uint64_t kvfile_state_at(const struct kvfile *f, uint32_t i)
{
	return kvfile_page_at(f, kvfile_n_pages(f)) + i * f->state_bytes;
}

uint64_t kvfile_bytes(const struct kvfile *f)
{
	return kvfile_state_at(f, f->n_states);
}

void kvfile_write_head(const struct kvfile *f, char *out)
{
	size_t n = kvfile_data_at(f);
	struct kvfile_head h = {
		.file_bytes = kvfile_bytes(f), .data_at = n, .page_bytes = f->page_bytes,
		.state_bytes = f->state_bytes, .key_bytes = (uint32_t)f->key.n,
		.n_tok = f->n_tok, .first_tok = f->first_tok, .page_size = f->page_size,
		.n_states = f->n_states};
	memcpy(h.magic, KVFILE_MAGIC, sizeof h.magic);
	memset(out, 0, n);
	memcpy(out, &h, sizeof h);
	memcpy(out + sizeof h, f->key.p, f->key.n);
	memcpy(out + tokens_at(f), f->tokens, sizeof *f->tokens * f->n_tok);
	if (kvfile_n_pages(f))
		memcpy(out + sums_at(f), f->page_sums,
		       sizeof *f->page_sums * kvfile_n_pages(f));
	if (f->n_states)
		memcpy(out + states_at(f), f->states, sizeof *f->states * f->n_states);
	h.sum = hash_bytes(0, out, n);
	memcpy(out, &h, sizeof h);
}

size_t kvfile_peek(struct str begin)
{
	struct kvfile_head h;
	if (begin.n < sizeof h)
		return 0;
	memcpy(&h, begin.p, sizeof h);
	bool fits = memcmp(h.magic, KVFILE_MAGIC, sizeof h.magic) == 0 &&
		    h.data_at >= KVFILE_ALIGN && h.data_at <= KVFILE_MAX_HEAD &&
		    h.data_at % KVFILE_ALIGN == 0 && h.data_at <= h.file_bytes;
	return fits ? h.data_at : 0;
}

/* The head's own numbers: none is so large that the sums below would overflow. */
static bool has_fitting_counts(const struct kvfile_head *h)
{
	return h->key_bytes <= h->data_at && h->n_tok > 0 && h->n_tok <= h->data_at / 4 &&
	       h->first_tok <= h->n_tok && h->page_size > 0 &&
	       h->n_tok % h->page_size == 0 && h->first_tok % h->page_size == 0 &&
	       h->n_states <= h->data_at / sizeof(struct kvfile_state) && h->zero == 0 &&
	       h->page_bytes <= UINT64_C(1) << 36 && h->state_bytes <= UINT64_C(1) << 36;
}

static bool has_sum(struct str head, struct kvfile_head h)
{
	uint64_t want = h.sum;
	struct buf copy = {0};
	h.sum = 0;
	buf_add_str(&copy, (struct str){(const char *)&h, sizeof h});
	buf_add_str(&copy, (struct str){head.p + sizeof h, head.n - sizeof h});
	bool is_it = hash_bytes(0, copy.p, copy.n) == want;
	buf_deinit(&copy);
	return is_it;
}

enum status kvfile_parse(struct str head, uint64_t file_bytes, struct kvfile *out)
{
	struct kvfile_head h;
	if (kvfile_peek(head) != head.n)
		return E_FORMAT;
	memcpy(&h, head.p, sizeof h);
	if (h.file_bytes != file_bytes || !has_fitting_counts(&h))
		return E_FORMAT;
	struct kvfile f = {
		.key = {head.p + sizeof h, h.key_bytes}, .n_tok = h.n_tok,
		.first_tok = h.first_tok, .page_size = h.page_size, .n_states = h.n_states,
		.page_bytes = h.page_bytes, .state_bytes = h.state_bytes};
	if (kvfile_data_at(&f) != h.data_at || kvfile_bytes(&f) != file_bytes ||
	    !has_sum(head, h))
		return E_FORMAT;
	f.tokens = (const void *)(head.p + tokens_at(&f));
	f.page_sums = (const void *)(head.p + sums_at(&f));
	f.states = (const void *)(head.p + states_at(&f));
	for (uint32_t i = 0; i < f.n_states; i++)
		if (f.states[i].at_tok > f.n_tok || f.states[i].at_tok % f.page_size ||
		    f.states[i].at_tok == 0)
			return E_FORMAT;
	*out = f;
	return OK;
}
