/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters, gauges and histograms in atomics, rendered as Prometheus text
 * 0.0.4. Rows in metrics.def. Thread: any; updates are relaxed atomics.
 *
 * The values are those of all models of the process; `model_name` is the server's, and is added
 * while rendering. What struct metrics_model has is told by model.
 */
#pragma once
#include "base/buf.h"
#include "base/clock.h"
#include "base/health.h"

enum metric_id {
#define METRIC(id, kind, name, help) METRIC_##id,
#define METRIC_BY(id, kind, name, label, values, help) METRIC_##id,
#include "base/metrics.def"
#undef METRIC
#undef METRIC_BY
	METRIC_COUNT
};

void metric_add(enum metric_id id, double v);              /* add to a counter */
/* label_value must be in the row's list, unless that list ends in "other". */
void metric_add_by(enum metric_id id, const char *label_value, double v);
/* The same, by the value's place in the row's list: nothing is compared. */
void metric_add_nth(enum metric_id id, int i_value, double v);
void metric_set(enum metric_id id, double v);              /* set a gauge */
/* Sets the caller's part of a gauge that is a sum. *told: what it said last; 0 at first. */
void metric_share(enum metric_id id, double *told, double v);
/* Add a sample, in seconds or tokens, to a histogram. NAN ("did not happen") is ignored. */
void metric_observe(enum metric_id id, double v);
/* Value of a counter or gauge, summed over its label values. For a histogram: the number
 * of samples. */
double metric_get(enum metric_id id);
double metric_get_by(enum metric_id id, const char *label_value);
void metrics_reset(void); /* tests only */

/* What one model did. The owner counts. */
struct metrics_model {
	const char *name;
	double audio_s;      /* seconds of audio in requests that it finished, histories included */
	double audio_time_s; /* what these took, from their last byte to their last token */
	double is_loaded;    /* 1: it is in memory */
	double n_requests, n_prompt, n_output; /* requests that ended, and their tokens */
};

struct metrics_info {
	const char *model_name;
	const char *version;
	const char *backend, *backend_reason;
	const struct health *health;
	const struct clock *clock;
	const struct metrics_model *models;
	int n_models;
};
/* Append all metrics in Prometheus text format, including vllm:*, process_* and build_info. */
void metrics_format(const struct metrics_info *info, struct buf *out);
