/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include "base/alloc.h"
#include "http/conn.h"
#include "tests/tap.h"

static enum status find(const char *method, const char *target,
			const struct route **r, struct str *tail)
{
	return route_find(str_of(method), route_path(target), r, tail);
}

static void test_found(void)
{
	const struct route *r = NULL;
	struct str tail;
	is_int(find("GET", "/health", &r, &tail), OK, "GET /health");
	ok(r->handler == page_health && r->flags == (ROUTE_OPEN | ROUTE_PROBE), "its handler");
	is_int(find("HEAD", "/health", &r, &tail), OK, "HEAD goes where GET goes");
	is_int(find("POST", "/v1/chat/completions", &r, &tail), OK, "chat");
	ok(r->dialect == &dialect_chat && (r->flags & ROUTE_WORK), "is work");
	is_int(find("POST", "/tokenize", &r, &tail), OK, "a text function");
	ok(!r->dialect && r->text == api_tokenize && (r->flags & ROUTE_READY), "is itself");
	is_int(find("GET", "/v1/models/org/name:x", &r, &tail), OK, "a model");
	ok(r->handler == page_model && str_is(tail, "org/name:x"),
	   "its id may have slashes");
	is_int(find("GET", "/v1/models", &r, &tail), OK, "the list of models");
	ok(r->handler == page_models && tail.n == 0, "has no tail");
	is_int(find("GET", "/v1/models/", &r, &tail), OK, "a slash at the end");
	ok(r->handler == page_models && tail.n == 0, "changes nothing");
	is_int(find("GET", "/v1/responses/x/", &r, &tail), OK, "nor behind an id");
	ok(r->handler == page_response && str_is(tail, "x"), "whose text it does not become");
	is_int(find("GET", "/", &r, &tail), OK, "the page");
	is_int(find("GET", "http://health", &r, &tail), OK, "a host without a path is the page");
	ok(r->handler == page_root && r->flags == ROUTE_OPEN, "needs no key");
	is_int(find("GET", "http://h:1/health", &r, &tail), OK, "absolute form");
	ok(r->handler == page_health, "goes by its path");
}

static void test_not_found(void)
{
	static const char *const targets[] = {
		"", "*", "health", "/healthy", "/health//", "/v1", "//health", "//",
		"://health", "/v1/chat/completions//",
		"/v1/modelsx"};
	const struct route *r = NULL;
	struct str tail;
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		is_int(find("GET", targets[i], &r, &tail), E_NOT_FOUND,
		       "nothing at \"%s\"", targets[i]);
	is_int(find("DELETE", "/health", &r, &tail), E_METHOD, "no DELETE");
	is_int(find("get", "/health", &r, &tail), E_METHOD, "methods have a case");
	is_int(find("HEAD", "/v1/completions", &r, &tail), E_METHOD,
	       "no HEAD where there is no GET");
	ok(r == NULL, "nothing is written then");
}

static void is_allow(const char *path, const char *want)
{
	struct buf b = {0};
	route_allow(str_of(path), &b);
	is_str(b.p ? b.p : "", want, "Allow of %s", path);
	buf_deinit(&b);
}

static void is_argument(const char *target, const char *want)
{
	struct str value = {"", 0};
	bool has_it = route_argument(str_of(target), "order", &value);
	char *text = xstrndup(value.p, value.n);
	is_str(has_it ? text : NULL, want, "order of %s", target);
	free(text);
}

int main(void)
{
	test_found();
	test_not_found();
	is_allow("/health", "GET, HEAD, OPTIONS");
	is_allow("/v1/completions", "POST, OPTIONS");
	is_allow("/v1/models/x", "GET, HEAD, OPTIONS");
	is_allow("*", "GET, HEAD, POST, DELETE, OPTIONS");
	is_allow("/nothing", "");
	is_argument("/x", NULL);
	is_argument("/x?", NULL);
	is_argument("/order", NULL);
	is_argument("/x?order", "");
	is_argument("/x?order=", "");
	is_argument("/x?order=asc", "asc");
	is_argument("/x?a&&b=order&order=a=b&order=c", "a=b");
	is_argument("/x?a?order=1&border=2&orders=3&Order=4", NULL);
	is_argument("http://h?order=asc", "asc");
	is_argument("/x?order=asc&", "asc");
	return tap_done();
}
