/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tensors.h"

#include "model/model.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

static struct fail fail;

static enum status open_dir(const char *dir, bool use_mmap, struct tensors **out)
{
	struct model_opts o = {.use_mmap = use_mmap};
	fail = (struct fail){0};
	return tensors_open(dir, &o, out, &fail);
}

/* A file of n one-float tensors called <prefix>0, <prefix>1, … */
static void write_shard(const char *dir, const char *file, const char *prefix,
			int n)
{
	struct buf h = {0};
	for (int i = 0; i < n; i++)
		buf_addf(&h, "%s\"%s%d\":{\"dtype\":\"F32\",\"shape\":[1],"
			 "\"data_offsets\":[%d,%d]}", i ? "," : "{", prefix, i,
			 4 * i, 4 * i + 4);
	buf_add_c(&h, '}');
	struct buf b = image_make(h.p, 4 * (size_t)n);
	image_write(dir, file, buf_str(&b));
	buf_deinit(&b);
	buf_deinit(&h);
}

static void test_many(bool use_mmap)
{
	enum { N = 18000 };
	char *dir = image_dir();
	write_shard(dir, "model.safetensors", "model.layers.7.mlp.experts.", N);
	struct tensors *ts;
	is_int(open_dir(dir, use_mmap, &ts), OK, "18,000 tensors: %s", fail.text);
	is_int(tensors_count(ts), N, "all are there");
	int found = 0;
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < N; i++) {
			char name[64];
			snprintf(name, sizeof name, "model.layers.7.mlp.experts.%d", i);
			const struct tensor *t = tensors_find(ts, name);
			found += t && ((const unsigned char *)t->data)[0] ==
					      4 * i % 251;
		}
	is_int(found, 20 * N, "360,000 lookups find the right bytes");
	ok(!tensors_find(ts, "model.layers.7.mlp.experts."), "a prefix is no name");
	is_str(tensors_at(ts, 0)->name, "model.layers.7.mlp.experts.0",
	       "in the order of the file");
	tensors_close(ts);
	image_remove(dir);
}

struct progress {
	int calls;
	size_t done, total;
};

static void on_progress(void *ctx, size_t done, size_t total)
{
	struct progress *p = ctx;
	p->calls++;
	p->done = done;
	p->total = total;
}

#define INDEX "model.safetensors.index.json"

static void test_sharded(void)
{
	char *dir = image_dir();
	struct tensors *ts;
	write_shard(dir, "one.safetensors", "a", 3);
	write_shard(dir, "two.safetensors", "b", 2);
	image_write(dir, INDEX, STR("{\"weight_map\":{\"a0\":\"one.safetensors\","
				    "\"a1\":\"one.safetensors\","
				    "\"b0\":\"two.safetensors\","
				    "\"b1\":\"two.safetensors\"}}"));
	struct progress p = {0};
	struct model_opts o = {.use_mmap = true, .on_progress = on_progress,
			       .ctx = &p};
	is_int(tensors_open(dir, &o, &ts, &fail), OK, "two shards: %s", fail.text);
	is_int(tensors_count(ts), 5, "a tensor no index lists is there too");
	ok(strstr(tensors_find(ts, "b1")->file, "/two.safetensors"),
	   "a tensor knows its file");
	is_int(p.calls, 2, "progress is told");
	ok(p.done == p.total && p.total > 300, "up to the end");
	tensors_close(ts);

	/* Both shards have a0: the index decides. */
	write_shard(dir, "two.safetensors", "a", 2);
	image_write(dir, INDEX, STR("{\"weight_map\":{\"a0\":\"one.safetensors\","
				    "\"a1\":\"two.safetensors\","
				    "\"a2\":\"one.safetensors\"}}"));
	is_int(open_dir(dir, false, &ts), OK, "twice the same name: %s", fail.text);
	ok(strstr(tensors_find(ts, "a1")->file, "/two.safetensors") &&
		   strstr(tensors_find(ts, "a0")->file, "/one.safetensors"),
	   "each from the shard the index says");
	tensors_close(ts);
	image_remove(dir);
}

static void refuse_index(const char *dir, const char *index, enum status want,
			 const char *says)
{
	struct tensors *ts;
	image_write(dir, INDEX, str_of(index));
	enum status st = open_dir(dir, true, &ts);
	if (!ok(st == want && strstr(fail.text, says), "refused: %s", index))
		printf("# %s: %s\n", status_name(st), fail.text);
}

static void test_bad_sets(void)
{
	char *dir = image_dir();
	struct tensors *ts;
	is_int(open_dir(dir, true, &ts), E_MISSING, "an empty folder");
	ok(strstr(fail.text, "model.safetensors"), "names what is missing");
	write_shard(dir, "one.safetensors", "a", 3);
	write_shard(dir, "two.safetensors", "a", 3);
	refuse_index(dir, "{}", E_FORMAT, "weight_map is missing");
	refuse_index(dir, "{\"weight_map\":[]}", E_FORMAT, "weight_map is a list");
	refuse_index(dir, "{\"weight_map\":{\"a0\":1}}", E_FORMAT, "tensor a0");
	refuse_index(dir, "{\"weight_map\":{\"a0\":\"../one.safetensors\"}}",
		     E_FORMAT, "no file name");
	refuse_index(dir, "{\"weight_map\":{\"a0\":\"three.safetensors\"}}",
		     E_MISSING, "three.safetensors");
	refuse_index(dir, "{\"weight_map\":{\"z\":\"one.safetensors\"}}", E_MISSING,
		     "tensor z");
	refuse_index(dir, "{\"weight_map\":{\"a0\":\"one.safetensors\","
		     "\"a1\":\"two.safetensors\"}}", E_FORMAT, "tensor a2");
	image_write(dir, "one.safetensors", STR("\x10\0\0\0\0\0\0\0{}"));
	refuse_index(dir, "{\"weight_map\":{\"a0\":\"one.safetensors\"}}", E_FORMAT,
		     "one.safetensors");
	image_remove(dir);
}

int main(void)
{
	test_many(true);
	test_many(false);
	test_sharded();
	test_bad_sets();
	return tap_done();
}
