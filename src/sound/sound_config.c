/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: configuration_qwen3_omni_moe.py, modeling_qwen3_omni_moe.py,
 * feature_extraction_whisper.py and feature_extraction_qwen3_asr.py of Hugging Face Transformers.
 */
#include "sound/sound_config.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config.h"

#define MAX_BYTES ((size_t)16 << 20)

#define AT(field) offsetof(struct sound_config, field)
static const struct jsonfile_number of_tower[] = {
	{"encoder_layers", AT(n_layers), 1, 256, -1},
	{"d_model", AT(width), 8, 1 << 14, -1},
	{"encoder_attention_heads", AT(n_heads), 1, 256, -1},
	{"encoder_ffn_dim", AT(ffn_dim), 8, 1 << 16, -1},
	{"num_mel_bins", AT(n_mels), 1, 128, -1},
	{"downsample_hidden_size", AT(channels), 8, 1 << 12, -1},
	{"n_window", AT(chunk), 1, 1 << 12, -1},
	{"n_window_infer", AT(window), 1, 1 << 14, -1},
	{"output_dim", AT(out_width), 8, 1 << 16, -1},
};
static const struct jsonfile_number of_extractor[] = {
	{"feature_size", AT(format.n_mels), 1, 1 << 10, 128},
	{"min_length", AT(format.least), 0, 1 << 20, 8000}, /* Qwen3-ASR's alone */
};

static enum status refuse(struct fail *fail, const char *key)
{
	return fail_at(fail, E_UNSUPPORTED, key, "config.json: this %s of an audio tower is not "
		       "supported", key);
}

/* The settings of audio_config, in frames and chunks. */
static enum status read_tower(const json_t *audio, struct sound_config *c, struct fail *fail)
{
	enum { FULL = 13 }; /* tokens of a chunk, a constant of the reference's count of tokens */
	const char *act = json_string_value(jsonfile_get(audio, "activation_function"));
	enum status st = jsonfile_numbers(audio, "config.json: audio_config", of_tower,
					  ARRAY_LEN(of_tower), c, fail);
	if (st != OK)
		return st;
	if (act && strcmp(act, "gelu") != 0)
		return refuse(fail, "activation_function");
	c->chunk *= 2;
	if (sound_config_left(c->chunk) != FULL)
		return refuse(fail, "n_window");
	if (c->window < c->chunk)
		return refuse(fail, "n_window_infer");
	c->window /= c->chunk;
	if (c->width % c->n_heads || c->width % 8 || c->width / c->n_heads % 4)
		return refuse(fail, "encoder_attention_heads");
	return c->channels % 8 ? refuse(fail, "downsample_hidden_size") : OK;
}

/* What struct sound_format takes for granted. */
static enum status check_extractor(const json_t *from, struct fail *fail)
{
	static const struct {
		const char *key;
		json_int_t only;
	} same[] = {{"sampling_rate", 16000}, {"n_fft", 400}, {"hop_length", 160}};
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		const json_t *v = jsonfile_get(from, same[i].key);
		if (v && json_integer_value(v) != same[i].only)
			return fail_at(fail, E_UNSUPPORTED, same[i].key, "the feature extractor's "
				       "%s is not supported, only %d", same[i].key,
				       (int)same[i].only);
	}
	return OK;
}

static enum status read_extractor(const char *dir, struct sound_config *c, struct fail *fail)
{
	json_t *from = NULL;
	enum status st = jsonfile_processor(dir, "feature_extractor", &from, fail);
	if (st == OK)
		st = jsonfile_numbers(from, "the feature extractor's settings", of_extractor,
				      ARRAY_LEN(of_extractor) - !c->pads, c, fail);
	if (st == OK)
		st = check_extractor(from, fail);
	if (st == OK && c->format.n_mels != c->n_mels)
		st = fail_at(fail, E_FORMAT, "feature_size", "the feature extractor's "
			     "feature_size %d is not the audio tower's num_mel_bins %d",
			     (int)c->format.n_mels, (int)c->n_mels);
	json_decref(from);
	return st;
}

static enum status read_all(const json_t *root, const struct model *m, struct sound_config *c,
			    struct fail *fail)
{
	const json_t *token = jsonfile_get(root, "audio_token_id");
	enum status st = read_tower(jsonfile_get(root, "audio_config"), c, fail);
	if (st == OK)
		st = read_extractor(m->dir, c, fail);
	if (st != OK)
		return st;
	if (!json_is_integer(token))
		return fail_at(fail, E_MISSING, "audio_token_id",
			       "config.json: audio_token_id is missing");
	c->token = (int32_t)json_integer_value(token);
	if (c->token < 0 || c->token >= m->config.n_vocab)
		return fail_at(fail, E_FORMAT, "audio_token_id", "audio_token_id %d is outside "
			       "the vocabulary", (int)c->token);
	if (c->out_width != m->config.d_model)
		return fail_at(fail, E_FORMAT, "output_dim", "the audio tower's rows of %d "
			       "numbers do not fit the text model's width of %d",
			       (int)c->out_width, (int)m->config.d_model);
	return OK;
}

enum status sound_config_read(const struct model *m, struct sound_config *out, bool *out_has,
			      struct fail *fail)
{
	*out = (struct sound_config){0};
	*out_has = false;
	if (!m->has_audio)
		return OK;
	json_t *root = NULL;
	enum status st = jsonfile_load(m->dir, "config.json", MAX_BYTES, &root, fail);
	const char *type = json_string_value(jsonfile_get(root, "model_type"));
	bool is_asr = type && strcmp(type, "qwen3_asr") == 0;
	const json_t *outer = model_config_outer(root);
	out->pads = is_asr;
	*out_has = st == OK && (is_asr || (type && strcmp(type, "qwen3_omni_moe") == 0));
	if (*out_has)
		st = read_all(outer, m, out, fail);
	json_decref(root);
	return st;
}
