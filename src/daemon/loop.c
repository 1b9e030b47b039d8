/* SPDX-License-Identifier: Apache-2.0
 *
 * The io thread: one libuv loop for all sockets, timers and signals. The engine thread wakes
 * the loop through one uv_async.
 *
 *   LOADING ──► SERVING ──► LEAVING ──► DRAINING ──► STOPPING ──► over
 *      │ signal    │ engine    │           │ all answered, or    engine thread has ended
 *      ▼           │ gave up   │           │ drain_timeout       and the last bytes are out
 *    _exit         └───────────┴───────────┴──► STOPPING
 *
 *   LOADING   the socket answers, API routes with 503; the engine thread loads
 *   SERVING   READY=1 was sent; the engine thread is in sched_run
 *   LEAVING   SIGTERM or SIGINT came: /health is 503, all else as in SERVING, for
 *             drain_delay; with 0 this phase is left out
 *   DRAINING  new requests get 503, running ones go on
 *   STOPPING  sched_stop was called (or loading failed): what still runs is ended
 *             with an error and given a moment to reach its client
 *
 * A second signal ends the process with EXIT_CODE_ABORTED at once. An engine thread that is
 * stuck cannot be joined. In both cases the loop calls _exit, and the kernel closes the
 * connections.
 *
 * A timer, the tick, checks what causes no event: progress of loading, age of the engine's
 * heartbeat, systemd's watchdog. The watchdog gets a message only at a tick that finds a
 * new heartbeat of the engine: a living loop alone does not feed it.
 */
#include <build-config.h>

#include "daemon/loop.h"

#include <assert.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mapped.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/workers.h"
#include "batch/batch_store.h"
#include "daemon/batch_runs.h"
#include "daemon/fleet.h"
#include "daemon/named.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "daemon/weights.h"
#include "http/http.h"
#include "json/json_text.h"
#include "trace/exporter.h"

#define TICK_MS 1000
#define TTY_TICK_MS 100
#define LAST_BYTES_MS 2000  /* time for clients to read how their request ended */
#define ENGINE_END_MS 10000 /* time for the engine's last step after sched_stop */
#define LOAD_EXTEND_US INT64_C(120000000)
#define UNLOAD_US INT64_C(600000000) /* the longest time for a model to leave memory */
#define IDLE_WORKER_MS 10000
#define MIN_FILES 32
#define MIN_STACK (256u << 10)
#define SPARE_BYTES (64u << 20) /* see base/alloc.h */
#define LOAD_FAILED "cannot load the model: "
/* the settings that can be meant when the system refuses a thread or a descriptor */
#define LIMITS "limits: TasksMax, ulimit -u, LimitNOFILE, ulimit -n, memory"

enum phase { LOADING, SERVING, LEAVING, DRAINING, STOPPING };

struct loop {
	struct loop_opts o;
	const struct config *config; /* o.config */
	struct model_list models;
	struct fleet *fleet;
	const struct boot_plan *plan; /* of the first model */
	char *key_file; /* file of API keys; NULL: none */
	enum phase phase;
	enum exit_code code;
	int64_t start_us;

	uv_loop_t uv;
	uv_prepare_t before_wait;
	uv_timer_t http_timer, tick, deadline;
	uv_async_t wake;
	uv_signal_t signals[6];
	struct workers *workers; /* they parse requests */
	struct http *http;
	struct exporter *exporter; /* sends spans; NULL: none */
	struct weights *weights; /* NULL: not loaded */
	struct batch_store *batches; /* files and batches; NULL: none */
	struct batch_runs *batch_runs; /* NULL: none, as batches */

	struct health health;
	struct fail fail; /* why the start failed */

	int64_t watchdog_us; /* systemd's limit between two messages; 0: no watchdog */
	int64_t fed_us;      /* the heartbeat that the watchdog was last fed with */
	uint64_t tick_ms;    /* period of the tick once the model is loaded */
	int told_permille;   /* the progress last shown */
	int64_t told_work;   /* work_of_load when progress was last shown */
	bool is_late;        /* LAST_BYTES_MS have passed, and the engine still runs */
	bool is_tty;
	char address[200];   /* for log texts: "http://127.0.0.1:8080" */
};

static int64_t now_us(void) { return clock_now_us(&clock_monotonic); }

/* The only errors of uv_timer_start are mistakes of its caller. */
static void start_timer(uv_timer_t *t, uv_timer_cb fn, uint64_t after_ms, uint64_t repeat_ms)
{
	int rc = uv_timer_start(t, fn, after_ms, repeat_ms);
	assert(rc == 0);
}

static void stop_timer(uv_timer_t *t)
{
	int rc = uv_timer_stop(t);
	assert(rc == 0); /* it has no error */
}

/* The only error of uv_async_send is a mistake of its caller. */
static void wake(struct loop *l)
{
	int rc = uv_async_send(&l->wake);
	assert(rc == 0);
}

/* Ends the process at once, without waiting for threads or clients. */
_Noreturn static void leave(struct loop *l, enum exit_code code)
{
	if (*l->config->unix_socket)
		unlink(l->config->unix_socket);
	log_flush();
	_exit(code);
}

/* --- other threads -------------------------------------------------------------- */

static void on_events(void *ctx)
{
	struct loop *l = ctx;
	wake(l);
}

/* --- ending ---------------------------------------------------------------------- */

static void on_deadline(uv_timer_t *t);
static void on_tick(uv_timer_t *t);
static void start_draining(struct loop *l);

static void start_stopping(struct loop *l)
{
	l->phase = STOPPING;
	http_quiesce(l->http);
	fleet_stop(l->fleet);
	start_timer(&l->deadline, on_deadline, LAST_BYTES_MS, 0);
}

/* Has all work for this loop on other threads ended? */
static bool can_end(struct loop *l)
{
	bool loads;
	return workers_pending(l->workers) == 0 && fleet_have_ended(l->fleet, &loads);
}

/* Called after each event that DRAINING or STOPPING may have waited for. */
static void advance_end(struct loop *l)
{
	bool is_answered = http_active(l->http) == 0;
	if (l->phase == DRAINING && is_answered && workers_pending(l->workers) == 0)
		start_stopping(l);
	if (l->phase == STOPPING && is_answered && can_end(l))
		uv_stop(&l->uv);
}

/* Is a model leaving memory, and not for too long? */
static bool is_unloading(const struct loop *l)
{
	int64_t us = fleet_leaving_us(l->fleet);
	return us > 0 && us <= UNLOAD_US;
}

static void on_deadline(uv_timer_t *t)
{
	struct loop *l = t->data;
	bool loads = false;
	if (l->phase == LEAVING) {
		start_draining(l);
		advance_end(l);
	} else if (l->phase == DRAINING) {
		int n = http_active(l->http);
		log_warn("drain_timeout is over, ending %d request%s", n, log_plural(n));
		start_stopping(l);
	} else if (can_end(l)) {
		uv_stop(&l->uv); /* no wait for clients that do not read */
	} else if (fleet_have_ended(l->fleet, &loads), loads) {
		/* As a signal does while the first model loads, but others have pages to keep. */
		if (workers_pending(l->workers) == 0) {
			batch_runs_destroy(l->batch_runs);
			fleet_save(l->fleet);
		}
		leave(l, l->code);
	} else if (is_unloading(l)) {
		notify_sendf("EXTEND_TIMEOUT_USEC=%lld", 2 * 1000LL * ENGINE_END_MS);
		start_timer(t, on_deadline, ENGINE_END_MS, 0);
	} else if (!l->is_late) {
		l->is_late = true;
		start_timer(t, on_deadline, ENGINE_END_MS, 0);
	} else {
		log_error("the engine does not end its step; leaving without it");
		leave(l, EXIT_CODE_STALLED);
	}
}

static void start_draining(struct loop *l)
{
	int n = http_active(l->http);
	log_info("draining: %d request%s, at most %.1f s", n, log_plural(n),
		 (double)l->config->drain_timeout * 1e-6);
	l->phase = DRAINING;
	atomic_store(&l->health.state, HEALTH_DRAINING);
	/* drain_timeout may exceed the unit's TimeoutStopSec, so ask systemd for more time. */
	notify_sendf("STOPPING=1\nSTATUS=Draining %d request%s\n"
		     "EXTEND_TIMEOUT_USEC=%lld", n, log_plural(n),
		     (long long)(l->config->drain_timeout +
				 1000 * (LAST_BYTES_MS + ENGINE_END_MS)));
	fleet_drain(l->fleet);
	start_timer(&l->deadline, on_deadline,
		       (uint64_t)(l->config->drain_timeout / 1000), 0);
}

/* Called at the first signal while serving. */
static void start_leaving(struct loop *l)
{
	int64_t delay = l->config->drain_delay;
	if (delay == 0) {
		start_draining(l);
		return;
	}
	log_info("leaving: not ready any more, draining begins in %.1f s", (double)delay * 1e-6);
	l->phase = LEAVING;
	atomic_store(&l->health.state, HEALTH_LEAVING);
	notify_sendf("STOPPING=1\nSTATUS=Leaving: draining begins in %.1f s\n"
		     "EXTEND_TIMEOUT_USEC=%lld", (double)delay * 1e-6,
		     (long long)(delay + l->config->drain_timeout +
				 1000 * (LAST_BYTES_MS + ENGINE_END_MS)));
	start_timer(&l->deadline, on_deadline, (uint64_t)(delay / 1000), 0);
}

/* --- http ------------------------------------------------------------------------ */

/* Its event is that the loop wakes, and comes to before_wait again. */
static void on_http_timer(uv_timer_t *t) { (void)t; }

/* Called each time before the loop waits. */
static void before_wait(uv_prepare_t *p)
{
	struct loop *l = p->data;
	int ms = http_run(l->http);
	if (ms >= 0)
		start_timer(&l->http_timer, on_http_timer, (uint64_t)ms, 0);
	else
		stop_timer(&l->http_timer);
	advance_end(l);
}

/* http_opts.offload */
static void offload(void *ctx, void (*fn)(void *), void (*done)(void *), void *arg, bool is_few)
{
	struct loop *l = ctx;
	(is_few ? workers_run_few : workers_run)(l->workers, fn, done, arg);
}

/* --- news, signals, tick ------------------------------------------------------------ */

static void on_weights_changed(void *ctx, const char *why)
{
	struct loop *l = ctx;
	if (l->phase == STOPPING)
		return;
	log_error("%s: the process ends", why);
	notify_sendf("STATUS=%s", why);
	atomic_store(&l->health.state, HEALTH_FAILED);
	l->code = EXIT_CODE_MODEL;
	start_stopping(l);
}

/* fleet_opts.on_model */
static void on_model(void *ctx, int i, const struct api *api, struct sched *sched)
{
	const struct loop *l = ctx;
	if (l->batch_runs)
		batch_runs_set(l->batch_runs, i, api, sched);
}

/* fleet_opts.has_work */
static bool has_batches(void *ctx, int i)
{
	const struct loop *l = ctx;
	return l->batch_runs && batch_runs_has_work(l->batch_runs, i);
}

/* fleet_opts.on_change */
static void on_mapped(void *ctx)
{
	struct loop *l = ctx;
	if (l->weights)
		weights_again(l->weights);
}

static void on_loaded(struct loop *l)
{
	struct weights_opts o = {&l->uv, l->workers, on_weights_changed, l};
	l->weights = weights_create(&o);
	double seconds = (double)(now_us() - l->start_us) * 1e-6;
	int n;
	const struct model_row *first = fleet_rows(l->fleet, &n);
	if (first->state == ROW_LOADED)
		metric_set(METRIC_MODEL_LOAD, seconds);
	http_set_ready(l->http);
	atomic_store(&l->health.load_stage, LOAD_DONE);
	atomic_store(&l->health.state, HEALTH_READY);
	l->phase = SERVING;
	alloc_keep_spare(SPARE_BYTES);
	if (first->state == ROW_LOADED)
		log_info("ready: %s on %s, loaded in %.2f s", first->name, l->address, seconds);
	else
		log_warn("ready on %s without the first model, %s: requests for others load them",
			 l->address, first->name);
	notify_sendf("READY=1\nSTATUS=Serving %s on %s", l->plan->model_name,
		     l->address);
	uv_timer_set_repeat(&l->tick, l->tick_ms);
}

static void on_load_failed(struct loop *l, const struct fail *why, bool is_check)
{
	log_error("%s%s", is_check ? "" : LOAD_FAILED, why->text);
	notify_sendf("STATUS=%s%s", is_check ? "" : "Cannot load the model: ", why->text);
	atomic_store(&l->health.state, HEALTH_FAILED);
	l->code = is_check ? EXIT_CODE_CHECK : EXIT_CODE_MODEL;
	start_stopping(l);
}

static void on_wake(uv_async_t *a)
{
	struct loop *l = a->data;
	const struct fail *why;
	bool is_check;
	fleet_collect(l->fleet);
	enum fleet_state start = fleet_started(l->fleet, &why, &is_check);
	if (l->phase == LOADING && start == FLEET_NOT_STARTED)
		on_load_failed(l, why, is_check);
	else if (l->phase == LOADING && start == FLEET_STARTED)
		on_loaded(l);
	if (fleet_gave_up(l->fleet) && l->phase != STOPPING) {
		log_error("the engine gave up");
		atomic_store(&l->health.state, HEALTH_FAILED);
		l->code = EXIT_CODE_RUNTIME;
		start_stopping(l);
	}
	if (l->batch_runs)
		batch_runs_wake(l->batch_runs);
	workers_collect(l->workers);
	if (l->phase != LOADING)
		http_wake(l->http);
	if (!uv_is_active((uv_handle_t *)&l->tick) && !fleet_are_at_rest(l->fleet))
		start_timer(&l->tick, on_tick, 0, l->tick_ms);
}

/* Called on SIGHUP. */
static void reload(struct loop *l)
{
	struct buf note = {0};
	reload_run(&(struct reload){.config = l->config, .models = &l->models, .http = l->http,
				    .argc = l->o.argc, .argv = l->o.argv,
				    .default_file = l->o.default_file,
				    .has_keys = l->key_file != NULL}, &note);
	buf_add_z(&note, "");
	if (l->phase == SERVING)
		notify_sendf("STATUS=Serving %s on %s%s", l->plan->model_name, l->address, note.p);
	buf_deinit(&note);
}

static void on_signal(uv_signal_t *s, int number)
{
	struct loop *l = s->data;
	if (number == SIGHUP) {
		reload(l);
	} else if (l->phase == LOADING) {
		log_info("stopped while loading");
		notify_sendf("STOPPING=1");
		leave(l, EXIT_CODE_OK);
	} else if (l->phase == SERVING) {
		log_info("%s", strsignal(number));
		start_leaving(l);
	} else if (number != SIGPWR && number != SIGXCPU) { /* the kernel repeats SIGXCPU */
		int n = http_active(l->http);
		log_warn("second signal: leaving at once, %d request%s cut off", n,
			 log_plural(n));
		leave(l, EXIT_CODE_ABORTED);
	}
}

/* Writes a text such as "42 %, packing, 1.2 of 2.8 GB". */
static void describe_load(struct loop *l, int permille, char out[100])
{
	double done = (double)atomic_load(&l->health.load_done) * 1e-9;
	double total = (double)atomic_load(&l->health.load_total) * 1e-9;
	enum health_load stage = (enum health_load)atomic_load(&l->health.load_stage);
	int n = snprintf(out, 100, "%d %%, %s", permille / 10, health_load_name(stage));
	if (total > 0)
		snprintf(out + n, 100 - (size_t)n, ", %.2f of %.2f GB", done, total);
}

/* A number that grows as long as loading makes progress: bytes, stages, and reads from a
 * disk. Only the reads show progress inside one large tensor, or while the first tokens
 * read a mapped model. Page faults count such reads; where the kernel reads ahead, only
 * blocks do. */
static int64_t work_of_load(struct loop *l)
{
	struct rusage u = {0};
	getrusage(RUSAGE_SELF, &u);
	return atomic_load(&l->health.load_done) + atomic_load(&l->health.load_stage) +
	       u.ru_majflt + u.ru_inblock;
}

static void show_progress(struct loop *l)
{
	int permille = atomic_load(&l->health.load_permille);
	int64_t work = work_of_load(l);
	char what[100], line[140];
	if (work == l->told_work)
		return;
	describe_load(l, permille, what);
	/* The cursor goes back to column 0, so that a log line overwrites this one. */
	snprintf(line, sizeof line, "halod: loading %s\033[K\r", what);
	if (l->is_tty)
		log_raw(str_of(line));
	else if (permille / 100 != l->told_permille / 100)
		log_info("loading: %s", what);
	/* systemd must wait as long as there is progress. */
	notify_sendf("STATUS=Loading %s\nEXTEND_TIMEOUT_USEC=%lld", what,
		     (long long)LOAD_EXTEND_US);
	l->told_permille = permille;
	l->told_work = work;
}

/* Is a model being loaded, with progress since the last call, and no engine there to beat? */
static bool has_loaded_more(struct loop *l)
{
	int64_t work = work_of_load(l);
	bool has_more = atomic_load(&l->health.heartbeat_us) == 0 && work != l->told_work;
	l->told_work = work;
	return has_more;
}

static void on_tick(uv_timer_t *t)
{
	struct loop *l = t->data;
	log_flush();
	if (l->phase >= SERVING)
		alloc_keep_spare(SPARE_BYTES);
	if (l->phase == LOADING) {
		show_progress(l);
		return;
	}
	int64_t stall_us = l->config->heartbeat_stall;
	if (l->phase == STOPPING)
		return; /* STOPPING has its own deadline for the engine */
	fleet_tick(l->fleet);
	http_beat(l->http);
	if (stall_us > 0 && health_is_stalled(&l->health, now_us(), stall_us)) {
		log_error("the engine has shown no sign of life for %lld s; leaving",
			  (long long)(stall_us / 1000000));
		notify_sendf("STATUS=The engine is stalled");
		leave(l, EXIT_CODE_STALLED);
	}
	int64_t leaving_us = fleet_leaving_us(l->fleet);
	if (stall_us > 0 && leaving_us > MAX(stall_us, UNLOAD_US)) {
		log_error("a model has not left memory for %lld s; leaving",
			  (long long)(leaving_us / 1000000));
		leave(l, EXIT_CODE_STALLED);
	}
	if (atomic_load(&l->health.state) == HEALTH_FAILED) {
		bool is_lost = atomic_load(&l->health.is_device_lost);
		log_error("the engine reported that %s", is_lost ?
			  "its device has failed" : "it cannot go on");
		leave(l, is_lost ? EXIT_CODE_STALLED : EXIT_CODE_RUNTIME);
	}
	/* Feeds systemd's watchdog for each new heartbeat. So systemd judges the engine by
	 * its own limit, whatever heartbeat_stall is. */
	bool is_at_rest = fleet_are_at_rest(l->fleet);
	if (l->watchdog_us > 0 && (fleet_is_idle(l->fleet) || is_unloading(l) ||
				   has_loaded_more(l) || health_has_beaten(&l->health, &l->fed_us)))
		notify_sendf("WATCHDOG=1");
	if (is_at_rest && l->watchdog_us <= 0) /* on_wake starts it again */
		stop_timer(t);
}

/* --- start -------------------------------------------------------------------------- */

/* Raises the limit of open files: three for each connection (sock.h), and some for all else.
 * E_CONFIG: too few may be open. */
static enum status raise_fd_limit(int64_t max_connections, struct fail *fail)
{
	struct rlimit r;
	rlim_t want = 3 * (rlim_t)max_connections + 256;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want)
		return OK;
	r.rlim_cur = MIN(want, r.rlim_max);
	if (r.rlim_cur < want || setrlimit(RLIMIT_NOFILE, &r) != 0)
		log_warn("max_connections is %lld, but only %llu files may be open",
			 (long long)max_connections, (unsigned long long)r.rlim_max);
	if (r.rlim_max < MIN_FILES)
		return fail_set(fail, E_CONFIG, "only %llu files may be open, and halod needs %d: "
				"raise the limit (ulimit -n, LimitNOFILE)",
				(unsigned long long)r.rlim_max, MIN_FILES);
	return OK;
}

/* Threads nest as deep as the main one, whatever `ulimit -s` says. E_CONFIG: even less than the
 * start takes. */
static enum status set_stacks(struct fail *fail)
{
	struct rlimit r;
	pthread_attr_t attr;
	if (getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur < MIN_STACK)
		return fail_set(fail, E_CONFIG, "the stack may have only %llu bytes, and halod "
				"needs %u: raise the limit (ulimit -s, LimitSTACK)",
				(unsigned long long)r.rlim_cur, MIN_STACK);
	int rc = pthread_attr_init(&attr);
	if (rc == 0)
		rc = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	if (rc == 0)
		rc = pthread_setattr_default_np(&attr);
	return rc == 0 ? OK : fail_set(fail, E_LIMIT, "threads cannot be given stacks: %s",
				       strerror(rc));
}

static void name_address(struct loop *l, bool is_inherited)
{
	const struct config *c = l->config;
	bool is_v6 = strchr(c->host, ':');
	if (is_inherited)
		snprintf(l->address, sizeof l->address, "the socket of systemd");
	else if (*c->unix_socket)
		snprintf(l->address, sizeof l->address, "%s", c->unix_socket);
	else
		snprintf(l->address, sizeof l->address, "http%s://%s%s%s:%d",
			 *c->tls_cert ? "s" : "", is_v6 ? "[" : "", c->host, is_v6 ? "]" : "",
			 http_port(l->http));
}

/* The configured file of keys, else the credential that systemd passes. NULL: neither. */
static char *find_key_file(const struct config *c)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	if (*c->api_key_file)
		return xstrdup(c->api_key_file);
	char *path = dir ? file_join(dir, "api_keys") : NULL;
	if (path && !file_exists(path)) {
		free(path);
		path = NULL;
	}
	return path;
}

/* Opens what clients and keys need, and listens; a check only looks. */
static enum status listen_early(struct loop *l, struct fail *fail)
{
	const struct config *c = l->config;
	int fd;
	enum status s = notify_take_socket(&fd, fail);
	if (s != OK)
		return s;
	bool is_tcp = fd < 0 && !*c->unix_socket;
	struct http_opts o = {
		.loop = &l->uv,
		.host = is_tcp ? c->host : NULL,
		.port = (int)c->port,
		.unix_path = fd < 0 && !is_tcp ? c->unix_socket : NULL,
		.listen_fd = fd,
		.is_check = l->o.is_check,
		.max_connections = (int)c->max_connections,
		.max_connections_per_address = (int)c->max_connections_per_address,
		.max_body_bytes = (size_t)c->max_body,
		.max_upload_bytes = (size_t)c->max_upload,
		.body_memory_bytes = (size_t)c->body_memory,
		.request_timeout_us = c->request_timeout,
		.keepalive_s = (int)(c->keepalive / 1000000),
		.header_s = (int)(c->header_timeout / 1000000),
		.idle_s = (int)(c->idle_timeout / 1000000),
		.stall_s = (int)(c->stall_timeout / 1000000),
		.heartbeat_stall_us =
			c->heartbeat_stall ? c->heartbeat_stall : INT64_MAX,
		.access_log = c->access_log,
		.exporter = l->exporter,
		.page = c->page,
		.tls_cert = *c->tls_cert ? c->tls_cert : NULL,
		.tls_priorities = c->tls_priorities,
		.tls_key = *c->tls_key ? c->tls_key : NULL,
		.api_key_file = l->key_file,
		.max_requests_per_key = (int)c->max_requests_per_key,
		.metrics_need_key = c->metrics_need_key,
		.cors_origins = c->cors_origins.items,
		.n_cors_origins = c->cors_origins.n,
		.clock = &clock_monotonic,
		.health = &l->health,
		.on_need = fleet_need,
		.on_idle = fleet_idle,
		.rows_ctx = l->fleet,
		.max_waiting = (int)c->max_queue,
		.max_wait_us = c->max_wait,
		.memory = fleet_memory(l->fleet),
		.batches = l->batches,
		.embedders = {l->plan->embedders[0], l->plan->embedders[1]},
		.model_name = l->plan->model_name,
		.version = PACKAGE_VERSION,
		.backend = l->plan->backend,
		.backend_reason = l->plan->backend_reason,
		.offload = offload,
		.offload_ctx = l,
	};
	o.rows = fleet_rows(l->fleet, &o.n_rows);
	s = http_create(&o, &l->http, fail);
	if (s == OK)
		name_address(l, fd >= 0);
	return s;
}

/* Returns 0, or libuv's first error. */
static int init_handles(struct loop *l)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGPWR, SIGXCPU, SIGHUP};
	uv_timer_t *timers[] = {&l->http_timer, &l->tick, &l->deadline};
	int rc = uv_prepare_init(&l->uv, &l->before_wait);
	l->before_wait.data = l;
	if (rc == 0)
		rc = uv_prepare_start(&l->before_wait, before_wait);
	for (size_t i = 0; i < ARRAY_LEN(timers) && rc == 0; i++) {
		rc = uv_timer_init(&l->uv, timers[i]);
		timers[i]->data = l;
	}
	if (rc == 0)
		rc = uv_async_init(&l->uv, &l->wake, on_wake);
	l->wake.data = l;
	for (size_t i = 0; i < ARRAY_LEN(numbers) && rc == 0; i++) {
		rc = uv_signal_init(&l->uv, &l->signals[i]);
		l->signals[i].data = l;
		if (rc == 0)
			rc = uv_signal_start(&l->signals[i], on_signal, numbers[i]);
	}
	if (rc == 0)
		start_timer(&l->tick, on_tick, 0, l->is_tty ? TTY_TICK_MS : l->tick_ms);
	return rc;
}

static enum status fail_uv(struct fail *fail, int rc)
{
	return rc == 0 ? OK : fail_set(fail, E_LIMIT, "the event loop cannot start: %s ("
				       LIMITS ")", uv_strerror(rc));
}

/* Starts the loop's handles and all threads. E_LIMIT: the system permits too little. */
static enum status loop_start(struct loop *l, struct fail *fail)
{
	struct workers_opts o = {.max = HTTP_WORKERS, .max_few = HTTP_FEW,
				 .idle_ms = IDLE_WORKER_MS, .on_done = on_events, .ctx = l};
	enum status s = fail_uv(fail, init_handles(l));
	if (s == OK)
		s = workers_create(&o, &l->workers, fail);
	if (s == OK && l->batches)
		l->batch_runs = batch_runs_create(&(struct batch_runs_opts){
			.config = l->config, .models = &l->models, .fleet = l->fleet,
			.store = l->batches, .loop = &l->uv, .workers = l->workers,
			.on_work = on_events, .ctx = l});
	return s == OK ? fleet_start(l->fleet, fail) : s;
}

static void close_handle(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static void close_loop(struct loop *l)
{
	uv_walk(&l->uv, close_handle, NULL);
	int n_left = uv_run(&l->uv, UV_RUN_DEFAULT);
	int rc = uv_loop_close(&l->uv);
	assert(n_left == 0 && rc == 0);
}

/* Frees everything but the models, when no thread of theirs and no job runs. */
static void end_loop(struct loop *l)
{
	workers_destroy(l->workers); /* no thread of theirs wakes the loop any more */
	batch_runs_destroy(l->batch_runs);
	http_destroy(l->http);
	weights_destroy(l->weights);
	close_loop(l);
	fleet_destroy(l->fleet); /* the last pages go to kv_dir: until then the folders are ours */
	l->fleet = NULL;
	exporter_destroy(l->exporter);
	batch_store_close(l->batches);
}

static enum status start_exporter(struct loop *l, struct fail *fail)
{
	if (!*l->config->otlp_endpoint)
		return OK;
	return exporter_create(&(struct exporter_opts){.endpoint = l->config->otlp_endpoint,
						       .version = PACKAGE_VERSION},
			       &l->exporter, fail);
}

/* A folder that systemd gives is not needed. A check opens none: the service may hold it. */
static enum status open_batches(struct loop *l, struct fail *fail)
{
	const struct config *c = l->config;
	const struct batch_store_opts o = {.dir = l->plan->state_dir,
					   .max_files = (int)c->max_files,
					   .max_bytes = c->max_files_bytes,
					   .max_age_s = c->file_age / 1000000,
					   .max_window_s = c->batch_window / 1000000};
	if (!*o.dir || l->o.is_check)
		return OK;
	enum status st = batch_store_open(&o, &l->batches, fail);
	if (st == OK || strcmp(c->state_dir, "auto") != 0)
		return st;
	log_warn("%s: files and batches are refused", fail->text);
	return OK;
}

/* All that comes before the model. After a failure nothing is left but the exporter and the folder
 * of batches. */
static enum status prepare_start(struct loop *l, struct fail *fail)
{
	enum status s = raise_fd_limit(l->config->max_connections, fail);
	if (s == OK)
		s = open_batches(l, fail);
	if (s == OK)
		s = start_exporter(l, fail);
	if (s == OK)
		s = fail_uv(fail, uv_loop_init(&l->uv));
	if (s != OK)
		return s;
	s = listen_early(l, fail);
	if (s != OK)
		close_loop(l);
	return s;
}

static enum exit_code code_of(enum status s)
{
	return s == E_CONFIG ? EXIT_CODE_CONFIG : s == E_LIMIT ? EXIT_CODE_RUNTIME
							       : EXIT_CODE_LISTEN;
}

/* What a start would find in the files, with a line for each fault. */
static enum exit_code check_files(struct loop *l)
{
	enum exit_code code = EXIT_CODE_OK;
	enum status s = prepare_start(l, &l->fail);
	if (s == OK) {
		http_destroy(l->http);
		close_loop(l);
	} else {
		log_error("%s", l->fail.text);
		code = code_of(s);
	}
	exporter_destroy(l->exporter);
	if (fleet_check(l->fleet, &l->fail) == OK)
		return code;
	log_error(LOAD_FAILED "%s", l->fail.text);
	return code == EXIT_CODE_OK ? EXIT_CODE_MODEL : code;
}

static void tell_models(const struct loop *l)
{
	struct buf names = {0};
	int n;
	const struct model_row *rows = fleet_rows(l->fleet, &n);
	for (int i = 0; i < n; i++)
		buf_addf(&names, "%s%s", i ? ", " : "", rows[i].name);
	if (n > 1)
		log_info("%d models, the first where a request names none: %s", n, names.p);
	buf_deinit(&names);
}

static enum exit_code serve(struct loop *l)
{
	enum status s = prepare_start(l, &l->fail);
	if (s != OK) {
		log_error("%s", l->fail.text);
		batch_store_close(l->batches);
		return code_of(s);
	}
	log_info("listening on %s, loading %s", l->address, l->plan->model_dir);
	tell_models(l);
	if (loop_start(l, &l->fail) != OK) {
		log_error("%s", l->fail.text);
		leave(l, EXIT_CODE_RUNTIME);
	}
	int n_left = uv_run(&l->uv, UV_RUN_DEFAULT);
	assert(n_left > 0); /* uv_stop has ended it: its handles are still open */
	end_loop(l);
	log_info("stopped");
	return l->code;
}

/* No signal that may come from outside ends the daemon without a drain: not one that a rotation
 * of logs sends to every daemon, nor one that somebody mistypes. A profiler that is loaded before
 * keeps its handler. Left to the kernel are those of the process's own faults, and SIGKILL. */
static void ignore_signals(void)
{
	static const int others[] = {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF,
				     SIGPOLL, SIGSTKFLT, SIGXFSZ};
	int n = (int)ARRAY_LEN(others);
	for (int i = 0; i < n + SIGRTMAX - SIGRTMIN + 1; i++) {
		int number = i < n ? others[i] : SIGRTMIN + i - n;
		struct sigaction old;
		if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			signal(number, SIG_IGN);
	}
}

/* Each of glibc's arenas keeps up to 64 MiB of free memory at its top, for as long as the process
 * lives. malloc_trim gives back that of the first arena alone, and there may be eight a core. */
static void bound_free_memory(void)
{
	mallopt(M_TRIM_THRESHOLD, 1 << 20);
	mallopt(M_MMAP_THRESHOLD, 1 << 20); /* larger blocks go back at once */
}

static enum status plan_models(struct loop *l, struct fail *fail)
{
	const struct fleet_opts o = {.models = &l->models, .health = &l->health,
				      .clock = &clock_monotonic, .on_news = on_events,
				      .on_change = on_mapped, .on_model = on_model,
				      .has_work = has_batches, .batches = &l->batches, .ctx = l};
	enum status s = model_list_find(l->config, &l->models, fail);
	if (s != OK)
		return s;
	s = fleet_create(&o, &l->fleet, fail);
	l->plan = fleet_plan(l->fleet);
	return s;
}

/* The backend, the models' names (*out_has_plan), and whether all that is named is there. */
static enum status plan_start(struct loop *l, bool *out_has_plan)
{
	struct fail fail;
	enum status s = plan_models(l, &fail);
	*out_has_plan = s == OK;
	if (s != OK)
		log_error("%s", fail.text);
	enum status named = named_check(l->config, &l->models, l->key_file, &fail);
	if (named != OK)
		log_error("%s", fail.text);
	return s != OK ? s : named;
}

static void init(struct loop *l, const struct loop_opts *o)
{
	l->o = *o;
	l->config = o->config;
	l->start_us = now_us();
	l->watchdog_us = notify_watchdog_us();
	l->key_file = find_key_file(o->config);
	l->tick_ms = TICK_MS; /* systemd recommends a message every half interval */
	if (l->watchdog_us > 0)
		l->tick_ms = MIN(l->tick_ms, (uint64_t)l->watchdog_us / 2000 + 1);
	l->is_tty = isatty(STDERR_FILENO) && strcmp(o->config->log_format, "text") == 0;
}

enum exit_code loop_run(const struct loop_opts *o)
{
	ignore_signals();
	bound_free_memory();
	mapped_watch(EXIT_CODE_MODEL);
	json_text_init();
	struct loop *l = xcalloc(1, sizeof *l);
	init(l, o);
	enum exit_code code = EXIT_CODE_OK;
	bool has_plan = false;
	enum status s = set_stacks(&l->fail);
	if (s == OK)
		s = plan_start(l, &has_plan);
	else
		log_error("%s", l->fail.text);
	if (s == OK || (o->is_check && has_plan)) /* a check tells the other faults, too */
		code = o->is_check ? check_files(l) : serve(l);
	if (s != OK)
		code = s == E_CONFIG ? EXIT_CODE_CONFIG : EXIT_CODE_MODEL;
	if (l->fleet)
		fleet_destroy(l->fleet);
	model_list_deinit(&l->models);
	free(l->key_file);
	free(l);
	return code;
}
