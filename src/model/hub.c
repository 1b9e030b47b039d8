/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hub.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/gguf_beside.h"

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

/* Skip a word of name characters at *s that does not begin with a dot. */
static bool skip_word(const char **s)
{
	const char *begin = *s;
	while (is_name_char(**s))
		(*s)++;
	return *s > begin && *begin != '.' && *begin != '-';
}

bool hub_is_name(const char *s)
{
	if (!skip_word(&s) || *s++ != '/' || !skip_word(&s))
		return false;
	if (*s == ':') {
		s++;
		while (is_name_char(*s))
			s++;
		return *s == '\0' && s[-1] != ':';
	}
	return *s == '\0';
}

char *hub_cache(void)
{
	static const struct {
		const char *variable, *below;
	} places[] = {{"HF_HUB_CACHE", ""}, {"HF_HOME", "hub"},
		      {"XDG_CACHE_HOME", "huggingface/hub"},
		      {"HOME", ".cache/huggingface/hub"}};
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const char *v = getenv(places[i].variable);
		if (v && *v)
			return *places[i].below ? file_join(v, places[i].below) : xstrdup(v);
	}
	return NULL;
}

char *hub_model_dir(const char *cache, const char *name)
{
	size_t n_org = strcspn(name, "/"), n_name = strcspn(name + n_org + 1, ":");
	char folder[1024];
	snprintf(folder, sizeof folder, "models--%.*s--%.*s", (int)MIN(n_org, 400), name,
		 (int)MIN(n_name, 400), name + n_org + 1);
	return file_join(cache, folder);
}

char *hub_name_of(const char *path)
{
	static const char mark[] = "/models--";
	const char *org = NULL;
	for (const char *p = path; (p = strstr(p, mark)); p++)
		org = p + sizeof mark - 1;
	const char *name = org ? strstr(org, "--") : NULL;
	const char *end = name ? strchr(name, '/') : NULL;
	if (!end || memchr(org, '/', (size_t)(name - org)) ||
	    (strncmp(end, "/snapshots/", 11) != 0 && strncmp(end, "/blobs/", 7) != 0))
		return NULL;
	return xasprintf("%.*s/%.*s", (int)(name - org), org, (int)(end - name - 2), name + 2);
}

bool hub_is_gguf(const char *path)
{
	size_t n = strlen(path);
	return n > 5 && strcasecmp(path + n - 5, ".gguf") == 0;
}

bool hub_file_fits(const char *path, const char *file)
{
	size_t n = strlen(file);
	for (const char *p = path; *p && n; p++) {
		bool begins = p == path || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
		if (begins && strncasecmp(p, file, n) == 0 &&
		    !(isalnum((unsigned char)p[n]) || p[n] == '_'))
			return true;
	}
	return false;
}

bool hub_names_beside(const char *file)
{
	return strncasecmp(file, "mtp-", 4) == 0 || strcasestr(file, "mmproj");
}

/* --- finding ---------------------------------------------------------------------- */

/* The folder of the commit that refs/main names, or NULL if it does not exist. */
static char *find_snapshot(const char *model_dir)
{
	char *ref = file_join(model_dir, "refs/main"), *found = NULL;
	struct buf commit = {0};
	if (file_read(ref, 200, &commit, NULL) == OK) {
		buf_add_z(&commit, "");
		commit.p[strcspn(commit.p, "\r\n")] = '\0';
		char *all = file_join(model_dir, "snapshots");
		found = file_join(all, commit.p);
		free(all);
		if (!file_exists(found)) {
			free(found);
			found = NULL;
		}
	}
	buf_deinit(&commit);
	free(ref);
	return found;
}

static int is_shown(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* Is it a model, or what lies beside one, where `file` says so? */
static bool is_meant(const char *name, const char *file)
{
	return (!gguf_beside_is_tower(name) && !gguf_beside_is_mtp(name)) ||
	       hub_names_beside(file);
}

/* The first GGUF file, in order of names, in dir or its subfolders that fits `file`. */
static char *find_gguf(const char *dir, const char *file, int depth)
{
	struct dirent **all = NULL;
	int n = scandir(dir, &all, is_shown, alphasort);
	char *found = NULL;
	for (int i = 0; i < n; i++) {
		char *path = file_join(dir, all[i]->d_name);
		bool is_gguf = hub_is_gguf(path);
		if (!found && is_gguf && hub_file_fits(all[i]->d_name, file) &&
		    is_meant(all[i]->d_name, file))
			found = xstrdup(path);
		else if (!found && !is_gguf && depth < 1)
			found = find_gguf(path, file, depth + 1);
		free(path);
		free(all[i]);
	}
	free(all);
	return found;
}

static char *find_in(const char *cache, const char *name)
{
	char *dir = hub_model_dir(cache, name), *snapshot = find_snapshot(dir), *found = NULL;
	const char *colon = strchr(name, ':');
	if (snapshot && colon)
		found = find_gguf(snapshot, colon + 1, 0);
	else if (snapshot)
		found = xstrdup(snapshot);
	free(snapshot);
	free(dir);
	return found;
}

enum status hub_find(const char *name, char **out, struct fail *fail)
{
	char *cache = hub_cache();
	*out = cache ? find_in(cache, name) : NULL;
	if (!*out)
		*out = find_in(HUB_SERVICE_CACHE, name);
	enum status st = *out ? OK : fail_set(
		fail, E_MISSING, "%s: there is no such folder or file here, and no such model "
		"in %s%s%s. To fetch it: haloctl pull %s", name, cache ? cache : "",
		cache ? " or " : "", HUB_SERVICE_CACHE, name);
	free(cache);
	return st;
}
