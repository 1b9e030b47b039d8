/* SPDX-License-Identifier: Apache-2.0
 *
 * The config.json of each small model, with each of its values replaced by others: whatever a
 * key is, the reader accepts it or says why not.
 */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "model/formats/quant.h"
#include "model/model_config.h"
#include "tests/tap.h"

static const char *const values[] = {
	"null", "true", "false", "\"x\"", "-1", "0", "1", "2", "3", "7", "64", "1000000000",
	"9223372036854775807", "0.5", "1e300", "[]", "[0]", "[null]", "[\"x\",\"x\"]", "{}",
	"{\"x\":null}", NULL /* the key is gone */
};
static int n_read, n_silent;
static char here[256];

static void on_death(int signal)
{
	ssize_t n = write(1, here, strlen(here));
	_exit(n > 0 ? 128 + signal : 1);
}

static void read_one(const json_t *root)
{
	struct arena a;
	struct model_config c;
	struct fail fail = {0};
	struct quant_scheme *scheme = NULL;
	arena_init(&a);
	enum status st = model_config_read(root, &a, &c, &fail);
	if (st == OK)
		st = quant_scheme_parse(root, &scheme, &fail);
	n_silent += st != OK && !fail.text[0];
	n_read++;
	quant_scheme_destroy(scheme);
	arena_deinit(&a);
}

/* Makes each two of the values null, as files have them that leave defaults to their reader. */
static void null_pairs(const json_t *root, json_t *object, const json_t *keys)
{
	for (size_t i = 0; i < json_array_size(keys); i++) {
		const char *one = json_string_value(json_array_get(keys, i));
		json_t *v = json_incref(json_object_get(object, one));
		json_object_set_new(object, one, json_null());
		for (size_t k = i + 1; k < json_array_size(keys); k++) {
			const char *two = json_string_value(json_array_get(keys, k));
			json_t *w = json_incref(json_object_get(object, two));
			json_object_set_new(object, two, json_null());
			snprintf(here, sizeof here, "# died of %s and %s: null\n", one, two);
			read_one(root);
			json_object_set_new(object, two, w);
		}
		json_object_set_new(object, one, v);
	}
}

/* Replaces each value of `object`, which is a part of root, and of the objects in it. */
static void replace_all(const json_t *root, json_t *object)
{
	const char *key;
	json_t *list = json_array(), *name;
	json_t *v;
	size_t i;
	json_object_foreach (object, key, v)
		json_array_append_new(list, json_string(key));
	json_array_foreach (list, i, name) {
		key = json_string_value(name);
		json_t *own = json_incref(json_object_get(object, key));
		for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
			if (values[k])
				json_object_set_new(object, key, json_loads(
					values[k], JSON_DECODE_ANY, NULL));
			else
				json_object_del(object, key);
			snprintf(here, sizeof here, "# died of %s: %s\n", key,
				 values[k] ? values[k] : "is gone");
			read_one(root);
		}
		json_object_set_new(object, key, own);
		if (json_is_object(own))
			replace_all(root, own);
	}
	null_pairs(root, object, list);
	json_decref(list);
}

int main(void)
{
	const char *dir = tap_src("tests/golden/models");
	DIR *d = opendir(dir);
	int n = 0;
	signal(SIGSEGV, on_death);
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[1024];
		snprintf(path, sizeof path, "%s/%s/config.json", dir, e->d_name);
		json_t *root = json_load_file(path, 0, NULL);
		if (!root)
			continue;
		n++;
		n_read = n_silent = 0;
		replace_all(root, root);
		ok(n_read > 100 && n_silent == 0, "%s: %d readings, each with an answer", e->d_name,
		   n_read);
		json_decref(root);
	}
	if (d)
		closedir(d);
	ok(n > 50, "%d models", n);
	return tap_done();
}
