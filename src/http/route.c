/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include "base/alloc.h"
#include "http/conn.h"

static const struct route routes[] = {
#define BODY (ROUTE_READY | ROUTE_WORK)
#define ENDPOINT_CALL(path, name, flags, docs)                                           \
	{"POST", path, call_start, BODY | (flags), &dialect_##name, NULL},
#define ENDPOINT_TEXT(path, name, flags, docs)                                           \
	{"POST", path, call_start, BODY | (flags), NULL, api_##name},
#define ENDPOINT_PAGE(method, path, name, flags, docs)                                   \
	{#method, path, page_##name, flags, NULL, NULL},
#include "api/endpoint.def"
};

struct str route_path(const char *target)
{
	struct str t = str_of(target);
	ptrdiff_t scheme = str_find(t, STR("://"), 0);
	if (t.n == 0 || t.p[0] == '/' || scheme <= 0)
		return t;
	ptrdiff_t slash = str_find(t, STR("/"), (size_t)scheme + 3);
	if (slash < 0)
		return STR("/");
	return (struct str){t.p + slash, t.n - (size_t)slash};
}

bool route_argument(struct str target, const char *name, struct str *out_value)
{
	const char *at = memchr(target.p, '?', target.n);
	const char *end = target.p + target.n;
	for (; at && at < end; at = memchr(at, '&', (size_t)(end - at))) {
		at++;
		size_t n = 0, n_name = 0;
		while (at + n < end && at[n] != '&')
			n++;
		while (n_name < n && at[n_name] != '=')
			n_name++;
		if (!str_is((struct str){at, n_name}, name))
			continue;
		size_t skip = MIN(n_name + 1, n);
		*out_value = (struct str){at + skip, n - skip};
		return true;
	}
	return false;
}

static bool path_matches(const struct route *r, struct str path, struct str *tail)
{
	struct str want = str_of(r->path);
	ptrdiff_t star = str_find(want, STR("/*"), 0);
	*tail = (struct str){"", 0};
	if (star < 0)
		return str_eq(path, want);
	struct str front = {want.p, (size_t)star + 1};
	struct str end = {want.p + star + 2, want.n - (size_t)star - 2};
	if (path.n <= front.n + end.n || !str_starts(path, front) || !str_ends(path, end))
		return false;
	*tail = (struct str){path.p + front.n, path.n - front.n - end.n};
	return true;
}

static bool method_matches(const struct route *r, struct str method)
{
	return str_is(method, r->method) ||
	       (str_is(method, "HEAD") && strcmp(r->method, "GET") == 0);
}

static enum status find_route(struct str method, struct str path, const struct route **out,
			      struct str *out_tail)
{
	enum status status = E_NOT_FOUND;
	struct str tail;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!path_matches(&routes[i], path, &tail))
			continue;
		status = E_METHOD;
		if (!method_matches(&routes[i], method))
			continue;
		*out = &routes[i];
		*out_tail = tail;
		return OK;
	}
	return status;
}

/* A slash at the end of an address changes nothing. */
static struct str route_trim(struct str path)
{
	if (path.n > 2 && path.p[path.n - 1] == '/')
		path.n--;
	return path;
}

enum status route_find(struct str method, struct str path,
		       const struct route **out, struct str *out_tail)
{
	return find_route(method, route_trim(path), out, out_tail);
}

void route_allow(struct str path, struct buf *out)
{
	bool has_get = false, has_post = false, has_delete = false;
	struct str tail;
	path = route_trim(path);
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!str_is(path, "*") && !path_matches(&routes[i], path, &tail))
			continue;
		has_get |= strcmp(routes[i].method, "GET") == 0;
		has_post |= strcmp(routes[i].method, "POST") == 0;
		has_delete |= strcmp(routes[i].method, "DELETE") == 0;
	}
	if (has_get)
		buf_add_z(out, "GET, HEAD, ");
	if (has_post)
		buf_add_z(out, "POST, ");
	if (has_delete)
		buf_add_z(out, "DELETE, ");
	if (has_get || has_post)
		buf_add_z(out, "OPTIONS");
}
