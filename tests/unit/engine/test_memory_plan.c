/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/memory_plan.h"

#include "tests/tap.h"

#define GIB ((int64_t)1 << 30)
#define MIB ((int64_t)1 << 20)

/* As Qwen3-30B-A3B in int4: 48 layers of 4 heads of 128 for keys and for values, float16:
 * 96 KiB a token. */
static const struct memory_need model = {
	.weights = 17 * GIB, .scratch = GIB, .page = 16 * 96 * 1024};
static const struct memory_have box = {64 * GIB, 60 * GIB, true, "a box"};

static struct memory_wish wish(int32_t n_ctx, bool asked, int64_t kv_bytes)
{
	return (struct memory_wish){.page_size = 16, .max_seqs = 8, .n_ctx = n_ctx,
				    .ctx_is_asked = asked, .kv_bytes = kv_bytes};
}

static void fits(const struct memory_need *need, const struct memory_have *have,
		 struct memory_wish w, int64_t n_pages, int32_t n_ctx, const char *what)
{
	struct memory_plan p;
	struct fail fail = {0};
	is_int(memory_plan(need, have, &w, &p, &fail), OK, "%s", what);
	is_int(p.n_pages, n_pages, "%s: pages", what);
	is_int(p.n_ctx, n_ctx, "%s: context", what);
	if (fail.code)
		printf("# %s\n", fail.text);
}

static void refused(const struct memory_need *need, const struct memory_have *have,
		    struct memory_wish w, const char *key, const char *word,
		    const char *what)
{
	struct memory_plan p;
	struct fail fail = {0};
	is_int(memory_plan(need, have, &w, &p, &fail), E_CONFIG, "%s", what);
	is_str(fail.param, key, "%s: the key", what);
	ok(strstr(fail.text, word) != NULL, "%s: says \"%s\"", what, word);
	if (!strstr(fail.text, word))
		printf("# %s\n", fail.text);
}

/* Others shall have room beside it. */
static void test_shared(void)
{
	struct memory_wish w = wish(131072, false, 0);
	w.is_shared = true;
	fits(&model, &box, w, 16 * GIB / model.page, 131072, "a quarter of it for the cache");
	w.n_ctx = 1 << 20;
	fits(&model, &box, w, 16 * GIB / model.page, 16 * GIB / model.page * 16,
	     "a context that is too long becomes shorter");
	w.n_ctx = 262144;
	w.ctx_is_asked = true;
	fits(&model, &box, w, 24 * GIB / model.page, 262144, "unless somebody asked for it");
	w = wish(131072, false, 30 * GIB);
	w.is_shared = true;
	fits(&model, &box, w, 30 * GIB / model.page, 131072, "or for the cache's size");

	const struct memory_need dense = {.weights = GIB, .scratch = GIB, .page = MIB};
	struct memory_wish one = wish(16384, false, 0);
	one.is_shared = true;
	is_int(memory_plan_experts(&dense, &box, &one, 100 * GIB) / GIB, 16,
	       "a quarter of it for experts");
	is_int(memory_plan_experts(&dense, &box, &one, 40 * GIB), 0,
	       "experts that all fit are weights as others are");
	one.kv_bytes = 50 * GIB;
	is_int(memory_plan_experts(&dense, &box, &one, 100 * GIB) / GIB, 4,
	       "or less, where less is left");
}

/* A vision tower, an encoder and buffers take from the same memory. */
static void test_beside(void)
{
	struct fail fail = {0};
	struct memory_need need = model;
	need.beside = 8 * GIB;
	fits(&need, &box, wish(131072, false, 0), (38 - 8) * GIB / model.page, 131072,
	     "what is beside the model leaves less for the cache");
	refused(&need, &box, wish(131072, false, 35 * GIB), "kv_cache", "at most 30720M",
		"or less than was asked for");
	refused(&need, &box, wish(131072, false, 35 * GIB), "kv_cache",
		"other models, images and buffers 8.00 GiB", "it stands in the sum");
	const struct memory_need dense = {.weights = GIB, .scratch = GIB, .page = MIB,
					  .beside = 6 * GIB};
	const struct memory_wish one = wish(16384, false, 0);
	is_int(memory_plan_experts(&dense, &box, &one, 50 * GIB) / GIB, 47,
	       "and less for experts");

	struct memory_part tower = {.what = "the vision tower", .key = "images",
				    .advice = "Set images to off", .weights = 2 * GIB,
				    .scratch = GIB, .beside = 53 * GIB};
	is_int(memory_plan_part(&tower, &box, &fail), OK, "a tower that just fits");
	tower.scratch++;
	is_int(memory_plan_part(&tower, &box, &fail), E_CONFIG, "one that does not");
	is_str(fail.param, "images", "the key to change");
	ok(strstr(fail.text, "weights 2.00 GiB") && strstr(fail.text, "= 60.00 GiB") &&
	   strstr(fail.text, "Set images to off"), "says the sum: %s", fail.text);

	struct memory_wish beside = wish(8192, true, 50 * GIB);
	beside.model_key = "embedding_model";
	beside.ctx_key = "embedding_ctx";
	refused(&model, &box, beside, "embedding_ctx", "Set embedding_ctx to less",
		"a model that reads, with its longest text");
	beside.kv_bytes = 0;
	beside.n_ctx = 800000;
	beside.ctx_key = "transcription_ctx";
	refused(&model, &box, beside, "transcription_ctx", "Set transcription_ctx to less",
		"one whose cache has no bytes of its own");
	need.weights = 70 * GIB;
	refused(&need, &box, beside, "embedding_model", "Leave embedding_model out",
		"one that is too large");

	struct memory_plan p;
	const struct memory_wish w = wish(8192, false, 0);
	is_int(memory_plan(&model, &box, &w, &p, NULL), OK, "a model");
	is_int(p.taken, 18 * GIB + 8 * 512 * model.page, "what it takes");
	struct memory_ledger apu = {.device = box, .system = box};
	memory_ledger_take(&apu, true, 3);
	memory_ledger_take(&apu, false, 4);
	ok(apu.device_taken == 7 && apu.system_taken == 7, "all take of one memory");
	struct memory_ledger card = {.device = {48 * GIB, 48 * GIB, false, "a card"},
				     .system = box};
	memory_ledger_take(&card, true, 3);
	memory_ledger_take(&card, false, 4);
	ok(card.device_taken == 3 && card.system_taken == 4, "a card has its own");
}

int main(void)
{
	test_shared();
	test_beside();
	/* 60 free - 4 reserve - 18 = 38 GiB: 25,941 pages of 1.5 MiB. */
	fits(&model, &box, wish(8192, false, 0), 8 * 512, 8192, "all that is wished fits");
	fits(&model, &box, wish(131072, false, 0), 25941, 131072,
	     "a cache of fewer sequences than eight");
	fits(&model, &box, wish(1 << 20, false, 0), 25941, 25941 * 16,
	     "the model's context is too long, and nobody asked for it");
	refused(&model, &box, wish(1 << 20, true, 0), "ctx", "Set ctx to at most 415056",
		"somebody asked for it");
	fits(&model, &box, wish(131072, false, 20 * GIB), 20 * GIB / model.page, 131072,
	     "a size that fits");
	refused(&model, &box, wish(131072, false, 50 * GIB), "kv_cache", "at most 38912M",
		"a size that does not");
	refused(&model, &box, wish(131072, false, 50 * GIB), "kv_cache",
		"weights 17.00 GiB + KV cache 50.00 GiB", "it shows the sum");
	refused(&model, &box, wish(131072, false, 1000), "kv_cache", "no page",
		"less than a page");

	struct memory_have small = {24 * GIB, 18 * GIB, true, "a laptop"};
	refused(&model, &small, wish(8192, false, 0), "model", "18.00 GiB",
		"the weights leave nothing");
	small.free = 19 * GIB + 512 * MIB + 100 * model.page; /* reserve: 1.5 GiB */
	fits(&model, &small, wish(8192, false, 0), 100, 1600, "little is left");
	small.free = 19 * GIB + 512 * MIB + 2 * model.page;
	refused(&model, &small, wish(8192, false, 0), "model", "does not fit",
		"less than the shortest context");

	struct memory_have card = {48 * GIB, 48 * GIB, false, "a card"};
	struct memory_plan p;
	struct memory_wish w = wish(8192, false, 0);
	is_int(memory_plan(&model, &card, &w, &p, NULL), OK, "a card");
	is_int(p.reserve, 512 * MIB, "its driver needs less than a system");
	is_int(memory_plan(&model, &box, &w, &p, NULL), OK, "a box");
	is_int(p.reserve, 4 * GIB, "a sixteenth stays free");

	struct memory_need recurrent = {.weights = GIB, .states = 60 * GIB, .page = MIB};
	refused(&recurrent, &box, wish(8192, false, 0), "model", "state_checkpoints",
		"too many recurrent states");
	/* 60 free - 4 reserve - 1 - 1 = 54 GiB for experts and the KV cache of one. */
	struct memory_need dense = {.weights = GIB, .scratch = GIB, .page = MIB};
	struct memory_wish one = wish(16384, false, 0); /* 1024 pages: 1 GiB */
	is_int(memory_plan_experts(&dense, &box, &one, 40 * GIB), 0, "all experts fit");
	is_int(memory_plan_experts(&dense, &box, &one, 50 * GIB) / GIB, 53,
	       "they do not fit with what panels add: all that is left");
	one.kv_bytes = 10 * GIB;
	is_int(memory_plan_experts(&dense, &box, &one, 100 * GIB) / GIB, 44,
	       "a KV cache that was asked for comes first");
	one = wish(1 << 20, false, 0); /* 64 GiB a sequence */
	is_int(memory_plan_experts(&dense, &box, &one, 100 * GIB) / GIB, 40,
	       "else it has a quarter at most");

	struct memory_need none = {.weights = GIB};
	fits(&none, &box, wish(8192, false, 0), 8 * 512, 8192, "a model without a cache");
	return tap_done();
}
