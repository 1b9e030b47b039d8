/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures time on the GPU. Thread: the backend's.
 */
#pragma once
#include "backend/hip/hip.h"

/* The work that is measured: queues run i of it. */
typedef enum status (*hip_time_queue)(void *ctx, int i);

/* Microseconds of one run: n_runs are recorded as one graph, the graph runs n_graphs
 * times (and once before that), each between two events; the median, divided. A run of more
 * than 10 ms is a graph by itself. */
enum status hip_time_graph(struct hip *h, hip_time_queue queue, void *ctx, int n_runs,
			   int n_graphs, double *out_us, struct fail *fail) MUST_USE;

/* Microseconds of the step that was replayed last. It runs n_runs times back to back, for
 * n_samples samples; the median is divided by n_runs. The step writes its results again, so the
 * contents of its sequences are lost. E_MISSING: no step was replayed. */
enum status hip_time_step(struct hip *h, int n_runs, int n_samples, double *out_us,
			  struct fail *fail) MUST_USE;

/* Read and copy rate of the memory in GB/s: reading n_bytes by a kernel that does nothing else,
 * and copying (bytes read plus bytes written). n_bytes should be several times the size of the
 * caches. The median of n_samples counts. */
enum { HIP_TIME_SAMPLES = 7 };
enum status hip_time_read(struct hip *h, size_t n_bytes, int n_samples, double *out_gbs,
			  struct fail *fail) MUST_USE;
enum status hip_time_copy(struct hip *h, size_t n_bytes, int n_samples, double *out_gbs,
			  struct fail *fail) MUST_USE;
/* Microseconds in which one launch of that kernel reads n_bytes; each run reads another part of
 * cold_bytes, so that caches do not help. No launch that reads n_bytes can be faster, its begin
 * and end included. */
enum status hip_time_part(struct hip *h, size_t n_bytes, size_t cold_bytes, int n_samples,
			  double *out_us, struct fail *fail) MUST_USE;
