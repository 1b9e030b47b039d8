/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "daemon/boot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "check/fit.h"
#include "check/selfcheck.h"
#include "base/sysmem.h"
#include "sched/step_costs.h"

#define BOUNDLESS (INT64_C(1) << 56) /* bytes of memory, where none are to be counted */
#define MAX_TEMPLATE_BYTES (1u << 20)
#define WIDTHS_US 400000 /* most time at start for measuring decode steps */
#define RECORD_US 600000 /* most time at start for recording GPU graphs of them */

static void set_stage(struct health *h, enum health_load stage, int64_t done,
		      int64_t total)
{
	atomic_store(&h->load_stage, stage);
	atomic_store(&h->load_total, total);
	atomic_store(&h->load_done, done);
}

/* Sets the progress of loading: at `done` of `total`, between `first` and `last` permille. */
static void set_share(struct health *h, int first, int last, double done, double total)
{
	double share = total > 0 ? done / total : 1;
	atomic_store(&h->load_permille, first + (int)((last - first) * share));
}

/* Permille of the load that reading the files takes. Mapping files costs nothing; reading
 * them is half of the load. */
static int permille_of_files(const struct config *c)
{
	return c->mmap ? 0 : 500;
}

static void on_files(void *ctx, size_t done, size_t total)
{
	const struct boot_opts *o = ctx;
	set_stage(o->health, o->config->mmap ? LOAD_MAPPING : LOAD_READING, (int64_t)done,
		  (int64_t)total);
	set_share(o->health, 0, permille_of_files(o->config), (double)done, (double)total);
}

/* The files of the model that drafts come after the model's. They are few: the share stays. */
static void on_draft_files(void *ctx, size_t done, size_t total)
{
	const struct boot_opts *o = ctx;
	set_stage(o->health, o->config->mmap ? LOAD_MAPPING : LOAD_READING, (int64_t)done,
		  (int64_t)total);
}

static void on_weights(void *ctx, int64_t done, int64_t total)
{
	const struct boot_opts *o = ctx;
	bool is_cpu = strcmp(o->plan->backend, "cpu") == 0;
	set_stage(o->health, is_cpu ? LOAD_PACKING : LOAD_UPLOADING, done, total);
	set_share(o->health, permille_of_files(o->config), 1000, (double)done,
		  (double)total);
}

/* A NaN or an infinity becomes 1e9: JSON has neither. */
static double finite_of(double x)
{
	return isfinite(x) ? x : 1e9;
}

static void keep_check(struct health *h, const struct selfcheck_result *r)
{
	atomic_store(&h->check_mean, r->n_compared ? finite_of(r->mean) : 0);
	atomic_store(&h->check_max, finite_of(r->max));
	atomic_store(&h->check_s, r->seconds);
}

/* Fails with a text that says what to do. It goes to the log, where a user who starts halod
 * by hand reads it, too. */
static enum status tell_wrong(const struct selfcheck_result *r, const char *backend,
			      enum status st, struct fail *fail)
{
	char what[sizeof fail->text];
	if (st == OK)
		snprintf(what, sizeof what, "mean difference of log-probabilities %.5f, at most "
			 "%g; largest %.4f, at most %g", r->mean, SELFCHECK_MAX_MEAN, r->max,
			 SELFCHECK_MAX_DELTA);
	else
		snprintf(what, sizeof what, "%.200s", fail->text);
	return fail_set(fail, E_BACKEND, "the self-check failed: halo-tiny's answers on the "
			"backend %s are wrong (%s). Run haloctl first-run and see "
			"docs/first-run-on-amd.md; self_check = warn serves all the same",
			backend, what);
}

/* Runs the self-check: halo-tiny on the backend that will serve, before other models take
 * memory. */
static enum status check_self(const struct boot_opts *o, struct fail *fail)
{
	const struct config *c = o->config;
	struct backend_opts bo = boot_plan_backend(c, o->plan, o->plan->backend);
	struct selfcheck_result r;
	if (o->shared->is_checked)
		return OK;
	o->shared->is_checked = true;
	if (strcmp(c->self_check, "off") == 0) {
		atomic_store(&o->health->self_check, CHECK_OFF);
		return OK;
	}
	char *dir = boot_plan_default_model();
	enum status st = dir ? selfcheck_run(dir, &bo, &r, fail)
			     : fail_set(fail, E_MISSING, "halo-tiny is not installed");
	free(dir);
	if (st == E_MISSING) {
		atomic_store(&o->health->self_check, CHECK_SKIPPED);
		log_warn("no self-check: %s", fail->text);
		return OK;
	}
	keep_check(o->health, &r);
	atomic_store(&o->health->self_check, r.is_pass ? CHECK_PASSED : CHECK_FAILED);
	if (r.is_pass) {
		log_info("self-check: halo-tiny is right on %s, mean difference %.6f, largest "
			 "%.4f, in %.2f s", o->plan->backend, r.mean, r.max, r.seconds);
		return OK;
	}
	st = tell_wrong(&r, o->plan->backend, st, fail);
	if (strcmp(c->self_check, "warn") != 0)
		return st;
	log_error("%s", fail->text);
	return OK;
}

static enum status load_model(const struct boot_opts *o, struct boot *b,
			      struct fail *fail)
{
	struct model_opts mo = {.use_mmap = o->config->mmap || o->is_check || o->looks,
				.on_progress = on_files, .ctx = (void *)o};
	enum status s = model_open(o->plan->model_dir, &mo, &b->model, fail);
	if (s != OK)
		return s;
	const struct model_config *m = &b->model->config;
	log_info("model %s: %s, %d layers, width %d, %d experts, vocabulary %d, "
		 "context %d, %zu tensors", o->plan->model_name, m->arch, m->n_layers,
		 m->d_model, m->n_experts, m->n_vocab, m->max_ctx,
		 tensors_count(b->model->tensors));
	if (b->model->tokenizer_note)
		log_warn("model %s: %s", o->plan->model_name, b->model->tokenizer_note);
	if (model_asks_fp8_kv(b->model))
		log_info("the checkpoint asks for a KV cache in FP8 or less: it gets one of more "
			 "bits");
	return adapters_open(&o->plan->adapters, b->model, o->looks, &b->adapters, fail);
}

/* Opens the model that drafts, where one is named. */
static enum status open_draft(const struct boot_opts *o, struct boot *b, struct fail *fail)
{
	const char *path = o->config->draft_model;
	struct model_opts mo = {.use_mmap = o->config->mmap || o->is_check || o->looks,
				.takes_head = true, .on_progress = on_draft_files,
				.ctx = (void *)o};
	if (!*path)
		return OK;
	enum status s = model_open(path, &mo, &b->draft, fail);
	if (s != OK)
		return fail_within(fail, s, "draft_model");
	const struct model_config *m = &b->draft->config;
	log_info("draft_model %s: %s, %d layers, width %d", path, m->arch, m->n_layers,
		 m->d_model);
	return OK;
}

/* Logs how long requests can be, and whether too little memory made that shorter. */
static void say_cache(const struct boot *b, const struct config *c)
{
	int n_ctx = engine_n_ctx(b->engine), max_ctx = b->model->config.max_ctx;
	int n_pages = engine_pages_total(b->engine), size = engine_page_size(b->engine);
	log_info("KV cache: %d pages of %d tokens, %lld tokens in all; context %d", n_pages, size,
		 (long long)n_pages * size, n_ctx);
	if (!c->ctx && n_ctx < max_ctx)
		log_warn("context %d of the model's %d: more does not fit into memory (kv_cache "
			 "in halod.conf(5))", n_ctx, max_ctx);
}

/* Counts what other models of the process have taken. Memory that they have not touched looks free
 * to the system, so what was there before them counts, or less where other programs took some. The
 * place of a listener that sleeps is free to the system, and to nobody here. */
static void count_others(struct boot_shared *s, struct memory_ledger *now)
{
	struct memory_ledger *l = &s->ledger;
	const struct memory_ledger none = {0};
	const struct memory_ledger *place = s->is_listener_loaded ? &none : &s->listener;
	if (s->n_loaded == 0 && !s->embedder && !s->reranker && !s->is_listener_loaded) {
		l->device = now->device;
		l->system = now->system;
	}
	l->device.free = MIN(l->device.free,
			     now->device.free + l->device_taken - place->device_taken);
	l->system.free = MIN(l->system.free,
			     now->system.free + l->system_taken - place->system_taken);
	l->device.device = now->device.device;
	*now = *l;
}

/* What the device has beyond the limit is not there. */
static void bound_memory(struct memory_ledger *l, int64_t limit)
{
	struct memory_have *bounded[] = {&l->device, l->device.is_system ? &l->system : NULL};
	for (size_t i = 0; i < ARRAY_LEN(bounded); i++) {
		if (!bounded[i] || limit <= 0)
			continue;
		bounded[i]->total = MIN(bounded[i]->total, limit);
		bounded[i]->free = MIN(bounded[i]->free, limit);
	}
}

static enum status open_backend(const struct boot_opts *o, struct boot *b,
				struct memory_ledger *ledger, struct fail *fail)
{
	struct sysmem system;
	struct backend_opts bo = boot_plan_backend(o->config, o->plan, o->plan->backend);
	bo.weight_cache = o->plan->weight_cache;
	bo.expert_memory = o->plan->expert_memory;
	bo.expert_dir = o->plan->expert_dir;
	enum status s = backend_create(&bo, &b->backend, fail);
	if (s != OK)
		return s;
	log_info("backend %s (%s): %s", b->backend->name, o->plan->backend_reason,
		 b->backend->device);
	sysmem_read("/", &system);
	*ledger = (struct memory_ledger){
		.system = {system.total, system.available, true, "the system"}};
	engine_memory(b->backend, &ledger->device);
	bound_memory(ledger, o->config->memory_limit);
	count_others(o->shared, ledger);
	if (o->is_check) { /* what is free now is not what a start will find */
		ledger->system.free = ledger->system.total = BOUNDLESS;
		ledger->device.free = ledger->device.total = BOUNDLESS;
	}
	return OK;
}

static struct engine_opts engine_opts_of(const struct boot_opts *o, int32_t max_ctx,
					 const struct fit *fit)
{
	const struct config *c = o->config;
	struct engine_opts eo = {.page_size = (int)c->page_size,
				 .kv_bytes = c->kv_cache,
				 .int8_kv = strcmp(c->kv_type, "int8") == 0,
				 .n_ctx = (int)c->ctx,
				 .max_seqs = (int)c->max_seqs,
				 .max_batch_tok = (int)c->max_batch_tokens,
				 .prefix_cache = c->prefix_cache,
				 .n_checkpoints = (int)c->state_checkpoints,
				 .load = {on_weights, (void *)o},
				 .mtp = strcmp(c->speculative, "auto") == 0 ||
					strcmp(c->speculative, "mtp") == 0,
				 .mtp_vocab = (int)c->mtp_vocab,
				 .kv_dir = o->plan->kv_dir,
				 .kv_dir_is_needed = strcmp(c->kv_dir, "auto") != 0,
				 .kv_disk_limit = c->kv_disk_limit,
				 .shares_memory = o->shares_memory};
	fit_tell(fit, &eo);
	if (o->is_listener)
		fit_tell_listener((int32_t)c->ctx, max_ctx, &eo);
	return eo;
}

/* The same for the model that writes. */
static struct engine_opts main_opts_of(const struct boot_opts *o, const struct boot *b,
				       const struct fit *fit)
{
	struct engine_opts eo = engine_opts_of(o, b->model->config.max_ctx, fit);
	eo.draft = b->draft;
	eo.loras = (const struct lora *const *)b->adapters.loras;
	eo.n_loras = b->adapters.n;
	return eo;
}

static enum status fail_mtp(const struct boot *b, struct fail *fail)
{
	const char *unlike = b->model->config.mtp_unlike;
	if (unlike)
		return fail_at(fail, E_CONFIG, "speculative", "speculative = mtp: config.json has "
			       "a %s of its own for the MTP layer, which halod does not know. Set "
			       "it to auto or lookup", unlike);
	return fail_at(fail, E_CONFIG, "speculative", "speculative = mtp: the model has no MTP "
		       "layer. Set it to auto or lookup");
}

static enum status load_engine(const struct boot_opts *o, struct boot *b,
			       const struct fit *fit, struct fail *fail)
{
	const struct config *c = o->config;
	struct engine_opts eo = main_opts_of(o, b, fit);
	/* Show the progress once before the first tensor: it may be the largest, and
	 * progress is otherwise shown only at a tensor's end. */
	on_weights((void *)o, 0, atomic_load(&o->health->load_total));
	enum status s = engine_create(b->model, b->backend, &eo, &b->engine, fail);
	adapters_drop(&b->adapters);
	if (s == OK && strcmp(c->speculative, "mtp") == 0 && !engine_draft_max(b->engine))
		s = fail_mtp(b, fail); /* its files lack tensors of it */
	if (s == OK && c->profile) {
		/* Every 64th or 4th step is measured. A step measured on a GPU cannot
		 * replay a graph. On the CPU measuring takes 1 % of halo-tiny's time for a
		 * token. */
		b->profile = profile_create(b->model->config.n_layers,
					    b->backend->ops->profile_device ? 64 : 4);
		backend_set_profile(b->backend, b->profile);
	}
	if (s == OK && *b->backend->weights_note)
		log_info("weights: %s", b->backend->weights_note);
	if (s == OK && *b->backend->experts_note)
		log_info("experts: %s", b->backend->experts_note);
	if (s == OK)
		say_cache(b, c);
	return s;
}

/* Loads the models beside the one that writes. They come first, so that the KV cache takes
 * the memory that is left. */
static enum status open_others(const struct boot_opts *o, struct boot *b, struct fit *fit,
			       struct fail *fail)
{
	const struct config *c = o->config;
	struct backend_opts bo = boot_plan_backend(c, o->plan, o->plan->backend);
	bo.int8_head = false;
	struct boot_shared *s = o->shared;
	bool has_embedders = s->embedder || s->reranker; /* another model's load has brought them */
	const char *vectors_dir = has_embedders ? "" : c->embedding_model;
	const char *scores_dir = has_embedders ? "" : c->rerank_model;
	const char *vectors = o->plan->embedders[0], *scores = o->plan->embedders[1];
	struct fit_opts fo = {
		.vectors = {.dir = vectors_dir, .name = vectors, .kind = EMBED_VECTORS,
			    .backend = bo, .n_ctx = (int32_t)c->embedding_ctx},
		.scores = {.dir = scores_dir, .name = scores, .kind = EMBED_SCORES,
			   .backend = bo, .n_ctx = (int32_t)c->embedding_ctx},
		.vision = {
			.model = strcmp(c->images, "off") != 0 ? b->model : NULL,
			.mmproj = c->mmproj,
			.backend = boot_plan_backend(c, o->plan, strcmp(c->images, "cpu") == 0
							   ? "cpu" : o->plan->backend),
			.limits = {.max_bytes = c->max_image_bytes,
				   .max_side = (int32_t)c->max_image_side,
				   .max_pixels = c->max_image_pixels},
			.max_tokens = (int32_t)c->image_tokens,
			.step_tokens = (int32_t)(c->max_batch_tokens - c->max_seqs),
			.cache_bytes = (size_t)c->image_cache},
		.sound = {
			.model = strcmp(c->audio, "off") != 0 ? b->model : NULL,
			.mmproj = c->mmproj,
			.backend = boot_plan_backend(c, o->plan, strcmp(c->audio, "cpu") == 0
							   ? "cpu" : o->plan->backend),
			.cache_bytes = (size_t)c->audio_cache},
		/* Whoever transcribes has it. */
		.align = {.dir = *c->transcription_model ? "" : c->aligner_model, .backend = bo,
			  .n_ctx = (int32_t)c->transcription_ctx},
		.is_needed = !o->shares_memory}; /* of several models another one may hear */
	/* The CPUs are for the threads of the text model. */
	fo.vision.backend.cpu_pin = fo.sound.backend.cpu_pin = false;
	fo.vision.backend.int8_head = fo.sound.backend.int8_head = false;
	fo.align.tower = fo.sound.backend;
	enum status st = fit_open(&fo, fit, fail);
	b->is_first = !has_embedders && !o->is_listener;
	if (!o->is_listener) { /* it may be in memory when they are not */
		b->embedder = has_embedders ? s->embedder : fit->vectors;
		b->reranker = has_embedders ? s->reranker : fit->scores;
	}
	b->vision = fit->vision;
	b->sound = fit->sound;
	b->lacks_audio = fit->lacks_audio;
	b->align = fit->align;
	return st;
}

static enum status load_embedder(struct embed *e, const char *key, struct fail *fail)
{
	enum status st = embed_load(e, fail);
	if (st == OK)
		log_info("%s: %s, %d numbers a text, at most %d tokens", key, embed_name(e),
			 (int)embed_width(e), (int)embed_n_ctx(e));
	return st;
}

/* Loads the vision tower of a model that has one. A tower of an unknown kind is no fault of
 * the start unless its file was named: only images are refused. */
static enum status load_vision(const struct config *c, struct boot *b, struct fit *fit,
			       struct fail *fail)
{
	enum status st = b->vision ? vision_load_tower(b->vision, fail) : OK;
	if (st == E_NOMEM || st == E_CONFIG || (st != OK && *c->mmproj))
		return st;
	if (st != OK) {
		vision_destroy(b->vision);
		b->vision = fit->vision = NULL;
		fit->unseen = *fail;
	}
	if (fit->unseen.code != OK)
		log_warn("images are refused: %s", fit->unseen.text);
	else if (b->vision)
		log_info("images: the model's vision tower runs on %s%s%s",
			 vision_device(b->vision), *vision_note(b->vision) ? ": " : "",
			 vision_note(b->vision));
	return OK;
}

/* The same for the audio tower. */
static enum status load_sound(const struct config *c, struct boot *b, struct fit *fit,
			      struct fail *fail)
{
	enum status st = b->sound ? sound_load_tower(b->sound, fail) : OK;
	if (st == E_NOMEM || st == E_CONFIG || (st != OK && *c->mmproj && !b->vision))
		return st;
	if (st != OK) {
		sound_destroy(b->sound);
		align_destroy(b->align);
		b->sound = fit->sound = NULL;
		b->align = fit->align = NULL;
		fit->unheard = *fail;
	}
	if (fit->unheard.code != OK)
		log_warn("audio is refused: %s", fit->unheard.text);
	else if (b->sound)
		log_info("audio: the model's audio tower runs on %s%s%s", sound_device(b->sound),
			 *sound_note(b->sound) ? ": " : "", sound_note(b->sound));
	return OK;
}

static enum status load_align(const struct boot *b, struct fail *fail)
{
	enum status st = b->align ? align_load(b->align, fail) : OK;
	return st == OK ? OK : fail_within(fail, st, "aligner_model");
}

static enum status load_others(const struct boot_opts *o, struct boot *b, struct fit *fit,
			       struct fail *fail)
{
	enum status st = OK;
	if (b->is_first && b->embedder)
		st = load_embedder(b->embedder, "embedding_model", fail);
	if (st == OK && b->is_first && b->reranker)
		st = load_embedder(b->reranker, "rerank_model", fail);
	if (st == OK)
		st = load_vision(o->config, b, fit, fail);
	if (st == OK)
		st = load_sound(o->config, b, fit, fail);
	return st == OK ? load_align(b, fail) : st;
}

/* Runs one token through the whole model, so that a model that cannot compute is never
 * reported READY. */
static enum status decode_one(struct engine *e, int32_t token, struct fail *fail)
{
	int n_cached;
	struct engine_seq *seq = engine_seq_create(e, &token, 1, &n_cached);
	struct engine_slice slice = {.seq = seq, .tokens = &token, .n = 1, .n_logits = 1};
	enum status s = engine_seq_reserve(e, seq, 1);
	if (s == OK)
		s = engine_step(e, &slice, 1, fail);
	if (s == OK) {
		const float *logits = engine_logits(e, 0);
		if (!logits)
			s = fail_set(fail, E_DEVICE, "self test: the logits are lost");
		for (int i = 0; s == OK && i < engine_n_vocab(e); i++)
			if (!isfinite(logits[i]))
				s = fail_set(fail, E_BACKEND, "self test: logit %d of "
					     "the first token is not a number", i);
	} else {
		s = fail_default(fail, s);
	}
	engine_seq_destroy(e, seq);
	return s;
}

static enum sched_draft draft_of(const char *name)
{
	return strcmp(name, "off") == 0	     ? SCHED_DRAFT_OFF
	       : strcmp(name, "lookup") == 0 ? SCHED_DRAFT_LOOKUP
	       : strcmp(name, "auto") == 0   ? SCHED_DRAFT_AUTO
					     : SCHED_DRAFT_MODEL;
}

/* Measures what decode steps with draft tokens cost here, for speculative = auto. */
static enum status measure_step_costs(const struct boot_opts *o, const struct boot *b,
				      struct draft_cost *out, struct fail *fail)
{
	struct buf text = {0};
	*out = (struct draft_cost){.n_draft = 0};
	if (draft_of(o->config->speculative) != SCHED_DRAFT_AUTO)
		return OK;
	enum status st = step_costs_measure(b->engine, o->clock, WIDTHS_US, out, fail);
	if (st == OK && o->config->hip_graphs)
		st = step_costs_record(b->engine, o->clock, RECORD_US, out, fail);
	step_costs_print(out, &text);
	if (st == OK)
		log_info("speculation: steps of some tokens take %.*s", (int)text.n, text.p);
	buf_deinit(&text);
	return st == OK ? OK : fail_default(fail, st);
}

static struct sched *create_sched(const struct boot_opts *o, const struct boot *b,
				  const struct draft_cost *costs)
{
	const struct config *c = o->config;
	return sched_create(&(struct sched_opts){
		.engine = b->engine,
		.tokenizer = b->model->tokenizer,
		.clock = o->clock,
		.health = o->beats,
		.max_queue = (int)c->max_queue,
		.max_queue_tok = c->max_queue_tokens,
		.max_wait_us = c->max_wait,
		.step_target_us = c->step_target,
		.profile = b->profile,
		.logs_misses = c->log_prefix_miss,
		.draft = draft_of(c->speculative),
		.costs = costs,
		.prefill_chunk = (int)MIN(c->prefill_chunk, c->max_batch_tokens),
		.on_ready = o->on_ready,
		.ctx = o->ctx,
	});
}

static void on_ignored(const char *keyword)
{
	log_warn("JSON schemas of requests use \"%s\", which the standard does not know: "
		 "it is ignored", keyword);
}

static void on_unknown(const char *field)
{
	log_warn("requests have a field \"%s\", which is not served here: it is ignored",
		 field);
}

static void log_sampling(const struct api *a, const struct generation_defaults *set)
{
	struct buf text = {0};
	api_sampling_format(a, set, &text);
	log_info("sampling where a request says nothing: %.*s", (int)text.n, text.p);
	buf_deinit(&text);
}

static enum status create_api(const struct boot_opts *o, const struct boot *b,
			      const struct boot_look *look, struct api **out, struct fail *fail)
{
	const struct config *c = o->config;
	struct buf template = {0};
	enum status st = OK;
	if (c->chat_template[0])
		st = file_read(c->chat_template, MAX_TEMPLATE_BYTES, &template, fail);
	if (st != OK) {
		buf_deinit(&template);
		return fail_within(fail, st, "chat_template");
	}
	buf_add_z(&template, "");
	api_set_on_ignored(on_ignored);
	api_set_on_unknown(on_unknown);
	const struct generation_defaults sampling = {
		.temperature = (float)c->temperature, .top_p = (float)c->top_p,
		.min_p = (float)c->min_p, .top_k = c->top_k ? (int32_t)c->top_k : -1};
	const struct api_opts api = {
		.model = b->model,
		.vision = b->vision,
		.sound = b->sound,
		.lacks_audio = b->lacks_audio,
		.align = b->align,
		.audio = {c->max_audio_bytes, c->max_audio_time},
		.video = {c->max_video_bytes, (int32_t)c->max_image_side, c->max_image_pixels,
			  c->video_timeout, NULL},
		.sees = look->sees,
		.watches = look->watches,
		.hears = look->hears,
		.memory = o->memory,
		.max_images = (int32_t)c->max_images,
		.fetch = o->plan->fetch,
		.embedder = b->embedder,
		.reranker = b->reranker,
		.chat_template = c->chat_template[0] ? template.p : NULL,
		.chat_template_kwargs = c->chat_template_kwargs,
		.reasoning = strcmp(c->reasoning, "on") == 0    ? CHAT_REASONING_ON
			     : strcmp(c->reasoning, "off") == 0 ? CHAT_REASONING_OFF
								: CHAT_REASONING_AUTO,
		.model_name = o->plan->model_name,
		.aliases = c->aliases.items,
		.n_aliases = c->aliases.n,
		.loras = b->adapters.names,
		.n_loras = b->adapters.n,
		.n_ctx = look->n_ctx,
		.max_output_tok = c->max_output_tokens,
		.max_choices = (int32_t)c->max_choices,
		.tool_format = c->tool_format,
		.strict_tools = c->strict_tools,
		.shares_prefixes = c->prefix_cache_shared,
		.n_slots = (int32_t)c->max_seqs,
		.batches = o->batches,
		.max_body = (size_t)c->max_body,
		.version = PACKAGE_VERSION,
		.system_fingerprint = "halod-" PACKAGE_VERSION,
		.clock = o->clock,
		.sampling = &sampling,
	};
	st = api_create(&api, out, fail);
	buf_deinit(&template);
	if (st == OK && b->engine) {
		log_sampling(*out, &sampling);
		log_info("tool calls: %s (%s)", api_tool_format(*out),
			 strcmp(c->tool_format, "auto") == 0 ? "the chat template" : "halod.conf");
	}
	return st;
}

/* Opens all files that the settings name, and reads what is small. Nothing large is read, and the
 * models take no memory, so a fault shows before the minutes that a load may take. */
static enum status open_files(const struct boot_opts *o, struct boot *b, struct fit *fit,
			      struct fail *fail)
{
	struct api *api = NULL;
	enum status s = load_model(o, b, fail);
	if (s == OK && strcmp(o->config->speculative, "mtp") == 0 && !b->model->config.mtp)
		s = fail_mtp(b, fail);
	if (s == OK)
		s = open_draft(o, b, fail);
	if (s == OK)
		s = open_backend(o, b, &fit->ledger, fail);
	if (s == OK)
		s = open_others(o, b, fit, fail);
	if (s == OK && o->is_listener)
		s = fit_check_listener(fit, o->plan->model_dir, fail);
	if (s == OK) /* the chat template and its variables */
		s = create_api(o, b, &(struct boot_look){.n_ctx = 1}, &api, fail);
	api_destroy(api);
	return s;
}

/* Plans the memory. Where the model would have a longer context, or more experts in memory, without
 * the others that are there, it does not fit beside them: they can go. */
static enum status plan_memory(const struct boot_opts *o, struct boot *b, const struct fit *fit,
			       struct memory_plan *plan, struct fail *fail)
{
	const struct boot_shared *s = o->shared;
	const struct engine_opts beside = main_opts_of(o, b, fit);
	struct engine_opts alone = beside;
	struct memory_plan most;
	if (s->n_loaded == 0)
		return engine_plan(b->model, b->backend, &beside, plan, fail);
	alone.beside -= s->ledger.device_taken - s->embedders.device_taken -
			s->listener.device_taken;
	enum status st = engine_plan(b->model, b->backend, &alone, &most, fail);
	b->is_hopeless = st != OK;
	if (st != OK)
		return st;
	/* The backend keeps what the last plan decided. */
	st = engine_plan(b->model, b->backend, &beside, plan, fail);
	if (st != OK || most.n_ctx > plan->n_ctx || most.experts > plan->experts)
		return fail_set(fail, E_NOMEM, "other models hold its memory");
	return OK;
}

/* Opens all files, and plans the memory. */
static enum status plan_all(const struct boot_opts *o, struct boot *b, struct fit *fit,
			    struct memory_plan *plan, struct fail *fail)
{
	enum status s = open_files(o, b, fit, fail);
	return s == OK ? plan_memory(o, b, fit, plan, fail) : s;
}

enum status boot_check(const struct boot_opts *o, struct fail *fail)
{
	struct boot b = {0};
	struct boot_shared shared = {0};
	struct fit fit;
	struct memory_plan plan;
	struct boot_opts check = *o;
	check.is_check = true;
	check.shared = &shared;
	enum status s = plan_all(&check, &b, &fit, &plan, fail);
	boot_unload(&b, &shared);
	return s == OK || !o->is_listener ? s : fail_within(fail, s, "transcription_model");
}

/* Counts what the model takes, and keeps the embedders for others. */
static void count_load(struct boot_shared *s, struct boot *b, const struct fit *fit,
		       const struct memory_plan *plan)
{
	struct memory_ledger all = fit->ledger;
	memory_ledger_take(&all, true, plan->taken);
	b->took.device_taken = all.device_taken - s->ledger.device_taken;
	b->took.system_taken = all.system_taken - s->ledger.system_taken;
	if (b->is_first) {
		s->embedder = b->embedder;
		s->reranker = b->reranker;
		s->embedders = fit->embedders;
		b->took.device_taken -= s->embedders.device_taken;
		b->took.system_taken -= s->embedders.system_taken;
	}
	s->ledger.device_taken = all.device_taken;
	s->ledger.system_taken = all.system_taken;
	if (b->is_listener)
		s->listener = b->took;
	s->is_listener_loaded |= b->is_listener;
	s->n_loaded += !b->is_listener;
	b->is_first = false;
	b->is_counted = true;
}

static enum status load_all(const struct boot_opts *o, struct boot *out, struct fail *fail)
{
	struct fit fit;
	struct memory_plan plan;
	enum status s = plan_all(o, out, &fit, &plan, fail);
	out->is_planned = s == OK;
	if (s == OK)
		s = load_others(o, out, &fit, fail);
	if (s == OK && o->is_listener)
		s = fit_check_listener(&fit, o->plan->model_dir, fail);
	if (s == OK)
		s = load_engine(o, out, &fit, fail);
	if (s != OK)
		return s;
	count_load(o->shared, out, &fit, &plan);
	set_share(o->health, 1000, 1000, 1, 1);
	set_stage(o->health, LOAD_CHECKING, 0, 0);
	s = decode_one(out->engine, MAX(out->model->config.bos_id, 0), fail);
	struct draft_cost costs;
	if (s == OK)
		s = measure_step_costs(o, out, &costs, fail);
	if (s != OK)
		return s;
	out->sched = create_sched(o, out, &costs);
	const struct boot_look look = {.n_ctx = engine_n_ctx(out->engine)};
	return create_api(o, out, &look, &out->api, fail);
}

/* Looks for room before weights are read. Mapping them costs nothing, and tells as much. */
static enum status look_for_room(const struct boot_opts *o, bool *out_is_hopeless,
				 struct fail *fail)
{
	struct boot b = {0};
	struct fit fit;
	struct memory_plan plan;
	struct boot_opts look = *o;
	look.looks = true;
	enum status s = plan_all(&look, &b, &fit, &plan, fail);
	*out_is_hopeless = b.is_hopeless;
	boot_unload(&b, o->shared);
	return s;
}

/* The listener takes so much memory now, in place of what it took before. */
static void set_place(struct boot_shared *s, const struct memory_ledger *place)
{
	s->ledger.device_taken += place->device_taken - s->listener.device_taken;
	s->ledger.system_taken += place->system_taken - s->listener.system_taken;
	s->listener = *place;
}

enum status boot_load(const struct boot_opts *o, struct boot *out,
		      struct fail *fail)
{
	const struct memory_ledger none = {0}, place = o->shared->listener;
	struct fail other;
	*out = (struct boot){.is_listener = o->is_listener};
	set_stage(o->health, LOAD_CHECKING, 0, 0);
	if (o->is_listener) /* its place is counted anew */
		set_place(o->shared, &none);
	enum status s = check_self(o, fail);
	out->is_check_failed = s != OK;
	if (s == OK && o->shared->n_loaded > 0 && !o->config->mmap)
		s = look_for_room(o, &out->is_hopeless, fail);
	if (s == OK)
		s = load_all(o, out, fail);
	if (s != OK && o->is_listener && !out->is_counted)
		set_place(o->shared, &place);
	if (s != OK && o->is_listener && !out->is_check_failed)
		s = fail_within(fail, s, "transcription_model");
	/* What does not fit beside others may fit without them, if memory is what it lacks. A plan
	 * says that as E_CONFIG. */
	bool lacks_memory = s == E_NOMEM || (s == E_CONFIG && !out->is_planned);
	out->needs_room = lacks_memory && !out->is_counted && !out->is_hopeless &&
			  o->shared->n_loaded > 0 && boot_check(o, &other) == OK;
	return s;
}

void boot_unload(struct boot *b, struct boot_shared *shared)
{
	api_destroy(b->api);
	sched_destroy(b->sched);
	engine_destroy(b->engine);
	backend_destroy(b->backend);
	profile_destroy(b->profile);
	vision_destroy(b->vision);
	sound_destroy(b->sound);
	align_destroy(b->align);
	model_close(b->model);
	model_close(b->draft);
	adapters_close(&b->adapters);
	if (b->is_first) {
		embed_destroy(b->embedder);
		embed_destroy(b->reranker);
	}
	if (b->is_counted && b->is_listener) { /* which keeps its place */
		shared->is_listener_loaded = false;
	} else if (b->is_counted) {
		shared->ledger.device_taken -= b->took.device_taken;
		shared->ledger.system_taken -= b->took.system_taken;
		shared->n_loaded--;
	}
	*b = (struct boot){0};
}

void boot_unload_embedders(struct boot_shared *s)
{
	embed_destroy(s->embedder);
	embed_destroy(s->reranker);
	s->embedder = s->reranker = NULL;
	s->ledger.device_taken -= s->embedders.device_taken;
	s->ledger.system_taken -= s->embedders.system_taken;
	s->embedders = (struct memory_ledger){0};
}

enum status boot_open(const struct boot_opts *o, const struct boot_look *look, struct boot *out,
		      struct fail *fail)
{
	const struct model_opts mo = {.use_mmap = true};
	*out = (struct boot){0};
	enum status s = model_open(o->plan->model_dir, &mo, &out->model, fail);
	adapters_name(&o->plan->adapters, &out->adapters);
	return s == OK ? create_api(o, out, look, &out->api, fail) : s;
}
