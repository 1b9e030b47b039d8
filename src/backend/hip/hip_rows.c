/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on rows: embed_rows, gather_rows, copy_words, fill_words, scale_rows, to_act,
 * rope_table, rms_norm, act_mul, logits_cap, logits_top, move_pieces. The .hip files describe
 * the grids.
 */
#include "backend/hip/hip_launch.h"

enum { ROW_THREADS = 256, RMS_NORM_THREADS = 512, ROPE_THREADS = 64, ACT_EACH = 8 };

enum status hip_embed_rows(struct backend *b, const struct embed_rows_args *a)
{
	struct embed_rows_args v = *a;
	struct weight_view table = hip_view(a->table);
	if (a->table->order)
		return hip_refuse(hip_of(b), "embeddings whose columns are sorted");
	struct hip_grid g = {DIV_UP(table.k, ROW_THREADS), v.n_tok, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("embed_rows_%s_kernel", quant_name(a->table->quant)), g,
		      ARG(table), ARG(v.token), ARG(v.x), ARG(v.scale));
}

enum status hip_gather_rows(struct backend *b, const struct gather_rows_args *a)
{
	struct gather_rows_args v = *a;
	struct hip_grid g = {DIV_UP(v.dim, ROW_THREADS), v.n_rows, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("gather_rows_kernel"), g, ARG(v.dim), ARG(v.x),
		      ARG(v.row), ARG(v.y));
}

enum status hip_copy_words(struct backend *b, const struct copy_words_args *a)
{
	struct copy_words_args v = *a;
	struct hip_grid g = {DIV_UP(v.n, ROW_THREADS), 1, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("copy_words_kernel"), g, ARG(v.n), ARG(v.x), ARG(v.y));
}

enum status hip_fill_words(struct backend *b, const struct fill_words_args *a)
{
	struct fill_words_args v = *a;
	struct hip_grid g = {DIV_UP(v.n, ROW_THREADS), 1, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("fill_words_kernel"), g, ARG(v.n), ARG(v.value), ARG(v.y));
}

enum status hip_scale_rows(struct backend *b, const struct scale_rows_args *a)
{
	struct scale_rows_args v = *a;
	struct hip_grid g = {DIV_UP(v.dim, ROW_THREADS), v.n_tok, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("scale_rows_kernel"), g, ARG(v.dim), ARG(v.scale), ARG(v.x),
		      ARG(v.y));
}

enum status hip_to_act(struct backend *b, const struct to_act_args *a)
{
	struct to_act_args v = *a;
	uint64_t n = (uint64_t)v.n_tok * (uint64_t)v.dim;
	struct hip_grid g = {(int32_t)DIV_UP(n, ROW_THREADS), 1, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("to_act_kernel"), g, ARG(n), ARG(v.x), ARG(v.y));
}

enum status hip_move_pieces(struct backend *b, const struct move_pieces_args *a)
{
	struct move_pieces_args v = *a;
	int32_t is_load = v.is_load;
	struct hip_grid g = {v.n_pieces, v.n, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("move_pieces_kernel"), g, ARG(v.piece), ARG(v.at),
		      ARG(v.memory), ARG(v.block), ARG(v.block_bytes), ARG(is_load));
}

enum status hip_rope_table(struct backend *b, const struct rope_table_args *a)
{
	struct rope_table_args v = *a;
	struct hip_grid g = {v.n_tok, 1, ROPE_THREADS, 0};
	if (v.n_freq == 0)
		return OK;
	return LAUNCH(hip_of(b), PLAIN("rope_table_kernel"), g, ARG(v.n_freq), ARG(v.position),
		      ARG(v.inv_freq), ARG(v.table), ARG(v.scale), ARG(v.axis));
}

#define NORM(name) hip_kernel(KERNEL_PLAIN, PROFILE_NORM, name)

enum status hip_rms_norm(struct backend *b, const struct rms_norm_args *a)
{
	struct rms_norm_args v = *a;
	struct hip_grid g = {v.n_tok, 1, RMS_NORM_THREADS, 0};
	v.y_pitch = v.y_pitch ? v.y_pitch : v.dim;
	if (v.sum && (v.add || v.n_weights > 1))
		return hip_refuse(hip_of(b), "a norm between two sums, or with several weights");
	v.sum_scale = rms_norm_sum_scale(a);
	if (v.y_low && (v.sum || v.add || v.n_weights > 1 || v.y_pitch != v.dim))
		return hip_refuse(hip_of(b), "a norm of two halves that does more");
	if (v.y_low) {
		float times = RMS_NORM_LOW;
		return LAUNCH(hip_of(b), NORM("rms_norm_low_kernel"), g, ARG(v.dim), ARG(v.eps),
			      ARG(v.x), ARG(v.weight), ARG(v.y), ARG(v.y_low), ARG(times));
	}
	if (v.sum)
		return LAUNCH(hip_of(b), NORM("rms_norm_sum_kernel"), g, ARG(v.dim), ARG(v.eps),
			      ARG(v.x), ARG(v.weight), ARG(v.sum), ARG(v.sum_scale));
	return LAUNCH(hip_of(b), NORM("rms_norm_kernel"), g, ARG(v.dim), ARG(v.eps), ARG(v.x),
		      ARG(v.add), ARG(v.weight), ARG(v.y), ARG(v.y_pitch), ARG(v.n_weights));
}

enum status hip_act_mul(struct backend *b, const struct act_mul_args *a)
{
	static const char *const names[] = {[ACT_SILU] = "silu", [ACT_GELU_TANH] = "gelu",
					    [ACT_RELU] = "relu"};
	struct act_mul_args v = *a;
	uint64_t n = (uint64_t)v.n_tok * (uint64_t)v.dim, each = ROW_THREADS * ACT_EACH;
	struct hip_grid g = {(int32_t)DIV_UP(n, each), 1, ROW_THREADS, 0};
	struct hip_grid rows = {DIV_UP(v.dim, ROW_THREADS), v.n_tok, ROW_THREADS, 0};
	if (v.up_pitch && v.act.kind != ACT_GELU_TANH)
		return hip_refuse(hip_of(b), "wider rows with this activation");
	if (v.up_pitch)
		return LAUNCH(hip_of(b), PLAIN("gelu_rows_kernel"), rows, ARG(v.dim),
			      ARG(v.up_pitch), ARG(v.gate), ARG(v.up), ARG(v.y));
	if (v.act.kind == ACT_CLAMPED)
		return LAUNCH(hip_of(b), PLAIN("clamped_mul_kernel"), g, ARG(n), ARG(v.gate),
			      ARG(v.up), ARG(v.y), ARG(v.act.alpha), ARG(v.act.limit));
	if (v.act.kind == ACT_CLIPPED)
		return LAUNCH(hip_of(b), PLAIN("clipped_mul_kernel"), g, ARG(n), ARG(v.gate),
			      ARG(v.up), ARG(v.y), ARG(v.act.gate_limit), ARG(v.act.limit));
	if (v.act.kind == ACT_SCALED)
		return LAUNCH(hip_of(b), PLAIN("scaled_mul_kernel"), g, ARG(n), ARG(v.gate),
			      ARG(v.up), ARG(v.y), ARG(v.act.alpha), ARG(v.act.scale));
	return LAUNCH(hip_of(b), PLAIN("%s_mul_kernel", names[v.act.kind]), g, ARG(n), ARG(v.gate),
		      ARG(v.up), ARG(v.y));
}

enum status hip_logits_cap(struct backend *b, const struct logits_cap_args *a)
{
	struct logits_cap_args v = *a;
	float inv_cap = 1 / v.cap;
	struct hip_grid g = {DIV_UP(v.n_vocab, ROW_THREADS), v.n_rows, ROW_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("logits_cap_kernel"), g, ARG(v.n_vocab), ARG(v.cap),
		      ARG(inv_cap), ARG(v.x));
}

enum status hip_logits_top(struct backend *b, const struct logits_top_args *a)
{
	enum { RUN_WAVES = 8, TOP_THREADS = 1024 };
	struct hip *h = hip_of(b);
	struct logits_top_launch l = {
		.logits = a->logits, .inv_t = a->inv_t, .runs = h->work, .out = a->out,
		.n_vocab = a->n_vocab, .each = DIV_UP(a->n_vocab, 32 * LOGITS_TOP_RUNS)};
	if (a->n_vocab > LOGITS_TOP_MAX_VOCAB)
		return hip_refuse(h, "a vocabulary of %d", (int)a->n_vocab);
	l.n_runs = DIV_UP(a->n_vocab, 32 * l.each);
	if ((size_t)a->n_rows * (size_t)l.n_runs > HIP_WORK_BYTES / sizeof *l.runs)
		return hip_refuse(h, "%d rows of logits", (int)a->n_rows);
	enum status st = LAUNCH(h, PLAIN("logits_runs_kernel"),
				((struct hip_grid){DIV_UP(l.n_runs, RUN_WAVES), a->n_rows,
						   32 * RUN_WAVES, 0}), ARG(l));
	return st == OK ? LAUNCH(h, PLAIN("logits_top_kernel"),
				 ((struct hip_grid){a->n_rows, 1, TOP_THREADS, 0}), ARG(l))
			: st;
}
