/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json of an EAGLE-3 head. Sources: the configurations that SGLang and vLLM read. Where both
 * name the layers whose inputs a head reads, SGLang counts layers by their outputs.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config_private.h"

bool config_eagle_is(const json_t *root)
{
	static const char *const names[] = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM"};
	const json_t *class;
	size_t i;
	json_array_foreach((json_t *)jsonfile_get(root, "architectures"), i, class)
		for (size_t k = 0; k < ARRAY_LEN(names) && json_is_string(class); k++)
			if (strcmp(json_string_value(class), names[k]) == 0)
				return true;
	return false;
}

static enum status read_count(const json_t *root, const char *key, int32_t most, int32_t *io,
			      struct fail *fail)
{
	const json_t *v = jsonfile_get(root, key);
	char want[60];
	snprintf(want, sizeof want, "an integer of 1 to %d", (int)most);
	if (!v)
		return OK;
	if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > most)
		return config_wrong(fail, key, v, want);
	*io = (int32_t)json_integer_value(v);
	return OK;
}

/* The layers of the other model whose inputs the head reads. */
static enum status read_taps(const json_t *root, struct eagle_settings *e, struct fail *fail)
{
	static const char key[] = "eagle_aux_hidden_state_layer_ids";
	const json_t *inner = jsonfile_get(root, "eagle_config"), *list = jsonfile_get(root, key);
	int32_t behind = 0;
	if (!list && json_is_object(inner)) {
		list = jsonfile_get(inner, key);
		behind = 1;
	}
	e->taps[0] = -1;
	if (!list)
		return OK;
	if (!json_is_array(list) || json_array_size(list) != EAGLE_TAPS)
		return config_wrong(fail, key, list, "a list of three layers");
	for (size_t i = 0; i < EAGLE_TAPS; i++) {
		const json_t *v = json_array_get(list, i);
		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) > 1 << 16)
			return config_wrong(fail, key, list, "a list of three layers");
		e->taps[i] = (int32_t)json_integer_value(v) + behind;
	}
	return OK;
}

enum status config_eagle_read(const json_t *root, struct model_config *c, struct fail *fail)
{
	struct eagle_settings *e = &c->eagle;
	const json_t *before = jsonfile_get(root, "norm_before_residual");
	const json_t *inner = jsonfile_get(root, "eagle_config");
	const json_t *uses = inner ? jsonfile_get(inner, "use_aux_hidden_state") : NULL;
	*e = (struct eagle_settings){.is_head = true, .vocab = c->n_vocab, .dim = c->d_model};
	if (c->n_layers != 1)
		return config_unsupported(fail, "num_hidden_layers",
					  jsonfile_get(root, "num_hidden_layers"));
	if (json_is_true(before))
		return config_unsupported(fail, "norm_before_residual", before);
	if (json_is_false(uses))
		return config_unsupported(fail, "use_aux_hidden_state", uses);
	enum status st = read_count(root, "draft_vocab_size", c->n_vocab, &e->vocab, fail);
	if (st == OK)
		st = read_count(root, "target_hidden_size", 1 << 20, &e->dim, fail);
	return st == OK ? read_taps(root, e, fail) : st;
}
