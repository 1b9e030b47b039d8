/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a step goes: seconds and bytes by stage and by layer.
 *
 * Code that computes says which stage begins (profile_enter). The time up to the next
 * such call belongs to that stage. A device that computes later than it is told puts its
 * own clock in place of the host's (struct profile_device).
 *
 * Every function takes NULL for "nothing is measured", which costs a comparison. A mark costs
 * one reading of a clock. Where the processor's counter has a constant rate, it is that clock:
 * reading it takes a third of the kernel's time. Thread: engine.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ident, name. METRIC_STAGE_SECONDS lists the same names. */
#define PROFILE_STAGES(X) \
	X(EMBED, "embed")         /* a step's ids, embeddings, angles */ \
	X(NORM, "norm")           /* norms alone; a fused norm counts for the next stage */ \
	X(QKV, "qkv")             /* projections that a layer's mixer begins with */ \
	X(ATTENTION, "attention") /* with writing keys and values to the KV cache */ \
	X(DELTA, "delta")         /* recurrent layers: convolution, state, norm */ \
	X(OUT, "out")             /* projection that a mixer ends with */ \
	X(ROUTER, "router")       /* logits and the choice of experts */ \
	X(IO, "io")               /* waiting for experts that are read (expert_memory) */ \
	X(GATE_UP, "gate_up")     /* of experts, or of a dense layer */ \
	X(DOWN, "down") \
	X(SHARED, "shared")       /* the expert that every token uses */ \
	X(HEAD, "head")           /* last norm and the logits */ \
	X(SAMPLING, "sampling") \
	X(HOST, "host")           /* the host's other work in a step */

enum profile_stage {
#define X(ident, name) PROFILE_##ident,
	PROFILE_STAGES(X)
#undef X
	PROFILE_COUNT
};

struct profile_cell {
	double s, bytes; /* bytes: of weights, keys, values and states that were read */
};

/* The clock of a device. */
struct profile_device {
	/* Record the device's clock as mark i (0, 1, ...) when the device gets to this point. */
	bool (*mark)(void *ctx, int i);
	/* Seconds from mark 0 to each of n marks, after the device has reached them all. */
	bool (*times)(void *ctx, int n, double *out_s);
	void *ctx;
};

struct profile_mark {
	enum profile_stage stage;
	int i_layer;
	uint64_t at; /* the host's counter at this mark; 0 with a device */
};

/* Bytes that the step has read. */
struct profile_read {
	enum profile_stage stage;
	int i_layer;
	double bytes;
};

struct profile {
	/* The following are read-only for others. */
	bool is_on;                    /* a step is being measured */
	bool has_counter;              /* the processor's counter is the clock */
	const struct profile_device *device; /* NULL: the host's clock */
	int n_layers, every;
	int64_t n_begun;
	int64_t n_steps, n_tok;        /* steps and tokens that were measured */
	struct profile_cell *cells;    /* (n_layers + 1, PROFILE_COUNT); last: no layer */
	struct profile_mark *marks;    /* (n_marks) of the step that is being measured */
	struct profile_read *reads;    /* (n_reads) of that step */
	int n_marks, cap_marks, n_reads, cap_reads, i_layer;
	int64_t begin_ns;
	uint64_t begin_at;             /* the counter at the step's begin */
};

/* Measure the first step and then one step of `every`. */
struct profile *profile_create(int n_layers, int every);
void profile_destroy(struct profile *p);
/* Reset all sums to zero. */
void profile_reset(struct profile *p);
const char *profile_name(enum profile_stage s);

/* A step begins, in stage EMBED. False: this one is not measured. */
bool profile_begin(struct profile *p);
/* The step has ended and the device has computed it. Adds the step's times and bytes to the
 * sums and the metrics; if not is_good, they are dropped. */
void profile_end(struct profile *p, int n_tok, bool is_good);

void profile_mark(struct profile *p, enum profile_stage s);
/* Stage s begins. p may be NULL. */
static inline void profile_enter(struct profile *p, enum profile_stage s)
{
	if (p && p->is_on && p->marks[p->n_marks - 1].stage != s)
		profile_mark(p, s);
}

/* The current stage, which a caller can return to by profile_enter. */
static inline enum profile_stage profile_now(const struct profile *p)
{
	return p && p->is_on ? p->marks[p->n_marks - 1].stage : PROFILE_EMBED;
}

/* The stages from now on belong to layer i_layer; -1: to none. Call profile_enter next. */
static inline void profile_layer(struct profile *p, int i_layer)
{
	if (p)
		p->i_layer = i_layer;
}

/* Stage s of the layer reads n bytes. */
void profile_bytes(struct profile *p, enum profile_stage s, double n);

/* Add time outside of steps: sampling, host. It counts only if the last step was measured. */
void profile_add(struct profile *p, enum profile_stage s, double seconds);

/* Seconds and bytes of stage s in layer i_layer; -1: of all layers and of the time outside
 * layers. */
struct profile_cell profile_sum(const struct profile *p, int i_layer,
				enum profile_stage s);
