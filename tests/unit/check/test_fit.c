/* SPDX-License-Identifier: Apache-2.0
 *
 * One sum of all that a start loads: each part is counted once, nothing is loaded, and the
 * model that writes gets what is left.
 */
#include "base/alloc.h"
#include "check/fit.h"
#include "tests/tap.h"

#define GOLDEN "tests/golden/"
enum { MIB = 1 << 20 };

static const struct backend_opts cpu = {.name = "cpu", .n_threads = 1};
static struct model *model;
static struct backend *backend;

static char *path_of(const char *name)
{
	char *path = xasprintf(GOLDEN "%s", name);
	char *full = xstrdup(tap_src(path));
	free(path);
	return full;
}

/* The model has both towers. */
static struct fit_opts opts_of(const char *vectors, const char *scores, bool sees, bool hears)
{
	return (struct fit_opts){
		.vectors = {.dir = vectors, .name = vectors, .kind = EMBED_VECTORS,
			    .backend = cpu, .n_ctx = 256},
		.scores = {.dir = scores, .name = scores, .kind = EMBED_SCORES, .backend = cpu,
			   .n_ctx = 256},
		.vision = {.model = sees ? model : NULL, .backend = cpu,
			   .limits = {1 << 20, 4096, 1000}, .max_tokens = 64,
			   .step_tokens = 4096, .cache_bytes = MIB},
		.sound = {.model = hears ? model : NULL, .backend = cpu, .cache_bytes = MIB}};
}

static struct fit of_size(int64_t free_bytes)
{
	return (struct fit){.ledger = {.device = {free_bytes, free_bytes, true, "a box"},
				       .system = {free_bytes, free_bytes, true, "a box"}}};
}

/* Bytes that are counted for these, or -1. */
static int64_t taken_by(const char *vectors, const char *scores, bool sees, bool hears,
			int64_t *pages)
{
	struct fail fail = {0};
	struct fit f = of_size(64 * MIB);
	struct memory_plan p;
	const struct fit_opts o = opts_of(vectors, scores, sees, hears);
	struct engine_opts eo = {.n_ctx = 256, .max_seqs = 4096 / 4, .max_batch_tok = 64};
	bool is_open = fit_open(&o, &f, &fail) == OK;
	fit_tell(&f, &eo);
	bool is_planned = is_open && engine_plan(model, backend, &eo, &p, &fail) == OK;
	ok(is_planned, "%s %s %d %d fits: %s", vectors ? "vectors" : "", scores ? "scores" : "",
	   sees, hears, fail.text);
	ok(!is_open || (f.vectors != NULL) == (vectors != NULL), "its embedding model");
	ok(!is_open || (f.scores != NULL) == (scores != NULL), "its reranker");
	ok(!is_open || (f.vision != NULL) == sees, "its tower for images");
	ok(!is_open || (f.sound != NULL) == hears, "its tower for sound");
	ok(!is_open || (eo.image_rules != NULL) == (sees || hears),
	   "of which the text model knows");
	fit_close(&f);
	*pages = is_planned ? p.n_pages : -1;
	return f.ledger.device_taken;
}

static void test_sum(char *last, char *xlm)
{
	int64_t pages[6];
	int64_t none = taken_by(NULL, NULL, false, false, &pages[0]);
	int64_t images = taken_by(NULL, NULL, true, false, &pages[1]);
	int64_t vectors = taken_by(last, NULL, false, false, &pages[2]);
	int64_t scores = taken_by(NULL, xlm, false, false, &pages[3]);
	int64_t all = taken_by(last, xlm, true, true, &pages[4]);
	int64_t sound = taken_by(NULL, NULL, false, true, &pages[5]);
	is_int(none, 0, "nothing beside the model");
	ok(images > MIB && vectors > 0 && scores > 0 && sound > MIB,
	   "each takes some: %lld, %lld, %lld, %lld", (long long)images, (long long)vectors,
	   (long long)scores, (long long)sound);
	is_int(all, images + vectors + scores + sound, "and all take their sum");
	ok(pages[0] > pages[2] && pages[2] > pages[4] && pages[1] > pages[4] &&
		   pages[3] > pages[4] && pages[5] > pages[4] && pages[4] > 0,
	   "the cache gets what is left: %lld, %lld, %lld, %lld, %lld, %lld pages",
	   (long long)pages[0], (long long)pages[1], (long long)pages[2], (long long)pages[3],
	   (long long)pages[4], (long long)pages[5]);
}

/* Each part that does not fit says which key to change. */
static void test_refused(char *last, char *xlm)
{
	static const char *const keys[] = {"embedding_model", "rerank_model", "images", "audio"};
	for (int i = 0; i < 4; i++) {
		struct fail fail = {0};
		struct fit f = of_size(MIB / 16);
		const struct fit_opts o = opts_of(i == 0 ? last : NULL, i == 1 ? xlm : NULL,
						  i == 2, i == 3);
		is_int(fit_open(&o, &f, &fail), E_CONFIG, "%s", fail.text);
		is_str(fail.param, keys[i], "the key to change");
		fit_close(&f);
	}
}

static bool lacks_audio;

enum status __wrap_audio_check(struct fail *fail);

enum status __wrap_audio_check(struct fail *fail)
{
	return lacks_audio ? fail_set(fail, E_UNSUPPORTED, "a library is missing") : OK;
}

/* A tower that could read no file takes no memory, however little there is. */
static void test_unheard(void)
{
	for (int i = 0; i < 3; i++) {
		struct fail fail = {0};
		struct fit f = of_size(i == 1 ? MIB / 16 : 64 * MIB);
		const struct fit_opts o = opts_of(NULL, NULL, false, i < 2);
		lacks_audio = true;
		is_int(fit_open(&o, &f, &fail), OK, "it starts %s", fail.text);
		ok(!f.sound && f.lacks_audio == (i < 2) &&
			   f.unheard.code == (i < 2 ? E_UNSUPPORTED : OK),
		   "and says why it hears nothing: %s", f.unheard.text);
		is_int(f.ledger.device_taken, 0, "nothing is counted");
		fit_close(&f);
	}
	struct fail fail = {0};
	struct fit f = of_size(64 * MIB);
	struct fit_opts o = opts_of(NULL, NULL, false, true);
	lacks_audio = true;
	o.align.dir = "none";
	o.is_needed = true;
	ok(fit_open(&o, &f, &fail) == E_CONFIG && strstr(fail.text, "a library is missing"),
	   "an aligner that nobody feeds is refused with the reason: %s", fail.text);
	fit_close(&f);
	lacks_audio = false;
}

static void test_unseen(void)
{
	struct fail fail = {0};
	struct fit f = of_size(64 * MIB);
	struct fit_opts o = opts_of(NULL, NULL, true, false);
	o.vision.mmproj = "/nonexistent.gguf";
	ok(fit_open(&o, &f, &fail) != OK, "one that was named, and is not there, is a fault");
	ok(strstr(fail.text, "mmproj") && strstr(fail.text, "nonexistent"), "in words: %s",
	   fail.text);
	is_int(f.ledger.device_taken, 0, "it is not counted");
	fit_close(&f);
}

/* An engine with a given plan is the one that was planned. */
static void test_plan(void)
{
	struct fail fail = {0};
	struct memory_plan p = {0};
	struct engine *e = NULL;
	struct engine_opts eo = {.n_ctx = 256, .max_seqs = 2, .max_batch_tok = 64};
	ok(engine_plan(model, backend, &eo, &p, &fail) == OK, "a plan %s", fail.text);
	is_int(p.n_pages, 2 * 256 / 16, "of as many pages");
	p.n_pages = 7;
	p.n_ctx = 100;
	eo.plan = &p;
	ok(engine_create(model, backend, &eo, &e, &fail) == OK, "is taken %s", fail.text);
	if (!e)
		return;
	is_int(engine_pages_total(e), 7, "as it is");
	is_int(engine_n_ctx(e), 100, "with its context");
	engine_destroy(e);
}

int main(void)
{
	struct fail fail = {0};
	char *dir = path_of("vision/qwen3omni"), *last = path_of("readers/last");
	char *xlm = path_of("readers/xlm-reranker");
	if (model_open(dir, NULL, &model, &fail) != OK ||
	    backend_create(&cpu, &backend, &fail) != OK) {
		ok(false, "%s", fail.text);
		return tap_done();
	}
	test_sum(last, xlm);
	test_refused(last, xlm);
	test_unseen();
	test_unheard();
	test_plan();
	backend_destroy(backend);
	model_close(model);
	free(dir);
	free(last);
	free(xlm);
	return tap_done();
}
