/* SPDX-License-Identifier: Apache-2.0
 *
 * What engine_create is asked for. Thread: engine.
 */
#pragma once
#include "backend/backend.h"

/* Called for each weight matrix that has come to the device, packed or uploaded. done: bytes of
 * the files so far; total: of all. fn NULL: nobody listens. */
struct load_watch {
	void (*fn)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};

struct memory_have;
struct memory_ledger;
struct memory_plan;
struct lora;

struct engine_opts {
	int page_size;       /* tokens a KV page, 0: 16 */
	/* Size of the KV cache; 0: n_ctx * max_seqs tokens, or what fits (memory_plan.h). */
	int64_t kv_bytes;
	/* Keys and values in 8 bits with a scale a token and head (kernels/ops/kv_bytes.h), not
	 * in the backend's own type. E_CONFIG for models and heads that cannot have that. */
	bool int8_kv;
	int n_ctx;           /* longest sequence; 0: the model's, or what fits */
	int max_seqs;        /* in one step; 0: 8 */
	int max_batch_tok;   /* tokens in one step; 0: 4096 */
	bool prefix_cache;   /* keep the pages of finished sequences for reuse */
	/* Recurrent models: checkpoints beside the states of max_seqs sequences (0: twice
	 * as many as those), and the tokens that lie between them (0: 512, or a quarter of
	 * the prompt where that is more). */
	int n_checkpoints, checkpoint_every;
	struct load_watch load; /* of the model's weights, and then those of `draft` */
	/* For models that give embeddings: each row of logits is a row of the last norm (D)
	 * instead, and the output head is not loaded. */
	bool gives_rows;
	/* For a forced aligner (model_config.n_classes), which is refused without: a row of logits
	 * is n_classes numbers. */
	bool gives_classes;
	bool mtp; /* load the MTP layer (enum model_mtp), if the model has one */
	struct model *draft; /* drafts in its place (draft_model.h); outlives the engine; or NULL */
	/* Drafts are of the first so many tokens only (whole tiles of rows of the head); 0: all. */
	int mtp_vocab;
	/* Folder of pages and states for later, and most bytes in it. NULL or "": none. */
	const char *kv_dir;
	int64_t kv_disk_limit;
	bool kv_dir_is_needed; /* one that cannot be used is a failure, not a warning */
	/* Outlives the engine; NULL: no prompt has images. */
	const struct engine_image_rules *image_rules;
	/* (n_loras) adapters that prompts may name; all of them are in the device's memory. Read
	 * until engine_create returns. */
	const struct lora *const *loras;
	int n_loras;
	/* have: the memory before anything was loaded (outlives the call); NULL: the
	 * backend's now. beside: what others take of it. model_key, ctx_key: as in memory_wish. */
	const struct memory_have *have;
	int64_t beside;
	const char *model_key, *ctx_key;
	int kv_seqs; /* longest sequences that the KV cache holds; 0: max_seqs */
	bool shares_memory; /* other models need room, too: as is_shared in memory_plan.h */
	/* What engine_plan has made of the same options; NULL: engine_create makes one. */
	const struct memory_plan *plan;
};
