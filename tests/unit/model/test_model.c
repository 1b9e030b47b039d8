/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole model directories: the three in this tree, and broken copies of them.
 */
#include "model/model.h"

#include <math.h>

#include "tests/tap.h"
#include "tests/unit/model/image.h"

#define DENSE "tests/golden/models/qwen3-bf16"
#define TINY "models/halo-tiny"

static struct fail fail;

static struct model *open_model(const char *relative)
{
	struct model *m = NULL;
	fail = (struct fail){0};
	if (model_open(tap_src(relative), NULL, &m, &fail) != OK)
		printf("# %s: %s\n", relative, fail.text);
	return m;
}

static void compare_row(const struct model *m, const char *line)
{
	char name[200];
	int n, k, row, at;
	double want[7];
	if (sscanf(line, "%199s %d %d %d%n", name, &n, &k, &row, &at) != 4)
		abort();
	const char *p = line + at;
	for (int i = 0; i < 7; i++) {
		char *end;
		want[i] = strtod(p, &end);
		p = end;
	}
	struct weight w;
	if (!ok(model_weight(m, name, n, k, &w, &fail) == OK, "%s is there: %s",
		name, fail.text))
		return;
	float *v = xmalloc((size_t)k * sizeof *v);
	weight_decode(&w, row, row + 1, v);
	double got[7] = {0, 0, v[0], v[7], v[8], v[k / 2 + 1], v[k - 1]};
	for (int i = 0; i < k; i++) {
		got[0] += v[i];
		got[1] += (double)v[i] * i;
	}
	/* Nine digits are in the file. */
	bool same = true;
	for (int i = 0; i < 7; i++)
		same = same && fabs(got[i] - want[i]) <= 1e-8 + 1e-8 * fabs(want[i]);
	ok(same, "row %d of %s", row, name);
	free(v);
}

static void test_golden_rows(void)
{
	struct buf text = {0};
	if (file_read(tap_src("tests/golden/weights.tsv"), 1 << 20, &text, NULL))
		abort();
	struct model *m = NULL;
	char folder[200] = "";
	char *save;
	for (char *line = strtok_r(text.p, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *tab = strchr(line, '\t');
		*tab = '\0';
		if (strcmp(folder, line) != 0) {
			model_close(m);
			m = open_model(line);
			snprintf(folder, sizeof folder, "%s", line);
		}
		if (m)
			compare_row(m, tab + 1);
	}
	model_close(m);
	buf_deinit(&text);
}

static void test_tiny(void)
{
	struct model *m = open_model(TINY);
	if (!ok(m, "halo-tiny opens"))
		return;
	is_int(m->config.n_layers, 8, "its layers");
	is_int(m->config.n_experts_used, 4, "its experts");
	ok(m->defaults.n_eos == 2 && m->defaults.eos_ids[0] == 3065, "its ends");
	is_near(m->defaults.temperature, 0.6, 1e-6, "its temperature");
	is_str(m->eos_text, "<|im_end|>", "its end, spelled");
	ok(strstr(m->chat_template, "<|im_start|>"), "its chat template");
	is_int(tokenizer_n_ids(m->tokenizer), 3072, "its vocabulary");
	struct weight w;
	is_int(model_weight(m, "model.layers.0.self_attn.q_proj", 512, 256, &w, &fail),
	       OK, "a packed weight");
	ok(w.quant == QUANT_INT4 && w.group == 32 && !w.zero_points &&
		   w.scale_type == DTYPE_BF16, "is what the config says");
	is_int(weight_bytes(&w), 512 * 128 + 512 * 8 * 2, "its bytes");
	is_int(model_weight(m, "model.layers.0.self_attn.q_proj", 512, 512, &w, &fail),
	       E_FORMAT, "of the wrong shape");
	ok(strstr(fail.text, "model.layers.0.self_attn.q_proj"), "says which: %s",
	   fail.text);
	is_int(model_weight(m, "model.layers.8.self_attn.q_proj", 512, 256, &w, &fail),
	       E_MISSING, "a layer too far");
	ok(strstr(fail.text, "layers.8.self_attn.q_proj.weight_packed"),
	   "says which: %s", fail.text);
	is_int(model_weight(m, "model.embed_tokens", 3200, 256, &w, &fail), OK,
	       "embeddings are no Linear and plain");
	is_int(w.quant, QUANT_BF16, "bf16");
	ok(model_has(m, "model.norm.weight") && model_has(m, "model.norm") &&
		   model_has(m, "model.layers.0.self_attn.q_proj") &&
		   !model_has(m, "lm_head"), "model_has");
	const float *v;
	is_int(model_vector(m, "model.norm.weight", 256, &v, &fail), OK, "a vector");
	is_near(v[0], 0.828125, 0, "of bf16");
	is_int(model_vector(m, "model.norm.weight", 255, &v, &fail), E_FORMAT,
	       "of the wrong length");
	is_int(model_vector(m, "model.layers.0.mlp.experts.0.up_proj.weight_packed",
			    128, &v, &fail), E_FORMAT, "of the wrong type");
	is_int(model_vector(m, "nope", 1, &v, &fail), E_MISSING, "of no name");
	model_close(m);
}

static void test_pread(void)
{
	struct model_opts o = {.use_mmap = false};
	struct model *m = NULL;
	is_int(model_open(tap_src("tests/golden/models/qwen3moe-ct-asym"), &o, &m,
			  &fail), OK, "without mmap");
	struct weight w;
	is_int(model_weight(m, "model.layers.0.self_attn.v_proj", 128, 128, &w, &fail),
	       OK, "a weight whose parts lie in two files");
	ok(w.zero_points, "asymmetric");
	is_int(m->defaults.eos_ids[0], 500, "eos without generation_config.json");
	model_close(m);
}

/* A copy of the dense model in which one file is another. */
static enum status open_with(const char *file, struct str bytes)
{
	static const char *const files[] = {"config.json", "tokenizer.json",
					    "tokenizer_config.json",
					    "model.safetensors"};
	char *dir = image_dir();
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct buf b = {0};
		char *from = file_join(tap_src(DENSE), files[i]);
		if (file_read(from, 16 << 20, &b, NULL) != OK)
			abort();
		image_write(dir, files[i], buf_str(&b));
		buf_deinit(&b);
		free(from);
	}
	image_write(dir, file, bytes);
	struct model *m = NULL;
	fail = (struct fail){0};
	enum status st = model_open(dir, NULL, &m, &fail);
	model_close(m);
	image_remove(dir);
	return st;
}

static void test_broken(void)
{
	struct buf b = {0};
	char *weights = file_join(tap_src(DENSE), "model.safetensors");
	if (file_read(weights, 16 << 20, &b, NULL) != OK)
		abort();
	free(weights);
	is_int(open_with("model.safetensors", buf_str(&b)), OK, "an honest copy");
	is_int(open_with("model.safetensors", (struct str){b.p, b.n - 1}), E_FORMAT,
	       "a byte short");
	ok(strstr(fail.text, "truncated") && strstr(fail.text, "tensor "),
	   "says so: %s", fail.text);
	is_int(open_with("model.safetensors", (struct str){b.p, 0}), E_FORMAT,
	       "an empty file");
	buf_deinit(&b);
	is_int(open_with("config.json", STR("{")), E_FORMAT, "half a config.json");
	ok(strstr(fail.text, "config.json"), "says so: %s", fail.text);
	is_int(open_with("generation_config.json", STR("{\"top_p\":7}")), E_FORMAT,
	       "a bad generation_config.json");
	is_int(model_open("/nonexistent", NULL, &(struct model *){0}, &fail),
	       E_MISSING, "no folder");
	ok(strstr(fail.text, "/nonexistent: there is no such folder"), "says so: %s", fail.text);
}

/* ModelOpt's own file, beside a config.json that says nothing. */
static void test_modelopt(void)
{
	static const char file[] = "hf_quant_config.json";
	is_int(open_with(file, STR("{\"producer\":{},\"quantization\":{\"quant_algo\":"
				   "\"NVFP4\",\"group_size\":16}}")), OK,
	       "hf_quant_config.json: %s", fail.text);
	is_int(open_with(file, STR("{\"quantization\":{\"quant_algo\":\"NVFP8\"}}")),
	       E_UNSUPPORTED, "is read");
	is_str(fail.param, "quant_algo", "names the key");
	is_int(open_with(file, STR("{}")), E_FORMAT, "without quantization");
	ok(strstr(fail.text, file), "says so: %s", fail.text);
}

int main(void)
{
	test_modelopt();
	test_golden_rows();
	test_tiny();
	test_pread();
	test_broken();
	return tap_done();
}
