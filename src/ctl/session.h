/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a model, a backend and an engine, for commands that compute.
 * Thread: main, which plays the engine thread here.
 */
#pragma once
#include "ctl/options.h"
#include "engine/engine.h"

struct session_opts {
	const char *dir, *backend, *cpu_isa, *hip_library, *hip_kernels;
	int64_t threads; /* 0: one per CPU */
	int n_seqs;      /* sequences at the same time, each with room for n_tok tokens; 0: 1 */
	const char *lm_head; /* NULL, "native" or "int8" */
	const char *kv_type; /* NULL, "auto" or "int8" */
	const char *lora;    /* path of an adapter for all sequences; NULL: none */
	const char *weight_cache; /* path; NULL: none */
	const char *expert_memory; /* "512M", "auto"; NULL: all experts stay in memory */
	const char *expert_dir;    /* NULL: a temporary folder, which session_close removes */
	bool exact, no_mmap, no_graphs, cpu_pin;
	struct backend_checks checks;
};
/* For an option whose values are `plain` (or NULL) and "int8": *out tells which one text is.
 * False: text is neither, which was printed on stderr. */
bool session_is_int8(const char *name, const char *text, const char *plain, bool *out);
#define SESSION_DEFAULTS {.backend = "auto"}
/* Rows for an option_set; `o` is a struct session_opts. */
#define SESSION_OPTIONS(o) \
	MODEL_OPTION((o).dir), \
	{"backend", 0, OPTION_TEXT, &(o).backend, 0, 0, "NAME", \
	 "where to compute: auto, cpu, hip (auto)"}, \
	{"hip-library", 0, OPTION_TEXT, &(o).hip_library, 0, 0, "FILE", \
	 "the HIP runtime (libamdhip64.so of the system)"}, \
	{"hip-kernels", 0, OPTION_TEXT, &(o).hip_kernels, 0, 0, "DIR", \
	 "where the GPU kernels are (where they were installed)"}, \
	{"lm-head", 0, OPTION_TEXT, &(o).lm_head, 0, 0, "FORMAT", \
	 "the output head: native, or int8 with a scale a row (native)"}, \
	{"kv-type", 0, OPTION_TEXT, &(o).kv_type, 0, 0, "TYPE", \
	 "keys and values: auto, or int8 with a scale a token and head (auto)"}, \
	{"lora", 0, OPTION_TEXT, &(o).lora, 0, 0, "PATH", \
	 "a LoRA adapter: a PEFT folder or a GGUF file"}, \
	{"no-graphs", 0, OPTION_FLAG, &(o).no_graphs, 0, 0, NULL, \
	 "HIP: launch each kernel by itself"}, \
	{"threads", 't', OPTION_INT, &(o).threads, 0, 1024, "N", \
	 "threads of the CPU backend (0: one per CPU)"}, \
	{"cpu-isa", 0, OPTION_TEXT, &(o).cpu_isa, 0, 0, "NAME", \
	 "of the CPU backend: avx512_bf16, avx512, avx2, portable (the best there is)"}, \
	{"cpu-pin", 0, OPTION_FLAG, &(o).cpu_pin, 0, 0, NULL, \
	 "each thread of the CPU backend stays on a CPU of its own"}, \
	{"weight-cache", 0, OPTION_TEXT, &(o).weight_cache, 0, 0, "DIR", \
	 "of the CPU backend: map packed weights from there, or put them there"}, \
	{"expert-memory", 0, OPTION_TEXT, &(o).expert_memory, 0, 0, "SIZE", \
	 "read routed experts from a file into so much memory; auto"}, \
	{"expert-dir", 0, OPTION_TEXT, &(o).expert_dir, 0, 0, "DIR", \
	 "folder that keeps the experts' file (else a temporary one, in TMPDIR or /var/tmp)"}, \
	{"exact", 0, OPTION_FLAG, &(o).exact, 0, 0, NULL, \
	 "no approximate fast path"}, \
	{"no-mmap", 0, OPTION_FLAG, &(o).no_mmap, 0, 0, NULL, \
	 "read the weights instead of mapping them"}

struct session {
	struct model *model;
	struct backend *backend;
	struct engine *engine;
	char *expert_tmp; /* temporary folder of the experts' file; NULL: none */
	double load_s; /* seconds that opening took */
	struct lora *lora; /* of all sequences; NULL: none */
	bool copies_depth; /* session_fill copies most of the tokens' keys and values */
};

/* session_open_model opens the model. session_open_engine then opens the backend and the engine,
 * for sequences of up to n_tok tokens, or of the model's context where that is less.
 * session_open does both. The caller zeroes s before the first call. A function that fails
 * prints the reason on stderr and returns false. Call session_close in any case. */
bool session_open_model(const struct session_opts *o, struct session *s);
bool session_open_engine(const struct session_opts *o, int n_tok,
			 struct session *s);
bool session_open(const struct session_opts *o, int n_tok, struct session *s);
/* For a command that creates the engine itself: opens the adapter that o names, for *io. */
bool session_take_lora(const struct session_opts *o, struct session *s, struct engine_opts *io);
void session_close(struct session *s);

/* A new sequence with room for n_tok tokens. NULL: there is no room, which was printed on
 * stderr. */
struct engine_seq *session_start(struct session *s, int n_tok);
/* Feed n tokens, in steps as large as the engine takes. on_logits gets the logits after each
 * token; NULL: only the last token's are computed, for session_logits. False: the reason was
 * printed on stderr. */
bool session_feed(struct session *s, struct engine_seq *seq, const int32_t *ids,
		  int n, void (*on_logits)(void *ctx, int i, const float *logits),
		  void *ctx);
/* Like session_feed, to fill the KV cache before a measurement. With copies_depth only 2,048
 * tokens are computed. The rest are copies of their keys and values. */
bool session_fill(struct session *s, struct engine_seq *seq, const int32_t *ids, int n);
/* Logits (V) after the last token fed; valid until the next feed. NULL: the device lost them,
 * which was printed on stderr. */
const float *session_logits(const struct session *s);
/* The most likely token after the one that was fed last; -1: the device lost the logits. */
int32_t session_best(const struct session *s);
/* Like session_best, for slice i of the last step, for a command that runs steps itself. */
int32_t session_best_of(const struct session *s, int i);
/* Index of the largest logit; of equal ones the lowest index. */
int32_t session_argmax(const float *logits, int32_t n_vocab);
