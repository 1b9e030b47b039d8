/* SPDX-License-Identifier: Apache-2.0
 *
 * How a packed layer is found among tensors, and what is said where it is not whole.
 */
#include "model/model.h"
#include "model/quant.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

static struct fail fail;

struct part {
	const char *name, *dtype;
	int rows, cols, width; /* bytes of an element; cols 0: a vector of rows */
};

/* Open the layer "x" of (n, k), in groups of 16, out of these tensors. */
static enum status open_layer(const struct part *parts, int n_parts, int32_t n,
			      int32_t k, struct weight *out)
{
	struct buf h = {0};
	size_t at = 0;
	for (int i = 0; i < n_parts; i++) {
		const struct part *p = &parts[i];
		size_t size = (size_t)(p->rows * (p->cols ? p->cols : 1) * p->width);
		buf_addf(&h, "%s\"x.%s\":{\"dtype\":\"%s\",\"shape\":[%d",
			 i ? "," : "{", p->name, p->dtype, p->rows);
		if (p->cols)
			buf_addf(&h, ",%d", p->cols);
		buf_addf(&h, "],\"data_offsets\":[%zu,%zu]}", at, at + size);
		at += size;
	}
	buf_add_c(&h, '}');
	struct buf file = image_make(h.p, at);
	char *dir = image_dir();
	image_write(dir, "model.safetensors", buf_str(&file));
	struct model_opts o = {.use_mmap = false};
	struct quant_want w = {.name = "x", .n = n, .k = k,
			       .choice = {.is_packed = true, .is_asymmetric = true,
					  .group = 16}};
	struct tensors *ts;
	fail = (struct fail){0};
	if (tensors_open(dir, &o, &ts, &fail) != OK) {
		printf("# %s\n", fail.text);
		abort();
	}
	w.tensors = ts;
	enum status st = quant_ct_open(&w, out, &fail);
	if (st == OK) { /* reads every byte, under a sanitizer */
		float *v = xmalloc(sizeof *v * (size_t)n * (size_t)k);
		weight_decode(out, 0, n, v);
		free(v);
	}
	tensors_close(ts);
	image_remove(dir);
	buf_deinit(&file);
	buf_deinit(&h);
	return st;
}

#define PACKED {"weight_packed", "I32", 12, 4, 4}
#define SCALE {"weight_scale", "F16", 12, 2, 2}
#define ZERO {"weight_zero_point", "I32", 2, 2, 4}

static const struct {
	struct part parts[4];
	int n_parts;
	int32_t n, k;
	enum status want;
	const char *says;
} cases[] = {
	/* 12 rows: the second word of zero points is half full. */
	{{PACKED, SCALE, ZERO}, 3, 12, 32, OK, ""},
	{{PACKED, SCALE}, 2, 12, 32, E_MISSING, "x.weight_zero_point is missing"},
	{{SCALE, ZERO}, 2, 12, 32, E_MISSING, "x.weight_packed is missing"},
	{{PACKED, ZERO}, 2, 12, 32, E_MISSING, "x.weight_scale is missing"},
	{{PACKED, SCALE, {"weight_zero_point", "I32", 1, 2, 4}}, 3, 12, 32, E_FORMAT,
	 "x.weight_zero_point has 2 dimensions (1, 2"},
	{{PACKED, {"weight_scale", "F16", 12, 4, 2}, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_scale has 2 dimensions (12, 4"},
	{{PACKED, {"weight_scale", "F16", 24, 0, 2}, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_scale has 1 dimensions (24"},
	{{PACKED, {"weight_scale", "I16", 12, 2, 2}, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_scale is I16, not BF16"},
	{{{"weight_packed", "I64", 12, 4, 8}, SCALE, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_packed is I64, not I32"},
	{{PACKED, SCALE, ZERO, {"weight_g_idx", "I32", 32, 0, 4}}, 4, 12, 32,
	 E_UNSUPPORTED, "x.weight_g_idx"},
	{{PACKED, SCALE, ZERO, {"weight_shape", "I64", 2, 0, 8}}, 4, 12, 32, E_FORMAT,
	 "x.weight_shape says"},
	{{PACKED, SCALE, ZERO, {"weight_shape", "I64", 3, 0, 8}}, 4, 12, 32, E_FORMAT,
	 "x.weight_shape is not two I64"},
	{{PACKED, SCALE, ZERO}, 3, 12, 36, E_UNSUPPORTED, "36 inputs in groups of 16"},
	{{PACKED, SCALE, ZERO}, 3, 12, 40, E_UNSUPPORTED, "40 inputs in groups of 16"},
	{{PACKED, SCALE, ZERO}, 3, 13, 32, E_FORMAT, "needs (13, 4)"},
};

int main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct weight w;
		enum status st = open_layer(cases[i].parts, cases[i].n_parts,
					    cases[i].n, cases[i].k, &w);
		if (!ok(st == cases[i].want && strstr(fail.text, cases[i].says),
			"%s %s", status_name(cases[i].want), cases[i].says))
			printf("# %s: %s\n", status_name(st), fail.text);
	}
	return tap_done();
}
