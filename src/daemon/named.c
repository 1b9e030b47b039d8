/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that somebody named and that is not what it should be ends the start, and so do the values
 * below that would have no effect: under systemd nobody reads a warning. What "auto" finds may be
 * missing.
 */
#include "daemon/named.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/hip/hip_api.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "batch/batch_store.h"
#include "kv/kvdisk.h"

/* The last fault, and whether there was one. Each one before it is in the log. */
struct faults {
	enum status st;
	struct fail *last;
};

/* Makes `why` the last fault, unless st is OK. */
static void keep_fault(struct faults *f, enum status st, const struct fail *why)
{
	if (st == OK)
		return;
	if (f->st != OK)
		log_error("%s", f->last->text);
	f->st = st;
	*f->last = *why;
}

/* --- folders -------------------------------------------------------------------- */

static enum status fail_folder(const char *key, const char *dir, const char *what, int error,
			       struct fail *fail)
{
	return fail_at(fail, E_CONFIG, key, "%s = %.200s: %s%s%s%s", key, dir, what,
		       error ? ": " : "", error ? strerror(error) : "",
		       error == EROFS ? ". Under systemd a drop-in opens it to the service: "
					"ReadWritePaths=" : "");
}

/* Can files be made there, or can it be made itself? */
static enum status check_folder(const char *key, const char *dir, struct fail *fail)
{
	struct stat st;
	if (stat(dir, &st) == 0) {
		if (!S_ISDIR(st.st_mode))
			return fail_folder(key, dir, "it is no folder", 0, fail);
		return access(dir, R_OK | W_OK | X_OK) == 0
			? OK : fail_folder(key, dir, "cannot write there", errno, fail);
	}
	if (errno != ENOENT)
		return fail_folder(key, dir, "cannot open it", errno, fail);
	char *bare = file_without_slashes(dir), *slash = strrchr(bare, '/');
	if (slash)
		slash[slash == bare] = '\0';
	const char *parent = slash ? bare : ".";
	enum status s = access(parent, W_OK | X_OK) == 0
		? OK : fail_folder(key, dir, "cannot make it", errno, fail);
	free(bare);
	return s;
}

/* kv_dir must be the daemon's alone; kvdisk knows what that means. It may be on a disk that is
 * read only: what is there is of use. */
static enum status check_kv_dir(const char *dir, struct fail *fail)
{
	struct stat found;
	int fd;
	if (stat(dir, &found) != 0 || !S_ISDIR(found.st_mode))
		return check_folder("kv_dir", dir, fail);
	enum status st = kvdisk_open_folder(dir, &fd, fail);
	if (st != OK)
		return fail_within(fail, st, "kv_dir");
	close(fd);
	return OK;
}

static enum status check_state_dir(const char *dir, struct fail *fail)
{
	enum status st = batch_store_check(dir, fail);
	return st == OK && !file_exists(dir) ? check_folder("state_dir", dir, fail) : st;
}

static bool is_named(const char *setting)
{
	return *setting && strcmp(setting, "auto") != 0;
}

/* --- HIP ------------------------------------------------------------------------ */

static enum status check_kernels(const char *dir, struct fail *fail)
{
	DIR *d = opendir(dir);
	int n = 0;
	if (!d)
		return fail_folder("hip_kernels", dir, "cannot open it", errno, fail);
	for (const struct dirent *e; (e = readdir(d));)
		n += str_ends(str_of(e->d_name), STR(".hsaco"));
	closedir(d);
	return n ? OK : fail_folder("hip_kernels", dir, "it has no file ARCHITECTURE.hsaco", 0,
				    fail);
}

/* A library that is not there must not end as "the CPU, because there is no GPU". Where the CPU
 * was chosen it is not loaded. */
static enum status check_library(const char *path, bool is_used, struct fail *fail)
{
	struct hip_api api;
	struct fail why;
	if (!is_used && strchr(path, '/') && access(path, R_OK) != 0)
		return fail_folder("hip_library", path, "cannot open it", errno, fail);
	if (!is_used || hip_api_open(path, &api, &why) == OK)
		return OK;
	return fail_at(fail, E_CONFIG, "hip_library", "hip_library: %.400s", why.text);
}

/* --- words ---------------------------------------------------------------------- */

/* As browsers send it: scheme, host and perhaps a port, nothing behind them. */
static enum status check_origin(const char *origin, struct fail *fail)
{
	const char *host = strstr(origin, "://");
	if (strcmp(origin, "*") == 0 ||
	    (host && host > origin && host[3] && !strpbrk(host + 3, "/?#@ ")))
		return OK;
	return fail_at(fail, E_CONFIG, "cors_origins", "cors_origins has %.200s, which no browser "
		       "sends: an origin is as http://localhost:3000, without a path or a slash "
		       "at its end", origin);
}

/* A setting that would have no effect beside the others. */
struct effect {
	bool is_idle;
	const char *text;
};

static enum status add_idle(const struct effect *rows, size_t n, struct fail *fail)
{
	struct faults f = {OK, fail};
	for (size_t i = 0; i < n; i++) {
		struct fail why;
		if (rows[i].is_idle)
			keep_fault(&f, fail_set(&why, E_CONFIG, "%s", rows[i].text), &why);
	}
	return f.st;
}

/* What may differ by model. */
static enum status check_model_effects(const struct config *c, struct fail *fail)
{
	const struct effect rows[] = {
		{*c->mmproj && strcmp(c->images, "off") == 0 && strcmp(c->audio, "off") == 0,
		 "mmproj has no effect with images = off and audio = off: leave it out"},
		{is_named(c->kv_dir) && !c->prefix_cache,
		 "kv_dir has no effect with prefix_cache = off: leave one of them out"},
		{*c->draft_model && strcmp(c->speculative, "auto") != 0 &&
			 strcmp(c->speculative, "draft") != 0,
		 "draft_model has no effect with speculative = off, lookup or mtp: leave one of "
		 "them out"},
		{!*c->draft_model && strcmp(c->speculative, "draft") == 0,
		 "speculative = draft has no effect without draft_model"},
	};
	return add_idle(rows, ARRAY_LEN(rows), fail);
}

static enum status check_effects(const struct config *c, bool has_keys, struct fail *fail)
{
	const struct effect rows[] = {
		{*c->tls_priorities && !*c->tls_cert,
		 "tls_priorities has no effect without tls_cert and tls_key"},
		{c->metrics_need_key && !has_keys,
		 "metrics_need_key = on has no effect without API keys: set api_key_file (a "
		 "credential is found where CREDENTIALS_DIRECTORY names its folder)"},
		{c->max_requests_per_key && !has_keys,
		 "max_requests_per_key has no effect without API keys: set api_key_file (a "
		 "credential is found where CREDENTIALS_DIRECTORY names its folder)"},
	};
	return add_idle(rows, ARRAY_LEN(rows), fail);
}

enum status named_check(const struct config *c, const struct model_list *models, bool has_keys,
			struct fail *fail)
{
	struct faults f = {OK, fail};
	struct fail why;
	if (is_named(c->weight_cache))
		keep_fault(&f, check_folder("weight_cache", c->weight_cache, &why), &why);
	if (is_named(c->expert_dir))
		keep_fault(&f, check_folder("expert_dir", c->expert_dir, &why), &why);
	if (is_named(c->kv_dir))
		keep_fault(&f, check_kv_dir(c->kv_dir, &why), &why);
	if (is_named(c->state_dir))
		keep_fault(&f, check_state_dir(c->state_dir, &why), &why);
	if (*c->hip_kernels)
		keep_fault(&f, check_kernels(c->hip_kernels, &why), &why);
	if (*c->hip_library)
		keep_fault(&f, check_library(c->hip_library, strcmp(c->backend, "cpu") != 0, &why),
			   &why);
	for (int i = 0; i < c->cors_origins.n; i++)
		keep_fault(&f, check_origin(c->cors_origins.items[i], &why), &why);
	keep_fault(&f, check_effects(c, has_keys, &why), &why);
	enum status st = OK; /* one fault of all models is told once */
	for (int i = 0; i < models->n && st == OK; i++) {
		st = check_model_effects(models->all[i], &why);
		if (models->n > 1)
			st = fail_within(&why, st, models->all[i]->model_name);
		keep_fault(&f, st, &why);
	}
	return f.st;
}
