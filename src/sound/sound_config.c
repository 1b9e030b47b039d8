/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: configuration_qwen3_omni_moe.py, modeling_qwen3_omni_moe.py,
 * feature_extraction_whisper.py, feature_extraction_qwen3_asr.py, modeling_voxtral.py and
 * processing_voxtral.py of Hugging Face Transformers.
 */
#include "sound/sound_config.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_config.h"
#include "sound/sound_gguf.h"

#define MAX_BYTES ((size_t)16 << 20)
enum { HOP = 160 }; /* samples of a frame */

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
/* Voxtral's; max_source_positions counts positions behind the convolutions. */
static const struct jsonfile_number of_conv1d[] = {
	{"num_hidden_layers", AT(n_layers), 1, 256, -1},
	{"hidden_size", AT(width), 8, 1 << 14, -1},
	{"num_attention_heads", AT(n_heads), 1, 256, -1},
	{"intermediate_size", AT(ffn_dim), 8, 1 << 16, -1},
	{"num_mel_bins", AT(n_mels), 8, 128, -1},
	{"max_source_positions", AT(chunk), 1, 1 << 14, -1},
};
static const struct jsonfile_number of_extractor[] = {
	{"feature_size", AT(format.n_mels), 1, 1 << 10, 128},
	{"min_length", AT(format.least), 0, 1 << 20, 8000}, /* Qwen3-ASR's alone */
};

static enum status refuse(struct fail *fail, const char *key)
{
	return fail_at(fail, E_UNSUPPORTED, key, "this %s of an audio tower is not supported",
		       key);
}

static bool is_gelu(const json_t *in, const char *key)
{
	const char *act = json_string_value(jsonfile_get(in, key));
	return !act || strcmp(act, "gelu") == 0;
}

static enum status check_heads(const struct sound_config *c, const char *key, struct fail *fail)
{
	bool fits = c->width % c->n_heads == 0 && c->width % 8 == 0 &&
		    c->width / c->n_heads % 4 == 0;
	return fits ? OK : refuse(fail, key);
}

/* What follows from these settings, and what the tower cannot take. A window is a chunk,
 * which a clip fills. */
static enum status finish_conv1d(struct sound_config *c, struct fail *fail)
{
	if (c->n_mels % 8)
		return refuse(fail, "num_mel_bins");
	if (c->chunk % c->joined)
		return refuse(fail, "max_source_positions");
	c->chunk *= 2;
	c->window = 1;
	c->channels = c->width;
	c->mid_width = c->out_width;
	c->format.each = c->chunk * HOP;
	return check_heads(c, "num_attention_heads", fail);
}

/* Voxtral. The reference joins as many places as fill intermediate_size. */
static enum status read_conv1d(const json_t *root, const struct model *m, struct sound_config *c,
			     struct fail *fail)
{
	const json_t *audio = jsonfile_get(root, "audio_config");
	enum status st = jsonfile_numbers(audio, "config.json: audio_config", of_conv1d,
					  ARRAY_LEN(of_conv1d), c, fail);
	if (st != OK)
		return st;
	if (!is_gelu(audio, "activation_function"))
		return refuse(fail, "activation_function");
	if (!is_gelu(root, "projector_hidden_act"))
		return refuse(fail, "projector_hidden_act");
	c->joined = c->ffn_dim / c->width;
	if (c->ffn_dim % c->width)
		return refuse(fail, "intermediate_size");
	c->out_width = m->config.d_model;
	return finish_conv1d(c, fail);
}

/* What follows from the settings of three convolutions, in frames and chunks. */
static enum status finish_conv2d(struct sound_config *c, struct fail *fail)
{
	enum { FULL = 13 }; /* tokens of a chunk, a constant of the reference's count of tokens */
	c->chunk *= 2;
	if (sound_config_left(c, c->chunk) != FULL)
		return refuse(fail, "n_window");
	if (c->window < c->chunk)
		return refuse(fail, "n_window_infer");
	c->window /= c->chunk;
	c->joined = 1;
	c->mid_width = c->width;
	enum status st = check_heads(c, "encoder_attention_heads", fail);
	if (st != OK)
		return st;
	return c->channels % 8 ? refuse(fail, "downsample_hidden_size") : OK;
}

static enum status read_tower(const json_t *audio, struct sound_config *c, struct fail *fail)
{
	enum status st = jsonfile_numbers(audio, "config.json: audio_config", of_tower,
					  ARRAY_LEN(of_tower), c, fail);
	if (st != OK)
		return st;
	return is_gelu(audio, "activation_function") ? finish_conv2d(c, fail)
						     : refuse(fail, "activation_function");
}

/* What struct sound_format takes for granted. */
static enum status check_extractor(const json_t *from, struct fail *fail)
{
	static const struct {
		const char *key;
		json_int_t only;
	} same[] = {{"sampling_rate", 16000}, {"n_fft", 400}, {"hop_length", HOP}};
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

static enum status check_width(const struct sound_config *c, const struct model *m,
			       struct fail *fail)
{
	return c->out_width == m->config.d_model ? OK : fail_at(
		fail, E_FORMAT, "output_dim", "the audio tower's rows of %d numbers do not fit "
		"the text model's width of %d", (int)c->out_width, (int)m->config.d_model);
}

static enum status read_all(const json_t *root, const struct model *m, struct sound_config *c,
			    struct fail *fail)
{
	const json_t *token = jsonfile_get(root, "audio_token_id");
	enum status st = c->is_conv1d
		? read_conv1d(root, m, c, fail)
		: read_tower(jsonfile_get(root, "audio_config"), c, fail);
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
	return check_width(c, m, fail);
}

static enum status read_file(const struct tensors *mmproj, const struct model *m,
			     struct sound_config *c, struct fail *fail)
{
	enum status st = sound_gguf_read(mmproj, m, c, fail);
	if (st == OK)
		st = c->is_conv1d ? finish_conv1d(c, fail) : finish_conv2d(c, fail);
	return st == OK ? check_width(c, m, fail) : st;
}

enum status sound_config_read(const struct model *m, const struct tensors *mmproj,
			      struct sound_config *out, bool *out_has, struct fail *fail)
{
	*out = (struct sound_config){0};
	*out_has = mmproj;
	if (mmproj)
		return read_file(mmproj, m, out, fail);
	if (!m->has_audio)
		return OK;
	json_t *root = NULL;
	enum status st = jsonfile_load(m->dir, "config.json", MAX_BYTES, &root, fail);
	const char *type = json_string_value(jsonfile_get(root, "model_type"));
	const json_t *outer = model_config_outer(root);
	out->pads = type && strcmp(type, "qwen3_asr") == 0;
	out->is_conv1d = type && strcmp(type, "voxtral") == 0;
	*out_has = st == OK && (out->pads || out->is_conv1d ||
				(type && strcmp(type, "qwen3_omni_moe") == 0));
	if (*out_has)
		st = read_all(outer, m, out, fail);
	json_decref(root);
	return st;
}
