/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs of steps as measured at start, of a graph on a clock of its own. Now and then
 * something holds a step up.
 */
#include "sched/step_costs.h"

#include "base/alloc.h"
#include "tests/tap.h"

enum { V = 50, MORE_US = 300, LONG = 512 };

static struct {
	int64_t us;
	int n_steps;
	int held;      /* the step that is held up; its width's first is 1 */
	int held_tok;  /* of so many tokens */
	int n_of_held; /* steps of that width so far */
	int64_t base_us;
	int n_wide[DRAFT_STEP + 1]; /* steps of two streams with drafts, by their tokens … */
	int n_long; /* … and of those with engine_batch.least_ctx = LONG */
} world;

static int64_t now_us(void *ctx)
{
	(void)ctx;
	return world.us;
}
static const struct clock virtual_clock = {now_us, NULL};

static enum status forward(void *ctx, const struct engine_batch *b, float *logits,
			   struct fail *fail)
{
	(void)ctx;
	(void)fail;
	memset(logits, 0, (size_t)b->n_logit_rows * V * sizeof *logits);
	world.us += world.base_us + MORE_US * (b->n_tok - 1);
	world.n_steps++;
	if (b->n_seq == 2 && b->has_drafts) {
		world.n_wide[b->n_tok]++;
		world.n_long += b->least_ctx == LONG;
	}
	if (b->n_tok == world.held_tok && ++world.n_of_held == world.held)
		world.us += 50000;
	return OK;
}

static struct draft_cost measure(int64_t base_us, int held_tok, int held, int64_t max_us)
{
	struct engine_graph g = {.n_vocab = V, .max_ctx = 64, .forward = forward};
	struct engine_opts o = {.n_ctx = 64, .max_batch_tok = 32, .max_seqs = 2};
	struct engine *e;
	struct draft_cost c;
	struct fail fail = {0};
	world.us = world.n_steps = world.n_of_held = 0;
	world.base_us = base_us;
	world.held_tok = held_tok;
	world.held = held;
	if (engine_create_with(&g, &o, 16, &e) != OK)
		exit(1);
	is_int(step_costs_measure(e, &virtual_clock, max_us, &c, &fail), OK, "measured: %s",
	       fail.text);
	engine_destroy(e);
	return c;
}

static void each_is_known(void)
{
	static const int measured[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
	struct draft_cost c = measure(1000, 0, 0, 1000000);
	struct buf b = {0};
	for (size_t i = 0; i < ARRAY_LEN(measured); i++)
		is_int((long)c.start[measured[i]], 1000 + MORE_US * (measured[i] - 1),
		       "a step of %d tokens", measured[i]);
	is_int((long)c.start[5], 0, "others are not measured");
	step_costs_print(&c, &b);
	ok(str_starts(buf_str(&b), STR("1: 1, 2: 1.3, 3: 1.6, ")), "%.*s", (int)b.n, b.p);
	buf_deinit(&b);
	c = measure(1000, 0, 0, 20000);
	is_int((long)c.start[2], 1300, "little time: the first ones");
	is_int((long)c.start[32], 0, "and not the widest");
	ok(world.us < 20000, "within it: %ld", (long)world.us);
}

/* Two steps of each width above two and of each bound up to the graph's, by two streams. */
static void recorded(int alone_ctx, int64_t max_us, int n_want, int n_long)
{
	struct engine_graph g = {.n_vocab = V, .max_ctx = 64, .alone_ctx = alone_ctx,
				 .forward = forward};
	struct engine_opts o = {.n_ctx = 64, .max_batch_tok = 32, .max_seqs = 2};
	struct engine *e;
	struct draft_cost c = measure(1000, 0, 0, 1000000);
	memset(world.n_wide, 0, sizeof world.n_wide);
	world.n_long = 0;
	if (engine_create_with(&g, &o, 16, &e) != OK)
		exit(1);
	is_int(step_costs_record(e, &virtual_clock, max_us, &c, NULL), OK, "recorded");
	is_int(world.n_wide[4], n_want, "up to %d positions: steps of 4 tokens", alone_ctx);
	is_int(world.n_wide[5], 0, "none of widths that are not known");
	is_int(world.n_long, n_long, "and those of the longest bound");
	engine_destroy(e);
}

/* Steps of 30 ms: two runs of a width are enough, unless the second was held up. */
static void held_up(void)
{
	struct draft_cost c = measure(30000, 0, 0, 4000000);
	is_int(world.n_steps, 2 * 10, "two runs of each width");
	for (int tok = 1; tok <= 4; tok *= 2)
		for (int held = 1; held <= 2; held++) {
			c = measure(30000, tok, held, 4000000);
			is_int((long)c.start[tok], 30000 + MORE_US * (tok - 1),
			       "run %d of %d tokens was held up: it does not count", held, tok);
			is_int(world.n_steps, 2 * 10 + (held == 2),
			       "a third run where the second was");
		}
}

/* Every run of a width was held up: it costs no more than a wider one. */
static void flat(void)
{
	struct draft_cost c = {0};
	draft_cost_begin(&c, 1, 1000);
	draft_cost_begin(&c, 2, 9000);
	draft_cost_begin(&c, 4, 1900);
	draft_cost_begin(&c, 8, 3000);
	step_costs_flatten(&c);
	is_int((long)c.start[1], 1000, "one token");
	is_int((long)c.start[2], 1900, "two cost what four cost, at most");
	is_int((long)c.us[2], 1900, "now as at start");
	is_int((long)c.start[3], 0, "what was not measured stays unknown");
	is_int((long)c.start[8], 3000, "the widest");
}

int main(void)
{
	each_is_known();
	held_up();
	recorded(0, 1000000, 0, 0);
	recorded(LONG, 1000000, 4, 16);
	recorded(LONG, 0, 0, 0);
	flat();
	return tap_done();
}
