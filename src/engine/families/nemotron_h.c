/* SPDX-License-Identifier: Apache-2.0
 *
 * Nemotron-H: layers of one part alone, which are state spaces of Mamba-2, attention without
 * rotation, dense parts, or experts beside a shared one. Feed-forward parts have no gate, and the
 * activation max(x, 0)^2. In Nemotron 3 Super two projections lead to routed experts and back,
 * which are narrower than x. Source: modeling_nemotron_h.py of Hugging Face Transformers.
 */
#include "engine/family.h"

#include "base/alloc.h"

static void nemotron_h_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	bool is_mixer = model_has_part(c, i, PART_MIXER);
	if (is_mixer && c->is_linear[i])
		l->delta = family_delta(g, DELTA_MAMBA);
	else if (is_mixer)
		l->attention = family_attention(g, i);
	if (!model_has_part(c, i, PART_MLP))
		return;
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	l->experts.is_ungated = l->experts.shared.is_ungated = true;
	l->experts.in_dim = c->latent_dim;
	l->experts.shared_is_apart = c->latent_dim > 0;
	if (!l->experts.n)
		l->mlp = family_mlp(g);
	l->mlp.is_ungated = true;
}

/* The two projections, own[0] (L, D) and own[1] (D, L). */
static enum status nemotron_h_load(struct graph *g, int i, struct fail *fail)
{
	struct layer *l = &g->layers[i];
	int32_t d = g->dim, n = l->experts.in_dim;
	const struct graph_part parts[] = {
		{"mlp.fc1_latent_proj", GRAPH_WEIGHT, n, d, &l->own[0]},
		{"mlp.fc2_latent_proj", GRAPH_WEIGHT, d, n, &l->own[1]},
	};
	return l->experts.n && n ? graph_load_parts(g, i, parts, 2, fail) : OK;
}

static enum status nemotron_h_alloc(struct graph *g, struct fail *fail)
{
	size_t n = (size_t)g->limits.max_batch_tok * (size_t)g->c->latent_dim;
	const struct graph_want wanted[] = {
		{&g->own.in, n * dtype_bytes(g->b->act_type) + 1},
		{&g->own.both, n * sizeof *g->own.both + 1},
	};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

static enum status narrow_experts(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args norm = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	int32_t t = s->b->n_tok, n = l->experts.in_dim;

	/* in (T, L) = L1 norm(x) */
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	RUN(linear, .norm = &norm, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &l->own[0], .y = g->own.in}});
	/* both (T, L) = the chosen experts by their weights; the router reads norm(x) */
	RUN(fill_words, .n = t * n, .y = g->own.both);
	PART(moe_run, .in = g->own.in, .y = g->own.both);
	/* x (T, D) += L2 both */
	RUN(to_act, .n_tok = t, .dim = n, .x = g->own.both, .y = g->own.in);
	PART(graph_add, .w = &l->own[1], .in = g->own.in);
	/* x += the shared expert, of norm(x) */
	if (l->experts.shared.dim)
		PART(mlp_run, .m = &l->experts.shared, .is_shared = true);
	return OK;
}

static enum status nemotron_h_run(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);

	if (l->delta.kind == DELTA_MAMBA) {
		/* x (T, D) += Wout norm(y silu(z)), y (T, Hv V) of a state space */
		PART_OF(mamba_run, delta_run, .norm = &before);
	} else if (l->attention.n_heads) {
		/* x += Wo attention(q, k, v of norm(x)), without rotation */
		PART(attend_project, .norm = &before);
		PART(attend_see);
		PART(attend_out);
	}
	/* x += Wdown max(Wup norm(x), 0)^2, of experts or of one matrix each */
	if (l->experts.n && l->experts.in_dim)
		return narrow_experts(g, l, s, fail);
	if (l->experts.n)
		PART(moe_run, .norm = &between);
	else if (l->mlp.dim)
		PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

static enum status nemotron_h_replay(struct graph *g, const struct layer *l,
				     const struct engine_replay *r,
				     const struct graph_ids *ids, struct fail *fail)
{
	return l->delta.kind == DELTA_MAMBA ? mamba_replay(g, l, r, ids, fail) : OK;
}

const struct family family_nemotron_h = {
	.norms = {[NORM_MIXER] = "norm", [NORM_MLP] = "norm"},
	.layer = nemotron_h_layer, .load = nemotron_h_load, .alloc = nemotron_h_alloc,
	.run = nemotron_h_run, .replay = nemotron_h_replay};
