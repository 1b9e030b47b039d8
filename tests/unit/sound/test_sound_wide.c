/* SPDX-License-Identifier: Apache-2.0
 *
 * Audio towers of one layer with the widths of Qwen3-Omni (and a short mlp) and of Voxtral (and a
 * short window), against Hugging Face Transformers: wide.f32 of tests/golden/make_omni.py and
 * make_voxtral.py, which make the same weights.
 */
#include <math.h>

#include "sound/sound_config.h"
#include "sound/sound_tower.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

enum { D = 1280, C = 480, MELS = 128, OUT = 256, EVERY = 16, MOST_ROWS = 17 };

#define LAYER "layers.0."
#define ATTN LAYER "self_attn."
#define MLP_AND_NORM(f) \
	{LAYER "fc1.bias", f, 0}, {LAYER "fc1.weight", f, D}, {LAYER "fc2.bias", D, 0}, \
	{LAYER "fc2.weight", D, f}, {LAYER "final_layer_norm.bias", D, 0}, \
	{LAYER "final_layer_norm.weight", D, 0}
#define ATTN_AND_NORM \
	{ATTN "k_proj.weight", D, D}, {ATTN "out_proj.bias", D, 0}, \
	{ATTN "out_proj.weight", D, D}, {ATTN "q_proj.bias", D, 0}, \
	{ATTN "q_proj.weight", D, D}, {ATTN "v_proj.bias", D, 0}, {ATTN "v_proj.weight", D, D}, \
	{LAYER "self_attn_layer_norm.bias", D, 0}, {LAYER "self_attn_layer_norm.weight", D, 0}
/* The weights of a tower in the order of their names; k: inputs of a matrix, 0: a list. */
struct part {
	const char *name;
	int n, k;
};
static const struct part omni_parts[] = {
	{"conv2d1.bias", C, 0}, {"conv2d1.weight", C, 9}, {"conv2d2.bias", C, 0},
	{"conv2d2.weight", C, 9 * C}, {"conv2d3.bias", C, 0}, {"conv2d3.weight", C, 9 * C},
	{"conv_out.weight", D, 16 * C}, MLP_AND_NORM(640), {ATTN "k_proj.bias", D, 0},
	ATTN_AND_NORM, {"ln_post.bias", D, 0}, {"ln_post.weight", D, 0}, {"proj1.bias", D, 0},
	{"proj1.weight", D, D}, {"proj2.bias", OUT, 0}, {"proj2.weight", OUT, D}};
static const struct part voxtral_parts[] = {
	{"conv1.bias", D, 0}, {"conv1.weight", D, 3 * MELS}, {"conv2.bias", D, 0},
	{"conv2.weight", D, 3 * D}, {"embed_positions.weight", 32, D}, {"layer_norm.bias", D, 0},
	{"layer_norm.weight", D, 0}, MLP_AND_NORM(4 * D), ATTN_AND_NORM,
	{"multi_modal_projector.linear_1.weight", OUT, 4 * D},
	{"multi_modal_projector.linear_2.weight", OUT, OUT}};

static const struct wide_tower {
	const char *name, *prefix; /* of all but a projector */
	struct sound_config config;
	const struct part *parts;
	size_t n_parts;
	int n_frames, n_rows;
} towers[] = {
	{"qwen3omni", "thinker.audio_tower.",
	 {.n_layers = 1, .width = D, .n_heads = 20, .ffn_dim = 640, .n_mels = MELS, .channels = C,
	  .chunk = 100, .window = 8, .joined = 1, .mid_width = D, .out_width = OUT},
	 omni_parts, ARRAY_LEN(omni_parts), 130, MOST_ROWS},
	{"voxtral", "audio_tower.",
	 {.n_layers = 1, .width = D, .n_heads = 20, .ffn_dim = 4 * D, .n_mels = MELS,
	  .is_conv1d = true, .channels = D, .chunk = 64, .window = 1, .joined = 4,
	  .mid_width = OUT, .out_width = OUT},
	 voxtral_parts, ARRAY_LEN(voxtral_parts), 64, 8}};

/* Number i of tensor t: a step of 1/128 from -1 to 1. */
static float noise(uint32_t t, uint32_t i)
{
	uint32_t x = (i + t * 100000007U) * 2654435761U;
	x = (x ^ x >> 15) * 2246822519U;
	return ((float)((x ^ x >> 13) >> 24) - 128) / 128;
}

/* The numbers of tensor t: a matrix in bfloat16, which holds all of them, a list in float32. */
static void add_numbers(struct buf *out, const struct part *p, uint32_t t)
{
	size_t n = (size_t)p->n * (size_t)MAX(p->k, 1);
	bool is_norm = !p->k && strstr(p->name, "weight");
	float scale = p->k ? ldexpf(1, (int)-lround(log2(p->k) / 2 - 0.5)) : is_norm ? 0.25f : 1;
	char *all = xmalloc(n * sizeof(float)), *to = all;
	for (size_t i = 0; i < n; i++) {
		float x = noise(t, (uint32_t)i) * scale + (float)is_norm;
		uint32_t bits;
		memcpy(&bits, &x, sizeof bits);
		uint16_t half = (uint16_t)(bits >> 16);
		memcpy(to, p->k ? (const void *)&half : (const void *)&x, p->k ? 2 : 4);
		to += p->k ? 2 : 4;
	}
	buf_add(out, all, (size_t)(to - all));
	free(all);
}

static char *tower_folder(const struct wide_tower *w)
{
	struct buf header = {0}, whole = {0};
	char *dir = image_dir();
	size_t at = 0;
	for (size_t t = 0; t < w->n_parts; t++) {
		const struct part *p = &w->parts[t];
		size_t end = at + (size_t)p->n * (p->k ? 2 * (size_t)p->k : 4);
		bool is_whole = strncmp(p->name, "multi_modal", 11) == 0;
		buf_addf(&header, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%d],"
			 "\"data_offsets\":[%zu,%zu]}", t ? "," : "{", is_whole ? "" : w->prefix,
			 p->name, p->k ? "BF16" : "F32", p->n * MAX(p->k, 1), at, end);
		at = end;
	}
	buf_add_c(&header, '}');
	while (header.n % 8 != 0)
		buf_add_c(&header, ' ');
	whole = image_make(buf_str(&header).p, 0);
	for (size_t t = 0; t < w->n_parts; t++)
		add_numbers(&whole, &w->parts[t], (uint32_t)t);
	image_write(dir, "model.safetensors", buf_str(&whole));
	buf_deinit(&header);
	buf_deinit(&whole);
	return dir;
}

/* bound: of the difference, a share of the largest number. */
static void test_tower(const struct wide_tower *w, const struct tensors *ts, bool is_exact,
		       double bound)
{
	static float mel[MELS * 130], rows[MOST_ROWS * OUT];
	char *path = xasprintf("tests/golden/vision/%s/wide.f32", w->name);
	const struct backend_opts o = {.name = "cpu", .n_threads = 2, .exact = is_exact};
	struct backend *b = NULL;
	struct sound_tower *t = NULL;
	struct fail fail = {0};
	struct buf golden = {0};
	double worst = 0, largest = 0;
	for (uint32_t i = 0; i < MELS * (uint32_t)w->n_frames; i++)
		mel[i] = (float)(i * 2654435761U >> 16) / 32768 - 1;
	enum status st = backend_create(&o, &b, &fail);
	if (st == OK)
		st = sound_tower_create(ts, b, &w->config, &t, &fail);
	if (st == OK)
		st = sound_tower_run(t, &(struct sound_piece){mel, w->n_frames, 0}, rows, &fail);
	if (st == OK)
		st = file_read(tap_src(path), 1 << 20, &golden, &fail);
	ok(st == OK, "%s: a tower runs %s", w->name, fail.text);
	is_int(golden.n, (size_t)w->n_rows * OUT / EVERY * sizeof *rows, "%d rows", w->n_rows);
	for (size_t i = 0; i < golden.n / sizeof *rows; i++) {
		float want;
		memcpy(&want, golden.p + i * sizeof want, sizeof want);
		worst = worse_of(worst, fabs((double)(rows[i * EVERY] - want)));
		largest = fmax(largest, fabs((double)want));
	}
	ok(largest > 0.4 && worst < bound * largest, "%s: largest difference %.1e of %.1e",
	   is_exact ? "exact" : "fast", worst, largest);
	free(path);
	buf_deinit(&golden);
	sound_tower_destroy(t);
	backend_destroy(b);
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(towers); i++) {
		struct tensors *ts = NULL;
		struct fail fail = {0};
		char *dir = tower_folder(&towers[i]);
		if (tensors_open(dir, &(struct model_opts){.use_mmap = true}, &ts, &fail) != OK) {
			printf("Bail out! %s\n", fail.text);
			return 1;
		}
		test_tower(&towers[i], ts, true, 1e-5);
		test_tower(&towers[i], ts, false, 0.02);
		tensors_close(ts);
		image_remove(dir);
	}
	return tap_done();
}
