/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that run something: the runtime, the sum of a model's memory, and halo-tiny.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/sysmem.h"
#include "check/fit.h"
#include "doctor/doctor.h"
#include "bench/hip_time.h"
#include "ctl/input.h"
#include "ctl/verify.h"
#include "engine/engine.h"
#include "model/lora.h"

#define GIB ((double)(1 << 30))

/* As a share of the peak rate. Kernels that only read reach 0.87 to 0.95 on gfx1151, as others
 * report. */
#define LEAST_RATE 0.7

/* --- the runtime ------------------------------------------------------------------ */

static void on_device(void *ctx, const struct hip_device *dev, bool has_kernels)
{
	(void)has_kernels;
	struct buf *names = ctx;
	buf_addf(names, "%s%s", names->n ? ", " : "", dev->arch);
}

/* What is known against a runtime, or NULL. arches: names of chips, separated by ", ". */
static const char *known_of(const char *arches, int version)
{
	static const struct {
		const char *arch;
		int from, to;
		const char *what;
	} rows[] = {
#define RUNTIME(arch, from, to, what) {arch, from, to, what},
#include "doctor/doctor_known.def"
#undef RUNTIME
	};
	int number = version / 10000000 * 100 + version / 100000 % 100;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strstr(arches, rows[i].arch) && number >= rows[i].from &&
		    number <= rows[i].to)
			return rows[i].what;
	return NULL;
}

static void judge_runtime(struct doctor *d, const struct hip_api *api, const char *sees)
{
	int version = 0;
	api->hipRuntimeGetVersion(&version);
	const char *what = known_of(*sees ? sees : d->gpu.arch, version);
	if (what)
		doctor_say(d, DOCTOR_BAD, "HIP runtime", "%s, HIP %d.%d, which on %s %s. Fix: "
			   "install ROCm 7.2, or 7.11 or later", api->library,
			   version / 10000000, version / 100000 % 100,
			   *sees ? sees : d->gpu.arch, what);
	else
		doctor_say(d, DOCTOR_OK, "HIP runtime", "%s, HIP %d.%d%s%s", api->library,
			   version / 10000000, version / 100000 % 100,
			   *sees ? ", sees " : "", sees);
}

void doctor_check_runtime(struct doctor *d)
{
	const struct backend_opts o = {.hip_library = d->hip_library,
				       .kernel_dir = d->hip_kernels};
	struct hip_api api;
	struct fail fail = {0};
	struct buf names = {0};
	if (strcmp(d->backend, "cpu") == 0 ||
	    (!d->hip_library && !(d->is_here && d->has_gpu)))
		return;
	if (hip_api_open(d->hip_library, &api, &fail) != OK) {
		doctor_say(d, DOCTOR_BAD, "HIP runtime", "%s. Fix: install ROCm's runtime "
			   "(hip-runtime-amd), or name its file with --hip-library and "
			   "hip_library", fail.text);
	} else if (d->is_here && hip_list(&o, &api, on_device, &names, &fail) != OK) {
		doctor_say(d, DOCTOR_BAD, "HIP runtime", "%s. Fix: what the lines of /dev/kfd "
			   "and /dev/dri say", fail.text);
	} else {
		judge_runtime(d, &api, names.n ? names.p : "");
	}
	buf_deinit(&names);
}

/* --- a model ---------------------------------------------------------------------- */

static void read_memory(const struct doctor *d, struct backend *b, struct memory_ledger *out)
{
	struct sysmem system;
	sysmem_read(d->root, &system);
	*out = (struct memory_ledger){
		.system = {system.total, system.available, true, "the system"}};
	if (d->is_here)
		engine_memory(b, &out->device);
	else
		doctor_memory(d, &out->device);
}

/* Whoever transcribes has the aligner. */
static struct align_opts align_of(const struct doctor *d, const struct backend_opts *bo)
{
	return (struct align_opts){.dir = d->aligner_model, .backend = *bo, .tower = *bo,
				   .n_ctx = FIT_TRANSCRIPTION_CTX};
}

/* Counts the model that transcribes, which a start loads first. */
static enum status plan_listener(const struct doctor *d, struct backend *b,
				 const struct backend_opts *bo, struct memory_ledger *ledger,
				 struct fail *fail)
{
	struct model *m;
	struct fit fit = {.ledger = *ledger};
	struct memory_plan p;
	struct engine_opts eo = {0};
	enum status st = model_open(d->transcription_model, NULL, &m, fail);
	if (st != OK)
		return fail_within(fail, st, "transcription_model");
	const struct fit_opts o = {
		.sound = {.model = m, .backend = *bo, .cache_bytes = FIT_AUDIO_CACHE},
		.align = align_of(d, bo), .is_needed = true};
	st = fit_open(&o, &fit, fail);
	if (st == OK)
		st = fit_check_listener(&fit, d->transcription_model, fail);
	fit_tell(&fit, &eo);
	fit_tell_listener(FIT_TRANSCRIPTION_CTX, m->config.max_ctx, &eo);
	if (st == OK)
		st = engine_plan(m, b, &eo, &p, fail);
	*ledger = fit.ledger;
	if (st == OK)
		memory_ledger_take(ledger, true, p.taken);
	fit_close(&fit);
	model_close(m);
	return st == OK ? OK : fail_within(fail, st, "transcription_model");
}

/* A model's own towers, with the defaults of halod.conf. */
static struct fit_opts towers_of(struct model *m, const struct backend_opts *bo)
{
	return (struct fit_opts){
		.vision = {.model = m, .backend = *bo,
			   .limits = {FIT_IMAGE_BYTES, FIT_IMAGE_SIDE, FIT_IMAGE_PIXELS},
			   .max_tokens = FIT_IMAGE_TOKENS, .step_tokens = FIT_STEP_TOKENS,
			   .cache_bytes = FIT_IMAGE_CACHE},
		.sound = {.model = m, .backend = *bo, .cache_bytes = FIT_AUDIO_CACHE}};
}

/* Opens the models that a start with these defaults loads beside the main model. */
static enum status open_others(const struct doctor *d, struct model *m,
			       const struct backend_opts *bo, struct fit *fit, struct fail *fail)
{
	struct fit_opts o = towers_of(m, bo);
	o.vision.mmproj = o.sound.mmproj = d->mmproj;
	if (!d->transcription_model)
		o.align = align_of(d, bo);
	o.is_needed = true;
	o.vectors = (struct embed_opts){.dir = d->embedding_model, .name = d->embedding_model,
					.kind = EMBED_VECTORS, .backend = *bo,
					.n_ctx = FIT_EMBEDDING_CTX};
	o.scores = (struct embed_opts){.dir = d->rerank_model, .name = d->rerank_model,
				       .kind = EMBED_SCORES, .backend = *bo,
				       .n_ctx = FIT_EMBEDDING_CTX};
	return fit_open(&o, fit, fail);
}

/* Plans the model that shall be in memory with the first, as a load on demand does. That sends the
 * first away where the context would be longer without it. first: its bytes of what is taken. */
static enum status plan_beside(const struct doctor *d, struct backend *b,
			       const struct backend_opts *bo, const struct memory_ledger *taken,
			       int64_t first, struct fail *fail)
{
	struct model *m;
	struct memory_plan p, alone;
	struct fit fit = {.ledger = *taken};
	struct engine_opts eo = {.mtp = true, .shares_memory = true};
	enum status st = model_open(d->beside, NULL, &m, fail);
	if (st != OK)
		return st;
	const struct fit_opts o = towers_of(m, bo);
	st = fit_open(&o, &fit, fail);
	fit_tell(&fit, &eo);
	if (st == OK)
		st = engine_plan(m, b, &eo, &p, fail);
	eo.beside -= first;
	if (st == OK)
		st = engine_plan(m, b, &eo, &alone, fail);
	if (st == OK && p.n_ctx < alone.n_ctx)
		st = fail_set(fail, E_CONFIG, "a context of %d of %d tokens is left for it",
			      (int)p.n_ctx, (int)alone.n_ctx);
	fit_close(&fit);
	model_close(m);
	return st;
}

/* What is loaded with the model. NULL: none. */
struct extras {
	struct model *draft;
	struct lora *lora;
};

static enum status plan_model(const struct doctor *d, struct model *m, const struct extras *extras,
			      struct fit *fit, struct memory_plan *out, struct fail *out_beside,
			      struct fail *fail)
{
	/* Sizes depend a little on the backend. A copy of another machine has no backend, so
	 * the CPU's sizes are taken. */
	const struct backend_opts bo = {
		.name = d->is_here ? d->backend : "cpu", .hip_library = d->hip_library,
		.kernel_dir = d->hip_kernels};
	const struct lora *lora = extras->lora;
	struct engine_opts eo = {.mtp = true, .draft = extras->draft, /* halod's default */
				 .loras = &lora, .n_loras = lora != NULL,
				 .shares_memory = d->beside != NULL};
	struct backend *b;
	enum status st = backend_create(&bo, &b, fail);
	if (st != OK)
		return st;
	read_memory(d, b, &fit->ledger);
	if (d->transcription_model)
		st = plan_listener(d, b, &bo, &fit->ledger, fail);
	const int64_t listener = fit->ledger.device_taken;
	if (st == OK)
		st = open_others(d, m, &bo, fit, fail);
	fit_tell(fit, &eo);
	if (st == OK)
		st = engine_plan(m, b, &eo, out, fail);
	if (st == OK && d->beside) {
		struct memory_ledger taken = fit->ledger;
		memory_ledger_take(&taken, true, out->taken);
		const int64_t first = taken.device_taken - listener - fit->embedders.device_taken;
		out_beside->code = plan_beside(d, b, &bo, &taken, first, out_beside);
	}
	fit_close(fit);
	backend_destroy(b);
	return st;
}

static void say_fit(struct doctor *d, const struct model *m, const struct fit *fit,
		    const struct memory_plan *p)
{
	char beside[80] = "";
	if (fit->ledger.device_taken > 0)
		snprintf(beside, sizeof beside, ", beside %.2f GiB for other models and images",
			 (double)fit->ledger.device_taken / GIB);
	doctor_say(d, DOCTOR_OK, "model", "fits: weights %.2f GiB%s, a context of %d of %d "
		   "tokens, %lld pages of KV cache%s", (double)p->weights / GIB,
		   d->draft_model ? " with the model that drafts"
		   : p->weights > model_weight_bytes(m) ? " with the MTP layer" : "",
		   (int)p->n_ctx, (int)m->config.max_ctx, (long long)p->n_pages, beside);
	if (fit->unseen.code != OK)
		doctor_say(d, DOCTOR_WARN, "images", "would be refused: %s. Fix: what this says, "
			   "or images = off", fit->unseen.text);
	if (fit->unheard.code != OK)
		doctor_say(d, DOCTOR_WARN, "sound", "would be refused: %s. Fix: what this says, "
			   "or audio = off", fit->unheard.text);
}

static enum status open_extras(const struct doctor *d, const struct model *m, struct extras *out,
			      struct fail *fail)
{
	const struct model_opts mo = {.use_mmap = true, .takes_head = true};
	enum status st = d->lora ? lora_open(d->lora, m, true, &out->lora, fail) : OK;
	if (st != OK) {
		snprintf(fail->param, sizeof fail->param, "lora");
		return fail_within(fail, st, "lora");
	}
	st = d->draft_model ? model_open(d->draft_model, &mo, &out->draft, fail) : OK;
	return st == OK ? OK : fail_within(fail, st, "draft_model");
}

void doctor_check_model(struct doctor *d)
{
	struct model *m = NULL;
	struct extras extras = {0};
	struct memory_plan p;
	struct fit fit = {0};
	struct fail fail = {0}, beside = {0};
	enum status st = model_open(d->model, NULL, &m, &fail);
	if (st == OK)
		st = open_extras(d, m, &extras, &fail);
	if (st == OK)
		st = plan_model(d, m, &extras, &fit, &p, &beside, &fail);
	fail_default(&fail, st);
	if (!m)
		doctor_say(d, DOCTOR_BAD, "model", "%s. Fix: haloctl pull ORG/NAME fetches one",
			   fail.text);
	else if (st != OK && strncmp(fail.text, "draft_model", strlen("draft_model")) == 0)
		doctor_say(d, DOCTOR_BAD, "model", "%s. Fix: --draft-model names a smaller model "
			   "of the same kind, or an EAGLE-3 head for this one", fail.text);
	else if (st != OK && d->lora && strcmp(fail.param, "lora") == 0)
		doctor_say(d, DOCTOR_BAD, "model", "%s. Fix: --lora names an adapter that was made "
			   "for this model", fail.text);
	else if (st != OK)
		doctor_say(d, DOCTOR_BAD, "model", "%s. Fix: a smaller model, or more memory for "
			   "the GPU where a line above warns of it", fail.text);
	else
		say_fit(d, m, &fit, &p);
	if (st == OK && d->beside && beside.code == OK)
		doctor_say(d, DOCTOR_OK, "both", "both models are in memory together");
	else if (st == OK && d->beside)
		doctor_say(d, DOCTOR_WARN, "both", "the models take turns: %s. Fix: ctx or "
			   "kv_cache in the sections of both", beside.text);
	if (st == OK && extras.lora)
		doctor_say(d, DOCTOR_OK, "lora", "an adapter of rank %d, for %zu linear layers: "
			   "that sum has it", (int)extras.lora->rank, lora_layers(extras.lora));
	model_close(m);
	model_close(extras.draft);
	lora_close(extras.lora);
}

/* --- halo-tiny -------------------------------------------------------------------- */

static double peak_of(const char *arch)
{
	static const struct {
		const char *arch;
		double gbs;
	} peaks[] = {
#define GPU_TARGET(arch, name, n_cu, clock_ghz, dram_gbs, ...) {#arch, dram_gbs},
#include "backend/hip/gpu_targets.def"
#undef GPU_TARGET
	};
	for (size_t i = 0; i < ARRAY_LEN(peaks); i++)
		if (strcmp(peaks[i].arch, arch) == 0)
			return peaks[i].gbs;
	return 0;
}

static void check_rate(struct doctor *d, struct hip *h)
{
	struct fail fail = {0};
	double gbs, peak = peak_of(h->device.arch);
	if (hip_time_read(h, (size_t)d->read_mb << 20, HIP_TIME_SAMPLES, &gbs, &fail) != OK)
		doctor_say(d, DOCTOR_BAD, "read rate", "%s. Fix: sudo dmesg | grep amdgpu tells "
			   "more", fail.text);
	else if (peak <= 0)
		doctor_say(d, DOCTOR_OK, "read rate", "%.1f GB/s", gbs);
	else if (gbs < LEAST_RATE * peak)
		doctor_say(d, DOCTOR_WARN, "read rate", "%.1f GB/s of %.0f. Fix: what the lines "
			   "of clocks, power and IOMMU say; stop other programs", gbs, peak);
	else
		doctor_say(d, DOCTOR_OK, "read rate", "%.1f GB/s of %.0f", gbs, peak);
}

/* The reference numbers of halo-tiny are from transformers. So differences show wrong kernels,
 * a wrong driver or faulty memory. */
static void check_tiny(struct doctor *d, struct session *s, const struct session_opts *so,
		       const struct reference *ref)
{
	struct verify_result r;
	bool is_hip = strcmp(s->backend->name, "hip") == 0;
	bool is_pass = verify_session(s, so, ref, &r);
	if (!is_pass && r.n_tok == 0)
		doctor_say(d, DOCTOR_BAD, "self-check", "halo-tiny stopped on %s. Fix: "
			   "haloctl first-run tells more", s->backend->device);
	else if (!is_pass)
		doctor_say(d, DOCTOR_BAD, "self-check", "halo-tiny is wrong on %s: largest "
			   "difference %.4f, allowed %.2f. Fix: haloctl first-run tells more",
			   s->backend->device, r.max_delta, r.max_allowed);
	else if (d->has_gpu && !is_hip)
		doctor_say(d, DOCTOR_WARN, "self-check", "halo-tiny is right, but on the CPU. "
			   "Fix: what the lines above say of the GPU");
	else
		doctor_say(d, DOCTOR_OK, "self-check", "halo-tiny is right on %s: %lld tokens, "
			   "mean difference %.4f", s->backend->device, (long long)r.n_tok,
			   r.mean_delta);
	if (is_hip && d->read_mb > 0)
		check_rate(d, hip_of(s->backend));
}

void doctor_check_self(struct doctor *d)
{
	char *dir = input_halo_tiny();
	if (!dir) {
		doctor_say(d, DOCTOR_WARN, "self-check", "halo-tiny is not near this program. "
			   "Fix: make, or make install");
		return;
	}
	char *path = file_join(dir, "reference.json");
	struct session s = {0};
	struct reference ref = {0};
	struct fail fail = {0};
	const struct session_opts so = {.dir = dir, .backend = d->backend,
					.hip_library = d->hip_library,
					.hip_kernels = d->hip_kernels};
	fflush(stdout); /* faults below are printed on stderr and must come after these lines */
	bool has_ref = reference_load(path, &ref, &fail) == OK;
	if (!has_ref)
		doctor_say(d, DOCTOR_BAD, "self-check", "%s. Fix: make install", fail.text);
	else if (session_open(&so, ref.max_tok, &s))
		check_tiny(d, &s, &so, &ref);
	else
		doctor_say(d, DOCTOR_BAD, "self-check", "halo-tiny cannot be loaded, see the "
			   "message before. Fix: what the lines above say");
	session_close(&s);
	if (has_ref)
		reference_deinit(&ref);
	free(path);
	free(dir);
}
