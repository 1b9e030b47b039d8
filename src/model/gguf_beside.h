/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF files that lie beside a model's own: its towers, and its MTP layer alone, which llama.cpp's
 * converter writes with --mtp. Thread: any.
 */
#pragma once
#include "model/tensors.h"

struct model_config;
struct model_opts;

/* True for the name of a file with an MTP layer alone ("mtp-*.gguf"), or with a vision or audio
 * tower ("*mmproj*.gguf"). `file` has no folder. */
bool gguf_beside_is_mtp(const char *file);
bool gguf_beside_is_tower(const char *file);
/* The only file beside `model_path` of which `is`, one of the above, says true, malloc'ed. In a
 * hub's cache it may also lie in the folder above, as the hub has it. NULL: there is none; or more
 * than one, and a warning names `what` they hold, and how one is chosen. */
char *gguf_beside_only(const char *model_path, bool (*is)(const char *file), const char *what);
/* Adds the MTP layer of the file mtp-NAME.gguf beside NAME.gguf (`path`), or of the only
 * mtp-*.gguf there, to ts. Does nothing if the model has such a layer. A file of another model
 * stays away, and a warning says why. Tensors that were found before move. */
enum status gguf_beside_add_mtp(struct tensors *ts, const struct model_config *c, const char *path,
				const struct model_opts *opts, struct fail *fail) MUST_USE;
