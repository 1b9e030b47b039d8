/* SPDX-License-Identifier: Apache-2.0
 *
 * An audio tower in a GGUF file of its own ("mmproj"), as llama.cpp's converter writes it.
 * Thread: any.
 */
#pragma once
#include "sound/sound_config.h"

/* Opens the file at `path`, or with NULL or "" the only mmproj file beside the model's GGUF file.
 * Its tensors get Hugging Face's names. *out NULL: there is none, it holds no audio tower that is
 * known here, or the model has no token for audio. E_IO, E_FORMAT. */
enum status sound_gguf_open(const char *path, const struct model *m, struct tensors **out,
			    struct fail *fail) MUST_USE;
/* The tower's settings, but for what follows from them. E_FORMAT, E_UNSUPPORTED. */
enum status sound_gguf_read(const struct tensors *ts, const struct model *m,
			    struct sound_config *out, struct fail *fail) MUST_USE;
