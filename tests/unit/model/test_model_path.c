/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model_path.h"

#include <sys/stat.h>

#include "model/model.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

#define NOBODY 65534

static struct fail fail;

static enum status check(const char *path)
{
	fail = (struct fail){0};
	return model_path_check(path, &fail);
}

/* Of dir/name: the status, and the message behind the path. */
static void says(const char *dir, const char *name, enum status want, const char *text)
{
	char *path = file_join(dir, name);
	is_int(check(path), want, "%s", name);
	size_t n = strlen(path);
	ok(strncmp(fail.text, path, n) == 0 && strstr(fail.text + n, text),
	   "%s: \"%s\" says: %s", name, fail.text, text);
	free(path);
}

static void test_absent(const char *dir)
{
	says(dir, "qwen.gguf", E_MISSING, ": there is no such file");
	says(dir, "model", E_MISSING, ": there is no such folder or file; a model is a "
	     "folder with config.json and *.safetensors, or a GGUF file");
	image_write(dir, "file", STR("x"));
	says(dir, "file/below", E_MISSING, ": there is no such folder or file");
}

static void test_files(const char *dir)
{
	image_write(dir, "model.safetensors", STR("x"));
	image_write(dir, "x.gguf", STR("x"));
	char *path = file_join(dir, "model.safetensors");
	char *text = xasprintf("name the folder that it lies in: %s", dir);
	is_int(check(path), E_FORMAT, "one file of a folder");
	ok(strstr(fail.text, text), "%s", fail.text);
	free(path);
	free(text);
	path = file_join(dir, "x.gguf");
	is_int(check(path), OK, "a GGUF file, whatever is in it");
	free(path);
}

static void test_folders(const char *dir)
{
	char *inner = file_join(dir, "inner");
	char *snapshots = file_join(inner, "snapshots");
	if (mkdir(inner, 0755) != 0)
		abort();
	says(dir, "inner", E_MISSING, ": the folder is empty; a model needs config.json");
	if (mkdir(snapshots, 0755) != 0)
		abort();
	says(dir, "inner", E_MISSING, "/snapshots/COMMIT");
	rmdir(snapshots);
	image_write(inner, "model.safetensors", STR("x"));
	says(dir, "inner", E_MISSING, ": neither config.json nor a .gguf file");
	image_write(inner, "config.json", STR("{}"));
	is_int(check(inner), OK, "config.json is enough");
	char *config = file_join(inner, "config.json"), *weights;
	weights = file_join(inner, "model.safetensors");
	unlink(config);
	unlink(weights);
	image_write(inner, "a-Q4_K_M.gguf", STR("x"));
	is_int(check(inner), OK, "so is a GGUF file");
	char *gguf = file_join(inner, "a-Q4_K_M.gguf");
	unlink(gguf);
	rmdir(inner);
	free(gguf);
	free(weights);
	free(config);
	free(snapshots);
	free(inner);
}

/* Root may read all, so root becomes another user for this one. */
static void test_forbidden(char *dir)
{
	bool is_root = geteuid() == 0;
	if (chmod(dir, 0711) != 0)
		abort();
	if (is_root && (chown(dir, 0, 0) != 0 || seteuid(NOBODY) != 0))
		abort();
	if (!is_root && chmod(dir, 0) != 0)
		abort();
	is_int(check(dir), E_IO, "a folder that others may not list");
	char *text = xasprintf("%s: Permission denied; let the user with id %u read it", dir,
			       (unsigned)geteuid());
	ok(strstr(fail.text, text), "%s", fail.text);
	free(text);
	if (is_root && seteuid(0) != 0)
		abort();
	if (chmod(dir, 0700) != 0)
		abort();
}

/* A clone without git-lfs leaves texts in the place of the files. */
static void test_lfs(const char *dir)
{
	static const char pointer[] =
		"version https://git-lfs.github.com/spec/v1\n"
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
		"size 12345\n";
	struct model *m = NULL;
	image_write(dir, "p.gguf", str_of(pointer));
	char *path = file_join(dir, "p.gguf");
	fail = (struct fail){0};
	is_int(model_open(path, NULL, &m, &fail), E_FORMAT, "a pointer as a GGUF file");
	ok(strstr(fail.text, path) && strstr(fail.text, "git lfs pull"), "%s", fail.text);
	free(path);
	struct model_opts o = {.use_mmap = true};
	struct tensors *ts;
	image_write(dir, "model.safetensors", str_of(pointer));
	is_int(tensors_open(dir, &o, &ts, &fail), E_FORMAT, "as model.safetensors");
	ok(strstr(fail.text, "model.safetensors") && strstr(fail.text, "git lfs pull"), "%s",
	   fail.text);
	image_write(dir, "config.json", str_of(pointer));
	is_int(model_open(dir, NULL, &m, &fail), E_FORMAT, "as config.json");
	ok(strstr(fail.text, "config.json") && strstr(fail.text, "git lfs pull"), "%s",
	   fail.text);
}

int main(void)
{
	char *dir = image_dir();
	test_absent(dir);
	test_files(dir);
	test_folders(dir);
	test_forbidden(dir);
	test_lfs(dir);
	image_remove(dir);
	return tap_done();
}
