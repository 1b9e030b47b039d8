/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the metadata of kernels in an AMD code object: an ELF file with a note in
 * MessagePack (AMDGPU user guide of LLVM, "Code Object V5 Metadata"). Thread: any.
 */
#pragma once
#include "base/buf.h"

struct code_arg {
	int32_t offset, size;
	bool is_hidden;   /* added by the compiler, not a parameter of the kernel */
};

struct code_kernel {
	char *name;
	int32_t vgprs, sgprs, vgpr_spills, sgpr_spills;
	int32_t lds_bytes;     /* static LDS */
	int32_t scratch_bytes; /* bytes for each lane */
	int32_t max_threads, kernarg_bytes, wave;
	struct code_arg *args; /* (n_args) */
	int32_t n_args;
	uint64_t begin, end;   /* addresses of its instructions: [begin, end) */
};

struct codeobject {
	char arch[32]; /* as in "gfx1151" */
	struct code_kernel *kernel; /* (n), in the file's order */
	size_t n;
};

/* Read a file. E_IO, E_FORMAT name the file and the error. */
enum status codeobject_open(const char *path, struct codeobject *out,
			    struct fail *fail) MUST_USE;
/* Like codeobject_open for bytes in memory; what: their name in messages. */
enum status codeobject_read(struct str bytes, const char *what, struct codeobject *out,
			    struct fail *fail) MUST_USE;
void codeobject_deinit(struct codeobject *c);
const struct code_kernel *codeobject_find(const struct codeobject *c, const char *name);
