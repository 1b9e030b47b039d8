/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "doctor/first_run.h"

void run_add(struct run_command *c, const char *arg)
{
	if (c->n < RUN_MAX_ARGS)
		c->args[c->n++] = arg;
}

void run_say(const struct run_command *c, struct buf *out)
{
	const char *name = strrchr(c->program, '/');
	buf_addf(out, "$ %s%s%s", c->env ? c->env : "", c->env ? " " : "",
		 name ? name + 1 : c->program);
	for (int i = 0; i < c->n; i++)
		buf_addf(out, " %s", c->args[i]);
	buf_add_z(out, "\n");
}

/* The child: never returns. Both of its outputs are `fd`, and it has a group of its own, so that
 * what it starts ends with it. */
static void become(const struct run_command *c, int fd)
{
	char *argv[RUN_MAX_ARGS + 2] = {(char *)(uintptr_t)c->program};
	for (int i = 0; i < c->n; i++)
		argv[i + 1] = (char *)(uintptr_t)c->args[i];
	setpgid(0, 0);
	int nothing = open("/dev/null", O_RDONLY);
	if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(127);
	if (c->env && putenv((char *)(uintptr_t)c->env) != 0)
		_exit(127);
	execvp(c->program, argv);
	fprintf(stderr, "%s: %s\n", c->program, strerror(errno));
	_exit(127);
}

/* Read all that comes from fd until it ends, or until `end`. False: it is late. */
static bool read_until(int fd, int64_t end_us, struct buf *out)
{
	for (;;) {
		int64_t left = end_us - clock_now_us(&clock_monotonic);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (left <= 0)
			return false;
		int n = poll(&p, 1, left > 1000000 ? 1000 : (int)(left / 1000) + 1);
		if (n <= 0)
			continue;
		char text[4096];
		ssize_t got = read(fd, text, sizeof text);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return true;
		buf_add(out, text, (size_t)got);
	}
}

void run_command_for(const struct run_command *c, int limit_s, struct run_result *out)
{
	int fd[2], status = 0;
	int64_t begin = clock_now_us(&clock_monotonic);
	*out = (struct run_result){.rc = -1};
	if (pipe(fd) != 0) {
		buf_addf(&out->out, "pipe: %s\n", strerror(errno));
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(fd[0]);
		become(c, fd[1]);
	}
	close(fd[1]);
	if (pid < 0) {
		buf_addf(&out->out, "%s does not start: %s\n", c->program, strerror(errno));
		close(fd[0]);
		return;
	}
	out->is_late = !read_until(fd[0], begin + (int64_t)limit_s * 1000000, &out->out);
	if (out->is_late)
		kill(-pid, SIGKILL);
	close(fd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	out->rc = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	out->seconds = (double)(clock_now_us(&clock_monotonic) - begin) * 1e-6;
}

/* --- measured beside predicted ---------------------------------------------------- */

/* Call f for each line that is a JSON object. */
static void each_object(const char *text, void (*f)(void *ctx, const json_t *o), void *ctx)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		json_t *o = *text == '{' ? json_loadb(text, n, 0, NULL) : NULL;
		if (o)
			f(ctx, o);
		json_decref(o);
		text += n + (text[n] == '\n');
	}
}

static double number_of(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static bool has_text(const json_t *o, const char *key, const char *text)
{
	const char *is = json_string_value(json_object_get(o, key));
	return is && strcmp(is, text) == 0;
}

struct launch_search {
	const char *arch, *model, *part;
	double us; /* predicted, of all launches of the operation */
};

static void on_launch(void *ctx, const json_t *o)
{
	struct launch_search *s = ctx;
	if (has_text(o, "arch", s->arch) && has_text(o, "model", s->model) &&
	    has_text(o, "part", s->part))
		s->us += number_of(o, "us");
}

int first_run_launches(const char *bench, const char *report, const char *arch, struct buf *out)
{
	int n = 0;
	buf_addf(out, "%-16s %-12s %12s %12s %8s\n", "model", "part", "measured us", "predicted",
		 "ratio");
	for (const char *at = bench; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char model[32], part[32];
		double us;
		/* model,part,tokens,group,us,... */
		if (sscanf(at, "%31[^,\n],%31[^,\n],%*d,%*d,%lf", model, part, &us) != 3)
			continue;
		struct launch_search s = {.arch = arch, .model = model, .part = part};
		each_object(report, on_launch, &s);
		if (!(s.us > 0))
			continue;
		buf_addf(out, "%-16s %-12s %12.2f %12.2f %8.2f\n", model, part, us, s.us,
			 us / s.us);
		n++;
	}
	return n;
}

struct step_search {
	char step[64];
	double ms, low_ms, high_ms;
};

static void on_step(void *ctx, const json_t *o)
{
	struct step_search *s = ctx;
	if (!has_text(o, "step", s->step))
		return;
	s->ms = number_of(o, "total_us") * 1e-3;
	s->low_ms = number_of(o, "low_us") * 1e-3;
	s->high_ms = number_of(o, "high_us") * 1e-3;
}

static void compare_step(struct step_search *s, const char *what, double ms, const char *predict,
			 struct buf *out, int *n, int *n_out)
{
	each_object(predict, on_step, s);
	if (!(ms > 0) || !(s->ms > 0))
		return;
	bool is_in = ms >= s->low_ms && ms <= s->high_ms;
	buf_addf(out, "%-28s %9.2f ms measured, %9.2f (%.2f to %.2f) predicted: %s\n", what, ms,
		 s->ms, s->low_ms, s->high_ms, is_in ? "inside" : "outside");
	++*n;
	*n_out += !is_in;
}

static void on_any(void *ctx, const json_t *o)
{
	json_t **to = ctx;
	if (!*to)
		*to = json_incref((json_t *)(uintptr_t)o);
}

int first_run_steps(const char *bench, const char *predict, int prompt, int depth,
		    struct buf *out, int *n_out)
{
	json_t *o = NULL;
	int n = 0;
	*n_out = 0;
	each_object(bench, on_any, &o);
	if (!o)
		return 0;
	struct step_search s = {0};
	char what[64], key[16];
	snprintf(s.step, sizeof s.step, "decode behind %d tokens", depth);
	compare_step(&s, s.step, number_of(o, "tpot_ms"), predict, out, &n, n_out);
	snprintf(key, sizeof key, "%d", prompt);
	double rate = number_of(json_object_get(o, "prefill"), key);
	s = (struct step_search){0};
	snprintf(s.step, sizeof s.step, "prefill of %d tokens behind %d", prompt, depth);
	snprintf(what, sizeof what, "a prompt of %d tokens", prompt);
	compare_step(&s, what, rate > 0 ? prompt / rate * 1e3 : 0, predict, out, &n, n_out);
	json_decref(o);
	return n;
}
