/* SPDX-License-Identifier: Apache-2.0 */
#include "check/fit.h"

static enum status open_reader(struct embed_opts o, struct memory_ledger *ledger,
			       struct embed **out, struct fail *fail)
{
	o.ledger = ledger;
	return o.dir && *o.dir ? embed_open(&o, out, fail) : OK;
}

/* Opens the vision tower. A tower of an unknown kind is no fault of the start: only images
 * are refused. */
static enum status open_vision(struct vision_opts o, struct fit *f, struct fail *fail)
{
	struct fail why = {0};
	o.ledger = &f->ledger;
	enum status st = o.model ? vision_open(&o, &f->vision, &why) : OK;
	if (st == E_NOMEM || st == E_CONFIG) {
		if (fail)
			*fail = why;
		return st;
	}
	f->unseen = why;
	return OK;
}

enum status fit_open(const struct fit_opts *o, struct fit *f, struct fail *fail)
{
	*f = (struct fit){.ledger = f->ledger};
	enum status st = open_reader(o->vectors, &f->ledger, &f->vectors, fail);
	if (st == OK)
		st = open_reader(o->scores, &f->ledger, &f->scores, fail);
	if (st == OK)
		st = open_vision(o->vision, f, fail);
	return st;
}

void fit_close(struct fit *f)
{
	vision_destroy(f->vision);
	embed_destroy(f->vectors);
	embed_destroy(f->scores);
	f->vision = NULL;
	f->vectors = f->scores = NULL;
}

void fit_tell(const struct fit *f, struct engine_opts *io)
{
	io->have = &f->ledger.device;
	io->beside = f->ledger.device_taken;
	io->sight = f->vision ? vision_sight(f->vision) : NULL;
}
