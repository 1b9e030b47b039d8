/* SPDX-License-Identifier: Apache-2.0
 *
 * Compute backends: one table of operations (ops.def), implemented by cpu/ and by hip/.
 * Thread: engine, except backend_create.
 *
 * Device addresses are plain pointers. The host may do pointer arithmetic with them but
 * must not read through them (on the CPU they happen to be host memory). Operations are
 * queued in order; `sync` waits for all of them and reports the first failure. All device
 * memory is allocated at start. With zero tokens an operation computes nothing, but still
 * returns E_UNSUPPORTED where it would for one token. So callers can test what it
 * supports.
 */
#pragma once
#include "base/pool.h"
#include "base/profile.h"
#include "kernels/ops/ops.h"
#include "model/model.h"

struct backend;
struct hip_api;

/* Slower variants of the same work. They show faults that the fast ones hide. */
struct backend_checks {
	bool own_blocks;  /* HIP: one runtime allocation for each request, so that a
			   * memory checker sees the bounds of each */
	bool few_groups;  /* HIP: small grids, so that each workgroup goes on to further rows,
			   * and attention of a prompt takes several launches */
	bool small_pages; /* CPU: use the weight cache even without huge pages for files */
};

struct backend_opts {
	const char *name; /* as in "cpu", "hip" */
	int n_threads;    /* CPU: threads; 0: one per CPU */
	bool cpu_pin;     /* CPU: pin each thread to its own CPU */
	bool exact;       /* no rounding of weights or activations, no fast path */
	const char *cpu_isa; /* CPU: "auto", NULL, or a name of cpu_isa.c */
	/* CPU: folder of the cache of packed weights (cpu_cache.h). NULL or "": no cache. */
	const char *weight_cache;
	/* Bytes for routed experts, which are then read from a file as steps need them
	 * (experts/expert_memory.h); -1: what the memory allows (engine/memory_plan.h); 0: all
	 * experts stay in memory. expert_dir: folder of that file; NULL or "": beside the model.
	 * Not with `exact`. */
	int64_t expert_memory;
	const char *expert_dir;
	bool cache_waits;       /* backend_destroy waits until the cache is written */
	const char *hip_library; /* HIP: path of the runtime; NULL or "": the system's */
	const struct hip_api *hip_api; /* HIP: functions to use in place of a library; or NULL */
	bool int8_head;          /* engine: convert the output head to int8, one scale a row */
	bool no_graphs;          /* HIP: launch each operation separately, without graphs */
	/* HIP: file in which ends of the process in the middle of graphs are noted; after two
	 * alike no_graphs is set. NULL or "": none. */
	const char *graph_notes;
	const char *kernel_dir;  /* HIP: folder of the code objects; NULL or "": where
				  * they were built or installed */
	struct backend_checks checks;
};

/* Sizes in bytes. */
struct backend_memory {
	int64_t total, free;
	bool is_system; /* shared with other programs: the system's memory */
};

struct backend_ops {
#define OP(name, contract) \
	enum status (*name)(struct backend *b, const struct name##_args *a);
#include "backend/ops.def"
#undef OP
	/* How much memory can be allocated now, in total and free. */
	void (*memory)(struct backend *b, struct backend_memory *out);
	/* Allocate device memory: zeroed, 256-byte aligned; E_NOMEM. */
	enum status (*alloc)(struct backend *b, size_t n_bytes, void **out);
	void (*free)(struct backend *b, void *p);
	/* Allocate zeroed host memory that operations also access, over the bus. The host
	 * sees their writes after `sync`, and must not touch the memory before that. */
	enum status (*alloc_shared)(struct backend *b, size_t n_bytes, void **out);
	void (*free_shared)(struct backend *b, void *p);
	/* Copy a checkpoint weight to the device in its own format, or in one that has the
	 * same numbers. The CPU backend returns views of the mapped file. Freed with the
	 * backend. */
	enum status (*load_weight)(struct backend *b, const struct weight *host,
				   struct weight *out, struct fail *fail);
	/* Like load_weight, for a layer's experts. load_weight has filled the arrays in
	 * *out, which belong to the caller. Sets out->device. */
	enum status (*load_experts)(struct backend *b, struct experts *out,
				    struct fail *fail);
	/* NULL, or called before and after the weights of a model are loaded. load_end is
	 * not called after a failure. With expert_bytes load_end makes or opens the experts'
	 * file, and the model's files must stay unchanged. */
	void (*load_begin)(struct backend *b, const struct model *m);
	enum status (*load_end)(struct backend *b, struct fail *fail);
	enum status (*upload)(struct backend *b, void *dst, const void *src,
			      size_t n_bytes);
	enum status (*download)(struct backend *b, void *dst, const void *src,
				size_t n_bytes);
	/* NULL, or pinned host memory, which the device copies from and to without help of the
	 * host: not zeroed; E_NOMEM, which is no failure of the device. Until sync, what is
	 * uploaded from it must stay, and what is downloaded to it is not there. */
	enum status (*alloc_pinned)(struct backend *b, size_t n_bytes, void **out);
	void (*free_pinned)(struct backend *b, void *p);
	enum status (*upload_pinned)(struct backend *b, void *dst, const void *src,
				     size_t n_bytes);
	enum status (*download_pinned)(struct backend *b, void *dst, const void *src,
				       size_t n_bytes);
	enum status (*sync)(struct backend *b, struct fail *fail);
	/* Begin and end a step. A step may be recorded once and later replayed as a
	 * whole: all steps of one key have the same arguments, and only device memory
	 * differs. *out_run true: queue the operations now; false: they are queued
	 * already. Key 0 is never recorded. step_end must follow in all cases, even if an
	 * operation failed. *out_again true: no recording came of it and nothing has run, so
	 * queue the operations once more, without another step_begin. */
	enum status (*step_begin)(struct backend *b, uint64_t key, bool *out_run);
	enum status (*step_end)(struct backend *b, bool *out_again);
	/* The device's own clock for backend_set_profile; NULL: operations are complete
	 * when they return. */
	const struct profile_device *(*profile_device)(struct backend *b);
	void (*destroy)(struct backend *b);
};

/* A backend: its operations, types and properties (kernels/README.md). The CPU computes
 * in float32. Its KV cache is float16 on the fast path if the instruction set converts
 * vectors of halves (AVX2 with F16C, AVX-512). A backend embeds this struct as its first
 * member. */
struct backend {
	const struct backend_ops *ops;
	const char *name;        /* as in "cpu", "hip" */
	/* Why an operation returned E_UNSUPPORTED, or E_IO because it could not read experts:
	 * that of the last one that failed so; "" if it gave no reason. */
	char refusal[200];
	uint64_t n_captures, n_replays; /* number of recorded and of replayed steps; see
					 * step_begin */
	int n_step_launches;     /* kernels launched in the last step; 0: not counted */
	char device[160];        /* as in "AMD EPYC, 2 threads" */
	/* what the bits of results depend on: instruction set, kernels, opts */
	char arithmetic[200];
	char weights_note[400];  /* how opts.weight_cache is used, set after loading; or "" */
	bool int8_head;          /* as in backend_opts */
	int64_t expert_memory;   /* as in backend_opts */
	/* Bytes for the routed experts of the model that is loaded next: the engine sets it from
	 * expert_memory. 0: all experts stay in memory. */
	int64_t expert_bytes;
	/* Called with the bytes of each expert that is in its file now; or NULL. */
	void (*on_stored)(void *ctx, size_t n_bytes);
	void *on_stored_ctx;
	char experts_note[400];  /* how expert_bytes is used; or "" */
	struct profile *profile; /* measures the steps; NULL: they are not measured */
	/* Copies from device memory are slow: logits stay there, and only the results of
	 * logits_top are copied. */
	bool is_far;
	/* A token has the same bits in every step of at most so many tokens. 0: in steps of any
	 * size. Longer steps use other kernels, which sum in another order. */
	int32_t few_tok;
	/* Bytes of device memory that the backend takes for itself, whatever model is loaded. */
	int64_t own_bytes;
	/* In contexts of up to so many positions, attention treats each draft token of several
	 * streams as a sequence of its own. In longer contexts it costs less as a further token
	 * of its stream. 0: never. */
	int32_t alone_ctx;
	enum dtype act_type;     /* type of activations, except the residual stream */
	enum dtype kv_type;      /* element type of the KV cache, unless int8 is asked for */
	bool widens_kv;          /* operations want kv_pages.wide_k and wide_v */
	bool lacks_int8_kv;      /* a KV cache in int8 is refused */
};

enum status backend_create(const struct backend_opts *o, struct backend **out,
			   struct fail *fail) MUST_USE;
void backend_destroy(struct backend *b);

/* Measures the steps of b from now on; NULL: no longer. p still belongs to the caller. */
void backend_set_profile(struct backend *b, struct profile *p);
/* Bytes that an operation has to read, for the profile. n_read: experts whose weights
 * this step uses. */
void backend_count_linear(struct backend *b, const struct linear_args *a);
void backend_count_experts(struct backend *b, const struct experts *e, int32_t n_read);

/* n numbers of the host in the type of activations; what is too large becomes the largest. */
void backend_to_act(const struct backend *b, const float *x, size_t n, void *out);
void backend_from_act(const struct backend *b, const void *x, size_t n, float *out);

/* The reason why an operation returned st, for a message. */
const char *backend_why(const struct backend *b, enum status st);

enum { BACKEND_REASON = 560 }; /* bytes of `reason` for backend_choose */

/* Choose a backend. "auto" becomes "hip" if that is usable, else "cpu"; other names stay.
 * `reason` receives the explanation. Fails if "hip" is named and not usable, or if the
 * name is unknown. Thread: any. */
enum status backend_choose(const struct backend_opts *o, const char **out_name,
			   char *reason, size_t reason_size, struct fail *fail) MUST_USE;
