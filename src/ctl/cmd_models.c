/* SPDX-License-Identifier: Apache-2.0
 *
 * models: what pull has fetched into the hub's cache and the service's (model/hub.h), and its
 * removal. Other tools' models in the hub's cache are shown, too. And what a server serves.
 */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"
#include "ctl/command.h"
#include "ctl/load.h"
#include "ctl/options.h"
#include "model/gguf_beside.h"
#include "model/hub.h"

enum { OPEN_FOLDERS = 16 };

/* What nftw's callbacks work on: it takes no argument for them. */
static struct walk {
	const char *file;    /* part of a GGUF file's name; NULL: all files */
	const char *snapshots; /* the folder of all names */
	struct stat blob;    /* is there another name of this file? */
	int64_t n_bytes;
	int n_files, n_unfinished;
	struct fail fail;
} walk;

/* --- list -------------------------------------------------------------------------- */

static int add_blob(const char *path, const struct stat *s, int type, struct FTW *f)
{
	if (type != FTW_F)
		return 0;
	walk.n_bytes += s->st_size;
	walk.n_unfinished += str_ends(str_of(path + f->base), STR(".incomplete"));
	return 0;
}

/* One line for each GGUF file of a snapshot: a model is chosen by a part of its name. */
static int print_gguf(const char *path, const struct stat *s, int type, struct FTW *f)
{
	struct stat blob;
	char size[24];
	if (type != FTW_SL || !hub_is_gguf(path) || stat(path, &blob) != 0)
		return 0;
	size_format(size, sizeof size, blob.st_size);
	printf("  %10s    :%s\n", size, path + f->base);
	return 0;
}

static void print_model(const char *dir, const char *folder)
{
	char *path = file_join(dir, folder), *blobs = file_join(path, "blobs");
	char *ref = file_join(path, "refs/main"), *snapshots = file_join(path, "snapshots");
	const char *org = folder + strlen("models--"), *name = strstr(org, "--");
	char size[24];
	walk = (struct walk){0};
	nftw(blobs, add_blob, OPEN_FOLDERS, FTW_PHYS);
	size_format(size, sizeof size, walk.n_bytes);
	bool is_whole = file_exists(ref) && !walk.n_unfinished;
	printf("  %10s  %.*s%s%s%s\n", size, name ? (int)(name - org) : (int)strlen(org), org,
	       name ? "/" : "", name ? name + 2 : "",
	       is_whole ? "" : "  (unfinished: pull it again, or remove it)");
	nftw(snapshots, print_gguf, OPEN_FOLDERS, FTW_PHYS);
	free(snapshots);
	free(ref);
	free(blobs);
	free(path);
}

static int is_model(const struct dirent *d)
{
	return strncmp(d->d_name, "models--", 8) == 0;
}

static int list(const char *cache)
{
	struct dirent **all = NULL;
	int n = scandir(cache, &all, is_model, alphasort);
	if (n > 0)
		printf("%s\n", cache);
	for (int i = 0; i < n; i++) {
		print_model(cache, all[i]->d_name);
		free(all[i]);
	}
	free(all);
	return MAX(n, 0);
}

/* --- remove ------------------------------------------------------------------------ */

static int fail_at_path(const char *path)
{
	return (int)fail_set(&walk.fail, E_IO, "%s: %s", path, strerror(errno));
}

static int remove_any(const char *path, const struct stat *s, int type, struct FTW *f)
{
	if (remove(path) != 0)
		return fail_at_path(path);
	walk.n_bytes += type == FTW_F ? s->st_size : 0;
	walk.n_files++;
	return 0;
}

static int is_name_of(const char *path, const struct stat *s, int type, struct FTW *f)
{
	struct stat found;
	return type == FTW_SL && stat(path, &found) == 0 && found.st_ino == walk.blob.st_ino &&
	       found.st_dev == walk.blob.st_dev;
}

/* Removes a link to a GGUF file that fits, and the file unless it has another name: equal files
 * are one. A tower stays for other models, unless it is named. */
static int remove_gguf(const char *path, const struct stat *s, int type, struct FTW *f)
{
	if (type != FTW_SL || !hub_is_gguf(path) ||
	    !hub_file_fits(path + f->base, walk.file) ||
	    (gguf_beside_is_tower(path + f->base) && !hub_names_beside(walk.file)))
		return 0;
	char *blob = realpath(path, NULL);
	bool has_blob = blob && stat(blob, &walk.blob) == 0;
	int failed = unlink(path) != 0;
	has_blob = has_blob && !failed &&
		   nftw(walk.snapshots, is_name_of, OPEN_FOLDERS, FTW_PHYS) == 0;
	failed = failed || (has_blob && unlink(blob) != 0);
	if (failed)
		fail_at_path(path);
	free(blob);
	walk.n_bytes += has_blob ? walk.blob.st_size : 0;
	walk.n_files++;
	return failed;
}

/* Removes model `name` from a cache; walk says what went. */
static enum status remove_model(const char *cache, const char *name)
{
	const char *colon = strchr(name, ':');
	char *dir = hub_model_dir(cache, name), *snapshots = file_join(dir, "snapshots");
	walk = (struct walk){.file = colon ? colon + 1 : NULL, .snapshots = snapshots};
	int failed = !file_exists(colon ? snapshots : dir) ? 0
		     : colon ? nftw(snapshots, remove_gguf, OPEN_FOLDERS, FTW_PHYS)
			     : nftw(dir, remove_any, OPEN_FOLDERS, FTW_PHYS | FTW_DEPTH);
	free(snapshots);
	free(dir);
	return failed ? fail_default(&walk.fail, E_IO) : OK;
}

static int remove_from(const char *const *caches, int n, const char *name)
{
	int n_files = 0;
	for (int i = 0; i < n; i++) {
		char size[24];
		if (!caches[i])
			continue;
		if (remove_model(caches[i], name) != OK) {
			options_failure("%s", walk.fail.text);
			return EXIT_FAILED;
		}
		size_format(size, sizeof size, walk.n_bytes);
		if (walk.n_files)
			printf("%s: removed from %s, %s\n", name, caches[i], size);
		n_files += walk.n_files;
	}
	if (n_files)
		return EXIT_OK;
	options_failure("%s: no such model is in a cache; `haloctl models` lists them", name);
	return EXIT_FAILED;
}

/* --- of a server ------------------------------------------------------------------- */

static void print_served(const json_t *m)
{
	const json_t *status = json_object_get(m, "status");
	const char *id = json_string_value(json_object_get(m, "id"));
	const char *state = json_string_value(json_object_get(status, "value"));
	const char *why = json_string_value(json_object_get(status, "error"));
	double s = json_number_value(json_object_get(status, "load_seconds"));
	printf("  %-10s  %s", state ? state : "", id ? id : "");
	if (s > 0)
		printf("  (loaded in %.1f s)", s);
	printf("%s%s\n", why ? "  " : "", why ? why : "");
}

static int list_served(const char *url, const char *api_key)
{
	struct load_server server;
	struct fail fail;
	json_t *all;
	size_t i;
	json_t *m;
	/* Any name keeps it from asking for one. */
	enum status st = load_server_open(url, "", api_key, &server, &fail);
	if (st == OK)
		st = load_server_models(&server, &all, &fail);
	if (st != OK) {
		options_failure("%s", fail.text);
	} else {
		printf("%s\n", server.url);
		json_array_foreach(all, i, m)
			print_served(m);
		json_decref(all);
	}
	load_server_close(&server);
	return st == OK ? EXIT_OK : EXIT_FAILED;
}

int cmd_models(int argc, char **argv)
{
	const char *cache = NULL, *name = NULL, *url = NULL, *api_key = NULL;
	const struct option_row rows[] = {
		{"cache", 'c', OPTION_TEXT, &cache, 0, 0, "DIR",
		 "this cache alone (else the hub's, and the service's /var/lib/halod/hub)"},
		{"remove", 0, OPTION_TEXT, &name, 0, 0, "ORG/NAME[:FILE]",
		 "remove this model, or of its GGUF files those that fit FILE"},
		{"url", 'u', OPTION_TEXT, &url, 0, 0, "URL",
		 "a running server: list its models, with their state"},
		{"api-key", 0, OPTION_TEXT, &api_key, 0, 0, "KEY",
		 "its API key (that of OPENAI_API_KEY)"},
	};
	const struct option_set set = {"models",
				       "List and remove the models that pull fetched, or list a "
				       "server's.", rows, ARRAY_LEN(rows)};
	int rc, n = 0;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (url && (cache || name))
		return options_fault(&set, "--url excludes --cache and --remove");
	if (url)
		return list_served(url, api_key);
	if (name && !hub_is_name(name))
		return options_fault(&set, "--remove %s: ORG/NAME or ORG/NAME:FILE is needed",
				     name);
	char *own = cache ? xstrdup(cache) : hub_cache();
	bool is_both = !cache && (!own || strcmp(own, HUB_SERVICE_CACHE) != 0);
	const char *const caches[] = {own, is_both ? HUB_SERVICE_CACHE : NULL};
	if (name) {
		rc = remove_from(caches, ARRAY_LEN(caches), name);
	} else {
		for (size_t i = 0; i < ARRAY_LEN(caches); i++)
			n += caches[i] ? list(caches[i]) : 0;
		if (n == 0)
			printf("No models. haloctl pull ORG/NAME fetches one into %s.\n",
			       own ? own : HUB_SERVICE_CACHE);
		rc = EXIT_OK;
	}
	free(own);
	return rc;
}
