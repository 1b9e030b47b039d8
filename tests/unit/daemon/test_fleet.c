/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that come and go, with requests that are only counted. The order of things is the fleet's:
 * each step waits for its news.
 */
#include "daemon/fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "audio/audio.h"
#include "base/log.h"
#include "base/metrics.h"
#include "tests/tap.h"

#define GOLDEN "tests/golden/models/"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static bool has_news;
static struct health health;
static struct batch_store *no_batches;
static int busy_with = -1; /* the model that has work beside requests */
static struct config c;
static struct model_list models;
static struct fleet *fleet;
static struct model_row *rows;
static struct fail fail;
static _Atomic int64_t ahead_us; /* of the clock */

static int64_t fleet_now(void *ctx)
{
	(void)ctx;
	return clock_now_us(&clock_monotonic) + atomic_load(&ahead_us);
}
static const struct clock fleet_clock = {fleet_now, NULL};

static void on_news(void *ctx)
{
	(void)ctx;
	pthread_mutex_lock(&lock);
	has_news = true;
	pthread_cond_signal(&came);
	pthread_mutex_unlock(&lock);
}

static void on_change(void *ctx) { (void)ctx; }
static void on_model(void *ctx, int i, const struct api *api, struct sched *sched)
{
	(void)ctx, (void)i, (void)api, (void)sched;
}
static bool has_work(void *ctx, int i) { return (void)ctx, i == busy_with; }

/* Until the row is in this state, and not about to leave it. */
static bool reaches(const struct model_row *r, enum row_state state)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	int rc = 0;
	fleet_collect(fleet);
	while ((r->state != state || r->is_leaving) && rc == 0) {
		pthread_mutex_lock(&lock);
		while (!has_news && rc == 0)
			rc = pthread_cond_timedwait(&came, &lock, &until);
		has_news = false;
		pthread_mutex_unlock(&lock);
		fleet_collect(fleet);
	}
	if (rc)
		printf("# %s is %s\n", r->name, row_state_name(r->state));
	return rc == 0;
}

/* A request that comes, waits, and is answered. */
static bool ask(struct model_row *r)
{
	r->n_waiting++;
	fleet_need(fleet, r);
	bool is_fine = reaches(r, r->state == ROW_FAILED ? ROW_FAILED : ROW_LOADED);
	r->n_waiting--;
	return is_fine;
}

/* Time goes by without requests. */
static void pass(int64_t seconds)
{
	atomic_fetch_add(&ahead_us, seconds * 1000000);
	fleet_tick(fleet);
}

/* A request for a model that cannot be loaded. */
static bool ask_in_vain(struct model_row *r)
{
	r->n_waiting++;
	fleet_need(fleet, r);
	bool has_failed = reaches(r, ROW_FAILED);
	r->n_waiting--;
	return has_failed;
}

static enum status begin(const char *text)
{
	char path[] = "/tmp/halod-fleet-XXXXXX";
	int fd = mkstemp(path);
	enum config_action action;
	char *argv[] = {(char *)"halod", (char *)"-c", path};
	int n;
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		exit(99);
	close(fd);
	if (config_load(&c, 3, argv, "/none", &action, &fail) != OK)
		exit(99);
	unlink(path);
	const struct fleet_opts o = {.models = &models, .health = &health, .clock = &fleet_clock,
				     .on_news = on_news, .on_change = on_change,
				     .on_model = on_model, .has_work = has_work,
				     .batches = &no_batches};
	enum status st = model_list_find(&c, &models, &fail);
	if (st == OK)
		st = fleet_create(&o, &fleet, &fail);
	if (st == OK)
		rows = fleet_rows(fleet, &n);
	return st;
}

static void end(void)
{
	bool loads;
	if (fleet)
		fleet_stop(fleet);
	while (fleet && !fleet_have_ended(fleet, &loads)) {
		usleep(100);
		fleet_collect(fleet);
	}
	if (fleet)
		fleet_destroy(fleet);
	fleet = NULL;
	model_list_deinit(&models);
	config_deinit(&c);
}

#define COMMON "self_check = off\nspeculative = off\nbackend = cpu\nthreads = 1\nmax_seqs = 1\n" \
	       "max_batch_tokens = 64\nmmap = off\nweight_cache = \"\"\n"
#define MODEL(name, folder) "[model " name "]\nmodel = " GOLDEN folder "\n"

static void test_names(void)
{
	is_int(begin(COMMON MODEL("a", "olmo2") "aliases = x\n" MODEL("b", "phi3")), OK, "two");
	is_int(fleet_find(fleet, STR("b")), 1, "a name");
	is_int(fleet_find(fleet, STR("x:latest")), 0, "an alias");
	is_int(fleet_find(fleet, STR("z")), 0, "none");
	is_int(fleet_check(fleet, &fail), OK, "all can be opened");
	end();
	is_int(begin(COMMON MODEL("a", "olmo2") MODEL("b", "phi3") "aliases = a\n"), E_CONFIG,
	       "a name of two");
	ok(strstr(fail.text, "two models are called a: " GOLDEN "olmo2 and " GOLDEN "phi3"),
	   "is named: %s", fail.text);
	end();
	is_int(begin(COMMON MODEL("a", "olmo2") MODEL("b", "none")), OK, "one that is not there");
	is_int(fleet_check(fleet, &fail), E_MISSING, "is found by a check");
	ok(strncmp(fail.text, "b: ", 3) == 0, "and named: %s", fail.text);
	end();
}

/* Room for two small models with a cache of this size, not for three. */
#define ROOM "memory_limit = 10M\nkv_cache = 3M\n"

static void test_turns(void)
{
	is_int(begin(COMMON ROOM MODEL("a", "olmo2") MODEL("b", "phi3") MODEL("c", "llama4")), OK,
	       "three");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads the first");
	ok(ask(&rows[1]) && rows[0].state == ROW_LOADED, "the second fits beside it");
	rows[0].used_us++; /* b was used before a */
	rows[1].used_us = 1;
	ok(ask(&rows[2]), "the third does not");
	is_int(rows[1].state, ROW_UNLOADED, "what was used least lately has gone");
	is_int(rows[0].state, ROW_LOADED, "the other has not");
	ok(rows[1].api, "what is left of it answers questions");
	is_int(metric_get_by(METRIC_MODEL_UNLOADS, "room"), 1, "one has made room");

	rows[0].n_calls = rows[2].n_calls = 1;
	rows[0].used_us = 1;
	rows[1].n_waiting = 1;
	fleet_need(fleet, &rows[1]);
	for (int i = 0; i < 100000 && !rows[0].is_leaving; i++) {
		usleep(100);
		fleet_collect(fleet);
	}
	is_int(rows[0].state, ROW_LOADED, "one with a request stays until that has ended");
	ok(!row_is_open(&rows[0]) && row_is_open(&rows[2]), "and takes no other");
	ok(rows[1].ready_us > 0, "it is known about when the other will come");
	rows[0].n_calls = 0;
	fleet_idle(fleet, &rows[0]);
	ok(reaches(&rows[1], ROW_LOADED), "then the other comes");
	rows[1].n_waiting = 0;
	is_int(rows[0].state, ROW_UNLOADED, "in its place");
	ok(row_is_open(&rows[2]), "the third stays");
	rows[2].n_calls = 0;
	end();
}

/* The one that was told to leave does, whichever was used since. */
static void test_one_leaves(void)
{
	is_int(begin(COMMON ROOM MODEL("a", "olmo2") MODEL("b", "phi3") MODEL("c", "llama4")), OK,
	       "three");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED) && ask(&rows[1]), "two are in memory");
	rows[0].n_calls = 2;
	rows[1].n_calls = 1;
	rows[0].used_us = 1;
	rows[2].n_waiting = 1;
	fleet_need(fleet, &rows[2]);
	for (int i = 0; i < 100000 && !rows[0].is_leaving; i++) {
		usleep(100);
		fleet_collect(fleet);
	}
	ok(rows[0].is_leaving, "the first is to go");
	rows[0].n_calls = 1;
	rows[0].used_us = rows[1].used_us + 1;
	fleet_collect(fleet);
	ok(rows[0].is_leaving && row_is_open(&rows[1]), "and stays the one when a request ends");
	rows[1].n_calls = 0;
	ok(reaches(&rows[2], ROW_LOADED), "unless another has none any more");
	rows[2].n_waiting = 0;
	is_int(rows[1].state, ROW_UNLOADED, "which goes in its place");
	ok(row_is_open(&rows[0]), "and it stays");
	rows[0].n_calls = 0;
	end();
}

/* A copy of a golden model whose numbers are none. */
static void make_damaged(char dir[])
{
	struct buf text = {0};
	if (!mkdtemp(dir))
		exit(99);
	buf_addf(&text, "cp -r " GOLDEN "phi3/. %s && cd %s && n=$(stat -c %%s model.safetensors) "
		 "&& head -c $((n / 2)) /dev/zero | tr '\\0' '\\377' | dd of=model.safetensors "
		 "bs=1 seek=$((n - n / 2)) conv=notrunc 2>&1 | cat > /dev/null", dir, dir);
	buf_add_z(&text, "");
	ok(system(text.p) == 0, "a damaged model"); // NOLINT
	buf_deinit(&text);
}

/* Others make room for a model that cannot be loaded all the same, and not again at once: they stay
 * twice as long after each such failure, an hour at most. */
static void test_damaged(void)
{
	static const int stay_min[] = {1, 2, 4, 8, 16, 32, 64, 64};
	char dir[] = "/tmp/halod-damaged-XXXXXX", text[1000];
	make_damaged(dir);
	snprintf(text, sizeof text, "%s[model bad]\nmodel = %s\n", COMMON
		 "memory_limit = 10M\nkv_cache = 6M\n" MODEL("a", "olmo2"), dir);
	is_int(begin(text), OK, "two");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads the first");
	ok(ask_in_vain(&rows[1]), "the other fails: %s", rows[1].why.text);
	is_int(rows[0].state, ROW_UNLOADED, "when the first has left memory");
	for (size_t i = 0; i < ARRAY_LEN(stay_min); i++) {
		ok(ask(&rows[0]), "it comes back");
		pass(stay_min[i] * 60 - 30);
		ok(ask_in_vain(&rows[1]), "the other fails again");
		is_int(rows[0].state, ROW_LOADED, "and sends nobody away for %d min", stay_min[i]);
		ok(strstr(rows[1].why.text, "not a number"), "for the same reason: %s",
		   rows[1].why.text);
		pass(30);
		ok(ask_in_vain(&rows[1]), "then it is tried");
		is_int(rows[0].state, ROW_UNLOADED, "and has room");
	}
	end();
	snprintf(text, sizeof text, "rm -r %s", dir);
	is_int(system(text), 0, "removed"); // NOLINT
}

/* A failure that room does not mend sends nobody away: neither one that comes when the memory is
 * planned, nor the next load of a model that had room beside others. Clients that ask often do not
 * make that longer. */
static void test_stays(void)
{
	char dir[] = "/tmp/halod-damaged-XXXXXX", text[1000];
	is_int(begin(COMMON "memory_limit = 10M\nkv_cache = 3M\n" MODEL("a", "olmo2")
		     MODEL("b", "mixtral") "expert_memory = 1K\n"), OK, "two");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads the first");
	ok(ask_in_vain(&rows[1]), "a setting is wrong: %s", rows[1].why.text);
	is_int(rows[0].state, ROW_LOADED, "the other stays");
	end();

	make_damaged(dir);
	snprintf(text, sizeof text, COMMON ROOM MODEL("a", "olmo2") "[model bad]\nmodel = %s\n"
		 MODEL("c", "llama4"), dir);
	is_int(begin(text), OK, "three");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads the first");
	for (int i = 0; i < 3; i++) {
		ok(ask_in_vain(&rows[1]) && rows[0].state == ROW_LOADED,
		   "a damaged one, with room beside it: %s", rows[1].why.text);
		pass(10);
	}
	ok(ask(&rows[2]) && rows[0].state == ROW_LOADED, "another takes the room");
	pass(20);
	ok(ask_in_vain(&rows[1]) && strstr(rows[1].why.text, "not a number"),
	   "it fails for the same reason: %s", rows[1].why.text);
	ok(rows[0].state == ROW_LOADED && rows[2].state == ROW_LOADED, "and both stay");
	pass(30);
	ok(ask_in_vain(&rows[1]) && rows[0].state == ROW_UNLOADED, "for a minute");
	end();
	snprintf(text, sizeof text, "rm -r %s", dir);
	is_int(system(text), 0, "removed"); // NOLINT
}

static void test_work(void)
{
	is_int(begin(COMMON ROOM MODEL("a", "olmo2") MODEL("b", "phi3")), OK, "two");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads the first");
	busy_with = 1;
	fleet_tick(fleet);
	is_int(rows[1].state, ROW_UNLOADED, "work beside requests waits while others were asked");
	rows[0].used_us = 1;
	fleet_tick(fleet);
	ok(reaches(&rows[1], ROW_LOADED), "and is done after a while");
	busy_with = -1;
	end();
}

static void wait_until_gone(void)
{
	for (int i = 0; i < 100000 && fleet_leaving_us(fleet); i++) {
		usleep(100);
		fleet_collect(fleet);
	}
}

static void test_sleep(void)
{
	is_int(begin(COMMON "sleep_after = 1m\n" MODEL("a", "olmo2") MODEL("b", "phi3")), OK,
	       "two");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads the first");
	ok(atomic_load(&rows[0].health->heartbeat_us) > 0, "its engine beats");
	is_int(fleet_leaving_us(fleet), 0, "none leaves");
	rows[0].used_us = 1;
	fleet_tick(fleet);
	ok(fleet_leaving_us(fleet) > 0, "it is about to sleep");
	ok(reaches(&rows[0], ROW_SLEEPING), "and sleeps");
	is_int(atomic_load(&rows[0].health->heartbeat_us), 0,
	       "however long that takes, no engine is missed");
	wait_until_gone();
	is_int(fleet_leaving_us(fleet), 0, "then it has left");
	end();
}

static void test_faults(void)
{
	is_int(begin(COMMON ROOM MODEL("a", "none") MODEL("b", "phi3") MODEL("c", "olmo2")
		     "ctx = 128\nkv_cache = 1T\n"), OK, "three");
	const struct fail *why;
	bool is_check;
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_FAILED), "the first is not there");
	is_int(fleet_started(fleet, &why, &is_check), FLEET_STARTED, "the start goes on");
	ok(strstr(rows[0].why.text, "the model `a` cannot be loaded: none: ") != NULL,
	   "clients are not told its folder: %s", rows[0].why.text);
	ok(ask(&rows[1]), "another comes");
	ok(ask_in_vain(&rows[2]), "one that could not have its memory alone either");
	is_int(rows[1].state, ROW_LOADED, "sends nobody away");
	ok(strstr(rows[2].why.text, "kv_cache does not fit") != NULL, "is told: %s",
	   rows[2].why.text);
	end();
}

static void put_to_sleep(struct model_row *r)
{
	r->used_us = 1;
	fleet_tick(fleet);
	ok(reaches(r, ROW_SLEEPING), "%s sleeps", r->name);
	wait_until_gone();
}

/* Other programs of the machine take memory, or give it back. */
static void set_limit(int64_t bytes)
{
	for (int i = 0; i < models.n; i++)
		((struct config *)(uintptr_t)models.all[i])->memory_limit = bytes;
}

/* Room for the listener and a small model, or for two small models; not for all three. */
#define EAR_ROOM "sleep_after = 1h\naudio_cache = 64K\nkv_cache = 3M\nmemory_limit = 12M\n"

/* The listener sleeps, and what it wakes from has become a model that hears nothing. */
static void test_listener(void)
{
	char dir[] = "/tmp/halod-ear-XXXXXX", link[64], top[4096], to[4200], text[1000];
	if (!mkdtemp(dir) || !getcwd(top, sizeof top))
		exit(99);
	snprintf(link, sizeof link, "%s/ear", dir);
	snprintf(to, sizeof to, "%s/tests/golden/vision/qwen3asr", top);
	if (symlink(to, link) != 0)
		exit(99);
	snprintf(text, sizeof text, COMMON EAR_ROOM "transcription_model = %s\n"
		 MODEL("a", "olmo2") MODEL("b", "phi3"), link);
	is_int(begin(text), OK, "two and a listener");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED) && rows[2].state == ROW_LOADED, "loads it and the first");
	put_to_sleep(&rows[2]);
	int64_t n = metric_get_by(METRIC_MODEL_UNLOADS, "room");
	snprintf(to, sizeof to, "%s/" GOLDEN "olmo2", top);
	if (unlink(link) != 0 || symlink(to, link) != 0)
		exit(99);
	ok(ask_in_vain(&rows[2]), "a listener that hears nothing is not loaded");
	ok(strstr(rows[2].why.text, "hears nothing"), "is told: %s", rows[2].why.text);
	ok(metric_get_by(METRIC_MODEL_UNLOADS, "room") == n && rows[0].state == ROW_LOADED,
	   "and sends nobody away");
	ok(ask(&rows[1]), "another comes");
	is_int(rows[0].state, ROW_UNLOADED, "not into the listener's place, which it keeps");
	end();
	unlink(link);
	rmdir(dir);
}

/* What other programs do while the listener sleeps. */
static void test_place(void)
{
	is_int(begin(COMMON EAR_ROOM "transcription_model = tests/golden/vision/qwen3asr\n"
		     MODEL("a", "olmo2") MODEL("b", "phi3")), OK, "two and a listener");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads it and the first");
	put_to_sleep(&rows[2]);
	put_to_sleep(&rows[0]);
	set_limit(16 << 20);
	ok(ask(&rows[0]) && ask(&rows[1]) && rows[0].state == ROW_LOADED,
	   "memory that came when none was loaded counts");
	put_to_sleep(&rows[1]);
	set_limit(8 << 20);
	rows[1].n_waiting = 1;
	fleet_need(fleet, &rows[1]);
	ok(reaches(&rows[0], ROW_UNLOADED), "a place that is kept free is not free memory, too");
	rows[1].n_waiting = 0;
	end();
}

/* Work beside requests waits for models that it could send away. */
static void test_work_beside(void)
{
	is_int(begin(COMMON "transcription_model = tests/golden/vision/qwen3asr\n"
		     MODEL("a", "olmo2") MODEL("b", "phi3")), OK, "two and a listener");
	is_int(fleet_start(fleet, &fail), OK, "a start");
	ok(reaches(&rows[0], ROW_LOADED), "loads it and the first");
	rows[0].used_us = 1;
	busy_with = 1;
	fleet_tick(fleet);
	is_int(rows[1].state, ROW_LOADING, "work does not wait for the listener's requests");
	busy_with = -1;
	end();
}

int main(void)
{
	const char *top = getenv("HALOD_SRCDIR");
	log_init(LOG_ERROR, LOG_TEXT);
	if (top && chdir(top) != 0)
		exit(99);
	test_names();
	test_turns();
	test_one_leaves();
	test_damaged();
	test_stays();
	test_work();
	test_sleep();
	test_faults();
	if (audio_check(&fail) == OK) {
		test_listener();
		test_place();
		test_work_beside();
	} else {
		printf("# left out: %s\n", fail.text);
	}
	return tap_done();
}
