/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a walked wave, between walk.c, which walks, and walk_memory.c, which counts
 * what memory sees. Thread: main.
 */
#pragma once
#include "lab/walk_inst.h"

enum { WALK_QUEUE = 64, WALK_LDS_WORDS = 16384 };

/* What the waves of a workgroup that were walked before have left in LDS. */
struct walk_lds {
	uint32_t word[WALK_LDS_WORDS];
	bool known[WALK_LDS_WORDS];
};

/* Completion times of what is under way, oldest first. */
struct walk_queue {
	double at[WALK_QUEUE];
	int n;
};

struct walk_wave {
	const struct walk_launch *l;
	struct walk_count *count;
	struct walk_lines *lines;
	struct walk_lds *lds;
	uint8_t *visits; /* of each instruction: unknown branches taken one way */
	uint32_t s[WALK_SGPRS], v[WALK_VGPRS][WALK_LANES];
	bool s_known[WALK_SGPRS];
	uint32_t v_known[WALK_VGPRS]; /* bits of lanes */
	bool scc, scc_known;
	int32_t x, y, group; /* the workgroup; which of the walked ones it is */
	bool is_last;  /* it is the last of the launch */
	double t;      /* cycles */
	struct walk_queue vm, lgkm;
};

/* Lines of memory that loads of the walked groups touch, other than streams. */
struct walk_lines;
struct walk_lines *walk_lines_create(void);
void walk_lines_destroy(struct walk_lines *s);
/* Lines of the whole launch, where one of by_x groups in x was walked, one of by_y in y;
 * to *far those of several y. */
double walk_lines_sum(const struct walk_lines *s, double by_x, double by_y, double *far);

uint32_t walk_scalar(const struct walk_wave *w, const struct walk_operand *o, int i,
		     bool *known);
void walk_set_scalar(struct walk_wave *w, const struct walk_operand *o, int i, uint32_t x,
		     bool known);
/* (32); bits of lanes that are known. i: which register of several. */
uint32_t walk_vector(const struct walk_wave *w, const struct walk_operand *o, int i,
		     uint32_t *out);

/* Loads, stores, atomics and LDS: counts, completion, results. */
void walk_memory(struct walk_wave *w, const struct walk_inst *i);
void walk_scalar_load(struct walk_wave *w, const struct walk_inst *i);
void walk_wait(struct walk_wave *w, const struct walk_inst *i);
