/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/memory_plan.h"

#include <stdio.h>

#include "base/alloc.h"

#define GIB ((double)(1 << 30))

/* A sixteenth of the memory stays free, but no more than this. The system needs it for
 * other programs; a driver needs it for its own queues and for code. */
#define MAX_RESERVE_SYSTEM ((int64_t)4 << 30)
#define MAX_RESERVE_DEVICE ((int64_t)1 << 29)

static int64_t reserve_of(const struct memory_have *have)
{
	return MIN(have->total / 16,
		   have->is_system ? MAX_RESERVE_SYSTEM : MAX_RESERVE_DEVICE);
}

void memory_ledger_take(struct memory_ledger *l, bool is_on_device, int64_t bytes)
{
	if (is_on_device || l->device.is_system)
		l->device_taken += bytes;
	if (!is_on_device || l->device.is_system)
		l->system_taken += bytes;
}

static int64_t left_by(const struct memory_need *need, const struct memory_have *have)
{
	return have->free - reserve_of(have) - need->weights - need->scratch - need->states -
	       need->beside;
}

/* "weights 17.29 GiB + KV cache 20.00 GiB + … = 38.45 GiB, and a box has 23.10 GiB" */
static void write_sum(const struct memory_need *need, const struct memory_have *have,
		      int64_t kv, char *out, size_t size)
{
	double reserve = (double)reserve_of(have);
	double sum = (double)need->weights + (double)need->scratch + (double)need->states +
		     (double)need->beside + (double)kv + reserve;
	char beside[80] = "";
	if (need->beside)
		snprintf(beside, sizeof beside, "other models, images and buffers %.2f GiB + ",
			 (double)need->beside / GIB);
	snprintf(out, size,
		 "weights %.2f GiB + KV cache %.2f GiB + recurrent states %.2f GiB + work "
		 "memory %.2f GiB + %s%.2f GiB that stay free = %.2f GiB, and %.100s has "
		 "%.2f GiB", (double)need->weights / GIB, (double)kv / GIB,
		 (double)need->states / GIB, (double)need->scratch / GIB, beside,
		 reserve / GIB, sum / GIB, have->device, (double)have->free / GIB);
}

/* A model beside the one that writes has settings of its own. */
static enum status fail_beside(const struct memory_wish *wish, const char *sum, struct fail *fail)
{
	return fail_at(fail, E_CONFIG, wish->ctx_key, "a context of %d tokens does not fit: %s. "
		       "Set %s to less, or leave %s out", (int)wish->n_ctx, sum, wish->ctx_key,
		       wish->model_key);
}

static enum status plan_asked(const struct memory_need *need,
			      const struct memory_have *have,
			      const struct memory_wish *wish, int64_t left,
			      struct memory_plan *out, struct fail *fail)
{
	char sum[400];
	out->n_pages = need->page ? wish->kv_bytes / need->page : out->n_pages;
	if (out->n_pages < 1)
		return fail_at(fail, E_CONFIG, "kv_cache",
			       "a KV cache of %lld bytes holds no page of %d tokens (%lld "
			       "bytes): set kv_cache to at least that, or to auto",
			       (long long)wish->kv_bytes, (int)wish->page_size,
			       (long long)need->page);
	if (out->n_pages * need->page <= left)
		return OK;
	write_sum(need, have, out->n_pages * need->page, sum, sizeof sum);
	if (wish->model_key)
		return fail_beside(wish, sum, fail);
	return fail_at(fail, E_CONFIG, "kv_cache",
		       "kv_cache does not fit: %s. Set kv_cache to at most %lldM, or to auto "
		       "for as much as fits", sum, (long long)(MAX(left, 0) >> 20));
}

/* Bytes that a cache gets of which nobody chose the size, and which could have so many. */
static int64_t share_of(const struct memory_need *need, const struct memory_have *have,
			const struct memory_wish *wish, int64_t left)
{
	int64_t one = DIV_UP(wish->n_ctx, wish->page_size) * need->page;
	if (!wish->is_shared)
		return left;
	return MIN(left, MAX(have->total / 4, wish->ctx_is_asked ? one : 0));
}

static enum status plan_fitting(const struct memory_need *need,
				const struct memory_have *have,
				const struct memory_wish *wish, int64_t left,
				struct memory_plan *out, struct fail *fail)
{
	char sum[400];
	int64_t size = wish->page_size, per_seq = DIV_UP(wish->n_ctx, size);
	int64_t most = share_of(need, have, wish, left);
	int64_t fitting = need->page ? most / need->page : per_seq * wish->max_seqs;
	out->n_pages = MIN(per_seq * wish->max_seqs, fitting);
	if (out->n_pages >= per_seq)
		return OK;
	write_sum(need, have, per_seq * need->page, sum, sizeof sum);
	if (wish->model_key)
		return fail_beside(wish, sum, fail);
	int64_t tokens = out->n_pages * size;
	if (wish->ctx_is_asked && tokens >= 1)
		return fail_at(fail, E_CONFIG, "ctx",
			       "a context of %d tokens does not fit: %s. Set ctx to at most "
			       "%lld", (int)wish->n_ctx, sum, (long long)tokens);
	if (tokens >= MIN(MEMORY_LEAST_CTX, wish->n_ctx)) {
		out->n_ctx = (int32_t)tokens;
		return OK;
	}
	return fail_at(fail, E_CONFIG, "model", "the model does not fit: %s", sum);
}

int64_t memory_plan_experts(const struct memory_need *need, const struct memory_have *have,
			    const struct memory_wish *wish, int64_t experts)
{
	int64_t left = left_by(need, have);
	int64_t per_seq = DIV_UP(wish->n_ctx, wish->page_size);
	int64_t kv = wish->kv_bytes ? wish->kv_bytes : MIN(per_seq * need->page, left / 4);
	/* Panels take up to a twentieth more than the checkpoint. */
	if (left - kv >= experts + experts / 16)
		return 0;
	return MAX(wish->is_shared ? MIN(left - kv, have->total / 4) : left - kv, 1);
}

enum status memory_plan_part(const struct memory_part *p, const struct memory_have *have,
			     struct fail *fail)
{
	const struct memory_need need = {.weights = p->weights, .scratch = p->scratch,
					 .beside = p->beside};
	char sum[400];
	if (left_by(&need, have) >= 0)
		return OK;
	write_sum(&need, have, 0, sum, sizeof sum);
	return fail_at(fail, E_CONFIG, p->key, "%s does not fit: %s. %s", p->what, sum,
		       p->advice);
}

static enum status refuse_model(const struct memory_need *need, const struct memory_have *have,
				const struct memory_wish *wish, struct fail *fail)
{
	char sum[400];
	write_sum(need, have, 0, sum, sizeof sum);
	if (wish->model_key)
		return fail_at(fail, E_CONFIG, wish->model_key, "the model does not fit: %s. Leave "
			       "%s out", sum, wish->model_key);
	return fail_at(fail, E_CONFIG, "model", "the model does not fit: %s. %s", sum,
		       need->states > need->weights / 4
			       ? "max_seqs and state_checkpoints set the size of the recurrent "
				 "states"
			       : "max_batch_tokens sets the size of the work memory");
}

enum status memory_plan(const struct memory_need *need, const struct memory_have *have,
			const struct memory_wish *wish, struct memory_plan *out,
			struct fail *fail)
{
	*out = (struct memory_plan){.n_ctx = wish->n_ctx, .reserve = reserve_of(have),
				    .weights = need->weights};
	int64_t left = left_by(need, have);
	if (left < 0)
		return refuse_model(need, have, wish, fail);
	enum status st = wish->kv_bytes ? plan_asked(need, have, wish, left, out, fail)
					: plan_fitting(need, have, wish, left, out, fail);
	out->taken = need->weights + need->scratch + need->states + out->n_pages * need->page;
	return st;
}
