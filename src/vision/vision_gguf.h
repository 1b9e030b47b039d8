/* SPDX-License-Identifier: Apache-2.0
 *
 * A vision tower in a GGUF file of its own ("mmproj"), as llama.cpp's converter writes it.
 * Thread: any.
 */
#pragma once
#include "vision/vision_config.h"

/* Opens the file. Its tensors get Hugging Face's names. E_IO, E_FORMAT. */
enum status vision_gguf_open(const char *path, struct tensors **out,
			     struct fail *fail) MUST_USE;
/* False: the file says that it holds an audio tower, and no vision tower beside. */
bool vision_gguf_has(const struct tensors *ts);
/* The tower's settings, and the image processor's if the file has them.
 * E_UNSUPPORTED: a tower of another kind. */
enum status vision_gguf_read(const struct tensors *ts, struct vision_config *out,
			     struct fail *fail) MUST_USE;
/* Reads how rope's pairs are shared out to time, row and column, from a text model's GGUF file,
 * into *rules. E_MISSING. */
enum status vision_gguf_sections(const struct gguf *text, struct engine_image_rules *rules,
				 struct fail *fail) MUST_USE;
/* The id of the padding token in a text model's GGUF file, else 0. */
int32_t vision_gguf_padding(const struct gguf *text);
/* The mmproj file beside a model's GGUF file, malloc'ed; NULL: there is none, or more than
 * one. */
char *vision_gguf_beside(const char *model_path);
