/* SPDX-License-Identifier: Apache-2.0
 *
 * How the rows of a text's tokens become one vector: the files that Sentence Transformers
 * writes beside a model (modules.json, the config.json of its Pooling module, the weights of
 * its Dense modules), or the key pooling_type of GGUF. Thread: any.
 */
#pragma once
#include "embed/embed_dense.h"
#include "model/model.h"

#define EMBED_POOL_MAX_DENSE 8

enum embed_pool_kind {
	EMBED_POOL_LAST, /* the last token's row */
	EMBED_POOL_MEAN, /* the mean of all rows */
	EMBED_POOL_CLS,  /* the first token's row */
};

struct embed_pool {
	enum embed_pool_kind kind;
	bool is_said;    /* a file of the model says the kind */
	bool normalizes; /* the vector is scaled to length 1 */
	int32_t width;   /* length of the vector */
	int32_t max_tok; /* tokens of the longest text that the model was made for; 0: not said */
	bool lowers;     /* texts are made lower case before the tokenizer */
	struct embed_dense dense[EMBED_POOL_MAX_DENSE]; /* layers after the pooling */
	int n_dense;
};

/* Reads how m's vectors are pooled, from its files. Without such files: the last token, length
 * 1, as models with causal attention are trained. E_UNSUPPORTED for a module or a pooling that
 * is not known here, and for an encoder without such files; E_FORMAT. */
enum status embed_pool_read(const struct model *m, struct embed_pool *out,
			    struct fail *fail) MUST_USE;
/* Reads the head of a reranker of RoBERTa's kind: the first token's row goes through
 * classifier.dense and classifier.out_proj of m, which make one number. E_UNSUPPORTED: m has no
 * such head. */
enum status embed_pool_read_head(const struct model *m, struct embed_pool *out,
				 struct fail *fail) MUST_USE;
void embed_pool_deinit(struct embed_pool *p);

/* Adds rows (n, dim) of neighbouring tokens of a text to `sum` (dim), which began as
 * zeros. first: position of the first row's token; n_text: tokens of the text. Rows that the
 * pooling does not use may be left out. */
struct embed_rows {
	const float *rows;
	int32_t n, first, n_text, dim;
};
void embed_pool_add(const struct embed_pool *p, const struct embed_rows *r, float *sum);
/* Call it after the last row: writes the vector to out (width). sum (dim) is overwritten; it
 * must not be out. */
void embed_pool_end(const struct embed_pool *p, int32_t n_text, int32_t dim, float *sum,
		    float *out);
/* Scales v (dim) to length 1. Leaves a vector of zeros as it is. */
void embed_pool_normalize(float *v, int32_t dim);
