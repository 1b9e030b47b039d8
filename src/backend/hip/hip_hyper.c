/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections, gates of n-grams, and the indexer of sparse attention: no kernels yet.
 */
#include "backend/hip/hip_launch.h"

#define LACKS(op) \
	enum status hip_##op(struct backend *b, const struct op##_args *a) \
	{ \
		return hip_refuse(hip_of(b), #op " has no GPU kernel"); \
	}
LACKS(hyper_low)
LACKS(hyper_mix)
LACKS(hyper_add)
LACKS(ngram_gate)
LACKS(index_keys)
LACKS(index_choose)
