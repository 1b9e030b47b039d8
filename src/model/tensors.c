/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of all shards are in one array, with a hash map over the names. So the
 * 55,000 tensors of a large mixture of experts cost 55,000 lookups, not 55,000 scans.
 *
 * If the checkpoint has an index, it is checked in both directions. A name it lists must
 * be in the shard it names. If two shards have a name, the index chooses. Names that the
 * index lacks are kept too; model_left.c asks what nobody has read.
 *
 * With mmap, sizes are checked only here. If somebody truncates a file later, the next
 * read kills the process (SIGBUS). Replace model files by renaming, or load them with
 * pread.
 */
#include "model/tensors.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/map.h"
#include "model/gguf.h"
#include "json/jsonfile.h"
#include "model/model.h"
#include "model/safetensors.h"

#define INDEX_NAME "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"
#define MAX_INDEX_BYTES ((size_t)64 << 20) /* 55,000 tensors need 7 MB */
#define MAX_SHARDS 4096

struct shard {
	char *name; /* file name as in the index */
	char *path;
	struct file_view view;
	struct safetensors parsed;
	struct gguf gguf; /* pairs is NULL for safetensors */
	size_t n_bytes; /* size of the file, taken before opening it */
	int64_t time_ns; /* file_time_ns, taken before opening it */
};

struct tensors {
	char *dir;
	struct arena names;
	struct shard *shards;
	size_t n_shards;
	struct tensor *all;
	size_t n;
	struct strmap by_name;
	unsigned char *is_asked; /* (n) tensors_find has returned it */
	struct tensors *beside;  /* tensors_join; NULL: none */
};

static void shard_deinit(struct shard *s)
{
	safetensors_deinit(&s->parsed);
	gguf_deinit(&s->gguf);
	file_view_close(&s->view);
	free(s->name);
	free(s->path);
}

void tensors_close(struct tensors *ts)
{
	if (!ts)
		return;
	for (size_t i = 0; i < ts->n_shards; i++)
		shard_deinit(&ts->shards[i]);
	free(ts->shards);
	free(ts->dir);
	free(ts->all);
	free(ts->is_asked);
	strmap_deinit(&ts->by_name);
	arena_deinit(&ts->names);
	tensors_close(ts->beside);
	free(ts);
}

/* Append the file to the shards; owns path from here on. The file is opened later. */
static enum status add_file(struct tensors *ts, char *path, const char *name,
			    struct fail *fail)
{
	ts->shards = xrealloc(ts->shards,
			      (ts->n_shards + 1) * sizeof *ts->shards);
	struct shard *s = &ts->shards[ts->n_shards++];
	*s = (struct shard){.name = xstrdup(name), .path = path};
	struct stat sb;
	if (stat(s->path, &sb) != 0)
		return fail_set(fail, E_MISSING, "there is no %s", s->path);
	s->n_bytes = (size_t)sb.st_size;
	s->time_ns = file_time_ns(&sb);
	return OK;
}

static enum status add_shard(struct tensors *ts, const char *dir,
			     const char *name, struct fail *fail)
{
	/* An index from a download must not name files outside the model's folder. */
	if (!*name || *name == '.' || strchr(name, '/'))
		return fail_set(fail, E_FORMAT, "%s/" INDEX_NAME ": \"%.80s\" is no "
				"file name", dir, name);
	if (ts->n_shards == MAX_SHARDS)
		return fail_set(fail, E_FORMAT, "%s/" INDEX_NAME ": more than %d files",
				dir, MAX_SHARDS);
	return add_file(ts, file_join(dir, name), name, fail);
}

/* Add every file that the index names, once, in the order of appearance. */
static enum status add_indexed_shards(struct tensors *ts, const char *dir,
				      const json_t *weight_map,
				      struct fail *fail)
{
	struct strmap seen = {0};
	enum status st = OK;
	const char *tensor;
	json_t *file;
	uint32_t i;
	json_object_foreach((json_t *)weight_map, tensor, file) {
		const char *name = json_string_value(file);
		if (!name) {
			st = fail_set(fail, E_FORMAT, "%s/" INDEX_NAME ": tensor %s "
				      "has %s for a file name", dir, tensor,
				      jsonfile_type(file));
			break;
		}
		if (strmap_get(&seen, str_of(name), &i))
			continue;
		strmap_put(&seen, str_of(name), (uint32_t)ts->n_shards);
		st = add_shard(ts, dir, name, fail);
		if (st != OK)
			break;
	}
	strmap_deinit(&seen);
	return st;
}

static enum status tensors_parse(struct tensors *ts, struct shard *s, bool is_gguf,
				 struct fail *fail)
{
	struct str file = {s->view.p, s->view.n};
	if (file_is_lfs_pointer(file, s->path, fail))
		return E_FORMAT;
	return is_gguf ? gguf_parse(file, s->path, &ts->names, &s->gguf, &s->parsed, fail)
		       : safetensors_parse(file, s->path, &ts->names, &s->parsed, fail);
}

/* Bytes of all shards, and how many of them are in memory or mapped. */
struct shard_progress {
	const struct model_opts *opts;
	size_t done, total;
};

static void add_progress(void *ctx, size_t n_bytes)
{
	struct shard_progress *p = ctx;
	p->done = MIN(p->done + n_bytes, p->total);
	if (p->opts->on_progress)
		p->opts->on_progress(p->opts->ctx, p->done, p->total);
}

static enum status read_shards(struct tensors *ts, const struct model_opts *opts,
			       bool is_gguf, struct fail *fail)
{
	struct shard_progress p = {.opts = opts};
	const struct file_watch watch = {add_progress, &p};
	for (size_t i = 0; i < ts->n_shards; i++)
		p.total += ts->shards[i].n_bytes;
	for (size_t i = 0; i < ts->n_shards; i++) {
		struct shard *s = &ts->shards[i];
		enum status st =
			file_view_open(s->path, opts->use_mmap, &watch, &s->view, fail);
		if (st == OK)
			st = tensors_parse(ts, s, is_gguf, fail);
		if (st != OK)
			return st;
		if (s->view.is_mapped)
			add_progress(&p, s->n_bytes);
	}
	return OK;
}

/* Join the tensors of all shards in one array and one map. weight_map may be NULL. */
static enum status merge(struct tensors *ts, const json_t *weight_map,
			 struct fail *fail)
{
	size_t n = 0;
	for (size_t i = 0; i < ts->n_shards; i++)
		n += ts->shards[i].parsed.n;
	ts->all = calloc(n + 1, sizeof *ts->all);
	ts->is_asked = calloc(n + 1, 1);
	if (!ts->all || !ts->is_asked)
		return fail_default(fail, E_NOMEM);
	strmap_init(&ts->by_name, n);
	for (size_t i = 0; i < ts->n_shards; i++) {
		const struct shard *s = &ts->shards[i];
		for (size_t j = 0; j < s->parsed.n; j++) {
			const struct tensor *t = &s->parsed.tensors[j];
			const char *home = json_string_value(
				json_object_get(weight_map, t->name));
			if (home && strcmp(home, s->name) != 0)
				continue;
			ts->all[ts->n] = *t;
			if (strmap_put(&ts->by_name, str_of(t->name),
				       (uint32_t)ts->n))
				return fail_set(fail, E_FORMAT, "%s: tensor %s is "
						"there a second time", s->path,
						t->name);
			ts->n++;
		}
	}
	return OK;
}

static enum status check_index(const struct tensors *ts, const char *dir,
			       const json_t *weight_map, struct fail *fail)
{
	const char *name;
	json_t *file;
	json_object_foreach((json_t *)weight_map, name, file)
		if (!tensors_find(ts, name))
			return fail_set(fail, E_MISSING, "%s/%s: tensor %s is not in "
					"it, though the index says so", dir,
					json_string_value(file), name);
	return OK;
}

/* Says what would help in a folder without weights that can be read. */
static enum status fail_no_weights(const char *dir, struct fail *fail)
{
	static const struct {
		const char *begin, *end, *help;
	} kinds[] = {
		{"model-", ".safetensors", "is a part of a model, whose index " INDEX_NAME " is "
		 "missing: fetch that file too"},
		{"consolidated", ".safetensors", "is in Mistral's own layout: fetch the files that "
		 "Transformers reads, " SINGLE_NAME " or " INDEX_NAME " with its parts"},
		{"adapter_model", ".safetensors", "is an adapter: merge it into its base model "
		 "(merge_and_unload in PEFT) and save that"},
		{"", ".bin", "is a pickle, which is never read: load the model in Transformers and "
		 "save it with save_pretrained, which writes safetensors"},
		{"", ".pth", "is a pickle, which is never read: Transformers has a script that "
		 "converts such weights"},
	};
	DIR *d = opendir(dir);
	char found[256] = ""; /* a file name has at most 255 bytes */
	size_t best = ARRAY_LEN(kinds);
	for (struct dirent *e; d && (e = readdir(d));)
		for (size_t i = 0; i < best; i++)
			if (str_starts(str_of(e->d_name), str_of(kinds[i].begin)) &&
			    str_ends(str_of(e->d_name), str_of(kinds[i].end))) {
				snprintf(found, sizeof found, "%s", e->d_name);
				best = i;
			}
	if (d)
		closedir(d);
	if (best == ARRAY_LEN(kinds))
		return fail_set(fail, E_MISSING, "%s: neither " SINGLE_NAME " nor " INDEX_NAME
				" is there", dir);
	return fail_set(fail, E_MISSING, "%s: neither " SINGLE_NAME " nor " INDEX_NAME
			" is there; %s %s", dir, found, kinds[best].help);
}

/* List the shards to read. *index is the parsed index, or NULL if there is none. */
static enum status list_shards(struct tensors *ts, const char *dir,
			       json_t **index, const json_t **weight_map,
			       struct fail *fail)
{
	char *path = file_join(dir, INDEX_NAME);
	bool has_index = file_exists(path);
	free(path);
	if (!has_index) {
		enum status st = add_shard(ts, dir, SINGLE_NAME, fail);
		return st == E_MISSING ? fail_no_weights(dir, fail) : st;
	}
	enum status st = jsonfile_load(dir, INDEX_NAME, MAX_INDEX_BYTES, index, fail);
	if (st != OK)
		return st;
	*weight_map = json_object_get(*index, "weight_map");
	if (!json_is_object(*weight_map))
		return fail_set(fail, E_FORMAT, "%s/" INDEX_NAME ": weight_map is %s",
				dir, jsonfile_type(*weight_map));
	return add_indexed_shards(ts, dir, *weight_map, fail);
}

enum status tensors_open(const char *dir, const struct model_opts *opts,
			 struct tensors **out, struct fail *fail)
{
	struct tensors *ts = xcalloc(1, sizeof *ts);
	json_t *index = NULL;
	const json_t *weight_map = NULL;
	ts->dir = xstrdup(dir);
	arena_init(&ts->names);
	enum status st = list_shards(ts, dir, &index, &weight_map, fail);
	if (st == OK)
		st = read_shards(ts, opts, false, fail);
	if (st == OK)
		st = merge(ts, weight_map, fail);
	if (st == OK && weight_map)
		st = check_index(ts, dir, weight_map, fail);
	json_decref(index);
	if (st != OK) {
		tensors_close(ts);
		return st;
	}
	*out = ts;
	return OK;
}

/* --- GGUF ------------------------------------------------------------------- */

/* For "x-00002-of-00003.gguf": the length of "x". 0 if the name has another form. */
static size_t split_prefix(const char *name, int *out_n)
{
	static const char form[] = "-00000-of-00000.gguf";
	size_t n = strlen(name), tail = strlen(form);
	if (n <= tail)
		return 0;
	for (size_t i = 0; i < tail; i++) {
		char c = name[n - tail + i];
		if (form[i] == '0' ? c < '0' || c > '9' : c != form[i])
			return 0;
	}
	*out_n = (int)strtol(name + n - tail + strlen("-00000-of-"), NULL, 10);
	return n - tail;
}

static enum status add_parts(struct tensors *ts, const char *path, struct fail *fail)
{
	int n = 1;
	size_t prefix = split_prefix(path, &n);
	if (n < 1 || n > MAX_SHARDS)
		return fail_set(fail, E_FORMAT, "%s: not a number of files", path);
	for (int i = 1; i <= n; i++) {
		struct buf part = {0};
		if (prefix)
			buf_addf(&part, "%.*s-%05d-of-%05d.gguf", (int)prefix, path, i,
				 n);
		else
			buf_add_z(&part, path);
		char *name = buf_take(&part);
		enum status st = add_file(ts, name, name, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

/* Check that each part's own number matches its place. */
static enum status check_parts(const struct tensors *ts, struct fail *fail)
{
	for (size_t i = 0; i < ts->n_shards; i++) {
		const struct gguf_value *no, *count;
		int64_t is = 0, of = 1;
		no = gguf_find(&ts->shards[i].gguf, "split.no");
		count = gguf_find(&ts->shards[i].gguf, "split.count");
		if ((no && !gguf_integer(no, 0, &is)) ||
		    (count && !gguf_integer(count, 0, &of)) ||
		    (of > 1 || ts->n_shards > 1
			     ? is != (int64_t)i || of != (int64_t)ts->n_shards
			     : is != 0))
			return fail_at(fail, E_FORMAT, "split.no", "%s: is part %lld of "
				       "%lld by its split.no and split.count, not %zu "
				       "of %zu as by its name", ts->shards[i].path,
				       (long long)is + 1, (long long)of, i + 1,
				       ts->n_shards);
	}
	return OK;
}

static void rename_all(struct tensors *ts, tensors_rename_fn rename)
{
	for (size_t i = 0; i < ts->n_shards; i++) {
		struct safetensors *s = &ts->shards[i].parsed;
		size_t kept = 0;
		for (size_t j = 0; j < s->n; j++) {
			s->tensors[kept] = s->tensors[j];
			s->tensors[kept].name = rename(&ts->shards[0].gguf,
						       s->tensors[j].name, &ts->names);
			kept += s->tensors[kept].name != NULL;
		}
		s->n = kept;
	}
}

enum status tensors_open_gguf(const char *path, const struct model_opts *opts,
			      tensors_rename_fn rename, struct tensors **out,
			      struct fail *fail)
{
	struct tensors *ts = xcalloc(1, sizeof *ts);
	ts->dir = xstrdup(path);
	arena_init(&ts->names);
	enum status st = add_parts(ts, path, fail);
	if (st == OK)
		st = read_shards(ts, opts, true, fail);
	if (st == OK)
		st = check_parts(ts, fail);
	if (st == OK) {
		rename_all(ts, rename);
		st = merge(ts, NULL, fail);
	}
	if (st != OK) {
		tensors_close(ts);
		return st;
	}
	*out = ts;
	return OK;
}

enum status tensors_join(struct tensors *ts, struct tensors *beside, struct fail *fail)
{
	size_t n = ts->n + beside->n;
	ts->beside = beside;
	ts->all = xrealloc(ts->all, (n + 1) * sizeof *ts->all);
	ts->is_asked = xrealloc(ts->is_asked, n + 1);
	memset(ts->is_asked + ts->n, 0, n + 1 - ts->n);
	for (size_t i = 0; i < beside->n; i++) {
		const struct tensor *t = &beside->all[i];
		if (strmap_put(&ts->by_name, str_of(t->name), (uint32_t)ts->n))
			return fail_set(fail, E_FORMAT, "%s: tensor %s is in %s too", t->file,
					t->name, ts->dir);
		ts->all[ts->n++] = *t;
	}
	return OK;
}

const struct gguf *tensors_gguf(const struct tensors *ts)
{
	return ts->n_shards && ts->shards[0].gguf.pairs ? &ts->shards[0].gguf : NULL;
}

void tensors_list_files(const struct tensors *ts, struct buf *out)
{
	for (size_t i = 0; i < ts->n_shards; i++) {
		const struct shard *f = &ts->shards[i];
		char *real = realpath(f->path, NULL);
		buf_addf(out, "file %zu %lld %s\n", f->n_bytes, (long long)f->time_ns,
			 real ? real : f->path);
		free(real);
	}
	if (ts->beside)
		tensors_list_files(ts->beside, out);
}

void tensors_name_too(struct tensors *ts,
		      const char *(*other)(const char *name, struct arena *a))
{
	for (size_t i = 0; i < ts->n; i++) {
		const char *name = other(ts->all[i].name, &ts->names);
		if (name) /* a name that the file itself has wins */
			(void)strmap_put(&ts->by_name, str_of(name), (uint32_t)i);
	}
}

void *tensors_alloc(struct tensors *ts, size_t n)
{
	return arena_alloc(&ts->names, n);
}

void tensors_replace(struct tensors *ts, size_t i, const struct tensor *t)
{
	const char *name = arena_strdup(&ts->names, t->name);
	ts->all[i] = *t;
	ts->all[i].name = name;
	(void)strmap_put(&ts->by_name, str_of(name), (uint32_t)i);
}

const char *tensors_dir(const struct tensors *ts)
{
	return ts->dir;
}

const struct tensor *tensors_find(const struct tensors *ts, const char *name)
{
	uint32_t i;
	if (!strmap_get(&ts->by_name, str_of(name), &i))
		return NULL;
	/* Several threads may ask for one tensor. */
	__atomic_store_n(&ts->is_asked[i], 1, __ATOMIC_RELAXED);
	return &ts->all[i];
}

bool tensors_has(const struct tensors *ts, const char *name)
{
	uint32_t i;
	return strmap_get(&ts->by_name, str_of(name), &i);
}

bool tensors_is_asked(const struct tensors *ts, size_t i)
{
	return __atomic_load_n(&ts->is_asked[i], __ATOMIC_RELAXED);
}

size_t tensors_count(const struct tensors *ts)
{
	return ts->n;
}

const struct tensor *tensors_at(const struct tensors *ts, size_t i)
{
	return &ts->all[i];
}
