/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tower_home.h"

#include <stdio.h>
#include <string.h>

#include "engine/engine.h"

bool tower_home_is_away(const struct tower_home *h)
{
	return strcmp(h->backend->name, "cpu") != 0;
}

/* Checks that the tower fits into the memory, before anything is loaded. Sets n_device and
 * n_system. */
static enum status plan_tower(struct tower_home *h, struct fail *fail)
{
	const struct memory_ledger *l = h->ledger;
	bool is_away = tower_home_is_away(h);
	struct memory_have now;
	struct tower_needs n;
	h->kind->needs(h->tower, h->backend, &n);
	engine_memory(h->backend, &now);
	const struct memory_have *have = !l ? &now : is_away ? &l->device : &l->system;
	struct memory_part part = {
		.what = n.what, .key = n.key, .advice = n.advice, .weights = n.weights,
		/* The ledger measured memory before this backend existed. */
		.scratch = n.scratch + (l ? h->backend->own_bytes : 0),
		.beside = !l ? 0 : is_away ? l->device_taken : l->system_taken};
	if (!is_away || now.is_system) { /* all is in one memory */
		part.scratch += n.host;
		h->n_device = 0;
		h->n_system = part.weights + part.scratch;
		return memory_plan_part(&part, have, fail);
	}
	h->n_device = part.weights + part.scratch;
	h->n_system = n.host;
	part.advice = n.away_advice;
	enum status st = memory_plan_part(&part, have, fail);
	const struct memory_part host = {
		.what = n.host_what, .key = n.host_key, .scratch = n.host,
		.advice = n.host_advice, .beside = l ? l->system_taken : 0};
	return st == OK && l ? memory_plan_part(&host, &l->system, fail) : st;
}

/* Adds the tower's bytes to the ledger (sign 1), or takes them away again (sign -1). */
static void count(const struct tower_home *h, int sign)
{
	if (!h->ledger)
		return;
	if (h->n_device)
		memory_ledger_take(h->ledger, true, sign * h->n_device);
	memory_ledger_take(h->ledger, false, sign * h->n_system);
}

enum status tower_home_open(struct tower_home *h, struct fail *fail)
{
	enum status st = backend_create(&h->opts, &h->backend, fail);
	if (st == OK)
		st = plan_tower(h, fail);
	if (st == OK)
		count(h, 1);
	return st;
}

static enum status load_tower(struct tower_home *h, struct fail *fail)
{
	enum status st = h->kind->load(h->tower, h->backend, fail);
	if (st != OK)
		count(h, -1);
	return st;
}

enum status tower_home_load(struct tower_home *h, struct fail *fail)
{
	struct fail why = {0};
	enum status st = load_tower(h, &why);
	if (st == E_UNSUPPORTED && tower_home_is_away(h)) {
		snprintf(h->note, sizeof h->note, "%.250s", why.text);
		tower_home_close(h);
		h->opts.name = "cpu";
		st = tower_home_open(h, fail);
		return st == OK ? load_tower(h, fail) : st;
	}
	if (st != OK && fail)
		*fail = why;
	return st;
}

void tower_home_close(struct tower_home *h)
{
	h->kind->unload(h->tower);
	backend_destroy(h->backend);
	h->backend = NULL;
}
