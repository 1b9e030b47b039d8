/* SPDX-License-Identifier: Apache-2.0
 *
 * How sort_inputs.hip is launched.
 */
#pragma once

enum {
	SORT_INPUTS_THREADS = 256,
	SORT_INPUTS_EACH = 4, /* columns of a thread */
	SORT_INPUTS_TOK = 8,  /* tokens of a thread */
};
