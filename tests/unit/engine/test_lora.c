/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences with different adapters, and without one, in the same steps: of dense layers, of latent
 * attention, of recurrent layers, and of routed experts. Each has the bits that it has alone, on
 * the CPU's two paths and on a HIP runtime for the CPU. Those without one have the bits of an
 * engine without adapters. tests/ctl/test_lora.py compares with PEFT. HALOD_CHECK=short, as under
 * a sanitizer: on fibers the first and the last model.
 */
#include "backend/hip/hip.h"
#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "model/lora.h"
#include "tests/tap.h"
#include "tests/unit/engine/renamed.h"

enum { N_SEQS = 4, N_STEPS = 3, PROMPT = 21, VOCAB = 512 };

/* Models, each with two adapters, in tests/golden, and tokens of the sequences' prompts. Bits are
 * the same in steps within few_tok (backend.h): a prompt is within it alone and with the others, or
 * in neither. */
static const struct set {
	const char *model, *loras[2];
	int prompts[N_SEQS];
} sets[] = {{"llama-biases", {"all", "other"}, {PROMPT, 18, 17, 19}},
	    {"qwen35", {"net", "net"}, {4, 2, 1, 3}},
	    {"deepseekv3-yarn", {"latent", "latent"}, {4, 2, 1, 3}},
	    {"kimilinear", {"kda", "kda"}, {4, 2, 1, 3}},
	    {"mixtral", {"experts", "experts-each"}, {4, 2, 1, 3}}};

struct rig {
	const struct set *of;
	struct model *m;
	struct backend *b;
	struct engine *e;
	struct lora *loras[2];
};

static char library[4096];
/* Adapter of each sequence, 0: none, with its factor. */
static const int lora_of[N_SEQS] = {1, 0, 2, 1};
static const float scale_of[N_SEQS] = {1, 1, -0.5f, 0.25f};

static struct lora *open_lora(const struct model *m, const char *name, bool looks,
			      struct fail *fail)
{
	struct lora *l = NULL;
	char *path = file_join(tap_src("tests/golden/lora"), name);
	(void)!lora_open(path, m, looks, &l, fail);
	free(path);
	return l;
}

static struct rig rig_open(const struct set *of, const char *name, bool is_exact, int n_loras)
{
	struct rig r = {.of = of};
	struct fail fail = {0};
	struct backend_opts bo = {.name = name, .n_threads = 2, .exact = is_exact,
				  .hip_library = library};
	struct engine_opts o = {.n_ctx = 64, .max_batch_tok = 80, .max_seqs = N_SEQS};
	char *path = file_join(tap_src("tests/golden/models"), of->model);
	enum status st = model_open(path, NULL, &r.m, &fail);
	free(path);
	for (int i = 0; i < n_loras && st == OK; i++) {
		r.loras[i] = open_lora(r.m, of->loras[i], false, &fail);
		st = r.loras[i] ? OK : fail.code;
	}
	o.loras = (const struct lora *const *)r.loras;
	o.n_loras = n_loras;
	if (st == OK)
		st = backend_create(&bo, &r.b, &fail);
	if (st == OK)
		st = engine_create(r.m, r.b, &o, &r.e, &fail);
	if (st != OK) {
		ok(false, "%s, %s: %s", of->model, name, fail.text);
		exit(tap_done());
	}
	return r;
}

static void rig_close(struct rig *r)
{
	engine_destroy(r->e);
	backend_destroy(r->b);
	for (int i = 0; i < 2; i++)
		lora_close(r->loras[i]);
	model_close(r->m);
}

/* Runs the sequences of a set (bits) together: their prompts, then steps of a token each. out:
 * logits after each step, (N_SEQS, N_STEPS + 1, V). */
static void run(struct rig *r, unsigned set, float *out)
{
	struct engine_seq *seq[N_SEQS] = {NULL};
	int32_t ids[N_SEQS][PROMPT + N_STEPS];
	struct engine_slice s[N_SEQS];
	struct fail fail = {0};
	int cached, which[N_SEQS];
	for (int i = 0; i < N_SEQS; i++)
		for (int k = 0; k < PROMPT + N_STEPS; k++)
			ids[i][k] = (k * 31 + i * 17 + 5) % VOCAB;
	for (int step = 0; step <= N_STEPS; step++) {
		int n = 0;
		for (int i = 0; i < N_SEQS; i++) {
			static const char *const spaces[] = {"a", "b", "c", "d"};
			const struct engine_prompt p = {.tokens = ids[i], .n = r->of->prompts[i],
							.space = str_of(spaces[i]),
							.lora = r->loras[0] ? lora_of[i] : 0,
							.lora_scale = scale_of[i]};
			if (!(set >> i & 1))
				continue;
			if (step == 0)
				seq[i] = engine_seq_create_in(r->e, &p, &cached);
			int at = engine_seq_length(seq[i]);
			int n_tok = step ? 1 : r->of->prompts[i] - at;
			if (engine_seq_reserve(r->e, seq[i], n_tok) != OK)
				ok(false, "room");
			s[n] = (struct engine_slice){.seq = seq[i], .tokens = ids[i] + at,
						     .n = n_tok, .n_logits = 1};
			which[n++] = i;
		}
		if (engine_step(r->e, s, n, &fail) != OK)
			ok(false, "a step: %s", fail.text);
		for (int k = 0; k < n; k++)
			memcpy(out + (which[k] * (N_STEPS + 1) + step) * VOCAB,
			       engine_logits(r->e, k), VOCAB * sizeof *out);
	}
	for (int i = 0; i < N_SEQS; i++)
		engine_seq_destroy(r->e, seq[i]);
}

static bool is_same(const float *a, const float *b, int i)
{
	size_t n = (N_STEPS + 1) * VOCAB;
	return memcmp(a + (size_t)i * n, b + (size_t)i * n, n * sizeof *a) == 0;
}

static void test_mixed(const struct set *of, const char *name, bool is_exact)
{
	enum { ALL = N_SEQS * (N_STEPS + 1) * VOCAB };
	static float mixed[ALL], alone[ALL], bare[ALL], again[ALL];
	struct rig r = rig_open(of, name, is_exact, 2);
	char what[80];
	snprintf(what, sizeof what, "%s, %s%s", of->model, name, is_exact ? ", exact" : "");
	run(&r, 15, mixed);
	for (int i = 0; i < N_SEQS; i++) {
		run(&r, 1u << i, alone);
		ok(is_same(mixed, alone, i), "%s: sequence %d has the bits that it has alone",
		   what, i);
	}
	run(&r, 15, again); /* a step with adapters after those without */
	ok(memcmp(mixed, again, sizeof mixed) == 0, "%s: and again", what);
	rig_close(&r);
	r = rig_open(of, name, is_exact, 0);
	run(&r, 15, bare);
	for (int i = 0; i < N_SEQS; i++)
		ok(is_same(mixed, bare, i) == (lora_of[i] == 0), "%s: sequence %d is %s that of "
		   "a model without adapters", what, i, lora_of[i] ? "not" : "bit by bit");
	rig_close(&r);
}

/* All adapters count in the plan of the memory. */
static void test_memory(void)
{
	struct rig r = rig_open(&sets[0], "cpu", true, 2);
	struct memory_plan without, with, all;
	struct engine_opts o = {.n_ctx = 64, .max_seqs = 1};
	struct fail fail = {0};
	size_t n = 0;
	for (int i = 0; i < 2; i++)
		n += lora_bytes(r.loras[i]);
	ok(engine_plan(r.m, r.b, &o, &without, &fail) == OK, "a plan without adapters");
	o.loras = (const struct lora *const *)r.loras;
	o.n_loras = 2;
	ok(engine_plan(r.m, r.b, &o, &with, &fail) == OK, "a plan with them");
	ok(with.taken >= without.taken + (int64_t)n, "takes the bytes of their matrices more");
	struct memory_have have = {.total = 16 << 20, .is_system = true, .device = "here"};
	have.free = with.taken + (1 << 20) + (int64_t)n; /* a sixteenth stays free */
	o.have = &have;
	ok(engine_plan(r.m, r.b, &o, &all, &fail) == OK, "the files' copies have room, too");
	have.free--;
	is_int(engine_plan(r.m, r.b, &o, &all, &fail), E_CONFIG, "or the plan is refused");
	have.is_system = false;
	ok(engine_plan(r.m, r.b, &o, &all, &fail) == OK,
	   "unless the device has a memory of its own");
	o.have = NULL;
	for (int i = 0; i < 2; i++) {
		lora_close(r.loras[i]);
		r.loras[i] = open_lora(r.m, sets[0].loras[i], true, &fail);
		ok(r.loras[i] && !r.loras[i]->modules[0].a, "a look has no numbers");
	}
	struct memory_plan look;
	ok(engine_plan(r.m, r.b, &o, &look, &fail) == OK && look.taken == with.taken,
	   "and plans the same");
	rig_close(&r);
}

/* Caches know an adapter by its hash, which also tells what numbers its bytes are. */
static void test_hash(void)
{
	static const char *const names[][2] = {{"\"BF16\"", "\"F16\" "}};
	struct fail fail = {0};
	struct model *m = NULL;
	struct lora *own = NULL, *other = NULL;
	char *dir = image_dir();
	const char *from = tap_src("tests/golden/lora/all");
	copy_renamed(from, "adapter_config.json", dir, names, 1);
	copy_renamed(from, "adapter_model.safetensors", dir, names, 1);
	is_int(model_open(tap_src("tests/golden/models/llama-biases"), NULL, &m, &fail), OK, "%s",
	       fail.text);
	own = open_lora(m, sets[0].loras[0], false, &fail);
	is_int(lora_open(dir, m, false, &other, &fail), OK, "%s", fail.text);
	ok(own && other && own->hash != other->hash, "other numbers, another hash");
	lora_close(own);
	lora_close(other);
	model_close(m);
	image_remove(dir);
}

int main(void)
{
	const char *build = getenv("HALOD_BUILDDIR");
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so", build ? build : ".");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		test_mixed(&sets[i], "cpu", true);
		test_mixed(&sets[i], "cpu", false);
		if (!tap_check("short") || i % (ARRAY_LEN(sets) - 1) == 0)
			test_mixed(&sets[i], "hip", false);
	}
	test_memory();
	test_hash();
	return tap_done();
}
