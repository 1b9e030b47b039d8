/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the files of settings beside a model: config.json, generation_config.json and
 * tokenizer_config.json, with a NUL behind each. What is accepted is within its bounds, what is
 * refused has words.
 */
#include <assert.h>
#include <stdlib.h>

#include "json/jsonfile.h"
#include "model/formats/quant.h"
#include "model/model_config.h"
#include "model/model_templates.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct model_config *c)
{
	assert(c->n_layers >= 1 && c->n_heads >= 1 && c->n_vocab >= 2);
	assert(c->head_dim >= 2 && c->d_model >= 8 && c->max_ctx >= 1);
	assert(c->n_experts >= 0 && c->n_experts_used <= c->n_experts);
	assert(c->n_eos <= MODEL_MAX_EOS);
	for (int i = 0; i < c->n_eos; i++)
		assert(c->eos_ids[i] >= 0 && c->eos_ids[i] < c->n_vocab);
}

static void read_config(const json_t *root, const json_t *generation)
{
	struct arena a;
	struct model_config c;
	struct generation_defaults d;
	struct quant_scheme *scheme = NULL;
	struct fail fail = {0};
	arena_init(&a);
	if (model_config_read(root, &a, &c, &fail) != OK) {
		assert(fail.text[0]);
	} else {
		if (!c.encoder.is_bert)
			check(&c);
		if (quant_scheme_parse(root, &scheme, &fail) != OK)
			assert(fail.text[0]);
		if (model_defaults_read(generation, &c, &d, &fail) != OK)
			assert(fail.text[0]);
		quant_scheme_destroy(scheme);
	}
	arena_deinit(&a);
}

static void read_template(const json_t *config)
{
	struct fail fail = {0};
	char *template = NULL;
	if (model_templates_load("/nonexistent", config, &template, &fail) == OK)
		assert(template);
	else
		assert(fail.text[0]);
	free(template);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	json_t *files[3] = {0};
	const char *p = (const char *)data, *end = p + n;
	for (int i = 0; i < 3 && p < end; i++) {
		struct fail fail = {0};
		const char *nul = memchr(p, 0, (size_t)(end - p));
		struct str text = {p, (size_t)((nul ? nul : end) - p)};
		if (jsonfile_parse(text, "fuzz", JSON_TEXT_PYTHON, &files[i], &fail) != OK)
			assert(fail.text[0]);
		p = nul ? nul + 1 : end;
	}
	if (files[0])
		read_config(files[0], files[1]);
	read_template(files[2]);
	for (int i = 0; i < 3; i++)
		json_decref(files[i]);
	return 0;
}
