/* SPDX-License-Identifier: Apache-2.0
 *
 * A tiny forced aligner against Hugging Face Transformers (tests/golden/make_aligner.py): words of
 * texts, logits of the tokens of time, times, and how times are made to go forward. And what is
 * refused: models of other kinds, languages, and more than the context holds.
 */
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>

#include "align/align.h"
#include "align/align_times.h"
#include "base/alloc.h"
#include "tests/tap.h"
#include "tests/unit/sound/hear.h"
#include "tests/unit/vision/golden.h"
#include "tests/unit/created.h"

CREATED(sound, sound_load_tower)

#define GOLDEN "tests/golden/vision/"
#define TOLERANCE 1e-4 /* of logits, exact */

enum { CLASSES = 100, TIME = 510 };

static const struct backend_opts exact = {.name = "cpu", .n_threads = 2, .exact = true};

static json_t *read_cases(const char *name)
{
	char *dir = xasprintf(GOLDEN "%s", name);
	struct buf b = golden_read(dir, "align.json");
	json_t *root = json_loadb(b.p, b.n, 0, NULL);
	buf_deinit(&b);
	free(dir);
	return root;
}

static enum status try_open(const char *name, int32_t n_ctx, struct align **out, struct fail *fail)
{
	char *dir = xasprintf(GOLDEN "%s", name);
	char *path = xstrdup(tap_src(dir));
	const struct align_opts o = {.dir = path, .backend = exact, .tower = exact,
				     .n_ctx = n_ctx};
	enum status st = align_open(&o, out, fail);
	if (st == OK)
		st = align_load(*out, fail);
	free(dir);
	free(path);
	return st;
}

static struct align *need(const char *name, int32_t n_ctx)
{
	struct align *a = NULL;
	struct fail fail = {0};
	if (try_open(name, n_ctx, &a, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return a;
}

/* --- what needs no model ----------------------------------------------------------------- */

static void test_words(const json_t *all)
{
	const json_t *c, *word;
	size_t i, k;
	json_array_foreach(json_object_get(all, "words"), i, c) {
		const json_t *text = json_array_get(c, 1), *want = json_array_get(c, 2);
		const char *language = json_string_value(json_array_get(c, 0));
		const struct str s = {json_string_value(text), json_string_length(text)};
		struct align_words w = {0};
		align_words_split(s, language, &w);
		is_int(w.n, json_array_size(want), "%s: as many words",
		       language ? language : "no language");
		json_array_foreach(want, k, word) {
			if (k >= w.n)
				break;
			struct str own = align_words_text(&w, k);
			ok(str_is(own, json_string_value(word)), "word %zu is \"%.*s\"", k,
			   (int)own.n, own.p);
			ok(w.p[k].begin < w.p[k].end && w.p[k].end <= s.n &&
				   (k == 0 || w.p[k - 1].end <= w.p[k].begin),
			   "and has a place in the text");
		}
		align_words_deinit(&w);
	}
}

static void test_mended(const json_t *all)
{
	const json_t *c;
	size_t i, k;
	int n_wrong = 0, n = 0;
	json_array_foreach(json_object_get(all, "mended"), i, c) {
		const json_t *from = json_array_get(c, 0), *to = json_array_get(c, 1), *v;
		double t[32];
		json_array_foreach(from, k, v)
			t[k] = json_number_value(v);
		align_times_mend(t, json_array_size(from));
		json_array_foreach(to, k, v) {
			n++;
			n_wrong += t[k] != json_number_value(v);
		}
	}
	ok(n > 100 && n_wrong == 0, "times go forward as in the reference: %d of %d differ",
	   n_wrong, n);
	align_times_mend(NULL, 0);
	double t[] = {0, 900, 800, 700, 50, 200};
	align_times_mend(t, ARRAY_LEN(t));
	ok(t[1] == 12 && t[2] == 25 && t[3] == 37, "whole ms between: %g %g %g", t[1], t[2], t[3]);
}

/* --- a pass ------------------------------------------------------------------------------ */

static void test_case(struct align *a, const json_t *c)
{
	const json_t *text = json_object_get(c, "text"), *want = json_object_get(c, "words"), *w;
	struct tower_view *v = hear(align_sound(a),
				    (int32_t)json_integer_value(json_object_get(c, "frames")));
	const struct align_ask ask = {.text = {json_string_value(text), json_string_length(text)},
				      .language = json_string_value(json_object_get(c, "language")),
				      .clip = &v->image};
	struct align_words out = {0};
	struct fail fail = {0};
	int n_right = 0;
	size_t i;
	is_int(align_run(a, &ask, &out, &fail), OK, "a pass %s", fail.text);
	json_array_foreach(want, i, w)
		n_right += i < out.n &&
			   str_is(align_words_text(&out, i),
				  json_string_value(json_array_get(w, 0))) &&
			   out.p[i].from_ms == json_integer_value(json_array_get(w, 1)) &&
			   out.p[i].to_ms == json_integer_value(json_array_get(w, 2));
	ok(out.n == json_array_size(want) && (size_t)n_right == out.n,
	   "%d of %zu words have the reference's times", n_right, json_array_size(want));
	align_words_deinit(&out);
	tower_view_unref(v);
}

/* The logits themselves, of the same prompts, in steps of a few tokens. */
static double worst_logit(const char *name, const json_t *cases)
{
	struct model *m = NULL;
	struct backend *b = NULL;
	struct sound *s = NULL;
	struct engine *e = NULL;
	char *dir = xasprintf(GOLDEN "%s", name);
	struct engine_opts eo = {.page_size = 8, .max_batch_tok = 64, .n_ctx = 512,
				 .gives_classes = true, .image_rules = sound_image_rules()};
	struct fail fail = {0};
	double worst = 0;
	enum status st = model_open(tap_src(dir), NULL, &m, &fail);
	const struct sound_opts so = {.model = m, .backend = exact};
	if (st == OK)
		st = sound_create(&so, &s, &fail);
	if (st == OK)
		st = backend_create(&exact, &b, &fail);
	if (st == OK)
		st = engine_create(m, b, &eo, &e, &fail);
	ok(st == OK, "%s as a model %s", name, fail.text);
	const json_t *c;
	size_t i;
	json_array_foreach(cases, i, c) {
		const json_t *ids = json_object_get(c, "ids"), *rows = json_object_get(c, "logits");
		int32_t tokens[512], n = (int32_t)json_array_size(ids);
		struct tower_view *v = hear(s, (int32_t)json_integer_value(
						       json_object_get(c, "frames")));
		struct engine_image clip = v->image;
		clip.at = 1;
		for (int32_t k = 0; k < n; k++)
			tokens[k] = (int32_t)json_integer_value(json_array_get(ids, (size_t)k));
		const struct engine_prompt p = {.tokens = tokens, .n = n, .images = &clip,
						.n_images = 1};
		int cached;
		struct engine_seq *seq = engine_seq_create_in(e, &p, &cached);
		st = engine_seq_reserve(e, seq, n);
		size_t row = 0;
		for (int32_t at = 0, each; at < n && st == OK; at += each) {
			each = MIN(64, n - at);
			const struct engine_slice slice = {.seq = seq, .tokens = tokens + at,
							   .n = each, .n_logits = each};
			st = engine_step(e, &slice, 1, &fail);
			for (int32_t k = 0; k < each && st == OK; k++) {
				const json_t *want = json_array_get(rows, row);
				if (tokens[at + k] != TIME || !want)
					continue;
				const float *own = engine_logits_row(e, 0, k);
				for (size_t j = 0; j < CLASSES; j++)
					worst = worse_of(worst, fabs((double)own[j] -
						json_number_value(json_array_get(want, j))));
				row++;
			}
		}
		ok(st == OK && row == json_array_size(rows), "%zu rows %s", row, fail.text);
		engine_seq_destroy(e, seq);
		tower_view_unref(v);
	}
	engine_destroy(e);
	backend_destroy(b);
	sound_destroy(s);
	model_close(m);
	free(dir);
	return worst;
}

static void test_model(const char *name)
{
	json_t *all = read_cases(name);
	const json_t *cases = json_object_get(all, "cases"), *c;
	struct align *a = need(name, 4096);
	size_t i;
	is_int(align_max_us(a), 8000000, "%s: classes for eight seconds", name);
	json_array_foreach(cases, i, c)
		test_case(a, c);
	align_destroy(a);
	double worst = worst_logit(name, cases);
	ok(worst < TOLERANCE, "%s: logits: largest difference %.1e", name, worst);
	json_decref(all);
}

/* --- what is refused ----------------------------------------------------------------------- */

static void test_refusals(void)
{
	struct align *a = NULL;
	struct fail fail = {0};
	struct align_words out = {0};
	is_int(try_open("qwen3asr", 4096, &a, &fail), E_CONFIG, "a model that transcribes: %s",
	       fail.text);
	a = need("qwen3aligner", 96);
	struct tower_view *v = hear(align_sound(a), 460);
	_Atomic bool is_gone = true;
	struct align_ask ask = {.text = STR("one"), .language = "Japanese", .clip = &v->image};
	is_int(align_run(a, &ask, &out, &fail), E_UNSUPPORTED, "%s", fail.text);
	ask.language = "Thai";
	is_int(align_run(a, &ask, &out, &fail), E_UNSUPPORTED, "%s", fail.text);
	ask.language = "English";
	ask.text = STR(" \xe2\x80\xa6 ");
	is_int(align_run(a, &ask, &out, &fail), OK, "no words");
	is_int(out.n, 0, "have no times");
	ask.text = STR("one two three four five six seven eight nine ten eleven twelve");
	is_int(align_run(a, &ask, &out, &fail), E_LIMIT, "%s", fail.text);
	align_words_deinit(&out);
	ask.text = STR("one");
	ask.is_gone = &is_gone;
	is_int(align_run(a, &ask, &out, &fail), E_CANCELLED, "a client that went away");
	align_words_deinit(&out);
	is_gone = false;
	is_int(align_run(a, &ask, &out, &fail), OK, "and the next one");
	is_int(out.n, 1, "has its word");
	align_words_deinit(&out);
	tower_view_unref(v);
	align_destroy(a);
}

/* Steps of time in Transformers' file. A clip is at most as long as 100 of them, or 300 s. */
static void test_step(void)
{
	static const char name[] = "processor_config.json";
	static const struct {
		struct str text; /* p NULL: there is no file */
		enum status want;
		int32_t max_s;
	} cases[] = {{STR("{\"timestamp_segment_time\": 40}"), OK, 4},
		     {STR("{\"timestamp_segment_time\": 10000}"), OK, 300},
		     {STR("{\"timestamp_segment_time\": 10001}"), E_FORMAT, 0},
		     {STR("{\"timestamp_segment_time\": 0}"), E_FORMAT, 0},
		     {STR("{\"timestamp_segment_time\": \"80\"}"), E_FORMAT, 0},
		     {STR("{"), E_FORMAT, 0},
		     {STR("{}"), OK, 8},
		     {{0}, OK, 8}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct align *a = NULL;
		struct fail fail = {0};
		char *dir = golden_copy(GOLDEN "qwen3aligner-hf", name, cases[i].text);
		const struct align_opts o = {.dir = dir, .backend = exact, .tower = exact,
					     .n_ctx = 64};
		is_int(align_open(&o, &a, &fail), cases[i].want, "%.*s: %s", (int)cases[i].text.n,
		       cases[i].text.p ? cases[i].text.p : "", fail.text);
		if (a)
			is_int(align_max_us(a), (int64_t)cases[i].max_s * 1000000,
			       "%d seconds at most", (int)cases[i].max_s);
		align_destroy(a);
		image_remove(dir);
	}
}

static void test_no_text(void)
{
	struct model *m = NULL;
	struct backend *b = NULL;
	struct memory_plan plan;
	struct fail fail = {0};
	const struct engine_opts asks[] = {{.n_ctx = 64}, {.n_ctx = 64, .gives_rows = true}};
	if (model_open(tap_src(GOLDEN "qwen3aligner"), NULL, &m, &fail) != OK ||
	    backend_create(&exact, &b, &fail) != OK)
		ok(false, "%s", fail.text);
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		is_int(engine_plan(m, b, &asks[i], &plan, &fail), E_UNSUPPORTED, "%s", fail.text);
		ok(strstr(fail.text, "aligner_model"), "names the setting");
	}
	backend_destroy(b);
	model_close(m);
}

int main(void)
{
	json_t *all = read_cases("qwen3aligner");
	test_words(all);
	test_mended(all);
	json_decref(all);
	test_model("qwen3aligner");
	test_model("qwen3aligner-hf");
	test_refusals();
	test_step();
	test_no_text();
	return tap_done();
}
