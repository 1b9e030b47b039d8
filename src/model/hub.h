/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds models by name in the local cache of a Hugging Face hub. The layout is that of
 * the huggingface_hub library, so its tools and halod share one cache:
 *
 *   CACHE/models--ORG--NAME/refs/main              the commit, as text
 *   CACHE/models--ORG--NAME/snapshots/COMMIT/FILE  a link to ../../blobs/DIGEST
 *
 * Nothing here uses the network; `haloctl pull` downloads. Thread: any.
 */
#pragma once
#include <stdbool.h>

#include "base/status.h"

/* True for "ORG/NAME" and "ORG/NAME:FILE" of letters, digits, '.', '_' and '-'. FILE is a
 * part of a GGUF file's name, such as Q4_K_M. */
bool hub_is_name(const char *s);

/* The service's cache, as StateDirectory= in systemd/halod.service.in sets it. It does not
 * depend on the install prefix. */
#define HUB_SERVICE_CACHE "/var/lib/halod/hub"

/* The cache's folder as the environment names it: HF_HUB_CACHE, else HF_HOME/hub, else
 * XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. malloc'ed; NULL if none
 * of these is set. */
char *hub_cache(void);

/* Returns CACHE/models--ORG--NAME, malloc'ed. */
char *hub_model_dir(const char *cache, const char *name);

/* The name "ORG/NAME" of the model whose snapshot or file lies at this path, malloc'ed; NULL
 * if the path leads into no cache. */
char *hub_name_of(const char *path);

/* Find the folder or GGUF file of model `name`; *out is malloc'ed. Searches hub_cache(),
 * then the service's cache /var/lib/halod/hub. If it is not found: E_MISSING, and the
 * message says what to do. */
enum status hub_find(const char *name, char **out, struct fail *fail) MUST_USE;

/* True for a path that ends in .gguf, in upper or lower case. */
bool hub_is_gguf(const char *path);

/* True if a GGUF file's path contains the word `file`, in upper or lower case. The match
 * must begin and end at word boundaries: Q4_K does not fit "x-Q4_K_M.gguf". */
bool hub_file_fits(const char *path, const char *file);

/* True if `file` means what lies beside a model, not the model: it begins with "mtp-", or has
 * "mmproj". */
bool hub_names_beside(const char *file);
