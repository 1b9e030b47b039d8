/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/session.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "base/vec4.h"
#include "ctl/progress.h"
#include "model/lora.h"

/* Prints the failure if st is not OK. Returns whether st is OK. */
static bool session_check(enum status st, struct fail *fail)
{
	if (st == OK)
		return true;
	fail_default(fail, st);
	fprintf(stderr, "haloctl: %s\n", fail->text);
	return false;
}

static double seconds_since(int64_t begin_us)
{
	return (double)(clock_now_us(&clock_monotonic) - begin_us) * 1e-6;
}

static void on_files(void *ctx, size_t done, size_t total)
{
	(void)ctx;
	progress_show("reading the model", (int64_t)done, (int64_t)total);
}

static void on_weights(void *ctx, int64_t done, int64_t total)
{
	(void)ctx;
	progress_show("loading the model", done, total);
}

bool session_open_model(const struct session_opts *o, struct session *s)
{
	struct fail fail = {0};
	struct model_opts mo = {.use_mmap = !o->no_mmap};
	if (o->no_mmap) /* with mmap, no file has been read yet */
		mo.on_progress = on_files;
	int64_t begin = clock_now_us(&clock_monotonic);
	bool good = session_check(model_open(o->dir, &mo, &s->model, &fail), &fail);
	s->load_s += seconds_since(begin);
	progress_end();
	if (good && s->model->tokenizer_note)
		fprintf(stderr, "haloctl: %s: %s\n", o->dir, s->model->tokenizer_note);
	return good;
}

bool session_is_int8(const char *name, const char *text, const char *plain, bool *out)
{
	*out = text && strcmp(text, "int8") == 0;
	if (!text || *out || strcmp(text, plain) == 0)
		return true;
	fprintf(stderr, "haloctl: --%s is %s or int8, not %s\n", name, plain, text);
	return false;
}

bool session_take_lora(const struct session_opts *o, struct session *s, struct engine_opts *io)
{
	struct fail fail = {0};
	if (o->lora && !session_check(lora_open(o->lora, s->model, false, &s->lora, &fail), &fail))
		return false;
	io->loras = (const struct lora *const *)&s->lora;
	io->n_loras = s->lora != NULL;
	return true;
}

/* --- the experts' file ------------------------------------------------------------- */

/* /tmp may lie in memory, and the file is as large as the experts. */
static bool make_expert_tmp(struct session *s)
{
	const char *tmp = getenv("TMPDIR");
	s->expert_tmp = xasprintf("%s/haloctl-experts-XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
	if (mkdtemp(s->expert_tmp))
		return true;
	fprintf(stderr, "haloctl: cannot make the folder %s for the experts' file: %s; name "
		"another with --expert-dir\n", s->expert_tmp, strerror(errno));
	free(s->expert_tmp);
	s->expert_tmp = NULL;
	return false;
}

static void empty_expert_tmp(const struct session *s)
{
	DIR *d = s->expert_tmp ? opendir(s->expert_tmp) : NULL;
	for (const struct dirent *e; d && (e = readdir(d));) {
		char *path = file_join(s->expert_tmp, e->d_name);
		unlink(path); /* fails for . and .. */
		free(path);
	}
	if (d)
		closedir(d);
}

/* --- engine ------------------------------------------------------------------------ */

bool session_open_engine(const struct session_opts *o, int n_tok,
			 struct session *s)
{
	struct fail fail = {0};
	struct backend_opts bo = {.name = o->backend, .n_threads = (int)o->threads,
				  .exact = o->exact, .cpu_isa = o->cpu_isa,
				  .cpu_pin = o->cpu_pin,
				  .weight_cache = o->weight_cache, .cache_waits = true,
				  .hip_library = o->hip_library,
				  .kernel_dir = o->hip_kernels, .no_graphs = o->no_graphs,
				  .checks = o->checks};
	struct engine_opts eo = {.n_ctx = MIN(n_tok, s->model->config.max_ctx),
				 .max_seqs = MAX(o->n_seqs, 1),
				 .load = {on_weights, NULL}};
	if (!session_is_int8("lm-head", o->lm_head, "native", &bo.int8_head) ||
	    !session_is_int8("kv-type", o->kv_type, "auto", &eo.int8_kv))
		return false;
	if (o->expert_memory && !size_parse_auto(o->expert_memory, &bo.expert_memory)) {
		fprintf(stderr, "haloctl: --expert-memory is a size such as 512M or 4G, or "
			"auto, not %s\n", o->expert_memory);
		return false;
	}
	if (bo.expert_memory && !o->expert_dir && !make_expert_tmp(s))
		return false;
	bo.expert_dir = s->expert_tmp ? s->expert_tmp : o->expert_dir;
	int64_t begin = clock_now_us(&clock_monotonic);
	bool good = session_take_lora(o, s, &eo) &&
		    session_check(backend_create(&bo, &s->backend, &fail), &fail) &&
		    session_check(engine_create(s->model, s->backend, &eo, &s->engine,
						&fail), &fail);
	s->load_s += seconds_since(begin);
	empty_expert_tmp(s); /* the backend has it open; a signal leaves no file behind */
	progress_end();
	if (good && *s->backend->weights_note)
		fprintf(stderr, "haloctl: weights: %s\n", s->backend->weights_note);
	if (good && *s->backend->experts_note)
		fprintf(stderr, "haloctl: experts: %s\n", s->backend->experts_note);
	return good;
}

bool session_open(const struct session_opts *o, int n_tok, struct session *s)
{
	return session_open_model(o, s) && session_open_engine(o, n_tok, s);
}

void session_close(struct session *s)
{
	if (s->engine)
		engine_destroy(s->engine);
	if (s->backend)
		backend_destroy(s->backend);
	lora_close(s->lora);
	model_close(s->model);
	empty_expert_tmp(s);
	if (s->expert_tmp)
		rmdir(s->expert_tmp);
	free(s->expert_tmp);
	*s = (struct session){0};
}

struct engine_seq *session_start(struct session *s, int n_tok)
{
	int n_cached;
	const struct engine_prompt none = {.lora = s->lora != NULL, .lora_scale = 1};
	struct engine_seq *seq = engine_seq_create_in(s->engine, &none, &n_cached);
	enum status st = engine_seq_reserve(s->engine, seq, n_tok);
	if (st == OK)
		return seq;
	fprintf(stderr, "haloctl: %d tokens do not fit the KV cache (%s)\n", n_tok,
		status_text(st));
	engine_seq_destroy(s->engine, seq);
	return NULL;
}

bool session_feed(struct session *s, struct engine_seq *seq, const int32_t *ids,
		  int n, void (*on_logits)(void *ctx, int i, const float *logits),
		  void *ctx)
{
	int step = engine_max_batch_tok(s->engine);
	size_t n_vocab = (size_t)engine_n_vocab(s->engine);
	for (int at = 0; at < n; at += step) {
		int count = MIN(step, n - at);
		struct engine_slice slice = {.seq = seq, .tokens = ids + at,
					     .n = count};
		slice.n_logits = on_logits ? count : at + count == n;
		struct fail fail = {0};
		if (!session_check(engine_step(s->engine, &slice, 1, &fail), &fail))
			return false;
		const float *logits = on_logits ? session_logits(s) : NULL;
		if (on_logits && !logits)
			return false;
		for (int i = 0; on_logits && i < count; i++)
			on_logits(ctx, at + i, logits + (size_t)i * n_vocab);
	}
	return true;
}

bool session_fill(struct session *s, struct engine_seq *seq, const int32_t *ids, int n)
{
	enum { COMPUTED = 2048 }; /* whole pages of any usual size */
	int size = engine_page_size(s->engine);
	int n_first = s->copies_depth ? MIN(n, COMPUTED / size * size) : n;
	int n_copied = (n - n_first) / size * size;
	struct fail fail = {0};
	bool good = session_feed(s, seq, ids, n_first, NULL, NULL);
	if (good && n_copied)
		good = session_check(fail_default(&fail, engine_seq_repeat(s->engine, seq,
									   n_copied)),
				     &fail);
	return good && session_feed(s, seq, ids + n_first + n_copied, n - n_first - n_copied, NULL,
				    NULL);
}

const float *session_logits(const struct session *s)
{
	const float *logits = engine_logits(s->engine, 0);
	if (!logits)
		fputs("haloctl: the device failed, the logits are lost\n", stderr);
	return logits;
}

int32_t session_best_of(const struct session *s, int i)
{
	const struct logits_top *top = engine_top(s->engine, i);
	if (top && top->n > 0)
		return top->id[0];
	const float *logits = i ? engine_logits(s->engine, i) : session_logits(s);
	return logits ? session_argmax(logits, engine_n_vocab(s->engine)) : -1;
}

int32_t session_best(const struct session *s)
{
	return session_best_of(s, 0);
}

static bool any(vec4i mask)
{
	int64_t half[2];
	memcpy(half, &mask, sizeof half);
	return half[0] | half[1];
}

/* Skips eight logits at a time while none of them is larger than the best. */
int32_t session_argmax(const float *logits, int32_t n_vocab)
{
	int32_t best = 0, i = 0;
	for (; i < n_vocab; i++) {
		vec4 most = vec4_all(logits[best]);
		while (i + 8 <= n_vocab && !any((vec4_load(logits + i) > most) |
						(vec4_load(logits + i + 4) > most)))
			i += 8;
		if (i < n_vocab && logits[i] > logits[best])
			best = i;
	}
	return best;
}
