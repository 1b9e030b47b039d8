/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of an MTP layer has the keys of the whole model, and the tensors of the layer behind the
 * last one. Most have copies of the embeddings and of the output head, too. Only the layer is read:
 * drafts use the model's own table and head, as with a layer in the model's file.
 */
#include "model/gguf_beside.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "model/gguf_model.h"
#include "model/hub.h"
#include "model/model.h"

bool gguf_beside_is_mtp(const char *file)
{
	return strncasecmp(file, "mtp-", 4) == 0 && hub_is_gguf(file);
}

bool gguf_beside_is_tower(const char *file)
{
	return strcasestr(file, "mmproj") && hub_is_gguf(file);
}

/* The folder of a file, with its slash; malloc'ed. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
}

/* The last file of dir of which `is` says true, malloc'ed, and how many there are. */
static char *gguf_beside_look(const char *dir, bool (*is)(const char *file), int *n)
{
	char *found = NULL;
	DIR *d = opendir(dir);
	*n = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!is(e->d_name))
			continue;
		free(found);
		found = file_join(dir, e->d_name);
		(*n)++;
	}
	if (d)
		closedir(d);
	return found;
}

/* Does this path, with a slash at its end, lie in a folder of a hub's snapshot? */
static bool is_below_snapshot(const char *dir)
{
	static const char mark[] = "/snapshots/";
	char *name = hub_name_of(dir);
	const char *commit = name ? strstr(dir, mark) : NULL;
	const char *slash = commit ? strchr(commit + sizeof mark - 1, '/') : NULL;
	free(name);
	return slash && slash[1];
}

char *gguf_beside_only(const char *model_path, bool (*is)(const char *file), const char *what)
{
	int n;
	char *dir = folder_of(model_path), *found = gguf_beside_look(dir, is, &n);
	if (n == 0 && is_below_snapshot(dir)) {
		dir[strlen(dir) - 1] = '\0';
		strrchr(dir, '/')[1] = '\0';
		found = gguf_beside_look(dir, is, &n);
	}
	if (n > 1)
		log_warn("%s: %d files beside it may hold its %s, and none is used. %s", model_path,
			 n, what, is == gguf_beside_is_mtp
			 ? "Call one mtp- and then as the model's file"
			 : "mmproj names one");
	free(dir);
	if (n != 1) {
		free(found);
		found = NULL;
	}
	return found;
}

/* The file for this model; malloc'ed, or NULL. */
static char *mtp_file(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = folder_of(path);
	char *name = xasprintf("mtp-%s", slash ? slash + 1 : path);
	char *named = file_join(dir, name);
	bool is_there = file_exists(named);
	free(name);
	free(dir);
	if (is_there)
		return named;
	free(named);
	return gguf_beside_only(path, gguf_beside_is_mtp, "MTP layer");
}

/* A key of the file's architecture; -1 if it has none. */
static int64_t key_of(const struct gguf *g, struct str arch, const char *key)
{
	char name[96];
	int64_t n = -1;
	snprintf(name, sizeof name, "%.*s.%s", (int)MIN(arch.n, 60), arch.p, key);
	const struct gguf_value *v = gguf_find(g, name);
	return v && !v->is_array && gguf_integer(v, 0, &n) ? n : -1;
}

static struct str arch_of(const struct gguf *g)
{
	struct str arch = STR("");
	const struct gguf_value *v = gguf_find(g, "general.architecture");
	return v && gguf_string(v, &arch) ? arch : STR("");
}

/* The layers of the model before the MTP layer; -1 if the file has no such layer. */
static int64_t layers_before(const struct gguf *g)
{
	struct str arch = arch_of(g);
	int64_t n = key_of(g, arch, "block_count"), own = key_of(g, arch, "nextn_predict_layers");
	return n > 0 && n <= 1025 && own >= 1 && own < n ? n - own : -1;
}

/* As gguf_names_hf, for the MTP layers alone. */
static const char *rename_mtp(const struct gguf *g, const char *name, struct arena *a)
{
	long layer = strncmp(name, "blk.", 4) == 0 ? strtol(name + 4, NULL, 10) : -1;
	int64_t before = layers_before(g);
	return before > 0 && layer >= before ? gguf_names_hf(g, name, a) : NULL;
}

/* True if the file's layer is for the model of ts. If not, says why. */
static bool fits(const struct tensors *ts, const struct tensors *mtp, const struct model_config *c)
{
	const struct gguf *g = tensors_gguf(mtp);
	struct str own = arch_of(tensors_gguf(ts)), arch = arch_of(g);
	int64_t layers = layers_before(g), d = key_of(g, arch, "embedding_length");
	if (!str_eq(own, arch))
		log_warn("%s: not used: it is of a %.*s, the model is a %.*s", tensors_dir(mtp),
			 (int)MIN(arch.n, 60), arch.p, (int)MIN(own.n, 60), own.p);
	else if (layers != c->n_layers)
		log_warn("%s: not used: it has no MTP layer behind %d layers, as the model has, "
			 "by its block_count and nextn_predict_layers", tensors_dir(mtp),
			 (int)c->n_layers);
	else if (d != c->d_model)
		log_warn("%s: not used: its embedding_length is %lld, the model's is %d",
			 tensors_dir(mtp), (long long)d, (int)c->d_model);
	return str_eq(own, arch) && layers == c->n_layers && d == c->d_model;
}

static bool has_layer(const struct tensors *ts, const struct model_config *c)
{
	char name[64];
	snprintf(name, sizeof name, "model.layers.%d.eh_proj.weight", (int)c->n_layers);
	return tensors_has(ts, name);
}

enum status gguf_beside_add_mtp(struct tensors *ts, const struct model_config *c, const char *path,
				const struct model_opts *opts, struct fail *fail)
{
	struct model_opts quiet = *opts;
	struct tensors *mtp = NULL;
	char *file = has_layer(ts, c) ? NULL : mtp_file(path);
	if (!file)
		return OK;
	quiet.on_progress = NULL; /* it counts the model's own bytes */
	enum status st = tensors_open_gguf(file, &quiet, rename_mtp, &mtp, fail);
	free(file);
	if (st == OK && fits(ts, mtp, c))
		return tensors_join(ts, mtp, fail);
	tensors_close(mtp);
	return st;
}
