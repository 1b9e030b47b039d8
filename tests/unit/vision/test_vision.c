/* SPDX-License-Identifier: Apache-2.0
 *
 * What tiny models see of images against Hugging Face Transformers
 * (tests/golden/make_vision.py, make_vision_kinds.py, make_omni.py): sizes, patches, the tower's
 * rows, and log-probabilities of prompts with images. And what nobody may see: steps of other
 * sizes, batches and known prefixes change no bit, and an image never stands for another one in
 * the cache.
 * HALOD_CHECK=short, as under a sanitizer: on fibers one model, and one tower.
 */
#include <jansson.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/tap.h"
#include "tests/unit/vision/golden.h"
#include "tests/unit/vision/rows.h"
#include "vision/vision.h"
#include "vision/vision_choose.h"
#include "vision/vision_patches.h"
#include "vision/vision_tower.h"
#include "tests/unit/created.h"

CREATED(vision, vision_load_tower)

#define GOLDEN "tests/golden/vision/"
#define IMAGES "tests/golden/images/"
#define TOLERANCE 2e-4 /* of log-probabilities, exact */
#define ROUGH 0.05     /* fast */
#define HALVES 0.01    /* of the largest number: rows of a tower with activations in halves */

enum { MAX_IMAGES = 2 };

static const struct image_limits limits = {1 << 20, 4096, 1 << 20};

/* --- before the tower ----------------------------------------------------------------- */

static void test_sizes(void)
{
	struct buf b = golden_read(GOLDEN, "sizes.tsv");
	int n = 0, n_wrong = 0;
	for (const char *line = b.p; *line; line = strchr(line, '\n') + 1, n++) {
		struct vision_config c = {.merge = 1};
		long long least, most;
		int32_t w, h, want_w, want_h, got_w = 0, got_h = 0;
		if (sscanf(line, "%d %lld %lld %d %d %d %d", &c.patch, &least, &most, &w, &h,
			   &want_w, &want_h) != 7)
			break;
		c.min_pixels = least;
		c.max_pixels = most;
		enum status st = vision_patches_size(&c, w, h, &got_w, &got_h, NULL);
		n_wrong += st != OK || got_w != want_w || got_h != want_h;
	}
	ok(n > 200 && n_wrong == 0, "%d sizes, %d wrong", n, n_wrong);
	struct vision_config c = {.patch = 4, .merge = 2, .min_pixels = 1, .max_pixels = 1 << 20};
	struct fail fail = {0};
	int32_t w, h;
	ok(vision_patches_size(&c, 2001, 10, &w, &h, &fail) == E_INVAL && fail.text[0],
	   "too long: %s", fail.text);
	ok(vision_patches_size(&c, 2000, 10, &w, &h, &fail) == OK, "200 times as long is not");
	buf_deinit(&b);
}

static void test_video_sizes(void)
{
	struct buf b = golden_read(GOLDEN, "sizes-video.tsv");
	int n = 0, n_wrong = 0;
	for (const char *line = b.p; *line; line = strchr(line, '\n') + 1, n++) {
		struct vision_config c = {.merge = 1, .frames = 2};
		struct vision_frames f;
		long long least, most;
		int32_t want_w, want_h, got_w = 0, got_h = 0;
		if (sscanf(line, "%d %d %lld %lld %d %d %d %d %d", &f.n, &c.patch, &least, &most,
			   &c.video.frame_tokens, &f.width, &f.height, &want_w, &want_h) != 9)
			break;
		c.video.min_pixels = least;
		c.video.max_pixels = most;
		c.video.patch_pixels = 1 << 30;
		enum status st = vision_patches_video(&c, &f, &got_w, &got_h, NULL);
		n_wrong += st != OK || got_w != want_w || got_h != want_h;
	}
	ok(n > 200 && n_wrong == 0, "video: %d sizes, %d wrong", n, n_wrong);
	struct vision_config c = {.patch = 16, .merge = 2, .frames = 2,
				  .video = {.min_pixels = 1 << 18, .max_pixels = 1 << 30}};
	struct fail fail = {0};
	int32_t w, h;
	vision_patches_limit(&c, 100);
	for (int k = 1; k < 6; k++) {
		enum status st = vision_patches_video(&c, &(struct vision_frames){k, 1920, 1080},
						      &w, &h, NULL);
		ok(st == OK && w * h <= 100 * 32 * 32, "100 tokens of each of %d frames: %d x %d",
		   k, (int)w, (int)h);
	}
	const struct vision_frames narrow = {4, 2001, 10};
	ok(vision_patches_video(&c, &narrow, &w, &h, &fail) == E_INVAL && fail.text[0],
	   "too long: %s", fail.text);
	buf_deinit(&b);
}

/* A side's longest edge and the pixels of a token. */
static void test_pixtral_sizes(void)
{
	struct buf b = golden_read(GOLDEN, "sizes-pixtral.tsv");
	int n = 0, n_wrong = 0;
	for (const char *line = b.p; *line; line = strchr(line, '\n') + 1, n++) {
		struct vision_config c = {.kind = VISION_PIXTRAL, .merge = 1};
		int32_t w, h, want_w, want_h, got_w = 0, got_h = 0;
		if (sscanf(line, "%d %d %d %d %d %d", &c.max_side, &c.patch, &w, &h, &want_w,
			   &want_h) != 6)
			break;
		enum status st = vision_patches_size(&c, w, h, &got_w, &got_h, NULL);
		n_wrong += st != OK || got_w != want_w || got_h != want_h;
	}
	ok(n > 150 && n_wrong == 0, "Pixtral: %d sizes, %d wrong", n, n_wrong);
	struct vision_config c = {.kind = VISION_PIXTRAL, .patch = 14, .merge = 2, .n_gap = 1,
				  .max_side = 1540};
	int32_t w, h;
	vision_patches_limit(&c, 100);
	enum status st = vision_patches_size(&c, 4000, 4000, &w, &h, NULL);
	ok(st == OK && w == 252 && h == 252,
	   "Pixtral: 9 x (9 + 1) tokens of at most 100: %d x %d", w, h);
	buf_deinit(&b);
}

/* Tokens at most, and the pixels of one. */
static void test_gemma4_sizes(void)
{
	struct buf b = golden_read(GOLDEN, "sizes-gemma4.tsv");
	int n = 0, n_wrong = 0;
	for (const char *line = b.p; *line; line = strchr(line, '\n') + 1, n++) {
		struct vision_config c = {.kind = VISION_GEMMA4, .merge = 1};
		int32_t most, w, h, want_w, want_h, got_w = 0, got_h = 0;
		if (sscanf(line, "%d %d %d %d %d %d", &most, &c.patch, &w, &h, &want_w,
			   &want_h) != 6)
			break;
		c.max_pixels = (int64_t)most * c.patch * c.patch;
		enum status st = vision_patches_size(&c, w, h, &got_w, &got_h, NULL);
		n_wrong += st != OK || got_w != want_w || got_h != want_h;
	}
	ok(n > 150 && n_wrong == 0, "Gemma 4: %d sizes, %d wrong", n, n_wrong);
	struct vision_config c = {.kind = VISION_GEMMA4, .patch = 16, .merge = 3,
				  .max_pixels = 280 * 48 * 48};
	int32_t w, h;
	vision_patches_limit(&c, 1);
	enum status st = vision_patches_size(&c, 30, 20, &w, &h, NULL);
	ok(st == OK && w == 48 && h == 48, "Gemma 4: one token at most: %d x %d", w, h);
	buf_deinit(&b);
}

/* The reference has whole channels, one behind the other. */
static void test_planes(const char *name, const struct vision_config *c)
{
	struct buf file = golden_read(IMAGES, "rgb.png");
	char *path = xasprintf("%s/pixels.f32", name);
	struct buf want = golden_read(GOLDEN, path);
	const float *pixels = (const float *)(const void *)want.p;
	struct image m, at_size;
	int32_t w, h, p = c->patch;
	if (image_decode(buf_str(&file), &limits, &m, NULL) != OK ||
	    vision_patches_size(c, m.width, m.height, &w, &h, NULL) != OK ||
	    image_resize(&m, w, h, c->filter, &at_size) != OK) {
		ok(false, "patches are made");
		return;
	}
	int32_t dim = 3 * p * p, n = w / p * (h / p), row, col;
	float *got = xmalloc((size_t)n * (size_t)dim * sizeof *got);
	double worst = 0;
	is_int(want.n, (size_t)n * (size_t)dim * sizeof *got, "%s: %d patches", name, (int)n);
	vision_patches_write(c, &(struct vision_pixels){&at_size, 1}, 0, n, got);
	for (int32_t i = 0; i < n * dim; i++) {
		vision_patches_place(c, w / p, i / dim, &row, &col);
		int32_t k = i % dim / (p * p), y = row * p + i % (p * p) / p;
		int32_t x = col * p + i % p;
		worst = worse_of(worst, fabs((double)(got[i] - pixels[(k * h + y) * w + x])));
	}
	/* A pixel's step is 0.014. */
	ok(worst < 1e-6, "%s: pixels: largest difference %.1e", name, worst);
	free(got);
	free(path);
	image_deinit(&m);
	image_deinit(&at_size);
	buf_deinit(&file);
	buf_deinit(&want);
}

static void test_patches(void)
{
	struct buf file = golden_read(IMAGES, "rgb.png");
	struct buf want = golden_read(GOLDEN, "qwen3vl/pixels.f32");
	struct vision_config c = {.patch = 4, .merge = 2, .frames = 2, .min_pixels = 1024,
				  .max_pixels = 4096, .mean = {0.5, 0.5, 0.5},
				  .std = {0.5, 0.5, 0.5}};
	struct image m, at_size;
	int32_t w, h;
	float got[96 * 96];
	if (image_decode(buf_str(&file), &limits, &m, NULL) != OK ||
	    vision_patches_size(&c, m.width, m.height, &w, &h, NULL) != OK ||
	    image_resize(&m, w, h, IMAGE_BICUBIC, &at_size) != OK) {
		ok(false, "patches are made");
		return;
	}
	int32_t n = w / c.patch * (h / c.patch);
	is_int(want.n, sizeof got, "96 patches of 96 numbers");
	is_int(n, 96, "as many are made");
	for (int32_t i = 0; i < n; i += 31) /* in pieces */
		vision_patches_write(&c, &(struct vision_pixels){&at_size, 1}, i, MIN(31, n - i),
				     got + (size_t)i * 96);
	/* A pixel's step is 2 / 255. */
	double worst = 0;
	const float *pixels = (const float *)(const void *)want.p;
	for (size_t i = 0; i < ARRAY_LEN(got); i++)
		worst = worse_of(worst, fabs((double)got[i] - (double)pixels[i]));
	ok(worst < 3e-7, "patches: largest difference %.1e", worst);
	image_deinit(&m);
	image_deinit(&at_size);
	buf_deinit(&file);
	buf_deinit(&want);
}

/* --- a model -------------------------------------------------------------------------- */

struct rig {
	char *dir;
	struct model *m;
	struct vision *v;
	struct backend *b;
	struct engine *e;
	json_t *cases;
};

/* Where parts of a rig come from. */
struct source {
	bool is_exact;
	const char *hip;    /* path of a HIP runtime; NULL: the CPU does all */
	bool tower_on_cpu;  /* beside HIP */
	const char *mmproj; /* the tower's file; NULL: the folder's own tower */
};

static struct rig rig_open(const char *name, const struct source *from, struct engine_opts o)
{
	struct rig r = {.dir = xasprintf(GOLDEN "%s/", name)};
	struct fail fail = {0};
	struct backend_opts bo = {.name = "cpu", .n_threads = 2,
				  .exact = from->is_exact};
	const struct backend_opts gpu = {.name = "hip", .hip_library = from->hip};
	enum status st = model_open(tap_src(r.dir), NULL, &r.m, &fail);
	const struct vision_opts vo = {.model = r.m, .mmproj = from->mmproj,
				       .backend = from->hip && !from->tower_on_cpu ? gpu : bo,
				       .limits = limits,
				       .max_tokens = 4096, .step_tokens = 4096,
				       .cache_bytes = 1 << 20};
	if (st == OK)
		st = vision_create(&vo, &r.v, &fail);
	if (st == OK)
		st = backend_create(from->hip ? &gpu : &bo, &r.b, &fail);
	if (st == OK) {
		o.image_rules = vision_image_rules(r.v);
		o.prefix_cache = true;
		o.n_ctx = 256;
		st = engine_create(r.m, r.b, &o, &r.e, &fail);
	}
	struct buf text = golden_read(r.dir, "sight.json");
	json_t *all = json_loads(text.p, 0, NULL);
	r.cases = json_incref(json_object_get(all, "cases"));
	json_decref(all);
	buf_deinit(&text);
	if (st != OK) {
		printf("Bail out! %s: %s\n", name, fail.text);
		exit(1);
	}
	return r;
}

static void rig_close(struct rig *r)
{
	engine_destroy(r->e);
	backend_destroy(r->b);
	vision_destroy(r->v);
	model_close(r->m);
	json_decref(r->cases);
	free(r->dir);
}

static struct tower_view *see(struct rig *r, const char *file)
{
	struct buf b = golden_read(IMAGES, file);
	struct tower_view *w = NULL;
	struct fail fail = {0};
	if (vision_look(r->v, &(struct vision_file){buf_str(&b), 0}, &w, &fail) != OK)
		ok(false, "%s: %s", file, fail.text);
	buf_deinit(&b);
	return w;
}

/* is_share: most is a share of the largest number. */
static void test_rows(struct rig *r, double most, bool is_share)
{
	struct tower_view *w = see(r, "rgb.png");
	const struct engine_image *m = &w->image;
	struct buf b = golden_read(r->dir, "rows.f32");
	const float *want = (const float *)(const void *)b.p;
	size_t n = b.n / sizeof *want;
	double worst = 0, largest = 0;
	for (size_t i = 0; i < n; i++)
		largest = fmax(largest, fabs((double)want[i]));
	int32_t n_deep = vision_image_rules(r->v)->n_deep;
	is_int(n, (size_t)(1 + n_deep) * (size_t)(m->n_rows * m->n_cols) * 32,
	       "%s: %d tokens, in %d rows", r->dir, (int)m->n, (int)m->n_rows);
	for (size_t i = 0; i < n; i++)
		worst = worse_of(worst, fabs((double)m->rows[i] - (double)want[i]));
	ok(worst < (is_share ? most * largest : most),
	   "%s: rows of the tower: largest difference %.1e of %.1e", r->dir, worst, largest);
	tower_view_unref(w);
	buf_deinit(&b);
}

/* A prompt of sight.json. */
struct prompt {
	int32_t ids[256];
	int n;
	struct tower_view *views[MAX_IMAGES];
	struct engine_image images[MAX_IMAGES];
	int n_images;
	const json_t *golden;
	struct str space; /* of the cache; empty: the one of all */
};

static struct prompt prompt_read(struct rig *r, size_t i)
{
	struct prompt p = {.golden = json_array_get(r->cases, i)};
	const json_t *ids = json_object_get(p.golden, "ids");
	const json_t *names = json_object_get(p.golden, "images");
	p.n = (int)json_array_size(ids);
	for (int k = 0; k < p.n; k++)
		p.ids[k] = (int32_t)json_integer_value(json_array_get(ids, (size_t)k));
	int at = 0;
	for (size_t k = 0; k < json_array_size(names); k++, p.n_images++) {
		p.views[k] = see(r, json_string_value(json_array_get(names, k)));
		p.images[k] = p.views[k]->image;
		while (p.ids[at] != vision_token(r->v))
			at++;
		p.images[k].at = at;
		at += p.images[k].n;
	}
	return p;
}

static void prompt_free(struct prompt *p)
{
	for (int i = 0; i < p->n_images; i++)
		tower_view_unref(p->views[i]);
}

static struct engine_prompt prompt_of(const struct prompt *p)
{
	return (struct engine_prompt){.tokens = p->ids, .n = p->n, .images = p->images,
				      .n_images = p->n_images, .space = p->space};
}

/* As rows_run. */
static float *run(struct rig *r, const struct prompt *p, int each, int *out_cached)
{
	const struct engine_prompt ep = prompt_of(p);
	return rows_run(r->e, &ep, each, out_cached);
}

static void test_prompts(struct rig *r, double most, const char *how)
{
	double worst = 0;
	int n = 0;
	for (size_t i = 0; i < json_array_size(r->cases); i++) {
		struct prompt p = prompt_read(r, i);
		int cached = 0;
		float *logits = run(r, &p, 64, &cached);
		const json_t *want = json_object_get(p.golden, "prompt_logprobs");
		for (int k = cached; k + 1 < p.n; k++, n++)
			worst = worse_of(
				worst, fabs(rows_logprob(logits, k - cached, p.ids[k + 1]) -
					    json_number_value(json_array_get(want, (size_t)k))));
		const json_t *step = json_array_get(json_object_get(p.golden, "steps"), 0), *t;
		size_t j;
		json_array_foreach(json_object_get(step, "top"), j, t) {
			int32_t id = (int32_t)json_integer_value(json_array_get(t, 0));
			double d = rows_logprob(logits, p.n - 1 - cached, id);
			worst = worse_of(worst, fabs(d - json_number_value(json_array_get(t, 1))));
		}
		free(logits);
		prompt_free(&p);
	}
	ok(n > 100 && worst < most, "%s%s: %d log-probabilities: largest difference %.1e",
	   r->dir, how, n, worst);
}

/* --- the cache -------------------------------------------------------------------------- */

static void test_cache(struct rig *r)
{
	struct prompt p = prompt_read(r, 1), other = p;
	int cached, size = engine_page_size(r->e);
	float *first = run(r, &p, 19, &cached);
	int begun = cached;
	float *again = run(r, &p, 7, &cached);
	int last = (p.n - 1) / size * size;
	is_int(cached, r->m->config.n_linear ? cached : last, "%sall of a prompt is found again",
	       r->dir);
	ok(cached > p.images[1].at, "%sbehind its second image", r->dir);
	ok(memcmp(again, first + (size_t)(cached - begun) * ROWS_VOCAB,
		  (size_t)(p.n - cached) * ROWS_VOCAB * sizeof *again) == 0,
	   "%swith the same bits, in other steps", r->dir);
	free(again);
	free(first);
	/* The same tokens, another image: in place of the second, then of the first. */
	for (int i = MAX_IMAGES - 1; i >= 0; i--) {
		memcpy(other.images, p.images, sizeof p.images);
		other.images[i].hash[31] ^= 1;
		int page = p.images[i].at / size * size;
		struct engine_prompt ep = prompt_of(&other);
		struct engine_seq *s = engine_seq_create_in(r->e, &ep, &cached);
		ok(cached <= page, "%sof another image %d nothing is found: %d of %d", r->dir,
		   i, cached, page);
		engine_seq_destroy(r->e, s);
	}
	/* No image at all. */
	struct engine_prompt ep = prompt_of(&p);
	ep.n_images = 0;
	struct engine_seq *s = engine_seq_create_in(r->e, &ep, &cached);
	ok(cached <= p.images[0].at / size * size, "%snor of none", r->dir);
	engine_seq_destroy(r->e, s);
	prompt_free(&p);
}

/* Behind a known prefix, token by token, a prompt has the log-probabilities that it has without,
 * all at once. Steps of few tokens take other kernels on a GPU, so not the same bits. */
static void test_found(struct rig *r)
{
	struct prompt p = prompt_read(r, 1);
	int before, cached;
	p.space = STR("found");
	float *first = run(r, &p, 64, &before), *again = run(r, &p, 1, &cached);
	double worst = 0;
	ok(cached > before, "%s%d tokens of %d are found", r->dir, cached, p.n);
	for (int k = cached; k + 1 < p.n; k++)
		worst = worse_of(worst, fabs(rows_logprob(first, k - before, p.ids[k + 1]) -
					 rows_logprob(again, k - cached, p.ids[k + 1])));
	ok(worst < ROUGH, "%sbehind them log-probabilities differ by %.1e", r->dir, worst);
	free(again);
	free(first);
	prompt_free(&p);
}

/* Two prompts in one step have the bits that each has alone. */
static void test_batch(struct rig *r)
{
	struct prompt p[2] = {prompt_read(r, 0), prompt_read(r, 2)};
	struct engine_slice slices[2];
	struct engine_prompt ep[2];
	float *alone[2];
	int cached;
	for (int i = 0; i < 2; i++) {
		ep[i] = prompt_of(&p[i]);
		ep[i].space = i ? STR("one") : STR("two");
		slices[i] = (struct engine_slice){
			.seq = engine_seq_create_in(r->e, &ep[i], &cached),
			.tokens = p[i].ids, .n = p[i].n, .n_logits = 1};
		if (engine_seq_reserve(r->e, slices[i].seq, p[i].n) != OK)
			ok(false, "there is room");
		alone[i] = NULL;
	}
	struct fail fail = {0};
	ok(engine_step(r->e, slices, 2, &fail) == OK, "%sboth in one step %s", r->dir,
	   fail.text);
	float both[2][ROWS_VOCAB];
	for (int i = 0; i < 2; i++) {
		memcpy(both[i], engine_logits(r->e, i), sizeof both[i]);
		engine_seq_destroy(r->e, slices[i].seq);
	}
	for (int i = 0; i < 2; i++) {
		alone[i] = run(r, &p[i], 9, &cached);
		ok(memcmp(alone[i] + (size_t)(p[i].n - 1 - cached) * ROWS_VOCAB, both[i],
			  sizeof both[i]) == 0, "%sprompt %d has its own bits", r->dir, i);
		free(alone[i]);
		prompt_free(&p[i]);
	}
}

/* n_wide: tokens of wide.png. */
static void test_views(struct rig *r, int n_wide)
{
	struct tower_view *a = see(r, "rgb.png"), *b = see(r, "rgb.png");
	struct tower_view *c = see(r, "interlaced.png"), *d = NULL;
	struct buf file = golden_read(IMAGES, "wide.png");
	ok(a == b, "%sthe second look is the first", r->dir);
	ok(a != c && memcmp(a->image.hash, c->image.hash, 32) != 0,
	   "%sanother file is another image", r->dir);
	ok(memcmp(a->image.rows, c->image.rows, 32 * sizeof(float)) == 0,
	   "%swith the same rows, since it has the same pixels", r->dir);
	ok(vision_measure(r->v, &(struct vision_file){buf_str(&file), 9}, &d, NULL) == OK &&
		   d->image.n == n_wide, "%stokens are counted without the tower",
	   r->dir);
	tower_view_unref(a);
	tower_view_unref(b);
	tower_view_unref(c);
	tower_view_unref(d);
	buf_deinit(&file);
}

/* The HIP runtime that runs kernels on fibers; "": it is not built. */
static const char *fibers(void)
{
	static char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 getenv("HALOD_BUILDDIR") ?: ".");
	return file_exists(library) ? library : "";
}

/* Tower and text on HIP, in the wide steps of prompts and behind known prefixes. Of HALVES: in
 * float32 the towers differ from the golden by up to 3.3e-6 of the largest number, by some
 * roundings of 2^-24. As many roundings of 2^-11 would be 0.027. */
static void test_hip(const char *name, bool int8_kv)
{
	if (!*fibers()) {
		ok(true, "%s # SKIP %s is not built", name, "libhip_cpu.so");
		return;
	}
	struct rig r = rig_open(name, &(struct source){.hip = fibers()},
				(struct engine_opts){.page_size = 16, .max_batch_tok = 128,
						     .int8_kv = int8_kv});
	is_str(vision_note(r.v), "", "%s: nothing of the tower is left to the CPU", name);
	ok(strcmp(vision_device(r.v), r.b->device) == 0, "%s: it runs on %s", name,
	   vision_device(r.v));
	test_rows(&r, HALVES, true);
	test_prompts(&r, ROUGH, int8_kv ? "hip, int8" : "hip");
	test_found(&r);
	rig_close(&r);
}

/* A tower on HIP whose text has no kernels of its own. */
static void test_hip_tower(const char *name)
{
	if (!*fibers())
		return;
	struct rig r = rig_open(name, &(struct source){.hip = fibers()},
				(struct engine_opts){.page_size = 16, .max_batch_tok = 128});
	is_str(vision_note(r.v), "", "%s: nothing of the tower is left to the CPU", name);
	test_rows(&r, HALVES, true);
	rig_close(&r);
}

/* The tower on the CPU beside a text on HIP. */
static void test_beside(const char *name)
{
	if (!*fibers())
		return;
	struct rig r = rig_open(name, &(struct source){.is_exact = true, .hip = fibers(),
						       .tower_on_cpu = true},
				(struct engine_opts){.max_batch_tok = 128});
	test_rows(&r, 1e-4, false);
	test_prompts(&r, ROUGH, "hip, the tower on the CPU");
	rig_close(&r);
}

/* The same tower in a GGUF file, which llama.cpp's converter made of the folder. */
static void test_mmproj(const char *name)
{
	char *in = xasprintf(GOLDEN "mmproj-%s.gguf", name);
	char *path = xstrdup(tap_src(in));
	struct rig r = rig_open(name, &(struct source){.is_exact = true, .mmproj = path},
				(struct engine_opts){.page_size = 16});
	test_rows(&r, 1e-4, false);
	test_prompts(&r, TOLERANCE, "mmproj");
	rig_close(&r);
	free(path);
	free(in);
}

/* A tower in blocks, beside the numbers that the gguf package for Python reads in them. */
static void test_blocks(bool is_exact, double most)
{
	char *blocks = xstrdup(tap_src(GOLDEN "mmproj-blocks.gguf"));
	char *floats = xstrdup(tap_src(GOLDEN "mmproj-floats.gguf"));
	const struct engine_opts o = {.page_size = 16};
	struct rig a = rig_open("qwen3vl", &(struct source){.is_exact = is_exact,
							    .mmproj = blocks}, o);
	struct rig b = rig_open("qwen3vl", &(struct source){.is_exact = true,
							    .mmproj = floats}, o);
	struct tower_view *have = see(&a, "rgb.png"), *want = see(&b, "rgb.png");
	const struct engine_image *x = &have->image, *y = &want->image;
	size_t n = (size_t)(1 + vision_image_rules(b.v)->n_deep) * (size_t)y->n * 32;
	double worst = 0, largest = 0;
	is_int(x->n, y->n, "a tower in blocks: as many tokens");
	for (size_t i = 0; i < n; i++) {
		worst = worse_of(worst, fabs((double)x->rows[i] - (double)y->rows[i]));
		largest = fmax(largest, fabs((double)y->rows[i]));
	}
	ok(worst < most * largest, "a tower in blocks, %s: rows: largest difference %.1e of %.1e",
	   is_exact ? "exact" : "fast", worst, largest);
	tower_view_unref(have);
	tower_view_unref(want);
	rig_close(&a);
	rig_close(&b);
	free(blocks);
	free(floats);
}

/* Tokens of an image that see each other: where a step may end, and what is refused. */
static void test_mutual(void)
{
	struct rig r = rig_open("gemma3", &(struct source){.is_exact = true},
				(struct engine_opts){.page_size = 8, .max_batch_tok = 64});
	struct prompt p = prompt_read(&r, 2);
	const struct engine_prompt ep = prompt_of(&p);
	struct fail fail = {0};
	int cached, at = p.images[0].at, n = p.images[0].n;
	struct engine_seq *s = engine_seq_create_in(r.e, &ep, &cached);
	is_int(engine_seq_whole(r.e, s, at, at), at, "a step may end before an image");
	is_int(engine_seq_whole(r.e, s, at + 1, 64), at, "not behind its first token");
	is_int(engine_seq_whole(r.e, s, at + n - 1, 64), at, "nor before its last");
	is_int(engine_seq_whole(r.e, s, at + n, 64), at + n, "but behind that");
	struct engine_slice slice = {.seq = s, .tokens = p.ids, .n = at + 5, .n_logits = 1};
	enum status st = engine_seq_reserve(r.e, s, p.n);
	ok(st == OK && engine_step(r.e, &slice, 1, &fail) == E_INVAL &&
		   strstr(fail.text, "within an image"), "else it is refused: %s", fail.text);
	slice.n = at;
	ok(engine_step(r.e, &slice, 1, &fail) == OK, "the text before it runs");
	is_int(engine_seq_whole(r.e, s, 3, n), n, "an image that is next is taken whole");
	is_int(engine_seq_whole(r.e, s, 3, n - 1), 0, "or not at all");
	engine_seq_destroy(r.e, s);
	const struct backend_opts bo = {.name = "cpu", .exact = true};
	struct vision_opts vo = {.model = r.m, .backend = bo, .limits = limits,
				 .max_tokens = 4096, .step_tokens = 15};
	struct vision *v = NULL;
	ok(vision_create(&vo, &v, &fail) == E_UNSUPPORTED && strstr(fail.text, "one step"),
	   "a step that is too small: %s", fail.text);
	vo.step_tokens = 16;
	vo.max_tokens = 15;
	ok(vision_create(&vo, &v, &fail) == E_UNSUPPORTED && strstr(fail.text, "image_tokens"),
	   "fewer tokens than an image has: %s", fail.text);
	prompt_free(&p);
	rig_close(&r);
}

/* Where a step has room for few tokens, images become smaller; but only where tokens of an image
 * see each other. */
static void test_cut(void)
{
	static const struct {
		const char *name;
		int step_tokens, n;
	} cases[] = {{"gemma4", 4096, 15}, {"gemma4", 7, 6}, {"gemma4clip", 7, 15}};
	struct buf file = golden_read(IMAGES, "rgb.png");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *dir = xasprintf(GOLDEN "%s", cases[i].name);
		struct fail fail = {0};
		struct model *m;
		struct vision *v = NULL;
		struct tower_view *w = NULL;
		struct vision_opts vo = {.backend = {.name = "cpu"}, .limits = limits,
					 .max_tokens = 4096,
					 .step_tokens = cases[i].step_tokens};
		enum status st = model_open(tap_src(dir), NULL, &m, &fail);
		vo.model = m;
		if (st == OK)
			st = vision_create(&vo, &v, &fail);
		if (st == OK)
			st = vision_measure(v, &(struct vision_file){buf_str(&file), 0}, &w, &fail);
		ok(st == OK && w->image.n == cases[i].n,
		   "%s: %d tokens in steps of %d %s", cases[i].name, cases[i].n,
		   cases[i].step_tokens, fail.text);
		tower_view_unref(w);
		vision_destroy(v);
		model_close(m);
		free(dir);
	}
	buf_deinit(&file);
}

/* What is missing is said. */
static void test_refused(void)
{
	static const struct {
		const char *name, *words;
	} models[] = {{"llama4", "tower of llama4 is not supported"},
		      {"gemma4moe", "no token <|image>"},
		      {"mistral3", "hidden_act"}}; /* GELU, with a gate */
	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		char *dir = xasprintf("tests/golden/models/%s", models[i].name);
		struct fail fail = {0};
		struct model *m;
		struct vision *v;
		if (model_open(tap_src(dir), NULL, &m, &fail) != OK) {
			ok(false, "%s: %s", models[i].name, fail.text);
			continue;
		}
		const struct vision_opts vo = {.model = m, .backend = {.name = "cpu"},
					       .limits = limits, .max_tokens = 4096,
					       .step_tokens = 4096};
		enum status st = vision_create(&vo, &v, &fail);
		ok((st == E_UNSUPPORTED || st == E_MISSING) && !v &&
			   strstr(fail.text, models[i].words), "%s: %s", models[i].name,
		   fail.text);
		model_close(m);
		free(dir);
	}
}

static const struct backend_ops *true_ops;
static int64_t n_taken;

static enum status counted_alloc(struct backend *b, size_t n, void **out)
{
	n_taken += (int64_t)n;
	return true_ops->alloc(b, n, out);
}

/* Which frames of a file are seen, against Transformers. */
static void test_video_choices(void)
{
	struct buf b = golden_read(GOLDEN, "choices-video.tsv");
	int n = 0, n_wrong = 0, n_refused = 0;
	for (const char *line = b.p; *line; line = strchr(line, '\n') + 1, n++) {
		struct vision_config c = {.frames = 2};
		struct vision_choice choice = {0};
		struct fail fail = {0};
		int is_omni, begin = 0;
		long long total;
		if (sscanf(line, "%d %lld %lf %lf %d %d %d%n", &is_omni, &total, &choice.fps,
			   &choice.want_fps, &choice.want_n, &c.video.min_frames,
			   &c.video.max_frames, &begin) != 7)
			break;
		c.video.second = is_omni ? 13 : 0;
		choice.n_frames = total;
		enum status st = vision_choose(&c, &choice, &fail);
		const char *at = line + begin;
		if (at[1] == '\n') {
			n_wrong += st != E_INVAL || !fail.text[0];
			n_refused++;
			continue;
		}
		int k = 0;
		for (; *at != '\n'; k++) {
			char *end;
			long long want = strtoll(at + 1, &end, 10);
			n_wrong += st != OK || k >= choice.n || choice.at[k] != want;
			at = end;
		}
		n_wrong += k != choice.n;
	}
	ok(n > 230 && n_wrong == 0 && n_refused > 5, "frames of %d files, %d wrong, %d refused",
	   n, n_wrong, n_refused);
	buf_deinit(&b);
	struct vision_config c = {.frames = 2, .video = {.fps = 2, .min_frames = 4,
							 .max_frames = 768}};
	for (int i = 0; i < 2; i++) {
		struct vision_choice one = {.n_frames = 1};
		c.video.second = i ? 13 : 0;
		ok(vision_choose(&c, &one, NULL) == OK && one.n == 1 && one.at[0] == 0 &&
		   one.fps == 24 && one.rate > 0, "a file of one frame, without a rate");
		struct vision_choice long_one = {.n_frames = 1 << 20, .fps = 1e-3};
		ok(vision_choose(&c, &long_one, NULL) == OK && long_one.n == 768 &&
		   long_one.at[767] < 1 << 20 && long_one.rate >= 0.01, "a very slow one");
	}
}

/* Settings of video in a model's folder. Frames that are not made as images are: no video, and
 * images as ever. */
static void test_video_settings(void)
{
	static const char name[] = "video_preprocessor_config.json";
	static const struct {
		const char *text;
		enum status want;
		int n_frames; /* of a view; 0: no video */
		int32_t n;    /* tokens of a view */
	} cases[] = {
		{"{\"min_pixels\":64}", OK, 2, 15}, /* 40 x 24 pixels */
		{"{}", OK, 2, 24},
		{"{\"min_pixels\":64,\"max_video_tokens\":5,"
		 "\"cap_pixels_per_frame\":true}", OK, 2, 2},
		{"{\"patch_size\":8}", OK, 0, 0},
		{"{\"merge_size\":1}", OK, 0, 0},
		{"{\"temporal_patch_size\":4}", OK, 0, 0},
		{"{\"image_mean\":[0,0,0]}", OK, 0, 0},
		{"{\"image_std\":[1,1,1]}", OK, 0, 0},
		{"{\"resample\":2}", OK, 0, 0},
		{"{", E_FORMAT, 0, 0},
	};
	struct buf file = golden_read(IMAGES, "rgb.png");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model *m = NULL;
		struct vision *v = NULL;
		struct vision_clip clip = {0};
		struct fail fail = {0};
		char *dir = golden_copy(GOLDEN "qwen3vl", name, str_of(cases[i].text));
		enum status st = model_open(dir, NULL, &m, &fail);
		const struct vision_opts vo = {.model = m, .max_tokens = 64, .step_tokens = 64,
					       .backend = {.name = "cpu", .n_threads = 1}};
		if (st == OK)
			st = vision_open(&vo, &v, &fail);
		is_int(st, cases[i].want, "%s: %s", cases[i].text, fail.text);
		is_int(vision_frames(v), cases[i].n_frames, "frames of a view");
		if (vision_frames(v))
			st = vision_video_measure(v, buf_str(&file), 4, &clip, &fail);
		is_int(clip.n, cases[i].n, "tokens of each %s", fail.text);
		vision_destroy(v);
		model_close(m);
		image_remove(dir);
	}
	buf_deinit(&file);
}

/* The tower and its work are asked for before it is loaded, and counted. */
static void test_memory(const char *name)
{
	struct fail fail = {0};
	struct model *m;
	struct vision *v;
	struct vision_tower *t = NULL;
	struct backend *b;
	struct vision_config c;
	bool has_tower;
	char *dir = xasprintf(GOLDEN "%s/", name);
	struct memory_ledger ledger = {.device = {1 << 30, 1 << 30, true, "a box"},
				       .system = {1 << 30, 1 << 30, true, "a box"}};
	struct vision_opts vo = {.model = NULL, .backend = {.name = "cpu", .n_threads = 1},
				 .limits = {.max_pixels = 1000}, .max_tokens = 64,
				 .step_tokens = 4096, .cache_bytes = 1 << 20,
				 .ledger = &ledger};
	if (model_open(tap_src(dir), NULL, &m, &fail) != OK ||
	    vision_config_read(m, NULL, &c, &has_tower, &fail) != OK ||
	    backend_create(&vo.backend, &b, &fail) != OK ||
	    vision_tower_create(m->tensors, b, &c, &t, &fail) != OK) {
		ok(false, "%s: %s", name, fail.text);
		return;
	}
	vo.model = m;
	int64_t weights = vision_tower_weight_bytes(m->tensors);
	ok(vision_create(&vo, &v, &fail) == OK, "%s fits %s", name, fail.text);
	ok(weights > 0 && ledger.device_taken > weights + (1 << 20) + 10000,
	   "%s: weights, work, pixels and cache are counted", name);
	vision_destroy(v);
	ledger.system_taken = ledger.system.free - (1 << 26);
	is_int(vision_create(&vo, &v, &fail), E_CONFIG, "others took the rest: %s", fail.text);
	is_str(fail.param, "images", "the key to change");

	int32_t side = 4 * c.patch * c.merge;
	if (c.kind == VISION_SIGLIP)
		side = c.max_side;
	int32_t n = side / c.patch * (side / c.patch);
	const struct image image = {side, side, xcalloc((size_t)side * (size_t)side, 3)};
	float *rows = xcalloc((size_t)(1 + c.n_deep) * (size_t)n * (size_t)c.out_width,
			      sizeof *rows);
	struct backend_ops ops = *b->ops;
	true_ops = b->ops;
	ops.alloc = counted_alloc;
	b->ops = &ops;
	n_taken = 0;
	enum status st = vision_tower_run(t, &(struct vision_pixels){&image, 1}, rows, &fail);
	b->ops = true_ops;
	ok(st == OK && n_taken > 0 && n_taken <= vision_tower_work_bytes(&c, b, n),
	   "%s: an image takes %lld bytes of those told", name, (long long)n_taken);
	free(rows);
	free(image.rgb);
	vision_tower_destroy(t);
	backend_destroy(b);
	model_close(m);
	free(dir);
}

int main(void)
{
	static const struct {
		const char *name;
		int n_wide;
	} models[] = {{"qwen3vl", 55}, {"qwen3vlmoe", 55}, {"qwen35", 55}, {"qwen3omni", 55},
		      {"qwen4exp", 55},
		      {"mistral3", 36}, {"ministral3", 36}, {"mistral4", 36}, {"gemma3", 16},
		      {"gemma4", 10}, {"gemma4clip", 10}, {"gemma4unified", 10}};
	const struct vision_config pixtral = {
		.kind = VISION_PIXTRAL, .patch = 4, .merge = 2, .frames = 1, .max_side = 64,
		.mean = {0.48145466, 0.4578275, 0.40821073},
		.std = {0.26862954, 0.26130258, 0.27577711}};
	const struct vision_config siglip = {
		.kind = VISION_SIGLIP, .patch = 4, .merge = 2, .frames = 1, .max_side = 32,
		.filter = IMAGE_BILINEAR, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
	const struct vision_config gemma4 = {
		.kind = VISION_GEMMA4, .patch = 4, .merge = 3, .frames = 1,
		.max_pixels = 16 * 12 * 12, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
	const struct vision_config plain = {
		.kind = VISION_PLAIN, .patch = 12, .merge = 1, .frames = 1,
		.max_pixels = 16 * 12 * 12, .std = {1, 1, 1}};
	test_sizes();
	test_video_sizes();
	test_video_choices();
	test_video_settings();
	test_pixtral_sizes();
	test_gemma4_sizes();
	test_patches();
	test_planes("mistral3", &pixtral);
	test_planes("gemma3", &siglip);
	test_planes("gemma4", &gemma4);
	test_planes("gemma4unified", &plain);
	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		const char *name = models[i].name;
		struct rig r = rig_open(name, &(struct source){.is_exact = true},
					(struct engine_opts){.page_size = 8});
		test_rows(&r, 1e-4, false);
		test_prompts(&r, TOLERANCE, "exact");
		test_cache(&r);
		test_batch(&r);
		test_views(&r, models[i].n_wide);
		rig_close(&r);
		r = rig_open(name, &(struct source){0}, (struct engine_opts){.page_size = 16});
		test_rows(&r, 0.02, false);
		test_prompts(&r, ROUGH, "fast");
		test_batch(&r);
		rig_close(&r);
	}
	test_memory("qwen3vl");
	test_memory("mistral3");
	test_memory("gemma3");
	test_memory("gemma4");
	test_memory("gemma4unified");
	test_mmproj("qwen3vl");
	test_mmproj("qwen4exp");
	test_mmproj("mistral3");
	test_mmproj("gemma3");
	test_mmproj("gemma4");
	test_mmproj("gemma4clip");
	test_mmproj("gemma4unified");
	test_blocks(true, 1e-5);
	test_blocks(false, 0.02);
	test_hip("gemma3", true);
	test_hip_tower("gemma4clip");
	if (!tap_check("short")) {
		test_hip("qwen3vl", false);
		test_hip("qwen4exp", false);
		test_hip("mistral3", false);
		test_hip("gemma3", false);
		test_hip("gemma4", false);
		test_hip_tower("gemma4unified");
	}
	test_beside("qwen3vl");
	test_mutual();
	test_cut();
	test_refused();
	return tap_done();
}
