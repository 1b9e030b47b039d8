/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tiny Qwen3-Omni, Qwen3-ASR and Voxtral hear against Hugging Face Transformers
 * (tests/golden/make_omni.py, make_voxtral.py): the tower's rows of clips of many lengths, and
 * log-probabilities of prompts with sounds and images.
 * And what nobody may hear: clips that run at the same time change no bit of each other, and a
 * sound never stands for another one in the cache.
 */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sound/sound.h"
#include "sound/sound_config.h"
#include "sound/sound_tower.h"
#include "tests/tap.h"
#include "tests/unit/sound/hear.h"
#include "tests/unit/vision/golden.h"
#include "tests/unit/vision/rows.h"
#include "vision/vision.h"
#include "tests/unit/created.h"

CREATED(sound, sound_load_tower)
CREATED(vision, vision_load_tower)

#define GOLDEN "tests/golden/vision/"
#define OMNI "qwen3omni"
#define VOXTRAL "voxtral"
#define IMAGES "tests/golden/images"
#define TOLERANCE 2e-4 /* of log-probabilities, exact */
#define ROUGH 0.05     /* fast */
#define HALVES 0.01    /* of the largest number: rows of a tower with activations in halves */

enum { WIDTH = 32, MAX_SEEN = 4, MAX_TOK = 256 };

/* Frames of the clips in heard.f32; Voxtral's are windows of 120. */
static const int32_t omni_frames[] = {1, 9, 57, 99, 100, 101, 130, 460, 1010, 0};
static const int32_t voxtral_frames[] = {120, 240, 480, 0};

/* The HIP runtime that runs kernels on fibers; "": it is not built. */
static const char *fibers(void)
{
	static char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 getenv("HALOD_BUILDDIR") ?: ".");
	return file_exists(library) ? library : "";
}

/* --- a model -------------------------------------------------------------------------- */

struct rig {
	char *dir;
	const int32_t *frames; /* of the clips in heard.f32, and 0 */
	struct model *m;
	struct vision *v;
	struct sound *s;
	struct backend *b;
	struct engine *e;
};

static struct rig rig_open(const char *name, const struct backend_opts *bo, bool sees)
{
	struct rig r = {.dir = xasprintf(GOLDEN "%s", name),
			.frames = strcmp(name, VOXTRAL) == 0 ? voxtral_frames : omni_frames};
	struct fail fail = {0};
	enum status st = model_open(tap_src(r.dir), NULL, &r.m, &fail);
	const struct vision_opts vo = {.model = r.m, .backend = *bo,
				       .limits = {1 << 20, 4096, 1 << 20},
				       .max_tokens = 4096, .step_tokens = 4096,
				       .cache_bytes = 1 << 20};
	const struct sound_opts so = {.model = r.m, .backend = *bo, .cache_bytes = 1 << 20};
	struct engine_opts eo = {.page_size = 8, .max_batch_tok = 128, .n_ctx = MAX_TOK,
				 .prefix_cache = true};
	if (st == OK && sees)
		st = vision_create(&vo, &r.v, &fail);
	if (st == OK)
		st = sound_create(&so, &r.s, &fail);
	if (st == OK)
		st = backend_create(bo, &r.b, &fail);
	if (st == OK) {
		eo.image_rules = sees ? vision_image_rules(r.v) : sound_image_rules();
		st = engine_create(r.m, r.b, &eo, &r.e, &fail);
	}
	if (st != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return r;
}

static void rig_close(struct rig *r)
{
	engine_destroy(r->e);
	backend_destroy(r->b);
	sound_destroy(r->s);
	vision_destroy(r->v);
	model_close(r->m);
	free(r->dir);
}

/* is_share: most is a share of the largest number. */
static void test_rows(struct rig *r, const char *how, double most, bool is_share)
{
	struct buf b = golden_read(r->dir, "heard.f32");
	const float *want = (const float *)(const void *)b.p;
	size_t at = 0;
	double worst = 0, largest = 0;
	for (const int32_t *frames = r->frames; *frames; frames++) {
		struct tower_view *w = hear(r->s, *frames);
		const struct engine_image *m = &w->image;
		size_t n = (size_t)m->n * WIDTH;
		ok(m->n == sound_tokens(r->s, *frames) && m->is_sound &&
			   (at + n) * sizeof *want <= b.n,
		   "%s: %d frames are %d tokens", how, (int)*frames, (int)m->n);
		for (size_t k = 0; k < n; k++) {
			worst = worse_of(worst, fabs((double)m->rows[k] - (double)want[at + k]));
			largest = fmax(largest, fabs((double)want[at + k]));
		}
		at += n;
		tower_view_unref(w);
	}
	is_int(at * sizeof *want, b.n, "%s: as many rows as the reference", how);
	ok(worst < (is_share ? most * largest : most),
	   "%s: rows of the tower: largest difference %.1e of %.1e", how, worst, largest);
	buf_deinit(&b);
}

/* --- prompts ---------------------------------------------------------------------------- */

struct prompt {
	int32_t ids[MAX_TOK];
	int n;
	struct engine_image seen[MAX_SEEN]; /* images and sounds */
	int n_seen;
	struct tower_view *views[MAX_SEEN];
	const json_t *golden;
	struct str space;
};

static struct tower_view *see(struct rig *r, const char *file)
{
	struct buf b = golden_read(IMAGES, file);
	struct tower_view *w = NULL;
	if (vision_look(r->v, &(struct vision_file){buf_str(&b), 0}, &w, NULL) != OK)
		ok(false, "%s is seen", file);
	buf_deinit(&b);
	return w;
}

static struct prompt prompt_read(struct rig *r, const json_t *golden)
{
	struct prompt p = {.golden = golden};
	const json_t *ids = json_object_get(golden, "ids");
	const json_t *names = json_object_get(golden, "images");
	const json_t *lengths = json_object_get(golden, "frames");
	size_t image = 0, sound = 0;
	p.n = (int)json_array_size(ids);
	for (int i = 0; i < p.n; i++)
		p.ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
	for (int at = 0; at < p.n;) {
		struct engine_image *to = &p.seen[p.n_seen];
		if (r->v && p.ids[at] == vision_token(r->v)) {
			const json_t *name = json_array_get(names, image++);
			p.views[p.n_seen] = see(r, json_string_value(name));
		} else if (p.ids[at] == sound_token(r->s)) {
			const json_t *n = json_array_get(lengths, sound++);
			p.views[p.n_seen] = hear(r->s, (int32_t)json_integer_value(n));
		} else {
			at++;
			continue;
		}
		*to = p.views[p.n_seen++]->image;
		to->at = at;
		at += to->n;
	}
	return p;
}

static void prompt_free(struct prompt *p)
{
	for (int i = 0; i < p->n_seen; i++)
		tower_view_unref(p->views[i]);
}

static struct engine_prompt prompt_of(const struct prompt *p)
{
	return (struct engine_prompt){.tokens = p->ids, .n = p->n, .images = p->seen,
				      .n_images = p->n_seen, .space = p->space};
}

/* As rows_run. */
static float *run(struct rig *r, const struct prompt *p, int each, int *out_cached)
{
	const struct engine_prompt ep = prompt_of(p);
	return rows_run(r->e, &ep, each, out_cached);
}

static json_t *read_cases(const struct rig *r)
{
	struct buf text = golden_read(r->dir, "hear.json");
	json_t *all = json_loads(text.p, 0, NULL);
	buf_deinit(&text);
	return all;
}

/* Without images only the prompts that have sounds alone. */
static void test_prompts(struct rig *r, const char *how, double most)
{
	json_t *all = read_cases(r);
	const json_t *cases = json_object_get(all, "cases"), *c;
	double worst = 0;
	size_t i;
	int n = 0;
	json_array_foreach(cases, i, c) {
		if (!r->v && json_array_size(json_object_get(c, "images")))
			continue;
		struct prompt p = prompt_read(r, c);
		int cached = 0;
		float *logits = run(r, &p, 64, &cached);
		const json_t *want = json_object_get(c, "prompt_logprobs");
		for (int k = cached; k + 1 < p.n; k++, n++)
			worst = worse_of(
				worst, fabs(rows_logprob(logits, k - cached, p.ids[k + 1]) -
					    json_number_value(json_array_get(want, (size_t)k))));
		const json_t *first = json_array_get(json_object_get(c, "steps"), 0), *t;
		size_t j;
		json_array_foreach(json_object_get(first, "top"), j, t) {
			int32_t id = (int32_t)json_integer_value(json_array_get(t, 0));
			double d = rows_logprob(logits, p.n - 1 - cached, id);
			worst = worse_of(worst, fabs(d - json_number_value(json_array_get(t, 1))));
		}
		free(logits);
		prompt_free(&p);
	}
	ok(n > 30 && worst < most, "%s: %d log-probabilities: largest difference %.1e", how, n,
	   worst);
	json_decref(all);
}

/* A prompt is found again with the same bits, and no other sound in its place. */
static void test_cache(struct rig *r)
{
	json_t *all = read_cases(r);
	struct prompt p = prompt_read(r, json_array_get(json_object_get(all, "cases"), 1));
	int cached, begun, size = engine_page_size(r->e);
	p.space = STR("cache");
	float *first = run(r, &p, 19, &begun), *again = run(r, &p, 7, &cached);
	is_int(cached, (p.n - 1) / size * size, "all of a prompt is found again");
	ok(memcmp(again, first + (size_t)(cached - begun) * ROWS_VOCAB,
		  (size_t)(p.n - cached) * ROWS_VOCAB * sizeof *again) == 0,
	   "with the same bits, in other steps");
	for (int i = 0; i < p.n_seen; i++) {
		struct prompt other = p;
		other.seen[i].hash[31] ^= 1;
		const struct engine_prompt ep = prompt_of(&other);
		struct engine_seq *s = engine_seq_create_in(r->e, &ep, &cached);
		ok(cached <= p.seen[i].at / size * size, "with another at %d: %d are found",
		   (int)p.seen[i].at, cached);
		engine_seq_destroy(r->e, s);
	}
	free(first);
	free(again);
	prompt_free(&p);
	json_decref(all);
}

/* --- clips ------------------------------------------------------------------------------ */

struct listener {
	struct rig *r;
	int32_t n;
	struct tower_view *w;
};

static void *listen_in(void *arg)
{
	struct listener *l = arg;
	float *mel = golden_mel(l->n);
	/* Owners of their own, so that nobody's view is found. */
	const struct sound_clip c = {.mel = mel, .n_frames = l->n, .owner = (uint64_t)l->n};
	if (sound_hear(l->r->s, &c, &l->w, NULL) != OK)
		l->w = NULL;
	free(mel);
	return NULL;
}

static void test_together(struct rig *r)
{
	/* The first and the last are one clip: whoever comes second takes the other's. */
	struct listener l[] = {{.r = r, .n = 1010}, {.r = r, .n = 57}, {.r = r, .n = 1010}};
	pthread_t threads[ARRAY_LEN(l)];
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		pthread_create(&threads[i], NULL, listen_in, &l[i]);
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		pthread_join(threads[i], NULL);
	ok(l[0].w == l[2].w, "two calls with one clip have one view");
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		struct tower_view *alone = hear(r->s, l[i].n);
		const struct engine_image *m = &alone->image;
		ok(l[i].w && memcmp(l[i].w->image.rows, m->rows,
				    (size_t)m->n * WIDTH * sizeof *m->rows) == 0,
		   "clip %zu has the bits that it has alone", i);
		tower_view_unref(alone);
		tower_view_unref(l[i].w);
	}
}

static void test_views(struct rig *r)
{
	struct tower_view *a = hear(r->s, 130), *b = hear(r->s, 130), *c = NULL, *d;
	_Atomic bool is_gone = true;
	struct fail fail = {0};
	float *mel = golden_mel(200);
	struct sound_clip clip = {.mel = mel, .n_frames = 130};
	mel[5] += 1;
	ok(sound_hear(r->s, &clip, &c, &fail) == OK, "another clip as long %s", fail.text);
	ok(a == b && a != c, "the second time is the first, another clip is not");
	ok(memcmp(a->image.hash, c->image.hash, 32) != 0 &&
		   memcmp(a->image.rows, c->image.rows,
			  WIDTH * sizeof(float)) != 0,
	   "it is another sound");
	is_int(sound_tokens(r->s, 0), 0, "no frames, no tokens");
	is_int(sound_tokens(r->s, 30000), 3900, "five minutes");
	clip = (struct sound_clip){.mel = mel, .n_frames = 200, .is_gone = &is_gone};
	is_int(sound_hear(r->s, &clip, &d, &fail), E_CANCELLED, "a client that went away");
	clip = (struct sound_clip){.mel = mel};
	is_int(sound_hear(r->s, &clip, &d, &fail), E_INVAL, "no frames: %s", fail.text);
	clip.n_frames = 200;
	mel[777] = NAN;
	is_int(sound_hear(r->s, &clip, &d, &fail), E_INVAL, "no number: %s", fail.text);
	is_int(sound_format(r->s)->n_mels, GOLDEN_MELS, "numbers of a frame");
	is_int(sound_format(r->s)->least, 0, "a clip may be as short as it is");
	free(mel);
	tower_view_unref(a);
	tower_view_unref(b);
	tower_view_unref(c);
}

/* The bytes of a file that was heard lead to its view, for the same owner alone. */
static void test_files(struct rig *r)
{
	struct fail fail = {0};
	struct sound_file one, two;
	struct tower_view *a = hear(r->s, 130), *w = NULL;
	int64_t us = 0;
	is_int(sound_file_of(STR("RIFF"), 0, &one, &fail), OK, "a file");
	ok(!sound_recall(r->s, &one, &w, &us), "which was not heard yet");
	sound_keep(r->s, &one, a, 1300);
	ok(sound_recall(r->s, &one, &w, &us) && w == a && us == 1300, "now it was");
	tower_view_unref(w);
	is_int(sound_file_of(STR("RIFF"), 7, &two, &fail), OK, "another owner's");
	ok(!sound_recall(r->s, &two, &w, &us), "is not");
	is_int(sound_file_of(STR("RIFX"), 0, &two, &fail), OK, "and another file");
	ok(!sound_recall(r->s, &two, &w, &us), "neither");
	struct tower_view *gone = tower_view_new(0);
	sound_keep(r->s, &two, gone, 1300);
	ok(!sound_recall(r->s, &two, &w, &us), "nor is one whose view has gone");
	tower_view_unref(gone);
	tower_view_unref(a);
}

/* The tower and its work are asked for before it is loaded, and counted. */
static void test_memory(struct rig *r)
{
	struct fail fail = {0};
	struct sound *s = NULL;
	struct sound_tower *t = NULL;
	struct sound_config c;
	bool has_tower;
	struct memory_ledger ledger = {.device = {1 << 30, 1 << 30, true, "a box"},
				       .system = {1 << 30, 1 << 30, true, "a box"}};
	struct sound_opts o = {.model = r->m, .backend = {.name = "cpu", .n_threads = 1},
			       .cache_bytes = 1 << 20, .ledger = &ledger};
	int64_t weights = sound_tower_weight_bytes(r->m->tensors);
	ok(sound_create(&o, &s, &fail) == OK, "it fits %s", fail.text);
	ok(weights > 30000 && ledger.device_taken > weights + (1 << 20) + 100000,
	   "weights, work and cache are counted: %lld", (long long)ledger.device_taken);
	sound_destroy(s);
	ledger.system_taken = ledger.system.free - (1 << 26);
	is_int(sound_create(&o, &s, &fail), E_CONFIG, "others took the rest: %s", fail.text);
	is_str(fail.param, "audio", "the key to change");
	ok(sound_config_read(r->m, NULL, &c, &has_tower, &fail) == OK && has_tower,
	   "settings are read");
	c.ffn_dim = 56;
	is_int(sound_tower_create(r->m->tensors, r->b, &c, &t, &fail), E_FORMAT, "%s", fail.text);
}

/* --- settings --------------------------------------------------------------------------- */

/* The model's settings, one of which is `value`. */
static enum status read_with(struct rig *r, const char *key, json_t *value, struct fail *fail)
{
	char dir[] = "/tmp/halod-sound-XXXXXX", *own = r->m->dir;
	struct sound_config c;
	bool has_tower;
	struct buf text = golden_read(r->dir, "config.json");
	json_t *root = json_loads(text.p, 0, NULL);
	json_t *thinker = json_object_get(root, "thinker_config") ?: root;
	bool is_outer = strcmp(key, "audio_token_id") == 0 ||
			strcmp(key, "projector_hidden_act") == 0;
	if (!mkdtemp(dir))
		return E_IO;
	json_t *extractor = json_pack("{s:O}", key, value);
	json_object_set_new(is_outer ? thinker : json_object_get(thinker, "audio_config"), key,
			    value);
	char *path = file_join(dir, "config.json");
	char *other = file_join(dir, "preprocessor_config.json");
	json_dump_file(root, path, 0);
	json_dump_file(extractor, other, 0);
	json_decref(extractor);
	r->m->dir = dir;
	enum status st = sound_config_read(r->m, NULL, &c, &has_tower, fail);
	r->m->dir = own;
	unlink(path);
	unlink(other);
	rmdir(dir);
	free(path);
	free(other);
	json_decref(root);
	buf_deinit(&text);
	return st;
}

struct setting {
	const char *key;
	json_t *value;
	enum status want;
};

static void check_settings(struct rig *r, const struct setting *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fail fail = {0};
		is_int(read_with(r, cases[i].key, cases[i].value, &fail), cases[i].want, "%s: %s",
		       cases[i].key, fail.text);
	}
}

static void test_settings(struct rig *r)
{
	const struct setting cases[] = {
		     {"activation_function", json_string("relu"), E_UNSUPPORTED},
		     {"n_window", json_integer(100), E_UNSUPPORTED},
		     {"n_window_infer", json_integer(99), E_UNSUPPORTED},
		     {"n_window_infer", json_integer(1 << 20), E_FORMAT},
		     {"encoder_attention_heads", json_integer(3), E_UNSUPPORTED},
		     {"downsample_hidden_size", json_integer(12), E_UNSUPPORTED},
		     {"d_model", json_null(), E_MISSING},
		     {"encoder_layers", json_integer(0), E_FORMAT},
		     {"num_mel_bins", json_integer(80), E_FORMAT},
		     {"output_dim", json_integer(64), E_FORMAT},
		     {"audio_token_id", json_integer(512), E_FORMAT},
		     {"audio_token_id", json_null(), E_MISSING},
		     {"hop_length", json_integer(200), E_UNSUPPORTED},
		     {"sampling_rate", json_integer(8000), E_UNSUPPORTED},
		     {"feature_size", json_integer(80), E_FORMAT},
		     {"n_window_infer", json_integer(800), OK}};
	check_settings(r, cases, ARRAY_LEN(cases));
}

/* --- Qwen3-ASR ---------------------------------------------------------------------------- */

static void test_asr(const char *name, const struct backend_opts *bo)
{
	struct rig r = rig_open(name, bo, false);
	test_rows(&r, name, 1e-4, false);
	test_prompts(&r, name, TOLERANCE);
	is_int(sound_format(r.s)->least, 8000, "%s: samples of a clip at least", name);
	ok(sound_tower_weight_bytes(r.m->tensors) > 40000, "%s: weights are counted: %lld", name,
	   (long long)sound_tower_weight_bytes(r.m->tensors));
	rig_close(&r);
}

/* --- Voxtral ------------------------------------------------------------------------------ */

static void test_voxtral_settings(struct rig *r)
{
	const struct setting cases[] = {
		{"activation_function", json_string("relu"), E_UNSUPPORTED},
		{"projector_hidden_act", json_string("relu"), E_UNSUPPORTED},
		{"num_attention_heads", json_integer(3), E_UNSUPPORTED},
		{"intermediate_size", json_integer(136), E_UNSUPPORTED},
		{"intermediate_size", json_integer(24), E_UNSUPPORTED},
		{"max_source_positions", json_integer(61), E_UNSUPPORTED},
		{"max_source_positions", json_integer(1 << 20), E_FORMAT},
		{"num_mel_bins", json_integer(124), E_UNSUPPORTED},
		{"num_mel_bins", json_integer(80), E_FORMAT},
		{"hidden_size", json_null(), E_MISSING},
		{"num_hidden_layers", json_integer(0), E_FORMAT},
		{"audio_token_id", json_null(), E_MISSING},
		{"hop_length", json_integer(200), E_UNSUPPORTED},
		{"max_source_positions", json_integer(1500), OK}};
	check_settings(r, cases, ARRAY_LEN(cases));
}

/* A clip is whole windows, each of which the tower runs alone. */
static void test_windows(struct rig *r)
{
	struct fail fail = {0};
	struct tower_view *w = NULL;
	float *mel = golden_mel(240);
	is_int(sound_filled(r->s, 1), 19200, "a short clip is a window");
	is_int(sound_filled(r->s, 19200), 19200, "a window is one");
	is_int(sound_filled(r->s, 19201), 38400, "and more are two");
	is_int(sound_tokens(r->s, 480), 60, "four windows");
	is_int(sound_hear(r->s, &(struct sound_clip){.mel = mel, .n_frames = 130}, &w, &fail),
	       E_INVAL, "a part of a window: %s", fail.text);
	struct tower_view *two = hear(r->s, 240);
	for (int32_t i = 0; i < GOLDEN_MELS; i++) /* the second window, alone */
		memmove(mel + i * 120, mel + i * 240 + 120, 120 * sizeof *mel);
	is_int(sound_hear(r->s, &(struct sound_clip){.mel = mel, .n_frames = 120}, &w, NULL), OK,
	       "a window alone");
	ok(w && memcmp(w->image.rows, two->image.rows + 15 * WIDTH,
		       15 * WIDTH * sizeof *w->image.rows) == 0, "has the bits that it has behind "
	   "another");
	free(mel);
	tower_view_unref(w);
	tower_view_unref(two);
}

static void test_voxtral(const struct backend_opts *exact, const struct backend_opts *fast)
{
	struct rig r = rig_open(VOXTRAL, exact, false);
	test_rows(&r, "Voxtral", 1e-4, false);
	test_prompts(&r, "Voxtral", TOLERANCE);
	test_windows(&r);
	test_voxtral_settings(&r);
	ok(sound_tower_weight_bytes(r.m->tensors) > 90000, "weights are counted: %lld",
	   (long long)sound_tower_weight_bytes(r.m->tensors));
	rig_close(&r);
	r = rig_open(VOXTRAL, fast, false);
	test_rows(&r, "Voxtral, fast", 0.02, true);
	test_prompts(&r, "Voxtral, fast", ROUGH);
	rig_close(&r);
	if (!*fibers()) {
		ok(true, "# SKIP libhip_cpu.so is not built");
		return;
	}
	const struct backend_opts hip = {.name = "hip", .hip_library = fibers()};
	r = rig_open(VOXTRAL, &hip, false);
	is_str(sound_note(r.s), "", "nothing of Voxtral's tower is left to the CPU");
	test_rows(&r, "Voxtral, hip", HALVES, true);
	test_prompts(&r, "Voxtral, hip", ROUGH);
	rig_close(&r);
}

int main(void)
{
	const struct backend_opts exact = {.name = "cpu", .n_threads = 2, .exact = true};
	const struct backend_opts fast = {.name = "cpu", .n_threads = 2};
	struct rig r = rig_open(OMNI, &exact, true);
	test_rows(&r, "exact", 1e-4, false);
	test_prompts(&r, "exact", TOLERANCE);
	test_cache(&r);
	test_views(&r);
	test_files(&r);
	test_together(&r);
	test_memory(&r);
	test_settings(&r);
	rig_close(&r);
	r = rig_open(OMNI, &exact, false);
	test_prompts(&r, "exact, without images", TOLERANCE);
	rig_close(&r);
	test_asr("qwen3asr", &exact);
	test_asr("qwen3asr-hf", &exact);
	test_voxtral(&exact, &fast);
	r = rig_open(OMNI, &fast, true);
	test_rows(&r, "fast", 0.02, false);
	test_prompts(&r, "fast", ROUGH);
	rig_close(&r);
	if (*fibers()) {
		const struct backend_opts hip = {.name = "hip", .hip_library = fibers()};
		r = rig_open(OMNI, &hip, true);
		is_str(sound_note(r.s), "", "nothing of the tower is left to the CPU");
		test_rows(&r, "hip", HALVES, true);
		test_prompts(&r, "hip", ROUGH);
		rig_close(&r);
	} else {
		ok(true, "# SKIP libhip_cpu.so is not built");
	}
	return tap_done();
}
