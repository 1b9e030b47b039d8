/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hub.h"

#include "base/alloc.h"
#include "base/file.h"
#include "tests/tap.h"

static char root[] = "/tmp/test_hub-XXXXXX";
static const char commit[] = "0123456789012345678901234567890123456789";

static void put(const char *path, const char *text)
{
	char full[600], command[700];
	snprintf(full, sizeof full, "%s/models--org--name/%s", root, path);
	snprintf(command, sizeof command, "mkdir -p \"$(dirname %s)\"", full);
	FILE *f = system(command) == 0 ? fopen(full, "w") : NULL;
	if (!f || fputs(text, f) < 0)
		exit(99);
	fclose(f);
}

static void found(const char *name, const char *below)
{
	char *path = NULL, want[600];
	struct fail fail = {0};
	enum status st = hub_find(name, &path, &fail);
	snprintf(want, sizeof want, "%s/models--org--name/snapshots/%s%s", root, commit,
		 below ? below : "");
	is_int(st, below ? OK : E_MISSING, "%s: status", name);
	if (below)
		is_str(path, want, "%s: path", name);
	else
		ok(strstr(fail.text, "haloctl pull") != NULL, "%s: says what to do", name);
	free(path);
}

static void test_names(void)
{
	ok(hub_is_name("Qwen/Qwen3-8B"), "a name");
	ok(hub_is_name("org.x/name_1:Q4_K_M"), "a name with a file");
	ok(!hub_is_name("name"), "one word");
	ok(!hub_is_name("/org/name") && !hub_is_name("org/name/x"), "a path");
	ok(!hub_is_name("./name") && !hub_is_name("../name") && !hub_is_name("a/.b"),
	   "dots in front");
	ok(!hub_is_name("org/") && !hub_is_name("org/name:"), "nothing behind");
	ok(!hub_is_name("org/na me") && !hub_is_name(""), "other characters");
}

static void test_fits(void)
{
	ok(hub_file_fits("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"), "a quantization");
	ok(hub_file_fits("Qwen3-8B-q4_k_m.gguf", "Q4_K_M"), "in any case");
	ok(!hub_file_fits("Qwen3-8B-Q4_K_M.gguf", "Q4_K"), "not a part of a word");
	ok(hub_file_fits("Q8_0/x-00001-of-00002.gguf", "Q8_0"), "a folder");
	ok(hub_file_fits("x.gguf", "x.gguf"), "the whole name");
	ok(hub_file_fits("Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"), "several words");
	ok(!hub_file_fits("x.gguf", ""), "no word");
}

static void test_name_of(void)
{
	static const char *const paths[][2] = {
		{"/h/hub/models--Qwen--Qwen3-8B/snapshots/0123", "Qwen/Qwen3-8B"},
		{"/h/models--a/hub/models--org--a--b/blobs/0123", "org/a--b"},
		{"/h/models--org--name/snapshots/0123/x.gguf", "org/name"},
		{"/h/models--org--name", NULL},
		{"/h/models--org--name/other/x", NULL},
		{"/h/models--org/x--name/snapshots/0", NULL},
		{"/srv/models/Qwen3-8B", NULL}};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		char *name = hub_name_of(paths[i][0]);
		is_str(name ? name : "none", paths[i][1] ? paths[i][1] : "none", "%s",
		       paths[i][0]);
		free(name);
	}
}

int main(void)
{
	char command[100];
	if (!mkdtemp(root))
		return 99;
	setenv("HF_HUB_CACHE", root, 1);
	test_names();
	test_fits();
	test_name_of();
	found("org/name", NULL);
	put("snapshots/0123456789012345678901234567890123456789/config.json", "{}");
	found("org/name", NULL); /* nothing says that it is whole */
	put("refs/main", "0123456789012345678901234567890123456789\n");
	found("org/name", "");
	found("org/name:Q4_K_M", NULL);
	put("snapshots/0123456789012345678901234567890123456789/m-Q8_0.gguf", "");
	put("snapshots/0123456789012345678901234567890123456789/Q4_K_M/m-00001-of-00002.gguf",
	    "");
	put("snapshots/0123456789012345678901234567890123456789/Q4_K_M/m-00002-of-00002.gguf",
	    "");
	put("snapshots/0123456789012345678901234567890123456789/m-Q4_K_M.gguf", "");
	found("org/name:Q8_0", "/m-Q8_0.gguf");
	found("org/name:Q4_K_M", "/m-Q4_K_M.gguf");
	unsetenv("HF_HUB_CACHE");
	setenv("HF_HOME", "/h", 1);
	char *cache = hub_cache();
	is_str(cache, "/h/hub", "HF_HOME");
	free(cache);
	unsetenv("HF_HOME");
	setenv("XDG_CACHE_HOME", "/x", 1);
	cache = hub_cache();
	is_str(cache, "/x/huggingface/hub", "XDG_CACHE_HOME");
	free(cache);
	snprintf(command, sizeof command, "rm -r %s", root);
	ok(system(command) == 0, "cleaned up");
	return tap_done();
}
