/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend: one device, one stream, in order.
 *
 *   hip_api       the runtime's functions
 *   hip_device    which device, what it is called, which code object it needs
 *   hip_memory    device memory, copies through pinned memory
 *   hip_weight    weights on the device
 *   hip_launch    a kernel by its name
 *   hip_graph     a step's launches, recorded and replayed
 *   hip_<family>  an operation: which kernel, how many workgroups
 *
 * An operation honours every argument of its contract or refuses with hip_refuse,
 * which names what it cannot do. After the first failure of the runtime every
 * operation returns E_DEVICE, and `sync` says what failed.
 */
#pragma once
#include <stdbool.h>

#include "backend/backend.h"
#include "backend/hip/hip_api.h"
#include "base/map.h"

enum {
	HIP_MAX_TOK = 1 << 16,       /* of a step */
	HIP_WORK_BYTES = 128 << 20,
	HIP_STAGE_BYTES = 16 << 20,  /* of each half */
	HIP_LAND_BYTES = 8 << 20,
	HIP_GRAPHS = 48,
};

struct hip_device {
	int index;
	char name[64];  /* "AMD Radeon Graphics" */
	char arch[32];  /* "gfx1151" */
	int n_cu;       /* compute units: 40 on gfx1151 */
	int lds_bytes;  /* a workgroup may have */
	bool is_integrated;
	size_t n_bytes; /* of memory */
};

/* Memory in large blocks: parts are given back only with the arena. */
struct hip_arena {
	char *block;
	size_t at, size; /* of block */
	void **blocks;
	size_t n_blocks;
	size_t n_bytes;  /* given out */
};

/* The way to the device: two halves of pinned memory, one being filled while the
 * other is read. */
struct hip_stage {
	char *half[2];
	hip_event read[2]; /* the half has been read */
	size_t at;
	int now;
};

/* The way back: pinned memory, emptied by sync. */
struct hip_landing {
	void *dst;
	size_t at, n_bytes;
};

struct moe_span;
struct weight_view;

/* The kernels of few tokens: moe_any.hip takes everything. */
enum hip_experts_kernel { HIP_EXPERTS_ANY, HIP_EXPERTS_INT4, HIP_EXPERTS_ROWS };

/* One of the two products of an expert, all experts' weights of it being alike. */
struct hip_experts_leg {
	const struct weight *like; /* one of them */
	enum hip_experts_kernel few;
	const char *tile_format;   /* moe_tile.hip, the name; NULL: not */
	bool has_zero;
};

/* up: gate and up. */
struct hip_experts_legs {
	struct hip_experts_leg up, down;
};

/* A layer's experts (hip_experts.c). table holds device addresses: each row the q,
 * scales and zero_points of struct weight_view. */
struct hip_experts {
	struct hip_experts *next;
	const struct weight_view *table; /* device */
	size_t n_rows;
	struct moe_span *span; /* (MOE_PARTS) the experts one after the other */
	struct hip_experts_legs routed, shared;
	bool has_slot; /* the shared expert is like the others: one more slot */
};

/* A step that was, or may be, recorded: see hip_graph.c. */
struct hip_graph_slot {
	uint64_t key, used;
	bool is_seen;
	hip_graph_exec exec;
	int n_launches;
};

/* What the runtime gave in one piece. */
struct hip_range {
	char *p;
	size_t n;
};

struct hip_launch_info;
struct hip_tune_row;

struct hip {
	struct backend base;
	struct hip_api api;
	struct hip_device device;
	hip_stream stream;
	hip_module module;
	struct buf image;         /* the code object; the module may refer to it */
	struct strmap names;      /* of kernels, to an index in functions */
	hip_function *functions;
	char **function_names;
	size_t n_functions;
	struct backend_checks checks;
	struct hip_range *ranges; /* (n_ranges) all memory that launches reach */
	size_t n_ranges;
	int int4_axes;            /* of hip_linear_int4_count() for all shapes; -1: by shape */
	bool copies_to_lds;       /* by itself: dialect.h, COPY_LANDS 0 */
	bool prefers_quads;       /* kernels of quad.h where nothing was measured */
	struct hip_tune_row *tune; /* (n_tune): hip_tune.h */
	int n_tune;
	int tile;                 /* of linear_tile.def, the same */
	int32_t tile_from;        /* tokens from which tiles are used, where they can */
	int moe_tile;             /* of moe_tile.def; -1: by shape */
	int32_t moe_tile_from;    /* as tile_from */
	int moe_up, moe_down;     /* of moe_quad.def; -1: by shape */
	struct hip_arena weights;
	struct hip_experts *experts;
	struct hip_stage stage;
	char *land;
	size_t land_at;
	struct hip_landing landings[64];
	int n_landings;
	struct pool *pool;        /* for repacking weights; NULL until one needs it */
	uint32_t *counters;       /* device, (HIP_MAX_TOK) zero between launches */
	void *work;               /* device, HIP_WORK_BYTES of one operation */
	struct hip_graph_slot graphs[HIP_GRAPHS], *step; /* step: being captured */
	struct hip_graph_slot *replayed; /* last; NULL: none, or it is no more */
	bool no_graphs, step_is_broken;
	int step_launches;        /* since step_begin */
	uint64_t n_steps;
	bool has_failed;
	char failure[240];
	/* Where set, sees each launch before (is_done false) and after it. */
	void (*on_launch)(void *ctx, const struct hip_launch_info *l, bool is_done);
	void *on_launch_ctx;
};

enum status hip_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail) MUST_USE;
/* Could hip_create succeed, as far as can be told without taking memory? */
enum status hip_probe(const struct backend_opts *o, struct hip_device *out,
		      struct fail *fail) MUST_USE;

/* Each device there is, in order, whether there are kernels for it or not; what `on`
 * gets is gone when it returns. *out_api: the runtime's functions. */
enum status hip_list(const struct backend_opts *o, struct hip_api *out_api,
		     void (*on)(void *ctx, const struct hip_device *d, bool has_kernels),
		     void *ctx, struct fail *fail) MUST_USE;

static inline struct hip *hip_of(struct backend *b)
{
	return (struct hip *)b;
}

/* --- errors ----------------------------------------------------------------------- */

/* error is HIP_SUCCESS: OK. Else notes "what: name of the error", E_NOMEM or
 * E_DEVICE. */
enum status hip_check(struct hip *h, int error, const char *what);
/* E_UNSUPPORTED; the words go to base.refusal. */
enum status hip_refuse(struct hip *h, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* --- device ----------------------------------------------------------------------- */

/* The runtime. A machine without a GPU need not load it to know that there is none. */
enum status hip_open_api(const struct backend_opts *o, struct hip_api *out,
			 struct fail *fail) MUST_USE;
/* Where <arch>.<kind> is among the code objects, malloc'ed; NULL: nowhere. */
char *hip_device_file(const char *arch, const char *kind, const struct backend_opts *o);
enum status hip_device_open(const struct hip_api *api, const struct backend_opts *o,
			    struct hip_device *out, struct fail *fail) MUST_USE;
/* The kernels for device d: a whole file, or what the library brings. */
enum status hip_device_image(const struct hip_api *api, const struct hip_device *d,
			     const struct backend_opts *o, struct buf *file,
			     const void **out, struct fail *fail) MUST_USE;

/* --- memory ----------------------------------------------------------------------- */

enum status hip_memory_create(struct hip *h) MUST_USE;
void hip_memory_destroy(struct hip *h);
/* 256-byte aligned, not zeroed. */
enum status hip_arena_take(struct hip *h, struct hip_arena *a, size_t n_bytes,
			   void **out) MUST_USE;
void hip_arena_free(struct hip *h, struct hip_arena *a);
/* n rows of row_bytes, `step` bytes apart in src, to rows `pitch` apart; what lies
 * between those is zero. */
struct hip_rows {
	const void *src;
	void *dst;
	size_t row_bytes, step, pitch, n;
};
/* Queue the copy; src may be changed when it returns. */
enum status hip_upload_rows(struct hip *h, const struct hip_rows *r) MUST_USE;

/* Where the system's memory is the device's as well, no more than the system has left. */
void hip_memory(struct backend *b, struct backend_memory *out);
enum status hip_alloc(struct backend *b, size_t n_bytes, void **out);
void hip_free(struct backend *b, void *p);
enum status hip_alloc_shared(struct backend *b, size_t n_bytes, void **out);
void hip_free_shared(struct backend *b, void *p);
enum status hip_upload(struct backend *b, void *dst, const void *src, size_t n_bytes);
enum status hip_download(struct backend *b, void *dst, const void *src, size_t n_bytes);
enum status hip_sync(struct backend *b, struct fail *fail);

enum status hip_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail);
/* Is w of a format that hip_repack turns into another before it is loaded? *out then
 * points into *memory (malloc). */
bool hip_repacks(const struct weight *w);
enum status hip_repack(struct hip *h, const struct weight *w, struct weight *out,
		       void **memory) MUST_USE;
enum status hip_load_experts(struct backend *b, struct experts *out, struct fail *fail);
void hip_experts_destroy(struct hip *h);

/* --- operations ------------------------------------------------------------------- */

#define OP(name, contract) \
	enum status hip_##name(struct backend *b, const struct name##_args *a) MUST_USE;
#include "backend/ops.def"
#undef OP
