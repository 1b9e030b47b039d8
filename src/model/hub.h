/* SPDX-License-Identifier: Apache-2.0
 *
 * Models in the cache of a Hugging Face hub, found by their name there. The layout is
 * that of the huggingface_hub library, so its tools and halod share one cache:
 *
 *   CACHE/models--ORG--NAME/refs/main              the commit, as text
 *   CACHE/models--ORG--NAME/snapshots/COMMIT/FILE  a link to ../../blobs/DIGEST
 *
 * Nothing here uses the network: `haloctl pull` does. Thread: any.
 */
#pragma once
#include <stdbool.h>

#include "base/status.h"

/* "ORG/NAME" or "ORG/NAME:FILE" in letters, digits, '.', '_' and '-'. FILE is a part of a
 * GGUF file's name, as Q4_K_M. */
bool hub_is_name(const char *s);

/* The cache that this process's environment names: HF_HUB_CACHE, else HF_HOME/hub, else
 * XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. malloc'ed; NULL where
 * none of these is set. */
char *hub_cache(void);

/* CACHE/models--ORG--NAME, malloc'ed. */
char *hub_model_dir(const char *cache, const char *name);

/* The folder, or the GGUF file, that `name` stands for; malloc'ed in *out. Looks into
 * hub_cache() and then into the one of the service, /var/lib/halod/hub. E_MISSING says what
 * to do. */
enum status hub_find(const char *name, char **out, struct fail *fail) MUST_USE;

/* Does a GGUF file's path fit FILE? Upper and lower case are the same. The word must
 * begin and end where a word of the path does: Q4_K does not fit "x-Q4_K_M.gguf". */
bool hub_file_fits(const char *path, const char *file);
