/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the arithmetic happens: one table of operations (ops.def), filled by
 * cpu/ and by hip/. Thread: engine, except backend_create.
 *
 * Device addresses are plain pointers; pointer arithmetic on the host is
 * allowed, reading through them is not (on the CPU they happen to be host
 * memory). Operations are queued in order; `sync` waits for all of them and
 * reports the first failure. All device memory is taken at start. Of no tokens, an
 * operation does nothing but refuse (E_UNSUPPORTED) what it would refuse of one.
 */
#pragma once
#include "base/pool.h"
#include "kernels/ops/ops.h"
#include "model/model.h"

struct backend;
struct hip_api;

/* Slower ways of the same work, which show faults that the fast ones hide. */
struct backend_checks {
	bool own_blocks;  /* HIP: each allocation is one of the runtime's, so that a
			   * runtime that checks memory sees where each ends */
	bool few_groups;  /* HIP: launches so small that workgroups go on to more rows */
	bool small_pages; /* CPU: use the weight cache where files have no huge pages */
};

struct backend_opts {
	const char *name; /* "cpu", "hip" */
	int n_threads;    /* CPU: 0 = one per CPU */
	bool cpu_pin;     /* CPU: each thread stays on a CPU of its own */
	bool exact;       /* weights and activations as they are, no fast path */
	const char *cpu_isa; /* CPU: "auto" or NULL, or a name of cpu_isa.c */
	/* CPU: folder where weights are kept as they are computed with (cpu_cache.h); NULL
	 * or "": nowhere. */
	const char *weight_cache;
	bool cache_waits;       /* backend_destroy waits until that file is written */
	const char *hip_library; /* HIP: path of the runtime; NULL or "": the system's */
	const struct hip_api *hip_api; /* HIP: a runtime that is no library, instead; NULL */
	bool int8_head;          /* engine: the output head in int8 with a scale a row */
	bool no_graphs;          /* HIP: launch each step's operations one by one */
	const char *kernel_dir;  /* HIP: where code objects are; NULL or "": where they
				  * were built or installed */
	struct backend_checks checks;
};

/* In bytes. */
struct backend_memory {
	int64_t total, free;
	bool is_system; /* the memory of the system, which other programs use, too */
};

struct backend_ops {
#define OP(name, contract) \
	enum status (*name)(struct backend *b, const struct name##_args *a);
#include "backend/ops.def"
#undef OP
	/* What can be allocated now. */
	void (*memory)(struct backend *b, struct backend_memory *out);
	/* Device memory: zeroed, 256-byte aligned; E_NOMEM. */
	enum status (*alloc)(struct backend *b, size_t n_bytes, void **out);
	void (*free)(struct backend *b, void *p);
	/* Host memory that operations read and write too, over the bus; zeroed. What they
	 * wrote is there after `sync`, until when the host leaves it alone. */
	enum status (*alloc_shared)(struct backend *b, size_t n_bytes, void **out);
	void (*free_shared)(struct backend *b, void *p);
	/* Bring a checkpoint weight to the device in its own format; the CPU
	 * returns views of the mapped file. Freed with the backend. */
	enum status (*load_weight)(struct backend *b, const struct weight *host,
				   struct weight *out, struct fail *fail);
	/* The same for a layer's experts; the arrays in *out were filled by
	 * load_weight and stay the caller's. Sets out->device. */
	enum status (*load_experts)(struct backend *b, struct experts *out,
				    struct fail *fail);
	/* NULL, or called before and after the weights of a model are loaded; the
	 * latter not after a failure. */
	void (*load_begin)(struct backend *b, const struct model *m);
	void (*load_end)(struct backend *b);
	enum status (*upload)(struct backend *b, void *dst, const void *src,
			      size_t n_bytes);
	enum status (*download)(struct backend *b, void *dst, const void *src,
				size_t n_bytes);
	enum status (*sync)(struct backend *b, struct fail *fail);
	/* A step whose operations have the same arguments whenever its key is the same
	 * (what changes being in device memory) may be recorded once and then be replayed
	 * as a whole. *out_run: queue the operations now; else they are queued already.
	 * Key 0 is never recorded. step_end follows in every case, also where an operation
	 * failed. */
	enum status (*step_begin)(struct backend *b, uint64_t key, bool *out_run);
	enum status (*step_end)(struct backend *b);
	void (*destroy)(struct backend *b);
};

/* What a backend has and which types it works in (kernels/README.md). The CPU: all
 * float32, but the cache is float16 on the fast path where the instruction set converts
 * vectors of it (AVX2 with F16C, AVX-512).
 * A backend embeds this as its first member. */
struct backend {
	const struct backend_ops *ops;
	const char *name;        /* "cpu", "hip" */
	/* Why the last operation that returned E_UNSUPPORTED did; "" where none says. */
	char refusal[200];
	uint64_t n_captures, n_replays; /* of steps, see step_begin */
	int n_step_launches;     /* kernels of the last step; 0: not counted */
	char device[160];        /* "AMD EPYC, 2 threads" */
	char weights_note[400];  /* once loaded: what became of opts.weight_cache, or "" */
	bool int8_head;          /* opts.int8_head */
	/* Its memory is far: logits stay there, and what logits_top says comes. */
	bool is_far;
	enum dtype act_type;     /* of activations beside the residual stream */
	enum dtype kv_type;      /* element type of the KV cache */
};

enum status backend_create(const struct backend_opts *o, struct backend **out,
			   struct fail *fail) MUST_USE;
void backend_destroy(struct backend *b);

/* What to say of an operation that returned st. */
const char *backend_why(const struct backend *b, enum status st);

enum { BACKEND_REASON = 560 }; /* bytes, for backend_choose */

/* "auto": "hip" where it can be used, else "cpu"; any other name is itself. Why goes
 * to reason. Failure: the name is "hip" and it cannot be used, or there is none so
 * called. Thread: any. */
enum status backend_choose(const struct backend_opts *o, const char **out_name,
			   char *reason, size_t reason_size, struct fail *fail) MUST_USE;
