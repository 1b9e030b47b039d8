/* SPDX-License-Identifier: Apache-2.0
 *
 * What quant_made.c and quant_made_codes.c share: one layer that is being converted.
 */
#pragma once
#include "base/pool.h"
#include "model/formats/quant.h"

struct made {
	struct tensors *ts;
	const struct quant_scheme *scheme; /* NULL: bitsandbytes or HQQ, whose tensors have all
					    * settings */
	struct pool *pool;
	struct fail *fail;
	char name[200]; /* of the layer */
};

/* Find X.suffix, of one of `types` and with `count` numbers. count 0: any number. E_MISSING,
 * E_FORMAT. */
enum status made_find(const struct made *m, const char *suffix, int64_t count,
		      const enum dtype *types, const struct tensor **out) MUST_USE;
/* E_UNSUPPORTED, with the shape in the text. */
enum status made_bad_shape(const struct made *m, int64_t n, int64_t k);
/* True if a layer may have this shape, and `multiple` divides k. */
bool made_is_shape(int64_t n, int64_t k, int64_t multiple);
/* Put a tensor (n, k) in the place of `old`, with the name X.suffix. */
void made_replace(const struct made *m, const struct tensor *old, const char *suffix,
		  enum dtype dtype, int64_t n, int64_t k, const void *data, size_t n_bytes);

/* Convert the integers or small floats in tensor t, which are stored as c says. */
enum status made_codes(const struct made *m, const struct tensor *t,
		       const struct quant_choice *c) MUST_USE;
/* Convert the scales of a layer in FP8 from bytes that are powers of two to BF16. */
enum status made_powers(const struct made *m) MUST_USE;
