/* SPDX-License-Identifier: Apache-2.0
 *
 * pull: a model from a Hugging Face hub into its cache (model/hub.h). Blobs are written first,
 * then the links to them, and the name of the commit last. So a model that is found in the
 * cache is complete.
 */
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "ctl/command.h"
#include "ctl/download.h"
#include "ctl/hub_list.h"
#include "ctl/options.h"
#include "model/gguf_beside.h"
#include "model/hub.h"

#define DEFAULT_ENDPOINT "https://huggingface.co"

struct pull_args {
	const char *name, *cache, *revision, *mmproj, *mtp;
};

struct pull {
	const struct pull_args *a;
	const char *endpoint;
	char *name;             /* ORG/NAME[:FILE] */
	char *model;            /* ORG/NAME without :FILE */
	char *dir;              /* models--ORG--NAME */
	struct download d;
	struct hub_list list;
	/* of the file that is being fetched */
	const struct hub_file *file;
	int64_t began_us, said_us;
	int64_t began_at; /* bytes that were on the disk already; -1: not known yet */
	bool is_terminal;
};

/* --- progress --------------------------------------------------------------------- */

static void on_progress(void *ctx, int64_t done, int64_t total)
{
	struct pull *p = ctx;
	int64_t now = clock_now_us(&clock_monotonic);
	if (p->began_at < 0)
		p->began_at = done;
	if (!p->is_terminal || (now - p->said_us < 250000 && done < total))
		return;
	p->said_us = now;
	char have[24], all[24];
	size_format(have, sizeof have, done);
	size_format(all, sizeof all, total);
	double s = (double)(now - p->began_us) / 1e6;
	double rate = s > 0 ? (double)(done - p->began_at) / s : 0;
	fprintf(stderr, "\r%.60s  %s of %s  %.1f MB/s", p->file->path, have, all, rate / 1e6);
	if (rate > 0)
		fprintf(stderr, "  %.0f s left", (double)(total - done) / rate);
	fputs("\033[K", stderr);
}

/* --- the cache -------------------------------------------------------------------- */

static enum status make_folders(const char *path, struct fail *fail)
{
	char *p = xstrdup(path);
	enum status st = OK;
	for (char *at = p + 1; st == OK; at++) {
		char c = *at;
		if (c != '/' && c != '\0')
			continue;
		*at = '\0';
		if (mkdir(p, 0755) != 0 && errno != EEXIST)
			st = fail_set(fail, E_IO, "%s: %s", p, strerror(errno));
		*at = c;
		if (c == '\0')
			break;
	}
	free(p);
	return st;
}

static char *below(const struct pull *p, const char *folder, const char *name)
{
	char *dir = file_join(p->dir, folder), *path = file_join(dir, name);
	free(dir);
	return path;
}

/* Makes snapshots/COMMIT/PATH, a link to the blob. It is relative, so that a cache can be
 * moved. */
static enum status make_link(const struct pull *p, const struct hub_file *f,
			     struct fail *fail)
{
	struct buf path = {0}, target = {0};
	buf_addf(&path, "%s/snapshots/%s/%s", p->dir, p->list.commit, f->path);
	buf_add_z(&target, "../../");
	for (const char *c = f->path; *c; c++)
		if (*c == '/')
			buf_add_z(&target, "../");
	buf_addf(&target, "blobs/%s", f->digest);
	char *slash = strrchr(path.p, '/');
	*slash = '\0';
	enum status st = make_folders(path.p, fail);
	*slash = '/';
	if (st == OK && unlink(path.p) != 0 && errno != ENOENT)
		st = fail_set(fail, E_IO, "%s: %s", path.p, strerror(errno));
	if (st == OK && symlink(target.p, path.p) != 0)
		st = fail_set(fail, E_IO, "%s: %s", path.p, strerror(errno));
	buf_deinit(&path);
	buf_deinit(&target);
	return st;
}

/* Writes refs/main, which is replaced in one step. */
static enum status write_ref(const struct pull *p, struct fail *fail)
{
	char *dir = file_join(p->dir, "refs"), *path = file_join(dir, "main"), *part =
		file_join(dir, "main.incomplete");
	enum status st = make_folders(dir, fail);
	FILE *f = st == OK ? fopen(part, "we") : NULL;
	bool good = f && fputs(p->list.commit, f) >= 0;
	if (f)
		good = fclose(f) == 0 && good;
	if (st == OK && (!good || rename(part, path) != 0))
		st = fail_set(fail, E_IO, "%s: %s", path, strerror(errno));
	free(part);
	free(path);
	free(dir);
	return st;
}

/* --- the hub ---------------------------------------------------------------------- */

static enum status read_list(struct pull *p, struct fail *fail)
{
	struct buf url = {0}, text = {0};
	buf_addf(&url, "%s/api/models/%s/revision/%s?blobs=true", p->endpoint, p->model,
		 p->a->revision);
	enum status st = download_text(&p->d, url.p, &text, fail);
	if (st == OK)
		st = hub_list_read(buf_str(&text), &p->list, fail);
	buf_deinit(&url);
	buf_deinit(&text);
	return st;
}

/* Escapes all characters that may not stand for themselves in a URL's path. */
static void add_escaped(struct buf *url, const char *path)
{
	for (; *path; path++)
		if (isalnum((unsigned char)*path) || is_char_of(*path, "-._~/"))
			buf_add_c(url, *path);
		else
			buf_addf(url, "%%%02X", (unsigned char)*path);
}

static enum status cmd_pull_fetch(struct pull *p, const struct hub_file *f, struct fail *fail)
{
	char *blob = below(p, "blobs", f->digest), size[24];
	struct stat found;
	enum status st = OK;
	if (stat(blob, &found) != 0 || found.st_size != f->n_bytes) {
		struct buf url = {0};
		buf_addf(&url, "%s/%s/resolve/%s/", p->endpoint, p->model, p->list.commit);
		add_escaped(&url, f->path);
		p->file = f;
		p->began_us = clock_now_us(&clock_monotonic);
		p->began_at = -1;
		st = download_file(&p->d, &(struct download_file){
			.url = url.p, .path = blob, .n_bytes = f->n_bytes,
			.digest = f->digest, .is_sha256 = f->is_sha256}, fail);
		buf_deinit(&url);
		size_format(size, sizeof size, f->n_bytes);
		if (p->is_terminal)
			fputs("\r\033[K", stderr);
		if (st == OK)
			fprintf(stderr, "%s  %s\n", f->path, size);
	}
	free(blob);
	return st;
}

/* Checks that the missing files fit onto the disk and leave a twentieth of it free. */
static enum status check_disk(const struct pull *p, struct fail *fail)
{
	struct statvfs disk;
	int64_t need = 0;
	for (size_t i = 0; i < p->list.n_files; i++) {
		char *blob = below(p, "blobs", p->list.files[i].digest);
		if (p->list.files[i].is_wanted && !file_exists(blob))
			need += p->list.files[i].n_bytes;
		free(blob);
	}
	if (statvfs(p->dir, &disk) != 0)
		return OK;
	int64_t left = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
	left -= (int64_t)disk.f_blocks * (int64_t)disk.f_frsize / 20;
	if (need <= left)
		return OK;
	char a[24], b[24];
	size_format(a, sizeof a, need);
	size_format(b, sizeof b, MAX(left, 0));
	return fail_set(fail, E_IO, "%s: the files take %s, and the disk has %s to give. "
			"--cache names another folder", p->dir, a, b);
}

static enum status fetch_all(struct pull *p, struct fail *fail)
{
	enum status st = check_disk(p, fail);
	for (size_t i = 0; i < p->list.n_files && st == OK; i++)
		if (p->list.files[i].is_wanted)
			st = cmd_pull_fetch(p, &p->list.files[i], fail);
	for (size_t i = 0; i < p->list.n_files && st == OK; i++)
		if (p->list.files[i].is_wanted)
			st = make_link(p, &p->list.files[i], fail);
	return st == OK ? write_ref(p, fail) : st;
}

/* The token in HF_TOKEN, or in the file that the hub's own tools keep in HF_HOME or
 * ~/.cache/huggingface. */
static char *find_token(void)
{
	const char *token = getenv("HF_TOKEN"), *home = getenv("HF_HOME");
	if (token && *token)
		return xstrdup(token);
	char *dir = home && *home ? xstrdup(home)
				  : getenv("HOME") ? file_join(getenv("HOME"),
							       ".cache/huggingface")
						   : NULL;
	char *path = dir ? file_join(dir, "token") : NULL, *found = NULL;
	struct buf text = {0};
	if (path && file_read(path, 1000, &text, NULL) == OK) {
		buf_add_z(&text, "");
		text.p[strcspn(text.p, " \r\n")] = '\0';
		found = *text.p ? xstrdup(text.p) : NULL;
	}
	buf_deinit(&text);
	free(path);
	free(dir);
	return found;
}

/* The name in what a user gave: ORG/NAME[:FILE], or a model's address as a browser shows it. An
 * address may name a branch's folder, or one file. malloc'ed; NULL if it is neither. */
static char *find_name(const char *given, const char *endpoint)
{
	static const char *const hubs[] = {"https://huggingface.co/", "https://hf.co/",
					   "huggingface.co/", "hf.co/"};
	size_t n_own = strlen(endpoint);
	const char *rest = given;
	if (strncmp(given, endpoint, n_own) == 0 && given[n_own] == '/')
		rest = given + n_own + 1;
	for (size_t i = 0; rest == given && i < ARRAY_LEN(hubs); i++)
		if (strncmp(given, hubs[i], strlen(hubs[i])) == 0)
			rest = given + strlen(hubs[i]);
	if (rest == given)
		return hub_is_name(given) ? xstrdup(given) : NULL;
	size_t n_org = strcspn(rest, "/"), n = n_org;
	if (rest[n] == '/')
		n += 1 + strcspn(rest + n + 1, "/?#");
	char *name = xstrndup(rest, n);
	/* .../blob/main/x-Q4_K_M.gguf: that file, by its whole name. */
	char *path = xstrndup(rest, strcspn(rest, "?#"));
	const char *slash = strrchr(path + n, '/');
	if (slash && hub_is_gguf(slash)) {
		char *with = xasprintf("%s:%s", name, slash + 1);
		free(name);
		name = with;
	}
	free(path);
	if (hub_is_name(name))
		return name;
	free(name);
	return NULL;
}

static enum status pull(struct pull *p, const char *file, struct fail *fail)
{
	char size[24];
	enum status st = read_list(p, fail);
	if (st == OK)
		st = hub_list_choose(&p->list, &(struct hub_choice){
			.file = file, .mmproj = p->a->mmproj, .mtp = p->a->mtp}, fail);
	if (st != OK)
		return st;
	char *blobs = file_join(p->dir, "blobs");
	st = make_folders(blobs, fail);
	free(blobs);
	if (st != OK)
		return st;
	size_format(size, sizeof size, hub_list_wanted_bytes(&p->list));
	fprintf(stderr, "%s: %s into %s\n", p->name, size, p->dir);
	return fetch_all(p, fail);
}

/* Says what a file is for that is no model: it was fetched alone. */
static void say_beside(const struct pull *p)
{
	for (size_t i = 0; i < p->list.n_files; i++) {
		const char *path = p->list.files[i].path, *slash = strrchr(path, '/');
		if (!p->list.files[i].is_wanted)
			continue;
		if (gguf_beside_is_tower(slash ? slash + 1 : path))
			fprintf(stderr, "To serve it with its model: halod --model %s:FILE "
				"--mmproj %s/snapshots/%s/%s\n", p->model, p->dir,
				p->list.commit, path);
		else
			fprintf(stderr, "It is used with the model whose file has the same name "
				"without mtp-, or that it alone lies beside\n");
	}
}

int cmd_pull(int argc, char **argv)
{
	struct pull_args a = {.revision = "main"};
	const struct option_row rows[] = {
		{"name", 0, OPTION_OPERAND, &a.name, 0, 0, "ORG/NAME[:FILE]",
		 "the model, or its page's address; FILE is a part of a GGUF file's name, as "
		 "Q4_K_M"},
		{"revision", 'r', OPTION_TEXT, &a.revision, 0, 0, "REV",
		 "branch, tag or commit (main)"},
		{"mmproj", 0, OPTION_TEXT, &a.mmproj, 0, 0, "FILE",
		 "the vision tower beside a GGUF model, by a part of its name (one of 16 bits); "
		 "none: without"},
		{"mtp", 0, OPTION_TEXT, &a.mtp, 0, 0, "FILE",
		 "the MTP layer beside a GGUF model (mtp- and the model's name, or the only one); "
		 "none: without"},
		{"cache", 'c', OPTION_TEXT, &a.cache, 0, 0, "DIR",
		 "where to put it (the hub's cache; the service reads /var/lib/halod/hub)"},
	};
	const struct option_set set = {"pull", "Fetch a model from a Hugging Face hub.", rows,
				       ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	const char *endpoint = getenv("HF_ENDPOINT");
	endpoint = endpoint && *endpoint ? endpoint : DEFAULT_ENDPOINT;
	char *name = a.name ? find_name(a.name, endpoint) : NULL;
	if (!name)
		return options_fault(&set, "ORG/NAME or ORG/NAME:FILE is needed, as "
				     "Qwen/Qwen3-8B-AWQ, or the address of a model's page on a "
				     "Hugging Face hub");
	char *cache = a.cache ? xstrdup(a.cache) : hub_cache(), *token = find_token();
	if (!cache) {
		free(name);
		free(token);
		return options_fault(&set, "--cache is needed: HOME is not set");
	}
	const char *colon = strchr(name, ':');
	struct pull p = {.a = &a, .endpoint = endpoint, .name = name,
			 .dir = hub_model_dir(cache, name), .is_terminal = isatty(2)};
	p.model = xstrndup(name, colon ? (size_t)(colon - name) : strlen(name));
	p.d = (struct download){.token = token, .on_progress = on_progress, .ctx = &p};
	struct fail fail = {0};
	curl_global_init(CURL_GLOBAL_DEFAULT);
	enum status st = pull(&p, colon ? colon + 1 : NULL, &fail);
	curl_global_cleanup();
	if (st == OK && colon && hub_names_beside(colon + 1))
		say_beside(&p);
	else if (st == OK)
		fprintf(stderr, "To serve it: halod --model %s\n", name);
	rc = st == OK ? EXIT_OK : (fail_default(&fail, st), options_failure("%s", fail.text),
				   EXIT_FAILED);
	hub_list_deinit(&p.list);
	free(p.model);
	free(p.dir);
	free(name);
	free(token);
	free(cache);
	return rc;
}
