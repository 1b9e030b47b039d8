/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend: one device with one stream, in order.
 *
 *   hip_api       the runtime's functions
 *   hip_device    the choice of the device and of its code object
 *   hip_memory    device memory, copies through pinned memory
 *   hip_weight    weights on the device: what becomes of them
 *   hip_launch    launches a kernel
 *   hip_graph     records and replays a step's launches
 *   hip_slots     experts that do not stay on the device
 *   hip_<family>  operations: the choice of kernel and grid
 *
 * An operation supports every argument of its contract, or refuses with hip_refuse, which
 * says what is not supported. After the first failure of the runtime every operation
 * returns E_DEVICE, and `sync` reports the failure.
 */
#pragma once
#include <stdbool.h>

#include "backend/backend.h"
#include "backend/hip/hip_api.h"
#include "base/map.h"

enum {
	HIP_MAX_TOK = 1 << 16,       /* most tokens of a step */
	/* Steps of up to so many tokens take the kernels for few tokens. Kernels for block
	 * formats are launched for eight tokens at a time. */
	HIP_FEW_TOK = 16,
	HIP_ONE_EACH = 32,
	/* backend.alone_ctx: in longer contexts reading a cache twice costs more */
	HIP_ALONE_CTX = 4096,
	/* for the experts of 2,048 tokens: each token has nine rows of 2,048 floats */
	HIP_WORK_BYTES = 160 << 20,
	HIP_STAGING_BYTES = 16 << 20,  /* bytes of each half of struct hip_staging */
	HIP_LAND_BYTES = 8 << 20,
	HIP_GRAPHS = 128, /* most recorded steps, by streams, tokens and a bound of the context */
};

struct hip_device {
	int index;
	char name[64];  /* as in "AMD Radeon Graphics" */
	char arch[32];  /* as in "gfx1151" */
	int n_cu;       /* compute units: 40 on gfx1151 */
	int lds_bytes;  /* most LDS of a workgroup */
	bool is_integrated; /* it is an APU's */
	char pci[32];   /* as in "0000:c5:00.0"; "": not known */
	size_t n_bytes; /* bytes of memory, as the runtime counts: of an APU no help */
};

/* An allocator in large blocks. Parts are freed only together, with the arena. */
struct hip_arena {
	char *block;
	size_t at, size; /* used and total bytes of block */
	void **blocks;
	size_t n_blocks;
	size_t n_bytes;  /* bytes handed out */
};

/* A point in the stream that the host can wait for. Where the runtime's events fail, the wait is
 * for all that is queued. */
struct hip_mark {
	hip_event event; /* NULL: none could be created */
	bool is_lost;    /* it was not recorded */
};

/* Copies to the device: two halves of pinned memory. One is filled while the device reads
 * the other. */
struct hip_staging {
	char *half[2];
	struct hip_mark read[2]; /* the device has read the half */
	size_t at;
	int now;
};

/* A copy from the device into pinned memory, which sync copies on to dst. */
struct hip_landing {
	void *dst;
	size_t at, n_bytes;
};

/* A word of each input: struct weight.order or in_scale. */
struct hip_order {
	void *host;     /* (k) malloc'ed */
	const void *on; /* (k) device */
	int32_t k;
};

struct weight_view;

/* Kernels for few tokens. moe_any.hip supports everything. */
enum hip_experts_kernel { HIP_EXPERTS_ANY, HIP_EXPERTS_INT4, HIP_EXPERTS_ROWS };

/* One of an expert's two products. The weights of all experts are alike. */
struct hip_experts_leg {
	const struct weight *like; /* one of the experts' weights */
	enum hip_experts_kernel few;
	const char *tile_format;   /* format in the name of moe_tile.hip's kernel; NULL: none */
	bool has_zero;
	bool is_mixed;             /* ANY: each weight has a format of its own */
};

/* up: gate and up together; down: the down projection. */
struct hip_experts_legs {
	struct hip_experts_leg up, down;
};

/* The backend's data of a layer's experts (hip_experts.c). Rows of `table` have q, scales
 * and zero_points of struct weight_view as device addresses. */
struct hip_experts {
	struct hip_experts *next;
	const struct weight_view *table; /* device address */
	size_t n_rows;
	struct hip_experts_legs routed, shared;
	bool has_slot; /* the shared expert is like the others, so it is one more slot */
	struct hip_slots_layer *slots; /* hip_slots.h; NULL: all experts stay on the device */
};

/* A step that was recorded, or may be: see hip_graph.c. */
struct hip_graph_slot {
	uint64_t key, used;
	bool is_seen;
	hip_graph_exec exec;
	int n_launches;
};

/* A piece of memory that the runtime allocated. */
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
	struct buf image;         /* the code object; the module may still refer to it */
	struct strmap names;      /* name of a kernel to its index in functions */
	hip_function *functions;
	char **function_names;
	size_t n_functions;
	struct backend_checks checks;
	struct hip_range *ranges; /* (n_ranges) all memory that kernels can access */
	size_t n_ranges;
	int int4_axes;            /* row of linear_int4.def to use for all shapes;
				   * -1: choose by shape */
	struct hip_tune_row *tune; /* (n_tune) rows of the tune file: hip_tune.h */
	int n_tune;
	int tile;                 /* row of linear_tile.def to use for all shapes; -1: choose */
	int32_t tile_from;        /* smallest number of tokens for which tiles are used */
	int moe_tile;             /* row of moe_tile.def to use for all shapes; -1: choose */
	int32_t moe_tile_from;    /* smallest number of tokens for tiles of experts */
	struct hip_arena weights;
	struct hip_order orders[2]; /* loaded last, the newest first; k 0: none */
	struct hip_experts *experts;
	struct hip_slots *slots;  /* experts in slots of the model loaded last; NULL: none */
	char *expert_dir;         /* as in backend_opts; malloc'ed */
	struct hip_staging staging;
	char *land;
	size_t land_at;
	struct hip_landing landings[64];
	int n_landings;
	struct pool *pool;        /* threads that repack weights; NULL until needed */
	uint32_t *counters;       /* device, (HIP_MAX_TOK), zero between launches */
	uint64_t *router_sums;    /* device, (MOE_ROUTER_MAX_EXPERTS), zero between launches */
	const struct weight *routed; /* the router that the last linear has done, or NULL:
				      * hip_route.c */
	int32_t *one_each;        /* device, (HIP_ONE_EACH + 1): 0, 1, 2, … */
	void *work;               /* device, work_bytes, used by one operation at a time */
	size_t work_bytes;        /* HIP_WORK_BYTES or more */
	struct hip_graph_slot graphs[HIP_GRAPHS], *step; /* step: being captured, or NULL */
	struct hip_graph_slot *replayed; /* graph launched last; NULL: none, or it was freed */
	bool no_graphs, step_is_broken;
	int step_error;           /* of a launch while a step is captured, or HIP_SUCCESS */
	char *graph_notes;        /* as in backend_opts; malloc'ed */
	bool is_graph_tried;      /* the file says so, until the first replay is over */
	bool has_told_events;     /* that events fail */
	int step_launches;        /* launches since step_begin */
	bool has_copied;          /* to the device, and launched no kernel behind that */
	uint64_t n_steps, n_begun; /* n_begun: steps begun, recorded or not */
	hip_event *events;        /* (n_events) of a profile: hip_profile.h */
	int n_events;
	struct profile_device clock;
	bool has_failed;
	char failure[240];
	/* If set, called before each launch (is_done false) and after it (true). */
	void (*on_launch)(void *ctx, const struct hip_launch_info *l, bool is_done);
	void *on_launch_ctx;
};

enum status hip_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail) MUST_USE;
/* Check whether hip_create could succeed, without allocating memory. */
enum status hip_probe(const struct backend_opts *o, struct hip_device *out,
		      struct fail *fail) MUST_USE;

/* Call `on` for each device in order, also for devices without kernels. The pointers
 * passed to `on` are valid during the call only. *out_api: the runtime's functions. */
enum status hip_list(const struct backend_opts *o, struct hip_api *out_api,
		     void (*on)(void *ctx, const struct hip_device *d, bool has_kernels),
		     void *ctx, struct fail *fail) MUST_USE;

static inline struct hip *hip_of(struct backend *b)
{
	return (struct hip *)b;
}

/* --- errors ----------------------------------------------------------------------- */

/* OK if error is HIP_SUCCESS. Otherwise records "what: name of the error" and returns
 * E_NOMEM or E_DEVICE. */
enum status hip_check(struct hip *h, int error, const char *what);
/* Store the message in base.refusal and return E_UNSUPPORTED. */
enum status hip_refuse(struct hip *h, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* --- device ----------------------------------------------------------------------- */

/* Load the runtime. If the machine has no GPU, it fails without loading the runtime. */
enum status hip_open_api(const struct backend_opts *o, struct hip_api *out,
			 struct fail *fail) MUST_USE;
/* Path of <arch>.<kind> in the folders of code objects, malloc'ed; NULL if there is none. */
char *hip_device_file(const char *arch, const char *kind, const struct backend_opts *o);
enum status hip_device_open(const struct hip_api *api, const struct backend_opts *o,
			    struct hip_device *out, struct fail *fail) MUST_USE;
/* The code object for device d: read from a file, or provided by the library. */
enum status hip_device_image(const struct hip_api *api, const struct hip_device *d,
			     const struct backend_opts *o, struct buf *file,
			     const void **out, struct fail *fail) MUST_USE;

/* --- memory ----------------------------------------------------------------------- */

enum status hip_memory_create(struct hip *h) MUST_USE;
void hip_memory_destroy(struct hip *h);
/* Allocate from an arena; 256-byte aligned, not zeroed. */
enum status hip_arena_take(struct hip *h, struct hip_arena *a, size_t n_bytes,
			   void **out) MUST_USE;
/* n rows of row_bytes: `step` bytes apart in src, `pitch` bytes apart in dst. The gaps in
 * dst become zero. */
struct hip_rows {
	const void *src;
	void *dst;
	size_t row_bytes, step, pitch, n;
};
/* Queue a copy from pinned memory, which the next kernels see (settle_copies in hip_graph.c). */
enum status hip_send(struct hip *h, void *dst, const void *pinned, size_t n) MUST_USE;
/* Queue the copy. The caller may change src afterwards. */
enum status hip_upload_rows(struct hip *h, const struct hip_rows *r) MUST_USE;

void hip_mark_create(struct hip *h, struct hip_mark *m);
void hip_mark_put(struct hip *h, struct hip_mark *m);
/* what: as in hip_check, if the device fails. */
enum status hip_mark_wait(struct hip *h, struct hip_mark *m, const char *what) MUST_USE;
void hip_mark_destroy(struct hip *h, struct hip_mark *m);

/* If the device uses the system's memory, `free` is at most what the system has left. */
void hip_memory(struct backend *b, struct backend_memory *out);
enum status hip_alloc(struct backend *b, size_t n_bytes, void **out);
void hip_free(struct backend *b, void *p);
enum status hip_alloc_shared(struct backend *b, size_t n_bytes, void **out);
void hip_free_shared(struct backend *b, void *p);
enum status hip_upload(struct backend *b, void *dst, const void *src, size_t n_bytes);
enum status hip_download(struct backend *b, void *dst, const void *src, size_t n_bytes);
enum status hip_alloc_pinned(struct backend *b, size_t n_bytes, void **out);
void hip_free_pinned(struct backend *b, void *p);
enum status hip_upload_pinned(struct backend *b, void *dst, const void *src, size_t n_bytes);
enum status hip_download_pinned(struct backend *b, void *dst, const void *src, size_t n_bytes);
enum status hip_sync(struct backend *b, struct fail *fail);

enum status hip_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail);
enum status hip_load_experts(struct backend *b, struct experts *out, struct fail *fail);
void hip_experts_destroy(struct hip *h);

/* --- operations ------------------------------------------------------------------- */

#define OP(name, contract) \
	enum status hip_##name(struct backend *b, const struct name##_args *a) MUST_USE;
#include "backend/ops.def"
#undef OP
