/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a walked wave, shared by walk.c, which walks, and walk_memory.c, which
 * counts memory accesses. Thread: main.
 */
#pragma once
#include "lab/walk_inst.h"

enum { WALK_QUEUE = 64, WALK_LDS_WORDS = 16384 };

/* Contents of a workgroup's LDS. */
struct walk_lds {
	uint32_t word[WALK_LDS_WORDS];
	bool known[WALK_LDS_WORDS];
};

/* Completion times of memory operations in flight, oldest first. */
struct walk_queue {
	double at[WALK_QUEUE];
	int n;
};

struct walk_wave {
	const struct walk_launch *l;
	struct walk_count *count;
	struct walk_lines *lines;
	struct walk_lds *lds;
	uint8_t *visits; /* for each instruction: unknown branches decided in the same way */
	uint32_t s[WALK_SGPRS], v[WALK_VGPRS][WALK_LANES];
	bool s_known[WALK_SGPRS];
	uint32_t v_known[WALK_VGPRS]; /* masks of lanes with known values */
	bool scc, scc_known;
	int32_t x, y, group; /* x, y: the workgroup; group: its number among the walked ones */
	bool is_last;  /* last workgroup of the launch */
	double t;      /* current time in cycles */
	/* When the last vector instruction that wrote a register was issued; -1e9: long ago. */
	double v_time[WALK_VGPRS], s_time[WALK_SGPRS];
	double stored; /* when all stores are done */
	double first[2], last[2]; /* when the first and the last load arrive: any, non-temporal */
	bool has_loaded_scalar;
	size_t at;     /* index of the next instruction */
	long n_steps;  /* instructions walked so far */
	bool has_ended;
	struct walk_queue vm, lgkm;
};

/* The set of cache lines that loads of the walked groups use, without non-temporal loads. */
struct walk_lines;
struct walk_lines *walk_lines_create(void);
void walk_lines_destroy(struct walk_lines *s);
/* Number of lines of the whole launch, if one of by_x groups in x and one of by_y in y
 * was walked. *far: lines used by several rows (y). */
double walk_lines_sum(const struct walk_lines *s, double by_x, double by_y, double *far);

uint32_t walk_scalar(const struct walk_wave *w, const struct walk_operand *o, int i,
		     bool *known);
void walk_set_scalar(struct walk_wave *w, const struct walk_operand *o, int i, uint32_t x,
		     bool known);
/* Read register i of an operand (32 lanes); returns a mask of lanes with known values. */
uint32_t walk_vector(const struct walk_wave *w, const struct walk_operand *o, int i,
		     uint32_t *out);

/* Execute loads, stores, atomics and LDS accesses: counts, completion times, results. */
void walk_memory(struct walk_wave *w, const struct walk_inst *i);
void walk_scalar_load(struct walk_wave *w, const struct walk_inst *i);
void walk_wait(struct walk_wave *w, const struct walk_inst *i);
