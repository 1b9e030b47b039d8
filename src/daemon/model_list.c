/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/gguf_model.h"
#include "model/hub.h"
#include "model/model_path.h"

/* --- the folder ----------------------------------------------------------------- */

struct found_model {
	const char *name, *path;
	bool is_used; /* a setting names it */
};

struct folder {
	struct found_model *all; /* by name */
	int n;
};

/* What a model is called whose folder or file has this name; "": it is no model. */
static struct str name_of(const char *file, bool is_folder)
{
	struct str s = str_of(file), part = STR("-00001-of-00000.gguf");
	if (is_folder)
		return s;
	if (!gguf_model_is_first(file))
		return STR("");
	bool is_part = s.n > part.n &&
		       str_starts((struct str){s.p + s.n - part.n, part.n}, STR("-00001-of-"));
	s.n -= is_part ? part.n : strlen(".gguf");
	return s;
}

static void add_entry(struct model_list *m, struct folder *f, const char *dir, const char *file)
{
	struct fail why;
	struct stat st;
	char *path = file_join(dir, file);
	bool is_there = *file != '.' && stat(path, &st) == 0;
	struct str name = is_there ? name_of(file, S_ISDIR(st.st_mode)) : STR("");
	/* One that may not be read stays in the list: who asks for it is told so. */
	if (name.n && (!S_ISDIR(st.st_mode) || model_path_check(path, &why) != E_MISSING)) {
		f->all = xrealloc(f->all, (size_t)(f->n + 1) * sizeof *f->all);
		f->all[f->n++] = (struct found_model){.name = arena_str(&m->arena, name).p,
						.path = arena_strdup(&m->arena, path)};
	}
	free(path);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct found_model *)a)->name, ((const struct found_model *)b)->name);
}

static enum status read_folder(struct model_list *m, const char *dir, struct folder *f,
			       struct fail *fail)
{
	DIR *d = opendir(dir);
	if (!d)
		return fail_at(fail, E_CONFIG, "models_dir", "models_dir = %.200s: cannot open it: "
			       "%s", dir, strerror(errno));
	for (const struct dirent *e; (e = readdir(d));)
		add_entry(m, f, dir, e->d_name);
	closedir(d);
	if (f->n == 0)
		return fail_at(fail, E_CONFIG, "models_dir", "models_dir = %.200s: no model is in "
			       "it; each is a folder with config.json or a .gguf file, or a .gguf "
			       "file", dir);
	qsort(f->all, (size_t)f->n, sizeof *f->all, by_name);
	return OK;
}

/* --- the list ------------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
	struct stat one, other;
	return *a && stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* A model at `path` is named by a setting: it is in the list, or no model that writes. */
static void use(struct folder *f, const char *path)
{
	for (int i = 0; i < f->n; i++)
		f->all[i].is_used |= is_same(path, f->all[i].path);
}

static struct config *add_model(struct model_list *m, const struct config *like)
{
	struct config *c = xmalloc(sizeof *c);
	*c = *like;
	c->sections = NULL;
	c->n_sections = 0;
	m->all = xrealloc(m->all, (size_t)(m->n + 1) * sizeof *m->all);
	m->all[m->n++] = c;
	return c;
}

static enum status add_section(struct model_list *m, const struct config_section *s,
			       struct folder *f, struct fail *fail)
{
	struct config *c = add_model(m, s->config);
	for (int i = 0; i < f->n && !*c->model; i++)
		if (strcmp(f->all[i].name, s->name) == 0) {
			c->model = f->all[i].path;
			f->all[i].is_used = true;
			return OK;
		}
	if (!*c->model && hub_is_name(s->name))
		c->model = s->name;
	if (!*c->model)
		return fail_set(fail, E_CONFIG, "%s: [model %s]: `model` must say where it is: "
				"models_dir holds none of this name", s->where, s->name);
	use(f, c->model);
	return OK;
}

/* What is in the folder and was not named. Its settings are those of all models. */
static void add_rest(struct model_list *m, const struct config *c, const struct folder *f)
{
	for (int i = 0; i < f->n; i++) {
		if (f->all[i].is_used)
			continue;
		struct config *own = add_model(m, c);
		config_clear_own(own);
		own->model = f->all[i].path;
		own->model_name = f->all[i].name;
	}
}

enum status model_list_find(const struct config *c, struct model_list *out,
			    struct fail *fail)
{
	struct folder f = {.n = 0};
	enum status st = OK;
	*out = (struct model_list){.n = 0};
	arena_init(&out->arena);
	if (*c->models_dir)
		st = read_folder(out, c->models_dir, &f, fail);
	if (st == OK && (*c->model || (!*c->models_dir && !c->n_sections)))
		add_model(out, c);
	use(&f, c->model);
	use(&f, c->embedding_model);
	use(&f, c->rerank_model);
	use(&f, c->transcription_model);
	use(&f, c->aligner_model);
	use(&f, c->draft_model);
	for (int i = 0; st == OK && i < c->n_sections; i++)
		st = add_section(out, &c->sections[i], &f, fail);
	if (st == OK)
		add_rest(out, c, &f);
	free(f.all);
	if (st == OK && out->n == 0)
		st = fail_at(fail, E_CONFIG, "models_dir", "models_dir = %.200s: the models in it "
			     "write no text, and no other is named", c->models_dir);
	return st;
}

bool model_list_is_same(const struct model_list *a, const struct model_list *b)
{
	bool are = a->n == b->n;
	for (int i = 0; i < a->n && are; i++)
		are = strcmp(a->all[i]->model, b->all[i]->model) == 0 &&
		      strcmp(a->all[i]->model_name, b->all[i]->model_name) == 0;
	return are;
}

void model_list_deinit(struct model_list *m)
{
	for (int i = 0; i < m->n; i++)
		free(m->all[i]);
	free(m->all);
	arena_deinit(&m->arena);
	*m = (struct model_list){.n = 0};
}
