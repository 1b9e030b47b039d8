/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/hub_list.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "model/gguf_beside.h"
#include "model/hub.h"

/* --- reading ---------------------------------------------------------------------- */

/* True if the path is relative and no part of it is "", "." or "..". */
static bool is_safe_path(const char *path)
{
	for (const char *p = path;;) {
		size_t n = strcspn(p, "/");
		if (n == 0 || (n <= 2 && strspn(p, ".") >= n))
			return false;
		if (p[n] == '\0')
			return true;
		p += n + 1;
	}
}

static bool is_hex(const char *s, size_t n)
{
	return s && strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

static enum status read_file(const json_t *v, struct hub_file *out, struct fail *fail)
{
	const char *path = json_string_value(json_object_get(v, "rfilename"));
	const char *blob = json_string_value(json_object_get(v, "blobId"));
	const json_t *lfs = json_object_get(v, "lfs");
	const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
	const json_t *size = json_object_get(v, "size");
	if (!path || !is_safe_path(path))
		return fail_set(fail, E_FORMAT, "the hub lists a file of the name %.100s",
				path ? path : "(none)");
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (sha256 ? !is_hex(sha256, 64) : !is_hex(blob, 40)))
		return fail_set(fail, E_FORMAT, "the hub does not say the size and the digest "
				"of %.100s", path);
	*out = (struct hub_file){
		.path = xstrdup(path), .n_bytes = json_integer_value(size),
		.digest = xstrdup(sha256 ? sha256 : blob), .is_sha256 = sha256 != NULL};
	return OK;
}

enum status hub_list_read(struct str json, struct hub_list *out, struct fail *fail)
{
	*out = (struct hub_list){0};
	json_error_t error;
	json_t *v = json_loadb(json.p, json.n, 0, &error);
	const char *commit = json_string_value(json_object_get(v, "sha"));
	const json_t *files = json_object_get(v, "siblings");
	enum status st = OK;
	if (!is_hex(commit, 40) || !json_is_array(files))
		st = fail_set(fail, E_FORMAT, "the hub's answer is not a list of files");
	else
		out->commit = xstrdup(commit);
	out->files = xcalloc(json_array_size(files) + 1, sizeof *out->files);
	for (size_t i = 0; st == OK && i < json_array_size(files); i++) {
		st = read_file(json_array_get(files, i), &out->files[out->n_files], fail);
		out->n_files += st == OK;
	}
	json_decref(v);
	if (st != OK)
		hub_list_deinit(out);
	return st;
}

void hub_list_deinit(struct hub_list *l)
{
	for (size_t i = 0; i < l->n_files; i++) {
		free(l->files[i].path);
		free(l->files[i].digest);
	}
	free(l->files);
	free(l->commit);
	*l = (struct hub_list){0};
}

/* --- choosing --------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *end)
{
	size_t n = strlen(path), n_end = strlen(end);
	return n > n_end && strcasecmp(path + n - n_end, end) == 0;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* True for a GGUF file of a model, or of what lies beside one, where `file` means those. */
static bool is_gguf(const char *path, const char *file)
{
	const char *base = base_of(path);
	bool is_beside = gguf_beside_is_mtp(base) || gguf_beside_is_tower(base);
	return hub_is_gguf(path) && (!is_beside || (file && hub_names_beside(file)));
}

/* Length of a path without "-00001-of-00002.gguf" or ".gguf": the same for all parts of a split
 * model. */
static size_t stem_length(const char *path)
{
	size_t n = strlen(path) - 5;
	const char *tail = path + n - 15;
	if (n > 15 && tail[0] == '-' && strncmp(tail + 6, "-of-", 4) == 0 &&
	    isdigit((unsigned char)tail[1]) && isdigit((unsigned char)tail[10]))
		return n - 15;
	return n;
}

static bool is_same_model(const char *a, const char *b)
{
	size_t n = stem_length(a);
	return n == stem_length(b) && strncmp(a, b, n) == 0;
}

/* Marks the GGUF models that fit `file`, and returns how many. names: the first file of each. */
static int choose_gguf(struct hub_list *l, const char *file, struct buf *names)
{
	const char *first = NULL;
	int n_models = 0;
	for (size_t i = 0; i < l->n_files; i++) {
		struct hub_file *f = &l->files[i];
		if (!is_gguf(f->path, file) || (file && !hub_file_fits(f->path, file)))
			continue;
		f->is_wanted = true;
		if (first && is_same_model(first, f->path))
			continue;
		first = f->path;
		n_models++;
		if (names->n < 300)
			buf_addf(names, "%s%s", names->n ? ", " : "", f->path);
	}
	return n_models;
}

/* True for files that describe a model of Hugging Face. Files in subfolders do not. */
static bool is_description(const char *path)
{
	static const char *const ends[] = {".json", ".jinja", ".txt", ".model", ".tiktoken"};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (ends_in(path, ends[i]))
			return !strchr(path, '/');
	return false;
}

static bool is_weights(const char *path)
{
	/* Mistral publishes the same weights again as consolidated*.safetensors. */
	return ends_in(path, ".safetensors") && !strchr(path, '/') &&
	       strncmp(path, "consolidated", 12) != 0;
}

static bool choose_safetensors(struct hub_list *l)
{
	bool has_weights = false;
	for (size_t i = 0; i < l->n_files; i++)
		has_weights |= is_weights(l->files[i].path);
	for (size_t i = 0; i < l->n_files && has_weights; i++)
		l->files[i].is_wanted =
			is_weights(l->files[i].path) || is_description(l->files[i].path);
	return has_weights;
}

/* --- what lies beside --------------------------------------------------------------- */

/* One kind of file that may lie beside a GGUF model. */
struct beside {
	const char *option, *what;
	bool (*is)(const char *file);
	const char *const *best; /* parts of names, the best one first; NULL: none is better */
	const char *word;        /* as in struct hub_choice */
};

/* Length of a path's folder, with its slash. */
static size_t folder_length(const char *path)
{
	return (size_t)(base_of(path) - path);
}

/* Is `path` such a file, in the folder of the model or one above? */
static bool lies_beside(const struct beside *b, const char *path, const char *model)
{
	size_t n = folder_length(path);
	return b->is(base_of(path)) && n <= folder_length(model) && strncmp(path, model, n) == 0;
}

/* What makes one of two files the better one: its folder is nearer, its name is better. */
static int rank_of(const struct beside *b, const char *path)
{
	int rank = (int)folder_length(path) * 8;
	for (int i = 0; b->best && b->best[i]; i++)
		if (hub_file_fits(path, b->best[i]))
			return rank + 7 - i;
	return rank;
}

/* Is it the MTP layer that halod takes for this model, whatever else is there? */
static bool is_named_after(const char *path, const char *model)
{
	return strncasecmp(base_of(path), "mtp-", 4) == 0 &&
	       strcmp(base_of(path) + 4, base_of(model)) == 0;
}

/* Marks the best file of this kind for the model. */
static enum status choose_beside(struct hub_list *l, const struct beside *b, const char *model,
				 struct fail *fail)
{
	struct hub_file *found = NULL;
	struct buf names = {0};
	int n = 0;
	bool is_any = !b->word || !*b->word;
	if (b->word && strcasecmp(b->word, "none") == 0)
		return OK;
	for (size_t i = 0; i < l->n_files; i++) {
		struct hub_file *f = &l->files[i];
		if (!lies_beside(b, f->path, model))
			continue;
		if (names.n < 300)
			buf_addf(&names, "%s%s", names.n ? ", " : "", f->path);
		if (!is_any && !hub_file_fits(f->path, b->word))
			continue;
		n++;
		if (!found || (!is_named_after(found->path, model) &&
			       (is_named_after(f->path, model) ||
				rank_of(b, f->path) > rank_of(b, found->path))))
			found = f;
	}
	buf_add_z(&names, "");
	enum status st = OK;
	bool is_sure = n == 1 || (is_any && b->best) ||
		       (is_any && found && is_named_after(found->path, model));
	if (found && is_sure)
		found->is_wanted = true;
	else if (!is_any)
		st = fail_set(fail, E_INVAL, "--%s %s: %s%s%s", b->option, b->word,
			      n ? "several files fit: " : *names.p
			      ? "no file fits; there are " : "the model has no ",
			      *names.p ? names.p : b->what, *names.p ? "" : " in a GGUF file");
	buf_deinit(&names);
	return st;
}

static enum status choose_all_beside(struct hub_list *l, const struct hub_choice *c,
				     struct fail *fail)
{
	static const char *const sizes[] = {"BF16", "F16", "F32", NULL};
	const struct beside kinds[] = {
		{"mmproj", "vision tower", gguf_beside_is_tower, sizes, c->mmproj},
		{"mtp", "MTP layer", gguf_beside_is_mtp, NULL, c->mtp}};
	const char *model = NULL;
	enum status st = OK;
	for (size_t i = 0; i < l->n_files && !model; i++)
		model = l->files[i].is_wanted ? l->files[i].path : NULL;
	if (c->file && hub_names_beside(c->file))
		return OK;
	for (size_t i = 0; i < ARRAY_LEN(kinds) && st == OK; i++)
		st = choose_beside(l, &kinds[i], model, fail);
	return st;
}

/* --- all ------------------------------------------------------------------------------ */

enum status hub_list_choose(struct hub_list *l, const struct hub_choice *c, struct fail *fail)
{
	struct buf names = {0};
	const char *file = c->file;
	if (!file && choose_safetensors(l))
		return c->mmproj || c->mtp
			? fail_set(fail, E_INVAL, "--%s is for models in GGUF files: this one is a "
				   "folder, and has all in it", c->mmproj ? "mmproj" : "mtp") : OK;
	int n = choose_gguf(l, file, &names);
	buf_add_z(&names, "");
	enum status st = OK;
	if (n == 0 && file) {
		struct buf all = {0};
		choose_gguf(l, NULL, &all);
		buf_add_z(&all, "");
		st = fail_set(fail, E_INVAL, "no GGUF file of the model fits \"%s\"%s%s", file,
			      *all.p ? "; there are " : "", all.p);
		buf_deinit(&all);
	} else if (n == 0) {
		st = fail_set(fail, E_INVAL, "the model has neither safetensors nor GGUF files");
	} else if (n > 1) {
		st = fail_set(fail, E_INVAL, "%d GGUF models fit: add a part of one's name "
			      "behind a colon, as in ORG/NAME:Q4_K_M. There are %s", n, names.p);
	}
	buf_deinit(&names);
	return st == OK ? choose_all_beside(l, c, fail) : st;
}

int64_t hub_list_wanted_bytes(const struct hub_list *l)
{
	int64_t n = 0;
	for (size_t i = 0; i < l->n_files; i++)
		n += l->files[i].is_wanted ? l->files[i].n_bytes : 0;
	return n;
}
