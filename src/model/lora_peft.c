/* SPDX-License-Identifier: Apache-2.0
 *
 * Which modules an adapter has, and of which rank, its tensors say. The settings say the factors,
 * and whether B A is all. Source: LoraConfig of Hugging Face PEFT.
 */
#include "model/lora_peft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/formats/name_set.h"

#define CONFIG "adapter_config.json"
#define MAX_CONFIG_BYTES ((size_t)4 << 20)

struct lora_peft {
	json_t *root;
	double alpha;
	bool is_rs; /* the factor is alpha / sqrt(R), not alpha / R */
	const json_t *alphas; /* pattern of names to the alpha of those modules */
};

/* Keys that change no product of a trained adapter. */
static const char *const neutral[] = {
	"alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "corda_config",
	"ensure_weight_tying", "eva_config", "exclude_modules", "inference_mode",
	"init_lora_weights", "layers_pattern", "layers_to_transform", "loftq_config",
	"lora_alpha", "lora_dropout", "lora_ga_config", "megatron_config", "megatron_core",
	"peft_type", "peft_version", "qalora_group_size", "r", "rank_pattern", "revision",
	"runtime_config", "target_modules", "target_parameters", "task_type", "use_rslora",
	"velora_config"};

/* Keys whose values would change products, and how. */
static const struct {
	const char *key, *what;
} refused[] = {
	{"use_dora", "DoRA scales each row by a magnitude"},
	{"lora_bias", "biases of B"},
	{"modules_to_save", "whole modules take the place of the base model's"},
	{"trainable_token_indices", "rows of the embedding are replaced"},
	{"layer_replication", "layers are run more than once"},
	{"use_qalora", "QA-LoRA sums inputs in groups"},
	{"alora_invocation_tokens", "activated LoRA begins within a prompt"},
	{"fan_in_fan_out", "weights are stored transposed"},
};

static enum status fail_key(struct fail *fail, const char *key, const char *what)
{
	return fail_at(fail, E_UNSUPPORTED, key, CONFIG ": %s: %s, which is not supported", key,
		       what);
}

/* Does the value ask for nothing? */
static bool is_empty(const json_t *v)
{
	return !v || json_is_null(v) || json_is_false(v) ||
	       (json_is_array(v) && !json_array_size(v)) ||
	       (json_is_object(v) && !json_object_size(v)) ||
	       (json_is_string(v) && !json_string_length(v)) ||
	       (json_is_number(v) && json_number_value(v) == 0);
}

static bool is_neutral(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++)
		if (strcmp(neutral[i], key) == 0)
			return true;
	return false;
}

static enum status check_keys(const json_t *root, struct fail *fail)
{
	const char *key;
	json_t *v;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (!is_empty(json_object_get(root, refused[i].key)))
			return fail_key(fail, refused[i].key, refused[i].what);
	json_object_foreach((json_t *)(uintptr_t)root, key, v)
		if (!is_empty(v) && !is_neutral(key))
			return fail_at(fail, E_UNSUPPORTED, "adapter_config", CONFIG ": the key "
				       "%.60s is not known", key);
	return OK;
}

/* These ways to begin change the base model's weights, too. PEFT can save what results of them as
 * an adapter of the unchanged ones, and then writes true. */
static enum status check_begin(const json_t *root, struct fail *fail)
{
	static const char *const ways[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
	static const char key[] = "init_lora_weights";
	const char *way = json_string_value(json_object_get(root, key));
	for (size_t i = 0; way && i < ARRAY_LEN(ways); i++)
		if (strncmp(way, ways[i], strlen(ways[i])) == 0)
			return fail_at(fail, E_UNSUPPORTED, key, CONFIG ": %s %.20s changes the "
				       "base model's weights: save the adapter with "
				       "path_initial_model_for_weight_conversion", key, way);
	return OK;
}

static enum status read_words(const json_t *root, struct fail *fail)
{
	const char *type = json_string_value(json_object_get(root, "peft_type"));
	const char *bias = json_string_value(json_object_get(root, "bias"));
	if (!type)
		return fail_at(fail, E_MISSING, "peft_type", CONFIG ": peft_type is missing");
	if (strcmp(type, "LORA") != 0)
		return fail_at(fail, E_UNSUPPORTED, "peft_type", CONFIG ": peft_type %.40s is not "
			       "supported, only LORA", type);
	if (bias && strcmp(bias, "none") != 0)
		return fail_at(fail, E_UNSUPPORTED, "bias", CONFIG ": bias %.20s: trained biases "
			       "are not supported", bias);
	return OK;
}

enum status lora_peft_open(const char *dir, struct lora_peft **out, struct fail *fail)
{
	json_t *root;
	enum status st = jsonfile_load(dir, CONFIG, MAX_CONFIG_BYTES, &root, fail);
	if (st != OK)
		return st;
	struct lora_peft *p = xcalloc(1, sizeof *p);
	p->root = root;
	const json_t *alpha = json_object_get(root, "lora_alpha");
	p->alpha = json_number_value(alpha);
	p->is_rs = json_is_true(json_object_get(root, "use_rslora"));
	p->alphas = json_object_get(root, "alpha_pattern");
	st = read_words(root, fail);
	if (st == OK)
		st = check_keys(root, fail);
	if (st == OK)
		st = check_begin(root, fail);
	if (st == OK && !json_is_number(alpha))
		st = fail_at(fail, E_FORMAT, "lora_alpha", CONFIG ": lora_alpha is no number");
	if (st == OK)
		*out = p;
	else
		lora_peft_close(p);
	return st;
}

void lora_peft_close(struct lora_peft *p)
{
	if (!p)
		return;
	json_decref(p->root);
	free(p);
}

/* Does the pattern of PEFT mean this module? It is a regular expression for the whole name, or for
 * its end behind a dot. */
static enum status is_meant(const char *pattern, const char *module, bool *out, struct fail *fail)
{
	struct name_set set = {0};
	char *whole = xasprintf("re:^(.*\\.)?(%s)$", pattern);
	enum status st = name_set_add(&set, whole, 0, fail);
	if (st == OK)
		st = name_set_has(&set, module, out, fail);
	name_set_deinit(&set);
	free(whole);
	return st == OK ? OK : fail_within(fail, st, CONFIG ": alpha_pattern");
}

enum status lora_peft_scale(const struct lora_peft *p, const char *module, int32_t rank,
			    float *out, struct fail *fail)
{
	double alpha = p->alpha;
	const char *pattern;
	json_t *v;
	bool is = false;
	json_object_foreach((json_t *)(uintptr_t)p->alphas, pattern, v) {
		enum status st = is_meant(pattern, module, &is, fail);
		if (st == OK && is && !json_is_number(v))
			st = fail_at(fail, E_FORMAT, "alpha_pattern", CONFIG ": alpha_pattern of "
				     "%.60s is no number", pattern);
		if (st != OK)
			return st;
		if (!is)
			continue;
		alpha = json_number_value(v);
		break; /* the first one wins, as in PEFT */
	}
	*out = (float)(alpha / (p->is_rs ? sqrt(rank) : rank));
	return OK;
}

bool lora_peft_swaps_sides(const struct lora_peft *p)
{
	const char *version = json_string_value(json_object_get(p->root, "peft_version"));
	int major = 0, minor = 0;
	bool is_known = version && sscanf(version, "%d.%d", &major, &minor) == 2;
	return !is_known || (major == 0 && minor < 19);
}

const char *lora_peft_other(const char *tensor)
{
	if (strstr(tensor, "lora_magnitude_vector"))
		return "a magnitude of DoRA";
	if (strstr(tensor, "lora_embedding_"))
		return "of an embedding";
	if (strstr(tensor, ".lora_"))
		return "no matrix A or B";
	return "of a module that takes the place of the base model's";
}
