/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/hip/hip.h"
#include "base/alloc.h"

static const struct {
	const char *name;
	enum status (*create)(const struct backend_opts *o, struct backend **out,
			      struct fail *fail);
} kinds[] = {
	{"cpu", cpu_create},
	{"hip", hip_create},
};

static enum status unknown(const char *name, struct fail *fail)
{
	return fail_at(fail, E_CONFIG, "backend",
		       "there is no backend called %.60s; known: auto, cpu, hip", name);
}

enum status backend_choose(const struct backend_opts *o, const char **out_name,
			   char *reason, size_t reason_size, struct fail *fail)
{
	const char *name = o->name ? o->name : "cpu";
	bool is_auto = strcmp(name, "auto") == 0, is_hip = strcmp(name, "hip") == 0;
	*out_name = name;
	snprintf(reason, reason_size, "as configured");
	if (!is_auto && !is_hip)
		return strcmp(name, "cpu") == 0 ? OK : unknown(name, fail);
	struct hip_device d;
	struct fail why = {0};
	enum status st = hip_probe(o, &d, &why);
	if (is_hip && st != OK)
		return fail_at(fail, E_CONFIG, "backend", "backend = hip: %s", why.text);
	*out_name = st == OK ? "hip" : "cpu";
	if (st == OK)
		snprintf(reason, reason_size, "%s: %s (%s)",
			 is_auto ? "auto" : "as configured", d.name, d.arch);
	else
		snprintf(reason, reason_size, "auto: %s", why.text);
	return OK;
}

enum status backend_create(const struct backend_opts *o, struct backend **out,
			   struct fail *fail)
{
	const char *name = o->name ? o->name : "cpu";
	char reason[BACKEND_REASON];
	enum status st = OK;
	if (strcmp(name, "auto") == 0)
		st = backend_choose(o, &name, reason, sizeof reason, fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(kinds[i].name, name) != 0)
			continue;
		st = kinds[i].create(o, out, fail);
		if (st == OK) {
			(*out)->int8_head = o->int8_head;
			(*out)->expert_memory = o->expert_memory;
		}
		return st;
	}
	return unknown(name, fail);
}

void backend_set_profile(struct backend *b, struct profile *p)
{
	b->profile = p;
	if (p)
		p->device = b->ops->profile_device ? b->ops->profile_device(b) : NULL;
}

void backend_count_linear(struct backend *b, const struct linear_args *a)
{
	for (int i = 0; i < a->n_out && a->n_tok > 0; i++)
		profile_bytes(b->profile, profile_now(b->profile),
			      (double)weight_bytes(a->out[i].w));
}

void backend_count_experts(struct backend *b, const struct experts *e, int32_t n_read)
{
	double up = (double)(weight_bytes(&e->gate[0]) + weight_bytes(&e->up[0]));
	profile_bytes(b->profile, PROFILE_GATE_UP, n_read * up);
	profile_bytes(b->profile, PROFILE_DOWN,
		      n_read * (double)weight_bytes(&e->down[0]));
}

void backend_to_act(const struct backend *b, const float *x, size_t n, void *out)
{
	if (b->act_type == DTYPE_F32) {
		memcpy(out, x, n * sizeof *x);
		return;
	}
	for (size_t i = 0; i < n; i++)
		((uint16_t *)out)[i] = blocks_to_f16(x[i]);
}

void backend_from_act(const struct backend *b, const void *x, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = blocks_float(x, b->act_type, i);
}

const char *backend_why(const struct backend *b, enum status st)
{
	return (st == E_UNSUPPORTED || st == E_IO) && *b->refusal ? b->refusal : status_text(st);
}

void backend_destroy(struct backend *b)
{
	if (b)
		b->ops->destroy(b);
}
