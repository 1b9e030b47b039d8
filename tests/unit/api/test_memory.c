/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies for whose reading the system refuses memory at one place, at each place in turn, or whose
 * budget ends there: what is made then is thrown away, and nothing else happens. Nothing of it
 * stays in the stores of ids and of grammars: the same body gets its answer behind each refusal.
 */
#include "api/api.h"
#include "base/alloc.h"
#include "base/work.h"
#include "json/json_text.h"
#include "tests/unit/api/fixture.h"

static long n_asked, n_given; /* allocations whose size a request chooses; how many succeed */

void *__real_alloc_try(void *p, size_t n);
void *__real_alloc_or_drop(void *p, size_t n);
void *__wrap_alloc_try(void *p, size_t n);
void *__wrap_alloc_or_drop(void *p, size_t n);

static bool is_refused(void)
{
	return n_asked++ == n_given;
}

void *__wrap_alloc_try(void *p, size_t n)
{
	if (!is_refused())
		return __real_alloc_try(p, n);
	work_lose_memory();
	return NULL;
}

void *__wrap_alloc_or_drop(void *p, size_t n)
{
	return is_refused() && work_lose_memory() ? NULL : __real_alloc_or_drop(p, n);
}

struct ask {
	const char *what;
	const struct dialect *dialect; /* NULL: `text` answers */
	api_text_fn text;
	const char *body;
};

/* What a call asks of the engine: ids of its prompts, and how large its grammars are. */
static void add_request(struct api_call *c, struct buf *out)
{
	const struct request *r = api_call_request(c);
	for (int i = 0; i < r->n_prompts; i++)
		buf_add(out, r->prompts[i].p, r->prompts[i].n * sizeof *r->prompts[i].p);
	buf_addf(out, " %zu %zu", r->grammar ? grammar_size(r->grammar) : 0,
		 r->call_grammar ? grammar_size(r->call_grammar) : 0);
}

/* One try, as http/conn_call.c does it. False: the request was not to be ended. */
static bool try_once(const struct api *a, const struct ask *q, struct buf *out)
{
	struct work_budget w;
	struct fail fail = {0};
	struct api_call *c = NULL;
	const struct api_input in = {.dialect = q->dialect, .body = str_of(q->body),
				     .request_id = "r1", .arrival_us = 1000};
	n_asked = 0;
	work_begin(&w, 100000000);
	enum status st = q->text ? q->text(a, &in, out, &fail)
				 : api_call_create(a, &in, &c, &fail);
	work_end();
	if (st == OK && c) {
		if (!w.has_no_memory)
			add_request(c, out);
		fixture_drop(c);
	}
	if (w.has_no_memory)
		return work_fail(&w, &fail) && fail.code == E_NOMEM;
	n_given = -1; /* nothing was refused: that was the last place */
	return st == OK;
}

/* Tries with empty stores, refused memory at place `at`; then once more, refused nothing, for the
 * answer. False: there is no such place. */
static bool try_twice(const struct ask *q, long at, struct buf *out, bool *is_fine)
{
	struct api *a = fixture_api_of(fixture_model());
	struct buf first = {0};
	n_given = at;
	*is_fine &= try_once(a, q, &first);
	bool was_refused = n_given >= 0;
	n_given = -1;
	*is_fine &= try_once(a, q, out);
	buf_deinit(&first);
	api_destroy(a);
	return was_refused;
}

static void test_ask(const struct ask *q)
{
	struct buf want = {0}, got = {0};
	bool is_fine = true, is_right = true;
	long n = 0;
	try_twice(q, -1, &want, &is_fine);
	for (long at = 0; try_twice(q, at, &got, &is_fine); at += 1 + n / 1000, n++) {
		is_right &= want.n > 0 && str_eq(buf_str(&got), buf_str(&want));
		buf_deinit(&got);
	}
	buf_deinit(&got);
	buf_deinit(&want);
	ok(is_fine && n > 5, "%s: refused at %ld places, each time this request alone ends",
	   q->what, n);
	ok(is_right, "%s: behind each it is answered as ever", q->what);
}

/* The same with a budget that ends at any place. */
static void test_budget(const struct api *a, const struct ask *q)
{
	enum status st = E_LIMIT;
	bool is_fine = true;
	for (size_t units = 0; st != OK && units < 100000000; units += 1 + units / 50) {
		struct work_budget w;
		struct fail fail = {0};
		struct buf out = {0};
		struct api_call *c = NULL;
		const struct api_input in = {.dialect = q->dialect, .body = str_of(q->body),
					     .request_id = "r1", .arrival_us = 1000};
		work_begin(&w, units);
		st = q->text ? q->text(a, &in, &out, &fail)
			     : api_call_create(a, &in, &c, &fail);
		work_end();
		if (c)
			fixture_drop(c);
		buf_deinit(&out);
		is_fine &= st == OK || (status_http(st) == 400 && w.is_over);
	}
	ok(is_fine && st == OK, "%s: refused wherever its budget ends", q->what);
}

#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":" \
	"\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^[a-z]{1,9}$\"}}}}}"
#define LONG "Tell me of the sea, of what it does, and of all the ships that went out on it. "
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"

int main(void)
{
	static const char chat[] =
		"{\"messages\":[{\"role\":\"system\",\"content\":\"\\u00e9\"}," USER("hi") ","
		"{\"role\":\"assistant\",\"content\":\"ho\",\"tool_calls\":[{\"id\":\"1\",\"type\":"
		"\"function\",\"function\":{\"name\":\"f\","
		"\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
		"\"tool_call_id\":\"1\",\"content\":\"x\"}," USER("more") "],\"tools\":[" TOOL "],"
		"\"logit_bias\":{\"5\":1},\"stop\":[\"x\"]}";
	static const struct ask asks[] = {
		{"a chat", &dialect_chat, NULL, chat},
		{"a text that is remembered", &dialect_chat, NULL,
		 "{\"messages\":[" USER(LONG LONG LONG LONG) ",{\"role\":\"assistant\","
		 "\"content\":\"" LONG LONG LONG LONG LONG "\"}," USER("more") "]}"},
		{"a tool that must be called", &dialect_chat, NULL,
		 "{\"messages\":[" USER("x") "],\"tools\":[" TOOL "],"
		 "\"tool_choice\":\"required\"}"},
		{"a schema", &dialect_chat, NULL, "{\"messages\":[" USER("x") "],\"guided_json\":"
		 "{\"anyOf\":[{\"enum\":[\"a\",1]},{\"type\":\"object\",\"required\":[\"b\"]}]}}"},
		{"a completion", &dialect_completion, NULL,
		 "{\"prompt\":[[1,2,3],[4,5]],\"n\":2,\"guided_regex\":\"[a-z]{2,4}\"}"},
		{"tokens", NULL, api_tokenize,
		 "{\"content\":\"a\\u0301 \\u00e9 12 <|im_start|>\",\"with_pieces\":true}"},
		{"a text", NULL, api_detokenize, "{\"tokens\":[1,2,300]}"},
		{"a prompt", NULL, api_apply_template, chat},
	};
	json_text_init();
	n_given = -1;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		test_ask(&asks[i]);
		test_budget(fixture_api(), &asks[i]);
	}
	return tap_done();
}
