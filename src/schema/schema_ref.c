/* SPDX-License-Identifier: Apache-2.0
 *
 * References within a document. A first walk over the document notes the whole URI of
 * every $id and anchor. A reference is resolved to a whole URI with the base of its own
 * place, and looked up. Other documents are never fetched.
 */
#include <ctype.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"
#include "base/hex.h"

#define MAX_URI 2000

struct schema_ids {
	struct strmap index; /* URI to node number */
	struct strmap dynamic; /* $dynamicAnchor to the number of schemas that have it */
	const struct json_node **nodes;
	size_t n, cap;
};

void schema_ids_destroy(struct schema_ids *ids)
{
	if (!ids)
		return;
	strmap_deinit(&ids->index);
	strmap_deinit(&ids->dynamic);
	free(ids->nodes);
	free(ids);
}

/* --- URIs ------------------------------------------------------------------ */

/* Length of "scheme:"; 0: s has no scheme. */
static size_t scheme_bytes(struct str s)
{
	size_t n = 0;
	while (n < s.n && (isalnum((unsigned char)s.p[n]) || is_char_of(s.p[n], "+-.")))
		n++;
	return n > 0 && n < s.n && s.p[n] == ':' ? n + 1 : 0;
}

/* Length of "scheme://host", or of "scheme:". */
static size_t root_bytes(struct str s)
{
	size_t n = scheme_bytes(s);
	if (s.n - n >= 2 && memcmp(s.p + n, "//", 2) == 0)
		for (n += 2; n < s.n && s.p[n] != '/';)
			n++;
	return n;
}

/* Removes dot segments: "a/./b/../c" becomes "a/c". */
static void add_path(struct buf *out, size_t root, struct str path)
{
	for (size_t i = 0; i <= path.n;) {
		size_t end = i;
		while (end < path.n && path.p[end] != '/')
			end++;
		struct str step = {path.p + i, end - i};
		bool is_last = end >= path.n;
		if (str_is(step, "..")) {
			if (out->n > root && out->p[out->n - 1] == '/')
				out->n--;
			while (out->n > root && out->p[out->n - 1] != '/')
				out->n--;
		} else if (!str_is(step, ".")) {
			buf_add_str(out, step);
			if (!is_last)
				buf_add_c(out, '/');
		}
		i = end + 1;
	}
}

/* Resolves a reference against a base, without its fragment (RFC 3986, 5.2). */
static struct str join(struct schema_reader *x, struct str base, struct str ref)
{
	struct buf out = {0};
	ptrdiff_t hash = str_find(ref, STR("#"), 0);
	if (hash >= 0)
		ref.n = (size_t)hash;
	if (ref.n == 0 || ref.n + base.n > MAX_URI)
		return base;
	size_t root = root_bytes(base);
	if (scheme_bytes(ref)) {
		buf_add_str(&out, ref);
	} else if (ref.p[0] == '/') {
		buf_add(&out, base.p, root);
		add_path(&out, root, ref);
	} else {
		size_t dir = base.n;
		while (dir > root && base.p[dir - 1] != '/')
			dir--;
		buf_add(&out, base.p, dir);
		if (dir == root && root > 0 && base.n > 0 && base.p[root - 1] != ':')
			buf_add_c(&out, '/');
		add_path(&out, root, ref);
	}
	struct str kept = arena_str(&x->arena, buf_str(&out));
	buf_deinit(&out);
	return kept;
}

/* Up to draft 7 a reference has no siblings. The root keeps its $id, which names the document. */
static bool is_ref_alone(const struct schema_reader *x, const json_t *v)
{
	const json_t *draft = json_object_get(x->root.v, "$schema");
	return v != x->root.v && json_object_get(v, "$ref") && json_is_string(draft) &&
	       str_find(json_read_view(draft), STR("/draft-0"), 0) >= 0;
}

static struct str id_of(const struct schema_reader *x, const json_t *v)
{
	if (is_ref_alone(x, v))
		return STR("");
	const json_t *id = json_object_get(v, "$id");
	if (!id)
		id = json_object_get(v, "id"); /* draft 4 */
	return json_is_string(id) ? json_read_view(id) : STR("");
}

/* --- the walk ---------------------------------------------------------------- */

static void note(struct schema_reader *x, struct str base, struct str anchor,
		 const struct json_node *at)
{
	struct schema_ids *ids = x->ids;
	struct buf key = {0};
	uint32_t known;
	buf_add_str(&key, base);
	buf_add_c(&key, '#');
	buf_add_str(&key, anchor);
	if (!strmap_get(&ids->index, buf_str(&key), &known)) {
		if (ids->n == ids->cap) {
			ids->cap = ids->cap ? 2 * ids->cap : 16;
			ids->nodes = xrealloc(ids->nodes, ids->cap * sizeof *ids->nodes);
		}
		ids->nodes[ids->n] = at;
		strmap_put(&ids->index, arena_str(&x->arena, buf_str(&key)),
			   (uint32_t)ids->n++);
	}
	buf_deinit(&key);
}

enum schema_place {
	PLACE_SCHEMA, /* of a schema, or of a list of them */
	PLACE_NAMES,  /* of an object whose members are schemas */
	PLACE_VALUE,  /* of values that instances have */
	PLACE_OTHER,  /* of another value, or of a keyword that is not known */
};

static enum schema_place place_of(const char *key)
{
	static const char *const schemas[] = {
		"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems",
		"additionalItems", "unevaluatedItems", "contains", "additionalProperties",
		"unevaluatedProperties", "propertyNames", "contentSchema"};
	static const char *const names[] = {"properties", "patternProperties", "$defs",
					    "definitions", "dependentSchemas", "dependencies"};
	for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
		if (strcmp(key, schemas[i]) == 0)
			return PLACE_SCHEMA;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(key, names[i]) == 0)
			return PLACE_NAMES;
	bool is_value = strcmp(key, "enum") == 0 || strcmp(key, "const") == 0;
	return is_value ? PLACE_VALUE : PLACE_OTHER;
}

/* A walk again goes also where no schema should be: some tools keep theirs under keywords of their
 * own. What is noted already stands. */
enum schema_walk { WALK_FIRST, WALK_AGAIN, WALK_BEYOND /* where the first has not been */ };

static void walk(struct schema_reader *x, const struct json_node *at, struct str base,
		 bool is_schema, enum schema_walk how)
{
	static const char *const anchors[] = {"$anchor", "$dynamicAnchor"};
	const char *key;
	json_t *v;
	schema_work(x, 20);
	if (x->st != OK)
		return;
	for (size_t i = 0; json_is_array(at->v) && i < json_array_size(at->v); i++)
		walk(x, schema_item(x, at, i), base, true, how);
	if (!json_is_object(at->v))
		return;
	struct str id = is_schema ? id_of(x, at->v) : STR("");
	if (id.n > 1 && id.p[0] == '#')
		note(x, base, (struct str){id.p + 1, id.n - 1}, at); /* draft 7: an $id "#name" is
								      * an anchor */
	else if (id.n)
		note(x, base = join(x, base, id), STR(""), at);
	for (size_t i = 0; i < ARRAY_LEN(anchors) && is_schema; i++) {
		const json_t *name = json_object_get(at->v, anchors[i]);
		uint32_t count = 0;
		if (!json_is_string(name))
			continue;
		note(x, base, json_read_view(name), at);
		strmap_get(&x->ids->dynamic, json_read_view(name), &count);
		if (how != WALK_AGAIN)
			strmap_put(&x->ids->dynamic, json_read_view(name), count + (i == 1));
	}
	json_object_foreach((json_t *)at->v, key, v) {
		enum schema_place place = is_schema ? place_of(key) : PLACE_SCHEMA;
		if (place == PLACE_VALUE || (place == PLACE_OTHER && how == WALK_FIRST))
			continue;
		walk(x, schema_get(x, at, key), base, place != PLACE_NAMES,
		     place == PLACE_OTHER ? WALK_BEYOND : how);
	}
}

/* The base URI of a node's place. */
static struct str base_of(struct schema_reader *x, const struct json_node *at)
{
	struct str ids[100];
	size_t n = 0;
	for (const struct json_node *up = at; up && n < ARRAY_LEN(ids); up = up->up) {
		struct str id = id_of(x, up->v);
		if (id.n && id.p[0] != '#')
			ids[n++] = id;
	}
	struct str base = STR("");
	while (n > 0)
		base = join(x, base, ids[--n]);
	return base;
}

/* --- references ---------------------------------------------------------------- */

/* Decodes one step of a JSON pointer: ~0, ~1 and %XX. */
static char *read_step(struct schema_reader *x, const char *p, size_t n)
{
	char *out = arena_alloc(&x->arena, n + 1);
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		int byte = p[i] == '%' && i + 2 < n ? hex_pair(p + i + 1) : -1;
		out[k++] = byte >= 0 ? (char)byte : p[i];
		i += byte >= 0 ? 2 : 0;
	}
	size_t kept = 0;
	for (size_t i = 0; i < k; i++) {
		bool is_escape = out[i] == '~' && i + 1 < k &&
				 (out[i + 1] == '0' || out[i + 1] == '1');
		out[kept++] = !is_escape ? out[i] : out[i + 1] == '0' ? '~' : '/';
		i += is_escape;
	}
	out[kept] = '\0';
	return out;
}

/* Follows a JSON pointer, such as "/a/0/b", from a node. */
static const struct json_node *schema_ref_follow(struct schema_reader *x,
						 const struct json_node *at, struct str s)
{
	for (size_t i = 1; i < s.n + 1 && s.n > 0; i++) {
		size_t n = 0;
		while (i + n < s.n && s.p[i + n] != '/')
			n++;
		char *step = read_step(x, s.p + i, n);
		bool is_index = step[0] && strspn(step, "0123456789") == strlen(step);
		if (!json_is_array(at->v))
			at = schema_get(x, at, step);
		else if (is_index)
			at = schema_item(x, at, strtoul(step, NULL, 10));
		else
			at = schema_get(x, at, "");
		i += n;
	}
	return at;
}

static const struct json_node *find_id(struct schema_reader *x, struct str base,
				       struct str anchor)
{
	struct buf key = {0};
	uint32_t i = 0;
	if (!x->ids) {
		x->ids = xcalloc(1, sizeof *x->ids);
		strmap_init(&x->ids->index, 16);
		strmap_init(&x->ids->dynamic, 16);
		note(x, STR(""), STR(""), &x->root);
		walk(x, &x->root, STR(""), true, WALK_FIRST);
		walk(x, &x->root, STR(""), true, WALK_AGAIN);
	}
	buf_add_str(&key, base);
	buf_add_c(&key, '#');
	buf_add_str(&key, anchor);
	bool is_found = strmap_get(&x->ids->index, buf_str(&key), &i);
	buf_deinit(&key);
	return is_found ? x->ids->nodes[i] : NULL;
}

const struct json_node *schema_resolve(struct schema_reader *x,
				       const struct json_node *ref)
{
	struct str s = STR("");
	schema_check(x, json_read_need_str(ref, &s, x->fail));
	if (x->st != OK)
		return NULL;
	ptrdiff_t hash = str_find(s, STR("#"), 0);
	size_t at = hash >= 0 ? (size_t)hash + 1 : s.n;
	struct str fragment = {s.p + at, s.n - at};
	struct str base = join(x, base_of(x, ref->up), s);
	const struct json_node *node = NULL;
	/* a plain "#/…" needs no table of ids */
	if (s.n && s.p[0] == '#' && base.n == 0 && (!fragment.n || fragment.p[0] == '/'))
		node = schema_ref_follow(x, &x->root, fragment);
	else if (fragment.n && fragment.p[0] != '/')
		node = find_id(x, base, fragment);
	else if ((node = find_id(x, base, STR(""))))
		node = schema_ref_follow(x, node, fragment);
	/* An "id" inside the document starts a resource of its own, and the pointer belongs
	 * to that resource. But tools that bundle schemas of draft 4 mean the whole
	 * document. */
	if (x->st == OK && (!node || !node->v) && s.n > 1 && memcmp(s.p, "#/", 2) == 0)
		node = schema_ref_follow(x, &x->root, fragment);
	/* with several equal anchors, the target depends on the path of references to
	 * here */
	uint32_t n_same = 0;
	bool is_dynamic = strcmp(ref->key, "$dynamicRef") == 0 && fragment.n &&
			  find_id(x, base, fragment) &&
			  strmap_get(&x->ids->dynamic, fragment, &n_same) && n_same > 1;
	if (is_dynamic)
		schema_refuse(x, ref, "has %u places it may mean, which is not supported",
			      n_same);
	if (x->st == OK && (!node || !node->v)) {
		schema_refuse(x, ref, "refers to \"%.*s\", which is not there",
			      (int)MIN(s.n, 100), s.p);
		return NULL;
	}
	return x->st == OK ? node : NULL;
}
