/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that instructions work on: a wave of 32 lanes, its workgroup, its launch.
 * One thread runs a workgroup; a launch is shared by threads.
 */
#pragma once
#include "tests/hip-on-gfx11/gfx11_code.h"

enum {
	LANES = 32,
	DPP_REG = 256,      /* a VGPR beyond all: what a DPP exchange brought */
	MAX_WAVES = 32,
	LDS_BYTES = 65536,
	QUEUE = 64,         /* vmcnt and lgkmcnt count to 63 */
	RANGE_CACHE = 64,
	EPOCHS = 1 << 22,   /* TAG_EPOCH leaves so many */
};

/* Memory of the process: [lo, hi), and what kernels may do there. Coherent memory of the
 * host: no atomics, which a bus may drop. Pinned memory that is not coherent: nothing. */
enum { MAY_READ = 1, MAY_WRITE = 2, MAY_COUNT = 4, MAY_ALL = 7 };
struct range {
	uint64_t lo, hi;
	unsigned allows;
};

/* What is exact about a launch. `issued` counts waves' instructions. */
struct counts {
	uint64_t issued[N_CLASSES];
	uint64_t load_bytes, stream_bytes; /* of lanes; the latter: non-temporal */
	uint64_t store_bytes, scalar_bytes;
	uint64_t lines;        /* of 128 bytes: distinct ones of each load, summed */
	uint64_t store_lines;
	uint64_t lds_bytes, lds_cycles; /* cycles: with bank conflicts */
	uint64_t lds_ideal;    /* … and without */
	uint64_t wmma_cycles;
};

struct wave;
struct launch {
	struct code_object *code;
	struct code_kernel *kernel;
	uint32_t grid_x, grid_y, n_threads;
	uint32_t lds_bytes;      /* static and dynamic */
	bool is_reversed;
	bool has_trans_hazard;   /* gfx1100: see gfx11_check.c */
	const struct range *ranges; /* sorted */
	size_t n_ranges;
	uint64_t kernarg;
	uint64_t max_insts;      /* of a wave; beyond, it loops for ever */
	uint32_t next_group;     /* atomic */
	uint32_t has_failed;     /* atomic */
	bool is_counting;
	struct counts counts;    /* sum of the groups', under a lock */
	void (*run_wave)(struct wave *w); /* launch_run sets it */
	uint64_t n_insts;
	double seconds;          /* of all threads' CPU time */
	char error[512];         /* the first one, under a lock */
};

enum wave_state { WAVE_RUNS, WAVE_WAITS, WAVE_ENDED };
enum pending_kind { PENDING_VGPR, PENDING_SGPR, PENDING_LDS };
enum { BUSY_VM = 1, BUSY_LGKM = 2 };

/* Loads that the wave has not waited for, oldest first. */
struct pending {
	uint16_t reg;
	uint8_t n, kind;
};
struct queue {
	struct pending item[QUEUE];
	unsigned first, n;
	unsigned n_scalar; /* SMEM: these come in any order */
};

enum { HAZARD_TRANS = 1, HAZARD_WMMA = 2, HAZARD_CMPX = 4 };

struct wave {
	uint32_t v[DPP_REG + 1][LANES] __attribute__((aligned(64)));
	uint32_t s[128]; /* 124: null, 0 for ever; 126: EXEC */
	uint32_t scc;
	const struct inst *pc;
	struct group *g;
	uint32_t number;
	enum wave_state state;
	uint64_t n_insts;
	/* what is under way */
	uint64_t busy_vgprs[4], busy_sgprs[2];
	uint8_t busy[256]; /* BUSY_ */
	struct queue vm, lgkm;
	unsigned n_stores; /* vscnt */
	/* hazards */
	unsigned hazards;
	uint32_t n_valu;
	struct {
		uint16_t reg;
		uint32_t at; /* n_valu; */
	} trans[2];
	uint16_t wmma_reg;
	unsigned clause_left, clause_class;
	bool has_released; /* its VGPRs */
	/* caches: stretches of the workgroup (below), 0 for none. The last one at whose end it had
	 * waited for its stores, and the one before; those in which it last invalidated L1, and
	 * L0 behind that L1; and of each wave the `clean` that its L0 has seen. */
	uint32_t clean, clean_before, l1_stretch, l0_l1_stretch, seen[MAX_WAVES];
};

/* Who touched a word of LDS since the last barrier: its wave, these bits, and above them
 * the epoch, which is the number of barriers so far, + 1. */
typedef uint32_t lds_tag;
enum { TAG_WAVE = 0xFF, TAG_ATOMIC = 0x100, TAG_MANY = 0x200, TAG_EPOCH = 10 };

struct group {
	struct launch *l;
	uint32_t x, y, n_waves;
	uint32_t epoch;
	const struct range *cache[RANGE_CACHE];
	uint64_t random;
	lds_tag stored, told; /* memory: by stores, by atomics */
	uint32_t stretch, ticket, ticket_wave; /* barriers + 1; when it last took a ticket, or 0 */
	uint64_t tag_page, *tags;              /* gfx11_caches.c: the page of its last store */
	struct counts counts;
	unsigned char lds[LDS_BYTES + 64] __attribute__((aligned(64)));
	lds_tag written[LDS_BYTES / 4], was_read[LDS_BYTES / 4];
	struct wave waves[MAX_WAVES];
};

/* --- gfx11_check.c ------------------------------------------------------------------ */

/* The launch has failed: names the kernel, the instruction, and what; ends the wave. */
__attribute__((format(printf, 3, 4))) void wave_fault(struct wave *w, const struct inst *p,
						      const char *format, ...);
/* The instruction touches a register that a load is still to write: a fault. */
void wave_fault_busy(struct wave *w, const struct inst *p);
void wave_load_vgprs(struct wave *w, unsigned reg, unsigned n, bool vm, bool lgkm);
void wave_load_sgprs(struct wave *w, unsigned reg, unsigned n);
void wave_lds_access(struct wave *w);
void wave_wait_vm(struct wave *w, unsigned n);
void wave_wait_lgkm(struct wave *w, unsigned n);
void wave_wait_stores(struct wave *w, unsigned n);
/* Before a vector instruction where w->hazards is not 0, and behind each that sets it. */
void wave_check_hazards(struct wave *w, const struct inst *p);
void wave_note_hazards(struct wave *w, const struct inst *p);
void wave_check_barrier(struct wave *w, const struct inst *p);
void wave_check_atomic(struct wave *w, const struct inst *p);
void wave_check_store(struct wave *w, const struct inst *p);
void wave_check_clause(struct wave *w, const struct inst *p);
/* One wave's access to a word of LDS: does another wave's in the same stretch between
 * barriers contradict it? is_part: less than the word. */
enum lds_use { LDS_READ, LDS_WRITE, LDS_ATOMIC };
void wave_check_word(struct wave *w, const struct inst *p, uint32_t word, bool is_part,
		     enum lds_use use);
/* The range that holds [lo, hi) and allows `access`, or NULL. */
const struct range *launch_range(const struct launch *l, uint64_t lo, uint64_t hi,
				 unsigned access);
/* Why there is none, static. */
const char *launch_refusal(const struct launch *l, uint64_t lo, uint64_t hi,
			   unsigned access);

/* --- gfx11_caches.c ------------------------------------------------------------------- */

enum { CACHES_SHIFT = 8, CACHES_MARKS = 1 << 16 };
/* Not 0: this launch has stored to a line with this hash. */
extern uint8_t caches_mark[CACHES_MARKS];
static inline uint32_t caches_hash(uint64_t x)
{
	return (uint32_t)(x * 0x9E3779B97F4A7C15ull >> 48);
}
/* False: this launch has not stored near this address. */
static inline bool caches_is_marked(uint64_t at)
{
	return __atomic_load_n(&caches_mark[caches_hash(at >> CACHES_SHIFT)], __ATOMIC_RELAXED);
}
/* From the lowest to the highest address of an instruction. */
struct span {
	uint64_t lo, hi;
};
/* False: this launch has stored to none of n bytes at a[lane]. */
static inline bool caches_may_have(const struct span *s, const uint64_t *a, uint32_t exec,
				   uint32_t n)
{
	enum { MOST = 64 };
	uint64_t first = s->lo >> CACHES_SHIFT, last = (s->hi - 1) >> CACHES_SHIFT;
	bool is = false;
	for (uint64_t at = first; last - first < MOST && at <= last; at++)
		is |= caches_is_marked(at << CACHES_SHIFT);
	for (int i = 0; last - first >= MOST && !is && i < LANES; i++)
		is = exec >> i & 1 &&
		     (caches_is_marked(a[i]) || caches_is_marked(a[i] + n - 1));
	return is;
}
void caches_begin(void); /* a launch */
void caches_begin_group(struct group *g);
/* n bytes at a[lane]. A load's registers have been written: what it may not see is a fault, or
 * becomes NaN. */
void caches_store(struct wave *w, const uint64_t *a, uint32_t exec, uint32_t n);
void caches_load(struct wave *w, const struct inst *p, const uint64_t *a, uint32_t exec,
		 uint32_t n);
void caches_load_scalar(struct wave *w, const struct inst *p, uint64_t a, uint32_t n);
void caches_ticket(struct wave *w); /* an atomic that returns */
void caches_barrier(struct wave *w);
void caches_invalidate_l0(struct wave *w, const struct inst *p);
void caches_invalidate_l1(struct wave *w, const struct inst *p);

/* --- gfx11_count.c: where l->is_counting ---------------------------------------------- */

void count_lines(struct group *g, const uint64_t *address, uint32_t exec, uint32_t n,
		 bool is_store);
/* n: bytes a lane (of a pair: of each half). */
void count_banks(struct group *g, const uint32_t *address, uint32_t exec, uint32_t n);

/* --- gfx11_adder.c --------------------------------------------------------------------- */

/* The value of an option of HALOD_GFX11, as in "target=gfx1100,threads=1"; NULL: it is not there.
 * Valid until the next call. */
const char *gfx11_option(const char *name);
/* The option adder=silicon. adder_open reads it; before any launch. */
extern bool adder_is_silicon;
void adder_open(void);
/* c plus the products of two pairs of halves, or of bf16. */
float adder_dot2(uint32_t a, uint32_t b, uint32_t c, bool is_bf16);

/* --- gfx11_exec_*.c -------------------------------------------------------------------- */

/* The same code for three instruction sets of the host. */
struct executor {
	const char *name;
	bool (*is_there)(void);
	inst_run *const *run; /* by enum op; NULL: none */
	inst_run *dual, *dpp;
	void (*run_wave)(struct wave *w);
};
extern const struct executor executor_avx512, executor_avx2, executor_portable;
/* The best that the host has, or that of the option isa. */
const struct executor *executor_best(void);

/* --- gfx11_run.c ----------------------------------------------------------------------- */

/* Fills in who executes each instruction of a decoded kernel. NULL, or why not. */
const char *kernel_link(struct code_object *c, struct code_kernel *k);
/* Runs the whole grid on some threads. False: it failed, l->error says why. */
bool launch_run(struct launch *l);
