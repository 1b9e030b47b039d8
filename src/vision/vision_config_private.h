/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the readers of towers: vision_config.c and vision_config_NAME.c. Errors name keys
 * of config.json. Thread: any.
 */
#pragma once
#include <stddef.h>

#include "json/jsonfile.h"
#include "vision/vision_config.h"

#define VISION_PLAIN_EPS 1e-5 /* of layer norms: torch's default */
#define VISION_OMNI "qwen3_omni_moe" /* model_type */

#define VISION_AT(field) offsetof(struct vision_config, field)

/* jsonfile_numbers of a tower's settings. */
enum status vision_config_numbers(const json_t *from, const struct jsonfile_number *s, size_t n,
				  struct vision_config *c, struct fail *fail) MUST_USE;
/* Returns E_UNSUPPORTED with a message that names `key`. */
enum status vision_config_refuse(struct fail *fail, const char *key);
/* Reads theta from rope_theta of rope_parameters, or of the tower itself, else 10000.
 * E_UNSUPPORTED. */
enum status vision_config_theta(const json_t *vision, struct vision_config *c,
				struct fail *fail) MUST_USE;
/* Reads image_mean and image_std, if the processor's file has them. E_FORMAT. */
enum status vision_config_colours(const json_t *file, struct vision_config *c,
				  struct fail *fail) MUST_USE;
/* Pillow's numbers of filters, as in config files. */
enum { RESAMPLE_BILINEAR = 2, RESAMPLE_BICUBIC = 3 };
/* The key resample must be `kind`, if the file has it. E_UNSUPPORTED. */
enum status vision_config_resample(const json_t *file, int kind, struct fail *fail) MUST_USE;

/* vision_config_video.c: reads c->video of a model of VISION_QWEN whose other settings are there.
 * root: as of `text` below; type: model_type of config.json. Without root VISION_OMNI, or NULL for
 * another model. E_FORMAT. */
enum status vision_config_video(const json_t *root, const char *type, const struct model *m,
				const char *dir, struct vision_config *c,
				struct fail *fail) MUST_USE;

/* How a kind of tower is read. */
struct vision_reader {
	const char *const *types; /* model_type of config.json; the last is NULL */
	/* Reads the settings of the tower itself; root is not NULL. */
	enum status (*tower)(const json_t *root, struct vision_config *c, struct fail *fail);
	/* Reads settings of the text model that concern images, also if the tower is a GGUF
	 * file. root NULL: the text model is a GGUF file too. */
	enum status (*text)(const json_t *root, const struct model *m, struct vision_config *c,
			    struct fail *fail);
	/* Reads the image processor's file, which may be NULL. */
	enum status (*processor)(const json_t *file, struct vision_config *c,
				 struct fail *fail);
};
extern const struct vision_reader vision_config_pixtral, vision_config_siglip,
	vision_config_gemma4, vision_config_plain;
