/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text_call.h"

enum status text_call(const struct api *a, const struct api_input *in, text_call_fn *fn,
		      struct buf *out, struct fail *fail)
{
	json_t *json;
	enum status st = json_read_parse(in->body, &json, fail);
	if (st != OK)
		return st;
	struct json_node root = json_read_root(json);
	struct arena scratch;
	arena_init(&scratch);
	const struct text_input input = {&root, &scratch, in->is_gone, in->owner};
	st = fn(a, &input, out, fail);
	arena_deinit(&scratch);
	json_decref(json);
	return st;
}
