/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model_list.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "tests/tap.h"

static char dir[] = "/tmp/halod-models-XXXXXX";
static struct fail fail;

static const char *in(const char *name)
{
	static char path[4][200];
	static int i;
	i = (i + 1) % 4;
	snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
	return path[i];
}

static void touch(const char *name)
{
	int fd = open(in(name), O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		exit(99);
	close(fd);
}

static void add_all(struct buf *out, const char *before, const struct config_list *l)
{
	for (int i = 0; i < l->n; i++)
		buf_addf(out, "%s%s", before, l->items[i]);
}

/* The names that these settings give, with commas, each with its aliases and adapters; "" where
 * they are refused. */
static const char *names(const char *settings)
{
	static struct buf out;
	struct buf text = {0};
	struct config c;
	enum config_action action;
	const char *conf = in("halod.conf");
	FILE *f = fopen(conf, "w");
	buf_clear(&out);
	fail = (struct fail){0};
	buf_addf(&text, "models_dir = %s/m\n%s", dir, settings);
	if (!f || fwrite(text.p, 1, text.n, f) != text.n)
		exit(99);
	fclose(f);
	char *argv[] = {(char *)"halod", (char *)"-c", (char *)(uintptr_t)conf};
	enum status st = config_load(&c, 3, argv, "/none", &action, &fail);
	struct model_list m = {.n = 0};
	if (st == OK) {
		st = model_list_find(&c, &m, &fail);
		for (int i = 0; st == OK && i < m.n; i++) {
			buf_addf(&out, "%s%s%s", i ? ", " : "", m.all[i]->model_name,
				 *m.all[i]->model ? "" : "?");
			add_all(&out, " or ", &m.all[i]->aliases);
			add_all(&out, " with ", &m.all[i]->lora);
		}
		model_list_deinit(&m);
	}
	buf_add_z(&out, "");
	buf_deinit(&text);
	config_deinit(&c);
	return out.n ? out.p : "";
}

static bool has(const char *word)
{
	if (!strstr(fail.text, word))
		printf("# %s\n", fail.text);
	return strstr(fail.text, word) != NULL;
}

int main(void)
{
	if (!mkdtemp(dir))
		exit(99);
	mkdir(in("m"), 0755);
	is_str(names(""), "", "an empty folder");
	ok(has("no model is in it"), "is named");
	mkdir(in("m/b"), 0755);
	touch("m/b/config.json");
	mkdir(in("m/c"), 0755);
	touch("m/c/c-Q4_0.gguf");
	mkdir(in("m/docs"), 0755);
	touch("m/docs/readme");
	touch("m/a.gguf");
	touch("m/mmproj-a.gguf");
	touch("m/mtp-a.gguf");
	touch("m/.d.gguf");
	touch("m/e.safetensors");
	touch("m/z-00001-of-00002.gguf");
	touch("m/z-00002-of-00002.gguf");
	is_str(names(""), "a, b, c, z", "folders and files with a checkpoint, by name");
	is_str(names("[model z]\nctx = 9\n[model c]\naliases = d\n"), "z, c or d, a, b",
	       "sections come first");
	is_str(names("[model q]\nmodel = /tmp\n"), "q, a, b, c, z", "one that is elsewhere");
	char text[400];
	snprintf(text, sizeof text, "[model q]\nmodel = %s\n", in("m/b"));
	is_str(names(text), "q, a, c, z", "no model is there under two names");
	snprintf(text, sizeof text, "embedding_model = %s\nmodel = %s\nmodel_name = main\n"
		 "aliases = d, e\nlora = f\n", in("m/b"), in("m/c"));
	is_str(names(text), "main or d or e with f, a, z",
	       "neither is what another setting names; aliases and adapters are of one alone");
	is_str(names("[model org/q-3]\n"), "org/q-3, a, b, c, z", "a name of the hub");
	is_str(names("[model b]\n[model x y]\n"), "", "a section without files");
	ok(has(":3: [model x y]: `model` must say where it is"), "its line is named");
	snprintf(text, sizeof text, "rm -r %s/m", dir);
	if (system(text) != 0)
		exit(99);
	is_str(names(""), "", "a folder that is not there");
	ok(has("models_dir = ") && has("cannot open it: No such file"), "is named, too");
	unlink(in("halod.conf"));
	rmdir(dir);
	return tap_done();
}
