/* SPDX-License-Identifier: Apache-2.0
 *
 * Records kernel launches in a folder, each with all its inputs and outputs. So a launch
 * can be repeated elsewhere: on another GPU, on another runtime, or in an emulator.
 *
 *   recording.json      what was recorded, where, and the number of launches
 *   launch-00000.json …  one launch each, in order
 *   blobs/<hash>.bin    memory; a shorter file continues with zeros
 *   gfx1151.hsaco …     code objects of the build that recorded
 *
 * A launch:
 *
 *   {"index": 0, "kernel": "rms_norm_kernel",
 *    "grid": [x, y, z],          in workgroups
 *    "block": [x, y, z],         threads of a workgroup
 *    "lds": bytes,               dynamic LDS, in addition to the kernel's static LDS
 *    "kernarg": "hex",           the kernel's arguments as its metadata lay them out,
 *                                without hidden ones; addresses are zero
 *    "args": [[offset, bytes], …],
 *    "pointers": [{"at": byte of kernarg, "buffer": index, "offset": bytes}, …],
 *    "buffers": [{"bytes": n, "before": "blobs/…", "after": "blobs/…",
 *                 "pointers": [{"at", "buffer", "offset"}, …]}, …]}
 *
 * Buffers are whole allocations of device memory: those that the arguments point to, and
 * those that these buffers point to. For example, the table of a layer's experts (struct
 * weight_view, kernels/moe/moe_launch.h) brings all their weights.
 *
 * `at` is the offset of an eight-byte little-endian address. Before the launch it must be
 * set to the address of that buffer plus `offset`. In the files it is zero, before and
 * after. Nothing else in a folder depends on where memory was.
 *
 * How addresses are found: in arguments, any aligned word that lies in an allocation
 * counts. So arguments have no padding (tests/lint/check-padding): beside a number, padding
 * could hold the upper half of an address, and both would be taken for an address. In memory,
 * only places where the backend stores addresses are searched: its tables of experts.
 * Thread: the backend's.
 */
#pragma once
#include "backend/hip/hip_launch.h"

struct record;

/* Start recording: sets h->on_launch. code: paths of code objects, all of which are
 * copied; the first gives the layout of arguments. E_IO, E_FORMAT. */
enum status record_create(struct hip *h, const char *dir, const char *const *code,
			  int n_code, struct record **out, struct fail *fail) MUST_USE;
/* Stop recording, and return the first error that occurred meanwhile. about: text for
 * recording.json. */
enum status record_finish(struct record *r, const char *about, int *out_n,
			  struct fail *fail) MUST_USE;

struct replay_result {
	int n_launches, n_equal;  /* n_equal: launches with every byte as recorded */
	int n_close;              /* other launches, within the tolerance */
	double worst;             /* largest difference within the tolerance */
	char text[200];           /* describes the first launch beyond the tolerance; "" if none */
};

/* Run a recording on h and compare the memory that it leaves. Differing bytes are read
 * both as f32 and as f16. Each reading gives a largest difference |a - b| / max(1, |b|),
 * and the smaller one counts. E_IO, E_FORMAT. */
enum status replay_run(struct hip *h, const char *dir, double tolerance,
		       struct replay_result *out, struct fail *fail) MUST_USE;
