/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

/* Check that this process has access `mode` (R_OK, X_OK) to the path, else E_IO. */
static enum status check_access(const char *path, int mode, struct fail *fail)
{
	if (faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0)
		return OK;
	int error = errno;
	return fail_set(fail, E_IO, "%s: %s; let the user with id %u read it, and enter "
			"each folder above it", path, strerror(error),
			(unsigned)geteuid());
}

static enum status fail_absent(const char *path, struct fail *fail)
{
	if (str_ends(str_of(path), STR(".gguf")))
		return fail_set(fail, E_MISSING, "%s: there is no such file", path);
	return fail_set(fail, E_MISSING, "%s: there is no such folder or file; a model is "
			"a folder with config.json and *.safetensors, or a GGUF file",
			path);
}

/* Refuse a single file of a model folder, such as a .safetensors or .json file. */
static enum status check_file(const char *path, struct fail *fail)
{
	static const char *const parts[] = {".safetensors", ".json"};
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (!str_ends(str_of(path), str_of(parts[i])))
			continue;
		const char *slash = strrchr(path, '/');
		int n = slash ? MAX((int)(slash - path), 1) : 1;
		return fail_set(fail, E_FORMAT, "%s: one file of a model; name the folder "
				"that it lies in: %.*s", path, n, slash ? path : ".");
	}
	return check_access(path, R_OK, fail);
}

/* Report a folder without config.json or GGUF files. In a hub's cache these lie deeper,
 * in snapshots/COMMIT. */
static enum status fail_folder(const char *path, int n_entries, struct fail *fail)
{
	char *snapshots = file_join(path, "snapshots");
	bool is_cache = file_exists(snapshots);
	free(snapshots);
	if (n_entries == 0)
		return fail_set(fail, E_MISSING, "%s: the folder is empty; a model needs "
				"config.json, tokenizer.json and *.safetensors, or a GGUF "
				"file", path);
	if (is_cache)
		return fail_set(fail, E_MISSING, "%s: a folder of a hub's cache; the model "
				"is one level down: name %s/snapshots/COMMIT", path, path);
	return fail_set(fail, E_MISSING, "%s: neither config.json nor a .gguf file is in "
			"this folder", path);
}

static enum status check_folder(const char *path, struct fail *fail)
{
	enum status st = check_access(path, R_OK | X_OK, fail);
	DIR *d = st == OK ? opendir(path) : NULL;
	bool has_model = false;
	int n = 0;
	if (st == OK && !d)
		return fail_set(fail, E_IO, "%s: %s", path, strerror(errno));
	if (!d)
		return st;
	for (struct dirent *e; !has_model && (e = readdir(d));) {
		n += *e->d_name != '.';
		has_model = strcmp(e->d_name, "config.json") == 0 ||
			    str_ends(str_of(e->d_name), STR(".gguf"));
	}
	closedir(d);
	return has_model ? OK : fail_folder(path, n, fail);
}

enum status model_path_check(const char *path, struct fail *fail)
{
	struct stat sb;
	if (stat(path, &sb) == 0)
		return S_ISDIR(sb.st_mode) ? check_folder(path, fail)
					   : check_file(path, fail);
	int error = errno;
	if (error == ENOENT || error == ENOTDIR)
		return fail_absent(path, fail);
	return fail_set(fail, E_IO, "%s: %s; let the user with id %u enter each folder "
			"above it", path, strerror(error), (unsigned)geteuid());
}
