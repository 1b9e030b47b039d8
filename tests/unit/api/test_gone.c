/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings and scores are not computed for a client that is gone.
 */
#include "embed/embed.h"
#include "tests/unit/api/fixture.h"
#include "tests/unit/created.h"

CREATED(embed, embed_load)

static struct embed *reader(const char *folder, const char *name, enum embed_kind kind)
{
	struct embed *e;
	struct fail fail;
	const struct embed_opts o = {.dir = tap_src(folder), .name = name, .kind = kind,
				     .backend = {.name = "cpu", .n_threads = 1},
				     .n_ctx = 512};
	if (embed_create(&o, &e, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return e;
}

/* The call with its client gone, and then with one that waits. */
static void check(const struct api *a, api_text_fn fn, const char *body, const char *answer)
{
	_Atomic bool is_gone = true;
	const struct api_input in = {.body = str_of(body), .is_gone = &is_gone};
	struct buf out = {0};
	struct fail fail = {0};
	is_int(fn(a, &in, &out, &fail), E_CANCELLED, "nobody waits for %s: %s", answer, fail.text);
	is_int((long long)out.n, 0, "so there is no answer");
	atomic_store(&is_gone, false);
	is_int(fn(a, &in, &out, &fail), OK, "somebody does");
	buf_add_c(&out, '\0');
	ok(strstr(out.p, answer), "and gets %s", answer);
	buf_deinit(&out);
}

int main(void)
{
	struct embed *e = reader("tests/golden/readers/xlm", "e", EMBED_VECTORS);
	struct embed *own = reader("tests/golden/readers/last", "o", EMBED_VECTORS);
	struct embed *r = reader("tests/golden/readers/reranker", "r", EMBED_SCORES);
	struct api_opts o = {.model = fixture_model(), .model_name = "halo-tiny", .n_ctx = 512,
			     .embedder = e, .reranker = r, .n_slots = 1, .version = "1",
			     .system_fingerprint = "fp", .clock = &clock_monotonic};
	struct api *encoder = fixture_api_with(&o);
	o.embedder = own;
	struct api *decoder = fixture_api_with(&o);
	check(encoder, api_embeddings, "{\"input\":[\"one\",\"two\"]}", "\"embedding\":");
	check(decoder, api_embeddings, "{\"input\":\"one\"}", "\"embedding\":");
	check(decoder, api_rerank, "{\"query\":\"one\",\"documents\":[\"two\"]}",
	      "\"relevance_score\":");
	api_destroy(encoder);
	api_destroy(decoder);
	embed_destroy(e);
	embed_destroy(own);
	embed_destroy(r);
	return tap_done();
}
