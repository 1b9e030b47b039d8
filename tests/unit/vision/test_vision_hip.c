/* SPDX-License-Identifier: Apache-2.0
 *
 * A tower on a GPU, by the HIP kernels on fibers: against the exact tower of the CPU where no
 * golden is (patches whose numbers are no multiple of eight), its memory, and what it leaves to
 * the CPU. test_vision.c has the goldens.
 */
#include <unistd.h>

#include "tests/tap.h"
#include "tests/unit/vision/golden.h"
#include "vision/vision.h"
#include "vision/vision_tower.h"
#include "tests/unit/created.h"

CREATED(vision, vision_load_tower)

enum { D = 40, F = 56, OUT = 24, PATCH = 6, SIDE = 8, PATCHES = SIDE * SIDE };

static const struct vision_config siglip = {
	.kind = VISION_SIGLIP, .depth = 1, .width = D, .n_heads = 5, .ffn_dim = F,
	.patch = PATCH, .merge = 2, .frames = 1, .out_width = OUT, .side = SIDE,
	.norm_eps = 1e-6, .out_eps = 1e-6, .max_side = PATCH * SIDE, .mean = {0.5, 0.5, 0.5},
	.std = {0.5, 0.5, 0.5}};

static const char *library(void)
{
	static char path[4096];
	snprintf(path, sizeof path, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 getenv("HALOD_BUILDDIR") ?: ".");
	return path;
}

static struct backend *open_backend(const char *name)
{
	struct backend *b = NULL;
	struct fail fail = {0};
	const struct backend_opts o = {.name = name, .n_threads = 1, .exact = true,
				       .hip_library = library()};
	if (backend_create(&o, &b, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return b;
}

/* --- a random tower ------------------------------------------------------------------- */

static uint32_t next = 1;

static float noise(void)
{
	next = next * 1664525 + 1013904223;
	return (float)(int32_t)next * 0x1p-31f;
}

struct file {
	struct buf header, data;
};

/* n numbers around `middle`. */
static void add(struct file *f, const char *name, int n, float middle, float spread)
{
	buf_addf(&f->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d],"
		 "\"data_offsets\":[%zu,%zu]}", f->header.n ? "," : "{", name, n, f->data.n,
		 f->data.n + (size_t)n * 4);
	for (int i = 0; i < n; i++) {
		float x = middle + spread * noise();
		buf_add(&f->data, (const char *)&x, sizeof x);
	}
}

static void add_linear(struct file *f, const char *name, int n, int k)
{
	char full[120];
	snprintf(full, sizeof full, "vision_tower.%s.weight", name);
	add(f, full, n * k, 0, 0.3f);
	snprintf(full, sizeof full, "vision_tower.%s.bias", name);
	add(f, full, n, 0, 0.3f);
}

static void add_norm(struct file *f, const char *name)
{
	char full[120];
	snprintf(full, sizeof full, "vision_tower.%s.weight", name);
	add(f, full, D, 1, 0.5f);
	snprintf(full, sizeof full, "vision_tower.%s.bias", name);
	add(f, full, D, 0, 0.3f);
}

/* A folder with the weights of `siglip`. */
static char *tower_folder(void)
{
	static const char *const square[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
	struct file f = {0};
	char *dir = image_dir(), name[80];
	add_linear(&f, "embeddings.patch_embedding", D, 3 * PATCH * PATCH);
	add(&f, "vision_tower.embeddings.position_embedding.weight", PATCHES * D, 0, 0.3f);
	add_norm(&f, "encoder.layers.0.layer_norm1");
	add_norm(&f, "encoder.layers.0.layer_norm2");
	for (size_t i = 0; i < ARRAY_LEN(square); i++) {
		snprintf(name, sizeof name, "encoder.layers.0.self_attn.%s", square[i]);
		add_linear(&f, name, D, D);
	}
	add_linear(&f, "encoder.layers.0.mlp.fc1", F, D);
	add_linear(&f, "encoder.layers.0.mlp.fc2", D, F);
	add_norm(&f, "post_layernorm");
	add(&f, "multi_modal_projector.mm_soft_emb_norm.weight", D, 0, 0.3f);
	add(&f, "multi_modal_projector.mm_input_projection_weight", D * OUT, 0, 0.3f);
	buf_add_c(&f.header, '}');
	struct buf whole = image_make(buf_str(&f.header).p, 0);
	buf_add(&whole, f.data.p, f.data.n);
	image_write(dir, "model.safetensors", buf_str(&whole));
	buf_deinit(&whole);
	buf_deinit(&f.header);
	buf_deinit(&f.data);
	return dir;
}

static struct image picture(void)
{
	enum { PIXELS = PATCH * SIDE };
	struct image m = {PIXELS, PIXELS, xmalloc(3 * PIXELS * PIXELS)};
	for (int i = 0; i < 3 * PIXELS * PIXELS; i++)
		m.rgb[i] = (uint8_t)(i / 7 * 31 + i % 3 * 40);
	return m;
}

static const struct backend_ops *true_ops;
static int n_allocs;

static enum status counted_alloc(struct backend *b, size_t n, void **out)
{
	n_allocs++;
	return true_ops->alloc(b, n, out);
}

/* rows (PATCHES / 4, OUT). keeps: memory is there before the image. */
static void run(const struct tensors *ts, const char *name, bool keeps, float *rows)
{
	struct fail fail = {0};
	struct vision_tower *t = NULL;
	struct backend *b = open_backend(name);
	struct image m = picture();
	enum status st = vision_tower_create(ts, b, &siglip, &t, &fail);
	if (st == OK && keeps)
		st = vision_tower_keep(t, PATCHES, &fail);
	struct backend_ops ops = *b->ops;
	true_ops = b->ops;
	ops.alloc = counted_alloc;
	b->ops = &ops;
	n_allocs = 0;
	if (st == OK)
		st = vision_tower_run(t, &(struct vision_pixels){&m, 1}, rows, &fail);
	b->ops = true_ops;
	ok(st == OK, "%s: a tower runs %s", name, fail.text);
	ok((n_allocs == 0) == keeps, "%s: with %d allocations for the image", name, n_allocs);
	image_deinit(&m);
	vision_tower_destroy(t);
	backend_destroy(b);
}

/* 108 numbers a patch, which are sent in rows of 112. */
static void test_odd_patches(void)
{
	static float want[PATCHES / 4 * OUT], got[PATCHES / 4 * OUT], kept[PATCHES / 4 * OUT];
	struct fail fail = {0};
	struct tensors *ts = NULL;
	char *dir = tower_folder();
	double worst = 0, largest = 0;
	if (tensors_open(dir, &(struct model_opts){0}, &ts, &fail) != OK) {
		ok(false, "the tower's file opens: %s", fail.text);
		return;
	}
	run(ts, "cpu", false, want);
	run(ts, "cpu", true, kept);
	run(ts, "hip", true, got);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		worst = worse_of(worst, fabs((double)got[i] - (double)want[i]));
		largest = fmax(largest, fabs((double)want[i]));
	}
	ok(memcmp(want, kept, sizeof want) == 0, "memory that is kept changes no bit");
	/* Sixteen roundings of 2^-11 one behind the other. */
	ok(largest > 0.5 && worst < 0x1p-7 * largest,
	   "HIP beside the CPU: largest difference %.1e of %.1e", worst, largest);
	tensors_close(ts);
	image_remove(dir);
}

/* --- a model -------------------------------------------------------------------------- */

#define QWEN "tests/golden/vision/qwen3vl/"

/* A copy of a tiny model whose tower has eight heads. */
static char *folder_of_eight(void)
{
	struct buf text = golden_read(QWEN, "config.json");
	char *at = strstr(text.p, "\"num_heads\": 2");
	if (!at)
		abort();
	at[strlen("\"num_heads\": ")] = '8';
	char *dir = golden_copy(QWEN, "config.json", buf_str(&text));
	buf_deinit(&text);
	return dir;
}

static struct vision *look(const char *dir, const char *on, struct memory_ledger *l,
			   struct model **m)
{
	struct vision *v = NULL;
	struct fail fail = {0};
	enum status st = model_open(dir, NULL, m, &fail);
	const struct vision_opts vo = {.model = *m, .limits = {.max_pixels = 1000},
				       .max_tokens = 64, .step_tokens = 4096,
				       .backend = {.name = on, .hip_library = library()},
				       .cache_bytes = 1 << 20, .ledger = l};
	if (st == OK)
		st = vision_create(&vo, &v, &fail);
	ok(st == OK && v, "%s: a tower is loaded %s", dir, fail.text);
	return v;
}

/* Heads that have no GPU kernel: the tower goes to the CPU, and says why. */
static void test_left(void)
{
	struct model *m = NULL, *also = NULL;
	struct memory_ledger l = {.device = {1 << 30, 1 << 30, false, "a card"},
				  .system = {1 << 30, 1 << 30, true, "a box"}}, of_cpu = l;
	char *dir = folder_of_eight();
	struct vision *v = look(dir, "hip", &l, &m), *there = look(dir, "cpu", &of_cpu, &also);
	if (v && there) {
		ok(strstr(vision_note(v), "heads of 4"), "left to the CPU: %s", vision_note(v));
		ok(!strstr(vision_device(v), "gfx"), "%s has it", vision_device(v));
		ok(l.device_taken == 0 && l.system_taken == of_cpu.system_taken &&
			   l.system_taken > 0, "and its memory, which is counted once");
	}
	vision_destroy(v);
	vision_destroy(there);
	model_close(m);
	model_close(also);
	image_remove(dir);
}

/* Weights and work are the device's, pixels and results the system's. */
static void test_memory(void)
{
	struct model *m = NULL;
	struct memory_ledger l = {.device = {1 << 30, 1 << 30, false, "a card"},
				  .system = {1 << 30, 1 << 30, true, "a box"}};
	struct vision *v = look(tap_src(QWEN), "hip", &l, &m);
	struct backend *b = open_backend("hip");
	struct backend_memory have;
	b->ops->memory(b, &have);
	int64_t host = 1000 * 10 + (1 << 20), weights = vision_tower_weight_bytes(m->tensors);
	is_str(v ? vision_note(v) : "none", "", "it is on the device");
	ok(b->own_bytes > 0, "its backend has memory of its own, too");
	weights += b->own_bytes;
	if (have.is_system)
		ok(l.device_taken == 0 && l.system_taken > host + weights,
		   "one memory holds all: %lld", (long long)l.system_taken);
	else
		ok(l.system_taken == host && l.device_taken > weights, "device %lld, system %lld",
		   (long long)l.device_taken, (long long)l.system_taken);
	backend_destroy(b);
	vision_destroy(v);
	model_close(m);
}

int main(void)
{
	if (!file_exists(library())) {
		printf("1..0 # SKIP libhip_cpu.so is not built\n");
		return 0;
	}
	test_odd_patches();
	test_left();
	test_memory();
	return tap_done();
}
