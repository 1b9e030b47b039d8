/* SPDX-License-Identifier: Apache-2.0
 *
 * What an engine keeps on disk (kv/kvdisk.h): pages and states that sequences leave behind
 * are written between steps, and those of a prompt that begins are read ahead of it.
 * Thread: engine.
 */
#pragma once
#include "engine/engine.h"

/* Host memory for what is being written, and read for so many prompts at a time, at most. */
int64_t engine_disk_bytes(int n_prompts, size_t state_bytes);
/* What the bits of a page depend on but its tokens, as text: the program, the weights, the
 * backend, and the options. The first time it reads the weights whole; then o->kv_dir has
 * their sums. E_CONFIG for the folder; E_IO: the weights have changed since they were loaded. */
enum status engine_disk_key(const struct model *m, const struct backend *b,
			    const struct engine_opts *o, struct buf *out,
			    struct fail *fail) MUST_USE;
/* Keep pages in a folder from now on. Where that fails the engine goes on without. */
enum status engine_disk_open(struct engine *e, const char *dir, int64_t limit,
			     struct str key, struct fail *fail) MUST_USE;
/* Writes what is left, for at most ten seconds. */
void engine_disk_close(struct engine *e);
/* Tokens of the prompt that the folder has for another model, version or setting, without a gap
 * from token `from` on; 0: none. */
int32_t engine_disk_foreign(const struct engine *e, const struct engine_prompt *p, int from);
/* s ends: its full pages and its checkpoints are queued to be written. */
void engine_disk_keep(struct engine *e, const struct engine_seq *s);
