/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiny encoders against Sentence Transformers (tests/golden/make_encoders.py): from texts to
 * ids, vectors and scores, exact and on the fast path, alone and in a batch.
 */
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/file.h"
#include "embed/embed.h"
#include "embed/encoder.h"
#include "tests/tap.h"
#include "tests/unit/created.h"

CREATED(embed, embed_load)

enum { MAX_TEXTS = 16 };

/* A model with its reference, and its texts as ids. */
struct reader {
	struct embed *e;
	json_t *reference;
	struct ids ids[MAX_TEXTS];
	size_t n, width;
};

static const char *path_of(const char *name)
{
	char path[200];
	snprintf(path, sizeof path, "tests/golden/readers/%s", name);
	return tap_src(path);
}

static bool open_reader(const char *name, enum embed_kind kind, bool is_exact,
			struct reader *out)
{
	struct fail fail = {0};
	const struct embed_opts o = {.dir = path_of(name), .name = name, .kind = kind,
				     .backend = {.name = "cpu", .n_threads = 2,
						 .exact = is_exact},
				     .n_ctx = 1 << 20};
	char *path = file_join(o.dir, "reference.json");
	*out = (struct reader){.reference = json_load_file(path, 0, NULL)};
	free(path);
	enum status st = embed_create(&o, &out->e, &fail);
	out->width = st == OK ? (size_t)embed_width(out->e) : 0;
	return ok(st == OK && out->reference, "%s is there %s", name, fail.text);
}

static void close_reader(struct reader *r)
{
	for (size_t i = 0; i < MAX_TEXTS; i++)
		ids_deinit(&r->ids[i]);
	json_decref(r->reference);
	embed_destroy(r->e);
}

static struct str str_at(const json_t *list, size_t i)
{
	const json_t *s = json_array_get(list, i);
	return (struct str){json_string_value(s), json_string_length(s)};
}

/* The largest difference of n numbers from the list `want`. */
static double distance(const float *x, const json_t *want, size_t n)
{
	double most = json_array_size(want) == n ? 0 : INFINITY;
	for (size_t i = 0; i < n; i++)
		most = worse_of(most, fabs((double)x[i] -
					   json_number_value(json_array_get(want, i))));
	return most;
}

static void read_texts(struct reader *r, const char *name)
{
	const json_t *texts = json_object_get(r->reference, "texts");
	const json_t *ids = json_object_get(r->reference, "ids");
	bool same = true;
	r->n = json_array_size(texts);
	for (size_t i = 0; i < r->n; i++) {
		struct marked m = {0};
		const json_t *want = json_array_get(ids, i);
		marked_add(&m, str_at(texts, i), TRUST_USER);
		same &= tokenizer_encode_alone(embed_model(r->e)->tokenizer, &m, &r->ids[i],
					       NULL) == OK &&
			r->ids[i].n == json_array_size(want);
		for (size_t k = 0; same && k < r->ids[i].n; k++)
			same = r->ids[i].p[k] == json_integer_value(json_array_get(want, k));
		marked_deinit(&m);
	}
	ok(same && r->n > 4, "%s: the ids of %zu texts", name, r->n);
}

/* Texts [first, first + n) to out. */
static bool run(struct reader *r, size_t first, size_t n, float *out)
{
	struct embed_text texts[MAX_TEXTS];
	struct fail fail = {0};
	for (size_t i = 0; i < n; i++)
		texts[i] = (struct embed_text){r->ids[first + i].p, (int32_t)r->ids[first + i].n,
					       out + i * r->width};
	enum status st = embed_run(r->e, &(struct embed_ask){.texts = texts, .n = n}, &fail);
	return ok(st == OK, "they run %s", fail.text);
}

static void check_vectors(const char *name, bool is_exact)
{
	struct reader r;
	if (!open_reader(name, EMBED_VECTORS, is_exact, &r))
		return;
	read_texts(&r, name);
	size_t size = r.n * r.width;
	float *all = xcalloc(size, sizeof *all), *alone = xcalloc(size, sizeof *alone);
	double most = 0, bound = is_exact ? 1e-5 : 1e-2;
	run(&r, 0, r.n, all);
	for (size_t i = 0; i < r.n; i++) {
		const json_t *want = json_array_get(json_object_get(r.reference, "vectors"), i);
		most = worse_of(most, distance(all + i * r.width, want, r.width));
		run(&r, i, 1, alone + i * r.width);
	}
	ok(most < bound, "%s: as Sentence Transformers, %s: %g", name,
	   is_exact ? "exact" : "fast", most);
	ok(memcmp(all, alone, size * sizeof *all) == 0, "%s: a batch has each text's bits", name);
	free(all);
	free(alone);
	close_reader(&r);
}

static bool is_zero(const float *x, size_t n)
{
	bool is = true;
	for (size_t i = 0; i < n; i++)
		is &= x[i] == 0;
	return is;
}

/* Texts that nobody waits for any more are not computed. */
static void check_gone(const char *name)
{
	struct reader r;
	_Atomic bool is_gone = true;
	struct fail fail = {0};
	if (!open_reader(name, EMBED_VECTORS, false, &r))
		return;
	read_texts(&r, name);
	float *out = xcalloc(r.width, sizeof *out);
	const struct embed_text text = {r.ids[0].p, (int32_t)r.ids[0].n, out};
	const struct embed_ask ask = {&text, 1, &is_gone};
	is_int(embed_run(r.e, &ask, &fail), E_CANCELLED, "%s", fail.text);
	ok(is_zero(out, r.width), "nothing was computed");
	atomic_store(&is_gone, false);
	is_int(embed_run(r.e, &ask, &fail), OK, "the next one is");
	ok(!is_zero(out, r.width), "and its vector is there");
	free(out);
	close_reader(&r);
}

static void check_scores(const char *name, bool is_exact)
{
	struct reader r;
	if (!open_reader(name, EMBED_SCORES, is_exact, &r))
		return;
	const json_t *documents = json_object_get(r.reference, "documents");
	const json_t *run_of = json_array_get(json_object_get(r.reference, "runs"), 0);
	const json_t *query = json_object_get(r.reference, "query");
	float scores[MAX_TEXTS];
	r.n = json_array_size(documents);
	for (size_t i = 0; i < r.n; i++) {
		struct marked m = {0};
		struct embed_pair pair = {.query = str_of(json_string_value(query)),
					  .document = str_at(documents, i)};
		embed_pair_text(r.e, &pair, &m);
		ok(tokenizer_encode_marked(embed_model(r.e)->tokenizer, &m, &r.ids[i], NULL) == OK,
		   "pair %zu", i);
		marked_deinit(&m);
	}
	run(&r, 0, r.n, scores);
	double most = distance(scores, json_object_get(run_of, "scores"), r.n);
	ok(most < (is_exact ? 1e-5 : 1e-2) && r.n > 3, "%s: scores, %s: %g", name,
	   is_exact ? "exact" : "fast", most);
	ok(!embed_takes_instruct(r.e), "it follows no instruction");
	close_reader(&r);
}

/* A model without a head that scores, and one that writes no vectors. */
static void check_refused(void)
{
	struct fail fail = {0};
	struct embed *e;
	struct embed_opts o = {.dir = path_of("xlm"), .name = "x", .kind = EMBED_SCORES,
			       .backend = {.name = "cpu", .n_threads = 1}, .n_ctx = 512};
	enum status st = embed_create(&o, &e, &fail);
	ok(st != OK && strstr(fail.text, "classifier.dense"), "refused: %s", fail.text);
	o.dir = path_of("xlm-reranker");
	o.kind = EMBED_VECTORS;
	st = embed_create(&o, &e, &fail);
	ok(st == E_UNSUPPORTED && strstr(fail.text, "modules.json"), "refused: %s", fail.text);
}

static const struct backend_ops *true_ops;
static int64_t n_taken;

static enum status counted_alloc(struct backend *b, size_t n, void **out)
{
	n_taken += (int64_t)n;
	return true_ops->alloc(b, n, out);
}

/* A step takes no more than was told before, of one long text and of many short ones. */
static void check_work(const char *name)
{
	enum { T = 60 };
	static const int32_t firsts[][T + 1] = {{0, T}, {0, 1, 2, 3, 20, 21, 40, T}};
	static const int32_t n_texts[] = {1, 7};
	const struct backend_opts bo = {.name = "cpu", .n_threads = 1};
	struct fail fail = {0};
	struct model *m;
	struct backend *b;
	struct encoder *e;
	int32_t ids[T];
	if (model_open(path_of(name), NULL, &m, &fail) != OK ||
	    backend_create(&bo, &b, &fail) != OK ||
	    encoder_create(m, b, &e, &fail) != OK) {
		ok(false, "%s: %s", name, fail.text);
		return;
	}
	float *rows = xmalloc(sizeof *rows * T * (size_t)m->config.d_model);
	struct backend_ops ops = *b->ops;
	true_ops = b->ops;
	ops.alloc = counted_alloc;
	for (int32_t i = 0; i < T; i++)
		ids[i] = i;
	for (size_t k = 0; k < ARRAY_LEN(n_texts); k++) {
		const struct encoder_batch in = {ids, firsts[k], n_texts[k]};
		int64_t told = encoder_work_bytes(&m->config, b, T, n_texts[k]);
		n_taken = 0;
		b->ops = &ops;
		enum status st = encoder_run(e, &in, rows, &fail);
		b->ops = true_ops;
		ok(st == OK && n_taken > 0 && n_taken <= told,
		   "%s: %d texts take %lld bytes of %lld", name, (int)n_texts[k],
		   (long long)n_taken, (long long)told);
	}
	free(rows);
	encoder_destroy(e);
	backend_destroy(b);
	model_close(m);
}

/* Weights and work are asked for before anything is loaded, and counted. */
static void check_memory(void)
{
	static const char *const names[] = {"xlm", "last"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct fail fail = {0};
		struct embed *e = NULL;
		struct memory_ledger ledger = {.device = {1 << 30, 1 << 30, true, "a box"},
					       .system = {1 << 30, 1 << 30, true, "a box"}};
		const struct embed_opts o = {.dir = path_of(names[i]), .name = names[i],
					     .backend = {.name = "cpu", .n_threads = 1},
					     .n_ctx = 128, .ledger = &ledger};
		ok(embed_create(&o, &e, &fail) == OK, "%s fits %s", names[i], fail.text);
		ok(e && ledger.device_taken > model_weight_bytes(embed_model(e)) &&
		   ledger.system_taken == ledger.device_taken, "%s: it is counted", names[i]);
		embed_destroy(e);
		e = NULL;
		ledger.system_taken = ledger.device_taken = ledger.system.free - (1 << 26);
		is_int(embed_create(&o, &e, &fail), E_CONFIG, "%s: others took the rest: %s",
		       names[i], fail.text);
		is_str(fail.param, "embedding_model", "the key to change");
	}
}

int main(void)
{
	check_work("gemma");
	check_work("bert");
	check_memory();
	static const char *const names[] = {"gemma", "xlm", "nomic", "bert"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		check_vectors(names[i], true);
		check_vectors(names[i], false);
	}
	check_gone("bert");
	check_scores("xlm-reranker", true);
	check_scores("xlm-reranker", false);
	check_refused();
	return tap_done();
}
