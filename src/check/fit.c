/* SPDX-License-Identifier: Apache-2.0 */
#include "check/fit.h"

#include "audio/audio.h"

static enum status open_embedder(struct embed_opts o, struct memory_ledger *ledger,
				 struct embed **out, struct fail *fail)
{
	o.ledger = ledger;
	enum status st = o.dir && *o.dir ? embed_open(&o, out, fail) : OK;
	return st == OK ? OK : fail_within(fail, st, o.kind == EMBED_SCORES ? "rerank_model"
									      : "embedding_model");
}

/* Opens the vision tower. A tower of an unknown kind is no fault of the start, and images are
 * refused; but a file that was named for it must be one. */
static enum status open_vision(struct vision_opts o, struct fit *f, struct fail *fail)
{
	struct fail why = {0};
	o.ledger = &f->ledger;
	bool is_named = o.model && o.mmproj && *o.mmproj;
	enum status st = o.model ? vision_open(&o, &f->vision, &why) : OK;
	if (st == E_NOMEM || st == E_CONFIG || (st != OK && is_named)) {
		if (fail)
			*fail = why;
		return is_named ? fail_within(fail, st, "mmproj") : st;
	}
	if (st != OK) /* else a file that may be missing may have left its words there */
		f->unseen = why;
	return OK;
}

/* Opens the audio tower, likewise. It is of no use where no file of audio can be read: then it
 * takes no memory. */
static enum status open_sound(struct sound_opts o, struct fit *f, struct fail *fail)
{
	struct fail why = {0}, missing = {0};
	const struct memory_ledger before = f->ledger;
	o.ledger = &f->ledger;
	enum status st = o.model ? sound_open(&o, &f->sound, &why) : OK;
	bool has_tower = f->sound || st == E_NOMEM || st == E_CONFIG;
	if (has_tower && audio_check(&missing) != OK) {
		sound_destroy(f->sound);
		f->sound = NULL;
		f->ledger = before;
		f->unheard = missing;
		f->lacks_audio = true;
		return OK;
	}
	if (st == E_NOMEM || st == E_CONFIG) {
		if (fail)
			*fail = why;
		return st;
	}
	if (st != OK)
		f->unheard = why;
	return OK;
}

/* A file that was named must be of use. */
static enum status check_mmproj(const struct fit_opts *o, const struct fit *f, struct fail *fail)
{
	const char *file = o->vision.mmproj;
	bool is_named = (o->vision.model || o->sound.model) && file && *file;
	if (!is_named || f->vision || f->sound || f->lacks_audio)
		return OK;
	enum status st = f->unheard.code;
	if (st != OK && fail)
		*fail = f->unheard;
	if (st == OK)
		st = fail_at(fail, E_CONFIG, "mmproj", "%.200s holds no tower for this model that "
			     "the settings images and audio leave on", file);
	return fail ? fail_within(fail, st, "mmproj") : st;
}

static enum status open_align(const struct fit_opts *fo, struct fit *f, struct fail *fail)
{
	struct align_opts o = fo->align;
	o.ledger = &f->ledger;
	if (!o.dir || !*o.dir || (!f->sound && !fo->is_needed))
		return OK;
	bool has_why = f->unheard.code != OK;
	enum status st = f->sound ? align_open(&o, &f->align, fail)
				  : fail_set(fail, E_CONFIG, "the model hears nothing, so nothing "
					     "would come of it%s%s", has_why ? ": " : "",
					     has_why ? f->unheard.text : "");
	return st == OK ? OK : fail_within(fail, st, "aligner_model");
}

enum status fit_open(const struct fit_opts *o, struct fit *f, struct fail *fail)
{
	const struct memory_ledger before = f->ledger;
	*f = (struct fit){.ledger = before};
	enum status st = open_embedder(o->vectors, &f->ledger, &f->vectors, fail);
	if (st == OK)
		st = open_embedder(o->scores, &f->ledger, &f->scores, fail);
	f->embedders.device_taken = f->ledger.device_taken - before.device_taken;
	f->embedders.system_taken = f->ledger.system_taken - before.system_taken;
	if (st == OK)
		st = open_vision(o->vision, f, fail);
	if (st == OK)
		st = open_sound(o->sound, f, fail);
	if (st == OK)
		st = check_mmproj(o, f, fail);
	return st == OK ? open_align(o, f, fail) : st;
}

void fit_close(struct fit *f)
{
	vision_destroy(f->vision);
	sound_destroy(f->sound);
	align_destroy(f->align);
	embed_destroy(f->vectors);
	embed_destroy(f->scores);
	f->vision = NULL;
	f->sound = NULL;
	f->align = NULL;
	f->vectors = f->scores = NULL;
}

void fit_tell(const struct fit *f, struct engine_opts *io)
{
	io->have = &f->ledger.device;
	io->beside = f->ledger.device_taken;
	io->image_rules = f->vision ? vision_image_rules(f->vision)
			  : f->sound ? sound_image_rules() : NULL;
}

enum status fit_check_listener(const struct fit *f, const char *dir, struct fail *fail)
{
	if (f->sound)
		return OK;
	return fail_set(fail, E_CONFIG, "%.200s hears nothing: %s", dir, f->unheard.code != OK
			? f->unheard.text : "it has no audio tower. Name a model that has one, as "
					    "Qwen3-ASR");
}

void fit_tell_listener(int32_t n_ctx, int32_t max_ctx, struct engine_opts *io)
{
	io->n_ctx = MIN(n_ctx, max_ctx);
	io->kv_seqs = 1;
	io->model_key = "transcription_model";
	io->ctx_key = "transcription_ctx";
}
