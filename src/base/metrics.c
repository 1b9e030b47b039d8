/* SPDX-License-Identifier: Apache-2.0
 *
 * Each metric is a row of 64-bit cells, updated by relaxed atomics without a lock: the
 * engine thread must never wait for a scrape. A counter or gauge has one cell for each
 * label value, holding the bits of a double. A histogram has one such cell for its sum
 * and an integer cell for each bucket.
 *
 * A scrape does not show one instant. Each histogram is still consistent in itself: its
 * count is the sum of the buckets as they were read.
 */
#include "base/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum metric_kind { COUNTER, GAUGE, HIST_TOKEN, HIST_TTFT, HIST_REQUEST, HIST_COUNT, N_KINDS };

#define MAX_CELLS 48 /* most cells of a row: sum, buckets and overflow; or label values */

/* Bucket edges in seconds: vLLM's, so that series can be compared, plus finer ones from 2
 * to 40 ms a token, where a GPU with one user operates. */
static const double token_edges[] = {
	.001, .002, .003, .004, .005, .006, .008, .01, .0125, .015, .02, .025, .03,
	.035, .04, .05, .06, .075, .08, .1, .15, .2, .3, .4, .5, .75, 1, 2, 2.5,
	5, 7.5, 10, 20, 40, 80};
static const double ttft_edges[] = {
	.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2, 2.5, 5, 7.5,
	10, 20, 40, 80, 160, 640, 2560};
static const double request_edges[] = {
	.001, .005, .01, .025, .05, .1, .2, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15,
	20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double count_edges[] = {
	1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000,
	100000, 200000, 500000, 1000000};

static const struct edges {
	const double *p;
	int n;
} edges_of[N_KINDS] = {
	[HIST_TOKEN] = {token_edges, ARRAY_LEN(token_edges)},
	[HIST_TTFT] = {ttft_edges, ARRAY_LEN(ttft_edges)},
	[HIST_REQUEST] = {request_edges, ARRAY_LEN(request_edges)},
	[HIST_COUNT] = {count_edges, ARRAY_LEN(count_edges)},
};
_Static_assert(ARRAY_LEN(token_edges) + 2 <= MAX_CELLS, "buckets fit");

static const struct metric_row {
	const char *name, *help, *label, *values; /* values: separated by spaces; label is
						   * NULL for a metric without one */
	enum metric_kind kind;
} rows[METRIC_COUNT] = {
#define METRIC(id, kind, name, help) \
	[METRIC_##id] = {"halod_" name, help, NULL, "", kind},
#define METRIC_BY(id, kind, name, label, values, help) \
	[METRIC_##id] = {"halod_" name, help, label, values, kind},
#include "base/metrics.def"
#undef METRIC
#undef METRIC_BY
};

/* Routers, autoscalers and dashboards made for vLLM read these names, and few of them can be
 * told others. The names that begin with gpu_, and time_per_output_token_seconds, are of
 * older releases that some still ask for. */
static const struct vllm_name {
	enum metric_id id;
	const char *name;
} vllm_names[] = {
	{METRIC_TTFT, "vllm:time_to_first_token_seconds"},
	{METRIC_TPOT, "vllm:request_time_per_output_token_seconds"},
	{METRIC_ITL, "vllm:inter_token_latency_seconds"},
	{METRIC_ITL, "vllm:time_per_output_token_seconds"},
	{METRIC_E2E, "vllm:e2e_request_latency_seconds"},
	{METRIC_QUEUE_TIME, "vllm:request_queue_time_seconds"},
	{METRIC_PREFILL_TIME, "vllm:request_prefill_time_seconds"},
	{METRIC_DECODE_TIME, "vllm:request_decode_time_seconds"},
	{METRIC_REQUEST_PROMPT_TOKENS, "vllm:request_prompt_tokens"},
	{METRIC_REQUEST_GENERATION_TOKENS, "vllm:request_generation_tokens"},
	{METRIC_REQUEST_MAX_GENERATION_TOKENS, "vllm:request_max_num_generation_tokens"},
	{METRIC_REQUEST_SUCCESS, "vllm:request_success_total"},
	{METRIC_PROMPT_TOKENS, "vllm:prompt_tokens_total"},
	{METRIC_GENERATION_TOKENS, "vllm:generation_tokens_total"},
	{METRIC_REQUESTS_RUNNING, "vllm:num_requests_running"},
	{METRIC_REQUESTS_WAITING, "vllm:num_requests_waiting"},
	{METRIC_PREEMPTIONS, "vllm:num_preemptions_total"},
	{METRIC_KV_CACHE_USAGE, "vllm:kv_cache_usage_perc"},
	{METRIC_KV_CACHE_USAGE, "vllm:gpu_cache_usage_perc"},
	{METRIC_PREFIX_CACHE_QUERIES, "vllm:prefix_cache_queries_total"},
	{METRIC_PREFIX_CACHE_QUERIES, "vllm:gpu_prefix_cache_queries_total"},
	{METRIC_PREFIX_CACHE_HITS, "vllm:prefix_cache_hits_total"},
	{METRIC_PREFIX_CACHE_HITS, "vllm:gpu_prefix_cache_hits_total"},
	{METRIC_SPEC_DRAFTS, "vllm:spec_decode_num_drafts_total"},
	{METRIC_SPEC_DRAFT_TOKENS, "vllm:spec_decode_num_draft_tokens_total"},
	{METRIC_SPEC_ACCEPTED_TOKENS, "vllm:spec_decode_num_accepted_tokens_total"},
	{METRIC_SPEC_ACCEPTED_BY_POS, "vllm:spec_decode_num_accepted_tokens_per_pos_total"},
};

typedef _Atomic uint64_t cell_t;
/* Histogram: cell 0 is the sum, cell 1 + i is bucket i. Counter, gauge: cell i is label
 * value i. */
static cell_t cells[METRIC_COUNT][MAX_CELLS];

static inline double cell_get(const cell_t *c)
{
	union { uint64_t u; double d; } v = {
		.u = atomic_load_explicit(c, memory_order_relaxed)};
	return v.d;
}

static inline void cell_set(cell_t *c, double d)
{
	union { double d; uint64_t u; } v = {.d = d};
	atomic_store_explicit(c, v.u, memory_order_relaxed);
}

static inline void cell_add(cell_t *c, double d)
{
	union { uint64_t u; double d; } old, sum;
	old.u = atomic_load_explicit(c, memory_order_relaxed);
	do {
		sum.d = old.d + d;
	} while (!atomic_compare_exchange_weak_explicit(c, &old.u, sum.u,
							memory_order_relaxed,
							memory_order_relaxed));
}

/* --- values of a label ------------------------------------------------------ */

/* Cut the first word off *rest; an empty view when there is none. */
static struct str next_value(const char **rest)
{
	const char *p = *rest;
	while (*p == ' ')
		p++;
	size_t n = strcspn(p, " ");
	*rest = p + n;
	return (struct str){p, n};
}

/* Index of `value` in the row's list of label values, which is its cell. */
static int value_index(const struct metric_row *r, const char *value)
{
	const char *rest = r->values;
	struct str v, last = {"", 0};
	int i = 0;
	for (; (v = next_value(&rest)).n > 0; i++, last = v)
		if (str_is(v, value))
			return i;
	assert(str_is(last, "other")); /* otherwise the row's list lacks this value */
	return i - 1;
}

/* --- updates ----------------------------------------------------------------- */

void metric_add(enum metric_id id, double v)
{
	assert(rows[id].kind == COUNTER && !rows[id].label);
	cell_add(&cells[id][0], v);
}

void metric_add_by(enum metric_id id, const char *label_value, double v)
{
	assert(rows[id].kind == COUNTER && rows[id].label);
	cell_add(&cells[id][value_index(&rows[id], label_value)], v);
}

void metric_add_nth(enum metric_id id, int i_value, double v)
{
	assert(rows[id].kind == COUNTER && rows[id].label);
	cell_add(&cells[id][i_value], v);
}

void metric_share(enum metric_id id, double *told, double v)
{
	assert(rows[id].kind == GAUGE && !rows[id].label);
	if (v != *told)
		cell_add(&cells[id][0], v - *told);
	*told = v;
}

void metric_set(enum metric_id id, double v)
{
	assert(rows[id].kind == GAUGE && !rows[id].label);
	cell_set(&cells[id][0], v);
}

void metric_observe(enum metric_id id, double v)
{
	const struct edges *e = &edges_of[rows[id].kind];
	assert(e->n > 0);
	if (isnan(v))
		return;
	int i = 0;
	while (i < e->n && v > e->p[i])
		i++;
	atomic_fetch_add_explicit(&cells[id][1 + i], 1, memory_order_relaxed);
	cell_add(&cells[id][0], v);
}

static uint64_t histogram_count(enum metric_id id)
{
	uint64_t n = 0;
	for (int i = 0; i <= edges_of[rows[id].kind].n; i++)
		n += atomic_load_explicit(&cells[id][1 + i],
					  memory_order_relaxed);
	return n;
}

double metric_get(enum metric_id id)
{
	if (edges_of[rows[id].kind].n > 0)
		return (double)histogram_count(id);
	double sum = 0; /* sum over label values; a metric without labels has one cell */
	for (int i = 0; i < MAX_CELLS; i++)
		sum += cell_get(&cells[id][i]);
	return sum;
}

double metric_get_by(enum metric_id id, const char *label_value)
{
	assert(rows[id].label);
	return cell_get(&cells[id][value_index(&rows[id], label_value)]);
}

void metrics_reset(void)
{
	for (int i = 0; i < METRIC_COUNT; i++)
		for (int j = 0; j < MAX_CELLS; j++)
			atomic_store_explicit(&cells[i][j], 0,
					      memory_order_relaxed);
}

/* --- rendering ------------------------------------------------------------------ */

/* Output of one scrape. `labels` is model_name="…", escaped; every sample carries it. */
struct metrics_page {
	struct buf *out;
	const char *labels;
};

static void add_escaped(struct buf *b, const char *s)
{
	struct buf clean = {0};
	utf8_add_clean(&clean, str_of(s));
	for (size_t i = 0; i < clean.n; i++) {
		switch (clean.p[i]) {
		case '\\': buf_add_z(b, "\\\\"); break;
		case '"': buf_add_z(b, "\\\""); break;
		case '\n': buf_add_z(b, "\\n"); break;
		default: buf_add_c(b, clean.p[i]);
		}
	}
	buf_deinit(&clean);
}

static void add_head(struct metrics_page *p, const char *name, const char *type,
		     const char *help)
{
	buf_addf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_value(struct metrics_page *p, double v)
{
	if (isnan(v))
		buf_add_z(p->out, "NaN");
	else if (isinf(v))
		buf_add_z(p->out, v > 0 ? "+Inf" : "-Inf");
	else
		buf_add_json_num(p->out, v);
	buf_add_c(p->out, '\n');
}

static void add_sample(struct metrics_page *p, const char *name, double v)
{
	buf_addf(p->out, "%s{%s} ", name, p->labels);
	add_value(p, v);
}

static void add_by(struct metrics_page *p, enum metric_id id, const char *name)
{
	const struct metric_row *r = &rows[id];
	const char *rest = r->values;
	struct str v;
	for (int i = 0; (v = next_value(&rest)).n > 0; i++) {
		buf_addf(p->out, "%s{%s,%s=\"%.*s\"} ", name, p->labels,
			 r->label, (int)v.n, v.p);
		add_value(p, cell_get(&cells[id][i]));
	}
}

static void add_histogram(struct metrics_page *p, enum metric_id id, const char *name)
{
	const struct edges *e = &edges_of[rows[id].kind];
	uint64_t n = 0;
	for (int i = 0; i <= e->n; i++) {
		n += atomic_load_explicit(&cells[id][1 + i],
					  memory_order_relaxed);
		buf_addf(p->out, "%s_bucket{%s,le=\"", name, p->labels);
		if (i < e->n)
			buf_addf(p->out, "%g", e->p[i]);
		else
			buf_add_z(p->out, "+Inf");
		buf_addf(p->out, "\"} %llu\n", (unsigned long long)n);
	}
	buf_addf(p->out, "%s_sum{%s} ", name, p->labels);
	add_value(p, cell_get(&cells[id][0]));
	buf_addf(p->out, "%s_count{%s} %llu\n", name, p->labels,
		 (unsigned long long)n);
}

static void add_metric(struct metrics_page *p, enum metric_id id, const char *name,
		       const char *help)
{
	const struct metric_row *r = &rows[id];
	bool is_hist = edges_of[r->kind].n > 0;
	add_head(p, name,
		 is_hist ? "histogram" : r->kind == COUNTER ? "counter" : "gauge", help);
	if (is_hist)
		add_histogram(p, id, name);
	else if (r->label)
		add_by(p, id, name);
	else
		add_sample(p, name, cell_get(&cells[id][0]));
}

static void add_vllm_names(struct metrics_page *p)
{
	char help[128];
	for (size_t i = 0; i < ARRAY_LEN(vllm_names); i++) {
		const struct vllm_name *v = &vllm_names[i];
		snprintf(help, sizeof help, "%s under a name of vLLM.", rows[v->id].name);
		add_metric(p, v->id, v->name, help);
	}
	add_head(p, "vllm:cache_config_info", "gauge",
		 "The KV cache: tokens of a page, and pages; always 1.");
	buf_addf(p->out,
		 "vllm:cache_config_info{%s,block_size=\"%.0f\",num_gpu_blocks=\"%.0f\"} 1\n",
		 p->labels, metric_get(METRIC_KV_PAGE_TOKENS), metric_get(METRIC_KV_PAGES));
}

/* --- process_* metrics, named as in the Prometheus client libraries -------------- */

static void add_process(struct metrics_page *p, const char *name, const char *type,
			const char *help, double v)
{
	if (isnan(v))
		return; /* /proc does not report it */
	add_head(p, name, type, help);
	add_sample(p, name, v);
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Column 0 (virtual) or 1 (resident) of /proc/self/statm, in bytes. */
static double memory_bytes(int column)
{
	unsigned long pages[2];
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f)
		return NAN;
	int n = fscanf(f, "%lu %lu", &pages[0], &pages[1]);
	fclose(f);
	return n == 2 ? (double)pages[column] * (double)sysconf(_SC_PAGESIZE)
		      : NAN;
}

static double open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	if (!d)
		return NAN;
	int n = -3; /* do not count ".", ".." and the descriptor that reads the folder */
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static double max_fds(void)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) != 0)
		return NAN;
	return l.rlim_cur == RLIM_INFINITY ? INFINITY : (double)l.rlim_cur;
}

/* Field 22 of /proc/self/stat: clock ticks from boot to the process's start. The time of
 * boot is computed from the clocks; systemd's ProcSubset=pid hides /proc/stat. */
static double start_time(void)
{
	char text[1024];
	FILE *f = fopen("/proc/self/stat", "re");
	if (!f)
		return NAN;
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	const char *p = strrchr(text, ')'); /* the program's name in parentheses may hold
					     * any character */
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	unsigned long long ticks;
	if (!p || sscanf(p, "%llu", &ticks) != 1)
		return NAN;
	struct timespec wall, boot;
	clock_gettime(CLOCK_REALTIME, &wall);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return floor((double)(wall.tv_sec - boot.tv_sec) +
		     (double)(wall.tv_nsec - boot.tv_nsec) * 1e-9 +
		     (double)ticks / (double)sysconf(_SC_CLK_TCK));
}

static void add_processes(struct metrics_page *p)
{
	add_process(p, "process_cpu_seconds_total", "counter",
		    "User and system CPU time.", cpu_seconds());
	add_process(p, "process_resident_memory_bytes", "gauge",
		    "Resident memory.", memory_bytes(1));
	add_process(p, "process_virtual_memory_bytes", "gauge",
		    "Virtual memory.", memory_bytes(0));
	add_process(p, "process_open_fds", "gauge", "Open file descriptors.",
		    open_fds());
	add_process(p, "process_max_fds", "gauge",
		    "Limit of open file descriptors.", max_fds());
	add_process(p, "process_start_time_seconds", "gauge",
		    "Start of the process, seconds since 1970.", start_time());
}

static void set_engine(const struct metrics_info *info)
{
	const struct health *h = info->health;
	int state = atomic_load_explicit(&h->state, memory_order_relaxed);
	for (int s = HEALTH_LOADING; s <= HEALTH_FAILED; s++)
		cell_set(&cells[METRIC_ENGINE_STATE][value_index(
				 &rows[METRIC_ENGINE_STATE],
				 health_state_name((enum health_state)s))],
			 s == state);
	for (int c = CHECK_PENDING; c <= CHECK_FAILED; c++)
		cell_set(&cells[METRIC_SELF_CHECK][value_index(
				 &rows[METRIC_SELF_CHECK],
				 health_check_name((enum health_check)c))],
			 c == atomic_load_explicit(&h->self_check, memory_order_relaxed));
	metric_set(METRIC_SELF_CHECK_DELTA, atomic_load(&h->check_mean));
	int64_t beat =
		atomic_load_explicit(&h->heartbeat_us, memory_order_relaxed);
	double age = 1e-6 * (double)(clock_now_us(info->clock) - beat);
	metric_set(METRIC_HEARTBEAT_AGE,
		   state == HEALTH_LOADING || !beat || age < 0 ? 0 : age);
}

static void add_models(struct metrics_page *p, const struct metrics_info *info)
{
	static const struct {
		const char *name, *type, *help;
		size_t at;
	} counters[] = {
		{"halod_model_loaded", "gauge", "1: this model is in memory.",
		 offsetof(struct metrics_model, is_loaded)},
		{"halod_model_requests_total", "counter",
		 "Requests that ended, by the model that answered.",
		 offsetof(struct metrics_model, n_requests)},
		{"halod_model_prompt_tokens_total", "counter", "Their prompt tokens.",
		 offsetof(struct metrics_model, n_prompt)},
		{"halod_model_generation_tokens_total", "counter", "Their output tokens.",
		 offsetof(struct metrics_model, n_output)},
		{"halod_audio_seconds_total", "counter",
		 "Seconds of audio in finished requests, their histories included.",
		 offsetof(struct metrics_model, audio_s)},
		{"halod_audio_request_seconds_total", "counter",
		 "Time that these requests took, from their last byte to their last token.",
		 offsetof(struct metrics_model, audio_time_s)},
	};
	for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
		add_head(p, counters[i].name, counters[i].type, counters[i].help);
		for (int m = 0; m < info->n_models; m++) {
			double v;
			memcpy(&v, (const char *)&info->models[m] + counters[i].at, sizeof v);
			buf_addf(p->out, "%s{%s,model=\"", counters[i].name, p->labels);
			add_escaped(p->out, info->models[m].name);
			buf_add_z(p->out, "\"} ");
			add_value(p, v);
		}
	}
}

static void add_build_info(struct metrics_page *p, const struct metrics_info *info)
{
	add_head(p, "halod_build_info", "gauge", "What is running; always 1.");
	buf_addf(p->out, "halod_build_info{%s,version=\"", p->labels);
	add_escaped(p->out, info->version);
	buf_add_z(p->out, "\",backend=\"");
	add_escaped(p->out, info->backend);
	buf_add_z(p->out, "\"} 1\n");
	add_head(p, "halod_backend_info", "gauge",
		 "What computes, and why it was chosen; always 1.");
	buf_addf(p->out, "halod_backend_info{%s,backend=\"", p->labels);
	add_escaped(p->out, info->backend);
	buf_add_z(p->out, "\",reason=\"");
	add_escaped(p->out, info->backend_reason);
	buf_add_z(p->out, "\"} 1\n");
}

void metrics_format(const struct metrics_info *info, struct buf *out)
{
	struct buf labels = {0};
	buf_add_z(&labels, "model_name=\"");
	add_escaped(&labels, info->model_name);
	buf_add_c(&labels, '"');
	struct metrics_page p = {out, labels.p};
	set_engine(info);
	for (int id = 0; id < METRIC_COUNT; id++)
		add_metric(&p, (enum metric_id)id, rows[id].name, rows[id].help);
	add_models(&p, info);
	add_vllm_names(&p);
	add_build_info(&p, info);
	add_processes(&p);
	buf_deinit(&labels);
}
