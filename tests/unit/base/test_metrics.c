/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <math.h>
#include <pthread.h>

#include "tests/tap.h"

static int64_t fake_now(void *ctx) { return *(int64_t *)ctx; }

static int64_t now = 10000000;
static struct health health;
static const struct clock clk = {fake_now, &now};

static const char *page(const char *model_name)
{
	static const struct metrics_model models[] = {
		{.name = "tiny"},
		{.name = "a\"b", .audio_s = 4.5, .audio_time_s = 0.25, .is_loaded = 1,
		 .n_output = 7}};
	static struct buf b;
	struct metrics_info info = {model_name, "1.2\"3", "cpu", "as \"told\"", &health, &clk,
				    models, 2};
	buf_clear(&b);
	metrics_format(&info, &b);
	return b.p;
}

static bool has(const char *line)
{
	char *want;
	if (asprintf(&want, "\n%s\n", line) < 0)
		exit(99);
	bool found = strstr(page("tiny"), want);
	free(want);
	return found;
}

static void test_values(void)
{
	metric_add(METRIC_PROMPT_TOKENS, 1e6);
	metric_add(METRIC_PROMPT_TOKENS, 234567);
	is_near(metric_get(METRIC_PROMPT_TOKENS), 1234567, 0, "a counter adds");
	ok(has("halod_prompt_tokens_total{model_name=\"tiny\"} 1234567"), "exact");
	metric_set(METRIC_KV_CACHE_USAGE, 0.25);
	metric_set(METRIC_KV_CACHE_USAGE, 0.5);
	ok(has("halod_kv_cache_usage_perc{model_name=\"tiny\"} 0.5"), "a gauge is set");

	metric_add_by(METRIC_REQUEST_SUCCESS, "length", 2);
	metric_add_by(METRIC_REQUEST_SUCCESS, "stop", 1);
	ok(has("halod_request_success_total{model_name=\"tiny\","
	       "finished_reason=\"length\"} 2"), "a label value has its own count");
	is_near(metric_get(METRIC_REQUEST_SUCCESS), 3, 0, "the sum over the label");
	is_near(metric_get_by(METRIC_REQUEST_SUCCESS, "stop"), 1, 0, "one of them");
	metric_add_by(METRIC_HTTP_RESPONSES, "418", 1);
	is_near(metric_get_by(METRIC_HTTP_RESPONSES, "other"), 1, 0,
		"what is not listed is other");
}

static void test_histogram(void)
{
	metric_observe(METRIC_TPOT, 0.003); /* an edge belongs to its bucket */
	metric_observe(METRIC_TPOT, 0.0031);
	metric_observe(METRIC_TPOT, 1000);
	metric_observe(METRIC_TPOT, NAN);
	is_near(metric_get(METRIC_TPOT), 3, 0, "three samples; NAN is none");
#define TPOT "halod_request_time_per_output_token_seconds"
	ok(has(TPOT "_bucket{model_name=\"tiny\",le=\"0.002\"} 0"), "below");
	ok(has(TPOT "_bucket{model_name=\"tiny\",le=\"0.003\"} 1"), "edge");
	ok(has(TPOT "_bucket{model_name=\"tiny\",le=\"0.004\"} 2"), "cumulative");
	ok(has(TPOT "_bucket{model_name=\"tiny\",le=\"80\"} 2"), "last edge");
	ok(has(TPOT "_bucket{model_name=\"tiny\",le=\"+Inf\"} 3"), "overflow");
	ok(has(TPOT "_sum{model_name=\"tiny\"} 1000.0061"), "sum");
	ok(has(TPOT "_count{model_name=\"tiny\"} 3"), "count");
}

/* What programs made for vLLM read. */
static void test_vllm(void)
{
	metric_set(METRIC_KV_PAGES, 2048);
	metric_set(METRIC_KV_PAGE_TOKENS, 16);
	ok(has("vllm:prompt_tokens_total{model_name=\"tiny\"} 1234567"),
	   "vLLM's name of a counter");
	ok(has("vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0.5") &&
	   has("vllm:gpu_cache_usage_perc{model_name=\"tiny\"} 0.5"), "of a gauge, new and old");
	ok(has("vllm:request_success_total{model_name=\"tiny\",finished_reason=\"length\"} 2"),
	   "of one with a label");
	ok(has("vllm:request_time_per_output_token_seconds_bucket{model_name=\"tiny\","
	       "le=\"0.003\"} 1"), "of a histogram");
	ok(has("vllm:cache_config_info{model_name=\"tiny\",block_size=\"16\","
	       "num_gpu_blocks=\"2048\"} 1"), "the cache's size as labels");
}

static void test_engine(void)
{
	health_beat(&health, now - 1500000);
	ok(has("halod_engine_heartbeat_age_seconds{model_name=\"tiny\"} 0"),
	   "no heartbeat is due while loading");
	atomic_store(&health.state, HEALTH_READY);
	ok(has("halod_engine_heartbeat_age_seconds{model_name=\"tiny\"} 1.5"), "age");
	ok(has("halod_engine_state{model_name=\"tiny\",state=\"ready\"} 1") &&
	   has("halod_engine_state{model_name=\"tiny\",state=\"loading\"} 0"), "state");
	ok(!health_is_stalled(&health, now, 1500000), "not stalled yet");
	ok(health_is_stalled(&health, now + 1, 1500000), "stalled");
	ok(strstr(page("a\"\\\n\xff"),
		  "halod_build_info{model_name=\"a\\\"\\\\\\n\xEF\xBF\xBD\","
		  "version=\"1.2\\\"3\",backend=\"cpu\"} 1\n"),
	   "label values are escaped");
}

/* --- the format, line by line --------------------------------------------------- */

/* name{label="value",…} number */
static bool is_sample(const char *line)
{
	size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz_:0123456789");
	if (n == 0 || line[n] != '{')
		return false;
	const char *p = line + n + 1;
	while (*p != '}') {
		p += strspn(p, "abcdefghijklmnopqrstuvwxyz_");
		if (strncmp(p, "=\"", 2) != 0)
			return false;
		for (p += 2; *p && *p != '"'; p++)
			if (*p == '\\' && !*++p)
				return false;
		if (*p++ != '"')
			return false;
		if (*p == ',')
			p++;
		else if (*p != '}')
			return false;
	}
	char *end;
	strtod(p + 1, &end);
	return p[1] == ' ' && end > p + 2 && *end == '\0';
}

/* Each family: HELP, TYPE, then only its own samples, and never again. */
static void test_format(void)
{
	char *text = strdup(page("a\"\\\nb")), *rest = text, *line;
	char family[128] = "", seen[200][128];
	int n_seen = 0, bad = 0, twice = 0, samples = 0;
	while ((line = strsep(&rest, "\n")) && rest) {
		if (strncmp(line, "# HELP ", 7) == 0) {
			sscanf(line + 7, "%127s", family);
			for (int i = 0; i < n_seen; i++)
				twice += strcmp(seen[i], family) == 0;
			strcpy(seen[n_seen++], family);
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			bad += strncmp(line + 7, family, strlen(family)) != 0;
		} else {
			samples++;
			bad += !is_sample(line) ||
			       strncmp(line, family, strlen(family)) != 0 ||
			       !strstr(line, "{model_name=\"a\\\"\\\\\\nb\"");
			if (!is_sample(line))
				printf("# %s\n", line);
		}
	}
	is_int(bad, 0, "every line is well formed and below its TYPE");
	is_int(twice, 0, "no family comes twice");
	ok(samples > METRIC_COUNT, "%d samples", samples);
	is_str(line, "", "the page ends with a newline");
	ok(strstr(page("tiny"), "\nprocess_start_time_seconds{") &&
	   strstr(page("tiny"), "\nprocess_open_fds{"), "process metrics are there");
	free(text);
}

static void test_promtool(void)
{
	if (system("command -v promtool >/dev/null") != 0) {
		ok(true, "promtool check metrics # SKIP not installed");
		return;
	}
	const char *text = page("tiny");
	/* The colon in vLLM's names is vLLM's. */
	FILE *p = popen("promtool check metrics 2>&1 | grep -v '^vllm:.*contain .:.$' | "
			"sed 's/^/# /' | tee /dev/stderr | { ! grep -q .; }", "w");
	if (!p)
		exit(99);
	fwrite(text, 1, strlen(text), p);
	is_int(pclose(p), 0, "promtool check metrics says nothing else");
}

static void test_models(void)
{
	ok(has("halod_audio_seconds_total{model_name=\"tiny\",model=\"tiny\"} 0") &&
	   has("halod_audio_seconds_total{model_name=\"tiny\",model=\"a\\\"b\"} 4.5") &&
	   has("halod_audio_request_seconds_total{model_name=\"tiny\",model=\"a\\\"b\"} 0.25"),
	   "audio is counted by model");
	ok(has("halod_model_loaded{model_name=\"tiny\",model=\"tiny\"} 0") &&
	   has("halod_model_loaded{model_name=\"tiny\",model=\"a\\\"b\"} 1") &&
	   has("halod_model_generation_tokens_total{model_name=\"tiny\",model=\"a\\\"b\"} 7"),
	   "and whether it is in memory, and its tokens");
}

static void *adder(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		metric_add(METRIC_GENERATION_TOKENS, 1);
		metric_observe(METRIC_ITL, 1);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, adder, NULL);
	for (int i = 0; i < 20; i++)
		page("tiny");
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	is_near(metric_get(METRIC_GENERATION_TOKENS), 60000, 0, "no update is lost");
	ok(has("halod_inter_token_latency_seconds_sum{model_name=\"tiny\"} 60000"),
	   "nor in a histogram's sum");
}

int main(void)
{
	test_values();
	test_histogram();
	test_vllm();
	test_engine();
	test_format();
	test_models();
	test_promtool();
	test_threads();
	metrics_reset();
	is_near(metric_get(METRIC_ITL) + metric_get(METRIC_PROMPT_TOKENS), 0, 0, "reset");
	return tap_done();
}
