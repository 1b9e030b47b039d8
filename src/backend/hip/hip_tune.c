/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_tune.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/moe/moe_launch.h"

enum { MAX_FILE = 1 << 20 };

static const struct {
	const char *name;
	int (*count)(void);
	const char *(*name_of)(int i);
} ops[] = {
	[HIP_TUNE_INT4] = {"int4", hip_linear_int4_count, hip_linear_int4_name},
	[HIP_TUNE_TILE] = {"tile", hip_linear_tile_count, hip_linear_tile_name},
	[HIP_TUNE_MOE_TILE] = {"moe-tile", hip_experts_tile_count, hip_experts_tile_name},
};

static bool read_row(const char *line, struct hip_tune_row *out)
{
	char op[16], name[32];
	int n, k, most = INT32_MAX, end = 0;
	if (sscanf(line, "%15s %d %d %31s %n", op, &n, &k, name, &end) != 4 || n < 1 || k < 1)
		return false;
	if (line[end]) {
		int more = 0;
		bool is_tile = strcmp(op, "tile") == 0 || strcmp(op, "moe-tile") == 0;
		if (!is_tile || sscanf(line + end, "%d %n", &most, &more) != 1 ||
		    line[end + more] || most < 1)
			return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		for (int c = 0; strcmp(ops[i].name, op) == 0 && c < ops[i].count(); c++)
			if (strcmp(ops[i].name_of(c), name) == 0) {
				*out = (struct hip_tune_row){(enum hip_tune_op)i, n, k, c, most};
				return true;
			}
	return false;
}

/* Read a line such as "linear-tiles 5": the smallest number of tokens for tiles. The
 * largest useful value is one more than the kernels for few tokens take. */
static bool read_from(struct hip *h, const char *line)
{
	char what[16];
	int m, end = 0;
	if (sscanf(line, "%15s %d %n", what, &m, &end) != 2 || line[end] || m < 2)
		return false;
	bool is_linear = strcmp(what, "linear-tiles") == 0;
	if (is_linear && m <= HIP_FEW_TOK + 1)
		h->tile_from = m;
	else if (strcmp(what, "expert-tiles") == 0 && m <= HIP_FEW_TOK + 1)
		h->moe_tile_from = m;
	else
		return false;
	return true;
}

void hip_tune_read(struct hip *h, struct str text, const char *what)
{
	int i_line = 0;
	for (size_t at = 0; at < text.n;) {
		char line[160];
		size_t n = 0;
		while (at + n < text.n && text.p[at + n] != '\n')
			n++;
		snprintf(line, sizeof line, "%.*s", (int)MIN(n, sizeof line - 1),
			 text.p + at);
		at += n + 1;
		i_line++;
		if (line[strspn(line, " \t\r")] == '\0' || line[0] == '#')
			continue;
		struct hip_tune_row row;
		if (read_from(h, line))
			continue;
		if (!read_row(line, &row)) {
			log_write(LOG_WARN, "%s:%d: not understood, left out", what, i_line);
			continue;
		}
		h->tune = xrealloc(h->tune, ((size_t)h->n_tune + 1) * sizeof row);
		h->tune[h->n_tune++] = row;
	}
}

int hip_tune_find(const struct hip *h, struct hip_tune_key key)
{
	const struct hip_tune_row *best = NULL;
	for (int i = 0; i < h->n_tune; i++) {
		const struct hip_tune_row *r = &h->tune[i];
		if (r->op == key.op && r->n == key.n && r->k == key.k && r->most >= key.n_tok &&
		    (!best || r->most < best->most))
			best = r;
	}
	return best ? best->choice : -1;
}

void hip_tune_note(struct hip *h, struct str bytes)
{
	size_t n = strlen(h->base.arithmetic);
	snprintf(h->base.arithmetic + n, sizeof h->base.arithmetic - n, "%016llx ",
		 (unsigned long long)hash_bytes(0, bytes.p, bytes.n));
}

void hip_tune_open(struct hip *h, const struct backend_opts *o)
{
	struct buf b = {0};
	struct fail fail = {0};
	char *path = hip_device_file(h->device.arch, "tune", o);
	if (!path)
		return;
	if (file_read(path, MAX_FILE, &b, &fail) == OK) {
		hip_tune_note(h, buf_str(&b));
		hip_tune_read(h, buf_str(&b), path);
	} else {
		log_write(LOG_WARN, "%s", fail.text);
	}
	buf_deinit(&b);
	free(path);
}
