/* SPDX-License-Identifier: Apache-2.0
 *
 * A code object as the real runtime takes it: its image in memory, and of each kernel the
 * descriptor (name.kd) and the layout of its arguments (the metadata note). Not for
 * production: it trusts offsets only as far as it checks them.
 */
#pragma once
#include "tests/hip-on-gfx11/gfx11_inst.h"

enum arg_kind {
	ARG_EXPLICIT, ARG_BLOCK_COUNT_X, ARG_BLOCK_COUNT_Y, ARG_BLOCK_COUNT_Z,
	ARG_GROUP_SIZE_X, ARG_GROUP_SIZE_Y, ARG_GROUP_SIZE_Z, ARG_ZERO, ARG_UNKNOWN
};

struct code_arg {
	uint32_t offset, size;
	enum arg_kind kind;
};

enum { MAX_CODE_ARGS = 64 };

/* Was an instruction executed, and if it is a wait, was there something to wait for? */
enum reached { REACHED_NOT, REACHED, REACHED_EFFECT };

struct code_kernel {
	char *name;
	struct code_arg args[MAX_CODE_ARGS];
	int n_args, n_explicit;
	uint32_t kernarg_bytes, lds_bytes;
	uint32_t n_vgprs, n_user_sgprs;
	uint32_t rsrc1, rsrc2, properties;
	uint32_t begin, end;       /* addresses of its instructions */
	struct inst *insts;        /* (end - begin) / 4, one a word; NULL before the first
				    * use; size 0: no instruction begins there */
	uint8_t *reached;          /* as many: enum reached */
	uint64_t n_launches;
};

struct code_object {
	char arch[32];
	unsigned char *image;      /* as mapped, page-aligned */
	size_t image_bytes;
	uint32_t text, text_bytes; /* of the instructions, in the image */
	struct code_kernel *kernels;
	size_t n_kernels;
};

/* Reads the file. NULL, or why not (a static text, or one that the caller may keep).
 * *out must be zero. */
const char *code_load(const char *path, struct code_object *out);
void code_unload(struct code_object *c);
/* Decodes the kernel's instructions, resolves its branches, and checks that registers are
 * within those that it asks for. Returns NULL or why not. Not thread safe. */
const char *code_decode(struct code_object *c, struct code_kernel *k);
