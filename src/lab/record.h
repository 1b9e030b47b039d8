/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches in a folder, each with all that it needs and all that it did, so that
 * it can be run again elsewhere: on another GPU, another runtime, or in an emulator.
 *
 *   recording.json      what was recorded, where, and of how many launches
 *   launch-00000.json …  one launch each, in order
 *   blobs/<hash>.bin    memory; a file shorter than what it stands for goes on with zeros
 *   gfx1151.hsaco …     code objects of the build that recorded
 *
 * A launch:
 *   {"index": 0, "kernel": "rms_norm_kernel",
 *    "grid": [x, y, z],          in workgroups
 *    "block": [x, y, z],         threads of a workgroup
 *    "lds": bytes,               dynamic LDS, beside the kernel's static LDS
 *    "kernarg": "hex",           the kernel's arguments as its metadata lay them out,
 *                                hidden ones left out; addresses are zero
 *    "args": [[offset, bytes], …],
 *    "pointers": [{"at": byte of kernarg, "buffer": index, "offset": bytes}, …],
 *    "buffers": [{"bytes": n, "before": "blobs/…", "after": "blobs/…",
 *                 "pointers": [{"at", "buffer", "offset"}, …]}, …]}
 *
 * Buffers are whole allocations of device memory, all that the arguments point to and
 * all that those point to: the table of a layer's experts (struct weight_view of each,
 * kernels/moe/moe_launch.h) brings all its weights. `at` is a place of eight bytes,
 * little-endian, to be replaced by the address of that buffer plus offset before the
 * launch; in the files such places are zero, before and after. Nothing else in a folder
 * depends on where memory was.
 *
 * Addresses in arguments, which are structs, are known by their values (an aligned word
 * that lies in an allocation); in memory they are looked for where the backend put some,
 * in its tables of experts. Thread: the backend's.
 */
#pragma once
#include "backend/hip/hip_launch.h"

struct record;

/* Begin: sets h->on_launch. code: paths of code objects, the layout of arguments is taken
 * from the first; all are copied. E_IO, E_FORMAT. */
enum status record_create(struct hip *h, const char *dir, const char *const *code,
			  int n_code, struct record **out, struct fail *fail) MUST_USE;
/* End; what failed on the way is told here. about: text for recording.json. */
enum status record_finish(struct record *r, const char *about, int *out_n,
			  struct fail *fail) MUST_USE;

struct replay_result {
	int n_launches, n_equal;  /* equal: every byte as recorded */
	int n_close;              /* others within the tolerance */
	double worst;             /* largest difference that was tolerated */
	char text[200];           /* of the first that was not; "" if none */
};

/* Run a recording on h and compare what it leaves in memory. Bytes that differ are read
 * as f32 and as f16: the smaller of the largest differences |a - b| / max(1, |b|) counts.
 * E_IO, E_FORMAT. */
enum status replay_run(struct hip *h, const char *dir, double tolerance,
		       struct replay_result *out, struct fail *fail) MUST_USE;
