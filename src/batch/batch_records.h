/* SPDX-License-Identifier: Apache-2.0
 *
 * The batches: each is the requests of one file. Thread: any; one runner at a time moves them on.
 *
 *   validating ──► in_progress ──► finalizing ──► completed
 *     │   │             │ │             │
 *     │   └─► failed    │ └─ too late ──┴───────► expired
 *     └──── cancelling ◄┴──────────────────────► cancelled
 */
#pragma once
#include "batch/batch_store.h"

#define BATCH_STATES(X) \
	X(VALIDATING, "validating") \
	X(FAILED, "failed") \
	X(IN_PROGRESS, "in_progress") \
	X(FINALIZING, "finalizing") \
	X(COMPLETED, "completed") \
	X(EXPIRED, "expired") \
	X(CANCELLING, "cancelling") \
	X(CANCELLED, "cancelled")

enum batch_state {
#define X(id, name) BATCH_##id,
	BATCH_STATES(X)
#undef X
	BATCH_STATE_COUNT
};

struct batch {
	char id[BATCH_ID]; /* "batch_" and 24 digits */
	uint64_t owner;
	enum batch_state state;
	char endpoint[32]; /* "/v1/chat/completions" */
	char model[128];   /* what its first request names, cut to this; "": none */
	char window[16];   /* completion_window, as it was sent */
	char input[BATCH_ID], output[BATCH_ID], errors[BATCH_ID]; /* files; "": none */
	int64_t created_us;                   /* since 1970 */
	int64_t at_s[BATCH_STATE_COUNT];      /* when it got into each state; 0: never */
	int64_t expires_s;
	int64_t output_age_s; /* of what it answers; 0: as all files */
	int n_total, n_completed, n_failed;   /* requests */
	char *metadata;    /* a JSON object, or NULL; constant once it is made */
	char *faults;      /* a JSON list of what validation found, or NULL; set once */
};

/* Makes a batch. Of *about owner, endpoint, model, window, input, output_age_s and metadata are
 * read; metadata is taken over where it is OK. window_s: its length. E_LIMIT: too many are kept. */
enum status batch_records_create(struct batch_store *s, const struct batch *about,
				 int64_t window_s, struct buf *out, struct fail *fail) MUST_USE;
/* Appends the batch as OpenAI's object. E_NOT_FOUND. */
enum status batch_records_get(struct batch_store *s, uint64_t owner, struct str id,
			      struct buf *out, struct fail *fail) MUST_USE;
/* The same, when it is cancelling. E_INVAL: it has ended. */
enum status batch_records_cancel(struct batch_store *s, uint64_t owner, struct str id,
				 struct buf *out, struct fail *fail) MUST_USE;
void batch_records_list(struct batch_store *s, const struct batch_page *page, struct buf *out);

/* The batches of one model: is_own says by batch.model whether one is. It is called with a lock
 * held. A struct batch_whose of NULL: all batches. */
struct batch_whose {
	bool (*is_own)(void *ctx, const char *model);
	void *ctx;
};
/* Is there one of these that has not ended? */
bool batch_records_are_open(struct batch_store *s, const struct batch_whose *w);

/* --- the runner's -------------------------------------------------------------------- */
/* What there is to do: of each kind a copy of the oldest batch. Its texts are constant, and stay
 * until the batch has ended. */
struct batch_todo {
	bool has_check, has_end, has_run;
	struct batch check; /* it is to be validated */
	struct batch end;   /* cancelling, or in progress and too late; not the batch `but` */
	struct batch run;   /* it has begun, and has not ended */
	int64_t due_s;      /* when the next one in progress will be too late; INT64_MAX: none */
};
void batch_records_look(struct batch_store *s, const struct batch_whose *w, int64_t now_s,
			const char *but, struct batch_todo *out);
/* Is it cancelling by now? */
bool batch_records_is_cancelled(struct batch_store *s, const char *id);
/* Counts of what is done, for those who ask; not on the disk: the journal has them. */
void batch_records_progress(struct batch_store *s, const struct batch *b);
/* Moves b->id on to b->state, with b's counts, files and faults, which are taken over; sets when.
 * E_IO: it stays what it was. A batch that was cancelled meanwhile does not become in_progress. */
enum status batch_records_move(struct batch_store *s, struct batch *b,
			       struct fail *fail) MUST_USE;
