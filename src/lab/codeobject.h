/* SPDX-License-Identifier: Apache-2.0
 *
 * What an AMD GPU's code object says of its kernels: an ELF file with a note in
 * MessagePack (AMDGPU user guide of LLVM, "Code Object V5 Metadata"). Thread: any.
 */
#pragma once
#include "base/buf.h"

struct code_arg {
	int32_t offset, size;
	bool is_pointer;  /* to device memory */
	bool is_hidden;   /* not of the kernel's own list */
};

struct code_kernel {
	char *name;
	int32_t vgprs, sgprs, vgpr_spills, sgpr_spills;
	int32_t lds_bytes;     /* static */
	int32_t scratch_bytes; /* of a lane */
	int32_t max_threads, kernarg_bytes, wave;
	struct code_arg *args; /* (n_args) */
	int32_t n_args;
	uint64_t begin, end;   /* addresses of its instructions */
};

struct codeobject {
	char arch[32]; /* "gfx1151" */
	struct code_kernel *kernel; /* (n), in the file's order */
	size_t n;
};

/* E_IO, E_FORMAT with the file and what is wrong with it. */
enum status codeobject_open(const char *path, struct codeobject *out,
			    struct fail *fail) MUST_USE;
/* The same of bytes in memory; what: what to call them. */
enum status codeobject_read(struct str bytes, const char *what, struct codeobject *out,
			    struct fail *fail) MUST_USE;
void codeobject_deinit(struct codeobject *c);
const struct code_kernel *codeobject_find(const struct codeobject *c, const char *name);
