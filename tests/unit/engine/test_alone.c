/* SPDX-License-Identifier: Apache-2.0
 *
 * Draft tokens that are sequences of their own for attention, on a HIP runtime for the CPU. Two
 * streams with drafts have the bits of steps without them. Steps of as many tokens share one
 * recording, whatever their streams. HALOD_CHECK=short, as under a sanitizer: one model.
 */
#include "backend/hip/hip.h"
#include "backend/hip/hip_launch.h"
#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine_draft.h"
#include "engine/memory_plan.h"
#include "tests/tap.h"

enum { N_STREAMS = 2, MAX_ROWS = 8 };

static char library[4096];

struct rig {
	struct model *m;
	struct backend *b;
	struct engine *e;
	int n_vocab;
};

/* alone_ctx below 0: the backend's own. */
static struct rig rig_open(const char *name, bool int8_kv, int alone_ctx)
{
	struct rig r = {0};
	struct fail fail = {0};
	struct backend_opts bo = {.name = "hip", .hip_library = library};
	struct engine_opts o = {.n_ctx = 384, .max_batch_tok = 64, .max_seqs = 2,
				.int8_kv = int8_kv};
	char *dir = file_join(tap_src("tests/golden/models"), name);
	enum status st = model_open(dir, NULL, &r.m, &fail);
	if (st == OK)
		st = backend_create(&bo, &r.b, &fail);
	if (st == OK && alone_ctx >= 0)
		r.b->alone_ctx = alone_ctx;
	if (st == OK)
		st = engine_create(r.m, r.b, &o, &r.e, &fail);
	if (st != OK) {
		ok(false, "%s: %s", dir, fail.text);
		exit(tap_done());
	}
	free(dir);
	r.n_vocab = engine_n_vocab(r.e);
	return r;
}

static void rig_close(struct rig *r)
{
	engine_destroy(r->e);
	backend_destroy(r->b);
	model_close(r->m);
}

static int32_t token_of(const struct rig *r, int i_stream, int at)
{
	return (int32_t)((at * 31 + i_stream * 17 + 5) % r->n_vocab);
}

/* Streams of n_seen[i] tokens go on by n[i] tokens: in steps of one, or in one step as a token
 * and draft tokens. rows: (sum of n, V), stream by stream. */
static void go_on(struct rig *r, const int *n_seen, const int *n, bool drafted, float *rows)
{
	struct engine_seq *seq[N_STREAMS];
	int32_t ids[N_STREAMS][384];
	struct engine_slice s[N_STREAMS];
	int cached, n_slices = 0;
	size_t v = (size_t)r->n_vocab;
	for (int i = 0; i < N_STREAMS; i++) {
		for (int k = 0; k < n_seen[i] + n[i]; k++)
			ids[i][k] = token_of(r, i, k);
		if (n[i] == 0)
			continue;
		seq[i] = engine_seq_create(r->e, ids[i], n_seen[i], &cached);
		for (int at = 0, k; at < n_seen[i]; at += k) {
			k = MIN(64, n_seen[i] - at);
			s[0] = (struct engine_slice){.seq = seq[i], .tokens = ids[i] + at, .n = k};
			is_int(engine_seq_reserve(r->e, seq[i], k), OK, "room");
			is_int(engine_step(r->e, s, 1, NULL), OK, "a prompt's step");
		}
	}
	for (int i = 0; i < N_STREAMS && drafted; i++) {
		if (n[i] == 0)
			continue;
		is_int(engine_seq_reserve_draft(r->e, seq[i], n[i]), OK, "room for draft tokens");
		s[n_slices++] = (struct engine_slice){
			.seq = seq[i], .tokens = ids[i] + n_seen[i], .n = n[i],
			.n_logits = n[i], .n_draft = n[i] - 1};
	}
	if (drafted)
		is_int(engine_step(r->e, s, n_slices, NULL), OK, "a step with drafts");
	for (int i = 0, row = 0, slice = 0; i < N_STREAMS; slice += n[i++] > 0) {
		for (int k = 0; k < n[i]; k++, row++) {
			if (!drafted) {
				s[0] = (struct engine_slice){
					.seq = seq[i], .tokens = ids[i] + n_seen[i] + k, .n = 1,
					.n_logits = 1};
				is_int(engine_seq_reserve(r->e, seq[i], 1), OK, "room");
				is_int(engine_step(r->e, s, 1, NULL), OK, "a token's step");
			}
			const float *l = engine_logits_row(r->e, drafted ? slice : 0,
							   drafted ? k : 0);
			memcpy(rows + (size_t)row * v, l, v * sizeof *l);
		}
	}
	for (int i = 0; i < N_STREAMS; i++)
		if (n[i])
			engine_seq_destroy(r->e, seq[i]);
}

/* The same bits as single tokens, and as draft tokens that are further tokens of their stream. */
static void same_bits(const char *name, bool int8_kv)
{
	static const int n_seen[] = {5, 37}, n[] = {4, 2};
	struct rig r = rig_open(name, int8_kv, -1), other = rig_open(name, int8_kv, 0);
	size_t n_bytes = (size_t)(n[0] + n[1]) * (size_t)r.n_vocab * sizeof(float);
	float *want = xmalloc(n_bytes), *got = xmalloc(n_bytes);
	ok(engine_alone_ctx(r.e) > 0, "%s: draft tokens may be alone", name);
	is_int(engine_alone_ctx(other.e), 0, "and need not");
	go_on(&r, n_seen, n, false, want);
	go_on(&r, n_seen, n, true, got);
	ok(memcmp(want, got, n_bytes) == 0, "%s%s: draft tokens of two streams have the bits of "
	   "single tokens", name, int8_kv ? ", cache in int8" : "");
	go_on(&other, n_seen, n, true, got);
	ok(memcmp(want, got, n_bytes) == 0, "also where they are not alone");
	free(want);
	free(got);
	rig_close(&r);
	rig_close(&other);
}

/* Steps of five tokens of two streams, in several ways, and of one stream. */
static void shared_recording(void)
{
	static const int n_seen[] = {3, 20},
			 ways[][N_STREAMS] = {{3, 2}, {3, 2}, {1, 4}, {4, 1}, {0, 5}};
	struct rig r = rig_open("qwen3-bf16", false, -1);
	float *rows = xmalloc(MAX_ROWS * (size_t)r.n_vocab * sizeof *rows);
	uint64_t n_captures = 0, n_replays = 0;
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		go_on(&r, n_seen, ways[i], true, rows);
		if (i == 1) {
			n_captures = r.b->n_captures;
			n_replays = r.b->n_replays;
		}
	}
	is_int((long)n_captures, 1, "the second step of five tokens is recorded");
	is_int((long)(r.b->n_captures - n_captures), 0, "and no way needs another recording");
	is_int((long)(r.b->n_replays - n_replays), 2, "two replay it; one stream's step differs");
	engine_set_least_ctx(r.e, 384);
	go_on(&r, n_seen, ways[2], true, rows);
	go_on(&r, n_seen, ways[2], true, rows);
	is_int((long)(r.b->n_captures - n_captures), 1, "a longer cache has one of its own");
	free(rows);
	rig_close(&r);
}

/* Kernels launched whose name has `of` in it. */
struct launches {
	const char *of;
	int n;
};

static void on_launch(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	struct launches *c = ctx;
	c->n += !is_done && strstr(l->kernel->name, c->of) != NULL;
}

/* A workgroup that writes its token's key while another reads it would race on a GPU: here
 * workgroups run one after the other, so only the names of the kernels tell. */
static void keys_before_attention(void)
{
	static const int n_seen[] = {3, 20}, n[] = {2, 2};
	struct rig r = rig_open("qwen3-bf16", false, -1);
	float *rows = xmalloc(MAX_ROWS * (size_t)r.n_vocab * sizeof *rows);
	struct launches c = {.of = "fused_split"};
	hip_of(r.b)->on_launch = on_launch;
	hip_of(r.b)->on_launch_ctx = &c;
	go_on(&r, n_seen, n, true, rows);
	is_int(c.n, 0, "no attention of draft tokens writes their keys itself");
	go_on(&r, n_seen, n, false, rows);
	ok(c.n > 0, "that of single tokens does");
	free(rows);
	rig_close(&r);
}

int main(void)
{
	static const char *const models[] = {"qwen3-bf16", "gemma3", "deepseekv3-yarn"};
	const char *lib = getenv("HALOD_TEST_HIP_LIBRARY");
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 getenv("HALOD_BUILDDIR") ? getenv("HALOD_BUILDDIR") : ".");
	if (lib)
		snprintf(library, sizeof library, "%s", lib);
	for (size_t i = 0; i < (tap_check("short") ? 1 : ARRAY_LEN(models)); i++)
		same_bits(models[i], false);
	same_bits("qwen3-bf16", true);
	shared_recording();
	keys_before_attention();
	return tap_done();
}
