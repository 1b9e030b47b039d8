/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of one file of kept KV pages and states, apart from any disk. Thread: any.
 *
 *   head      struct kvfile_head
 *   key       key_bytes: what the contents depend on, and whose they are
 *   tokens    int32 (n_tok): all of the prompt up to the end of the last page
 *   sums      uint64 (n_pages), then struct kvfile_state (n_states)
 *   zeros     up to data_at, a multiple of 4096
 *   pages     (n_pages, page_bytes): of the tokens from first_tok on
 *   states    (n_states, state_bytes)
 *
 * Numbers have this machine's byte order. A sum covers each byte: head.sum those before
 * data_at (with itself as zero), and one each page and state.
 */
#pragma once
#include "base/buf.h"

#define KVFILE_MAGIC "halodkv2"
enum { KVFILE_ALIGN = 4096, KVFILE_MAX_HEAD = 64 << 20 };

struct kvfile_head {
	char magic[8];
	uint64_t file_bytes, data_at;
	uint64_t page_bytes, state_bytes;
	uint32_t key_bytes, n_tok, first_tok, page_size, n_states, zero;
	uint64_t sum;
};

struct kvfile_state {
	uint32_t at_tok, zero; /* it is the state after so many tokens */
	uint64_t sum;
};

/* What a file says of itself. Arrays belong to the caller, or lie in the parsed bytes. */
struct kvfile {
	struct str key;
	const int32_t *tokens;
	uint32_t n_tok, first_tok, page_size, n_states;
	uint64_t page_bytes, state_bytes;
	const uint64_t *page_sums;         /* ((n_tok - first_tok) / page_size) */
	const struct kvfile_state *states; /* (n_states) */
};

static inline uint32_t kvfile_n_pages(const struct kvfile *f)
{
	return (f->n_tok - f->first_tok) / f->page_size;
}
/* Offset of the data; of page i; of state i; the file's length. */
uint64_t kvfile_data_at(const struct kvfile *f);
uint64_t kvfile_page_at(const struct kvfile *f, uint32_t i);
uint64_t kvfile_state_at(const struct kvfile *f, uint32_t i);
uint64_t kvfile_bytes(const struct kvfile *f);

/* All before the data, into out (kvfile_data_at bytes, 8-byte aligned). */
void kvfile_write_head(const struct kvfile *f, char *out);
/* Bytes that kvfile_parse needs of a file that begins with `begin`; 0: the file has
 * another format. */
size_t kvfile_peek(struct str begin);
/* Reads what kvfile_write_head wrote (head.p 8-byte aligned). E_FORMAT unless each number
 * fits the others, the file's length and the sum. */
enum status kvfile_parse(struct str head, uint64_t file_bytes, struct kvfile *out) MUST_USE;
