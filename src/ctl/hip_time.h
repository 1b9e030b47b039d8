/* SPDX-License-Identifier: Apache-2.0
 *
 * Time on the GPU. Thread: the backend's.
 */
#pragma once
#include "backend/hip/hip.h"

/* What is measured: queue run i of it. */
typedef enum status (*hip_time_queue)(void *ctx, int i);

/* Microseconds of one run: n_runs are recorded as one graph, the graph runs n_graphs
 * times (and once before that), each between two events; the median, divided. A run of more
 * than 10 ms is a graph by itself. */
enum status hip_time_graph(struct hip *h, hip_time_queue queue, void *ctx, int n_runs,
			   int n_graphs, double *out_us, struct fail *fail) MUST_USE;

/* Microseconds of the step that was replayed last: n_runs of it back to back, n_samples
 * times; the median, divided. What the step writes is written again: its sequences are
 * lost. E_MISSING: none was replayed. */
enum status hip_time_step(struct hip *h, int n_runs, int n_samples, double *out_us,
			  struct fail *fail) MUST_USE;

/* Rates of the memory, GB/s: reading n_bytes by a kernel that does nothing else, and
 * copying (bytes read and bytes written). n_bytes should be several times what caches
 * hold. The median of n_samples counts. */
enum { HIP_TIME_SAMPLES = 7 };
enum status hip_time_read(struct hip *h, size_t n_bytes, int n_samples, double *out_gbs,
			  struct fail *fail) MUST_USE;
enum status hip_time_copy(struct hip *h, size_t n_bytes, int n_samples, double *out_gbs,
			  struct fail *fail) MUST_USE;
/* Microseconds in which a launch of that kernel reads n_bytes, others of cold_bytes each
 * time: what a launch that needs them cannot be faster than, its begin and end included. */
enum status hip_time_part(struct hip *h, size_t n_bytes, size_t cold_bytes, int n_samples,
			  double *out_us, struct fail *fail) MUST_USE;
