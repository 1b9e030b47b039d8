/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the scenarios tests/sim/(star).scn, or those named on the command line.
 *
 * A scenario is lines, done in order. Virtual time moves by what steps cost, and
 * jumps ahead when there is nothing to do. Words are separated by spaces;
 * "quoted ones" may hold them, with \n and \". `#` begins a comment.
 *
 *   set KEY=VALUE…            before anything else; keys and defaults: settings[]
 *   submit NAME KEY=VALUE…    keys: see submit_keys[]
 *   cancel NAME
 *   fail N | nan N            the next N steps fail, or give NaN for logits
 *   drain | stop
 *   restart                   (settles first) all but kv_dir is forgotten
 *   iterate [N]               N iterations of the scheduler (1)
 *   settle                    iterations until there is nothing to do
 *   expect FACT…              (settles first) see below
 *   check FACT…               the same at this very moment
 *
 *   at TIME COMMAND           once the clock has reached TIME microseconds
 *   when NAME WHAT N COMMAND  once NAME has N or more of WHAT
 *   inside COMMAND            in the middle of the next step, while the model runs
 *
 * Facts: `VALUE OP NUMBER` with OP one of = <= >=, where VALUE is a number of the
 * whole (world_values[]) or `NAME.number` of a client (client_values[]), for
 * one choice of several `NAME.number.I`; `NAME.text="…"` and the other strings of
 * client_string(); `NAME.same=OTHER` and `NAME.differs=OTHER`: same tokens in choice
 * 0, or `NAME.I.J` for choices I and J of one request; `order=A,B,C`: started in
 * this order.
 *
 * At the end of each scenario the rules of world.c must hold.
 */
#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/metrics.h"
#include "tests/sim/world.h"
#include "tests/tap.h"

#define WORDS_MAX 40
#define TURNS_MAX 200000

struct scenario {
	const char *name; /* of the file */
	int line;
	struct world_opts opts;
	struct world w;
	bool is_open;
	char *inside; /* command for the next step, or NULL */
};

static void command(struct scenario *sc, char **words, int n);

static void bad(const struct scenario *sc, const char *what, const char *word)
{
	printf("Bail out! %s:%d: %s '%s'\n", sc->name, sc->line, what, word);
	exit(1);
}

/* --- words --------------------------------------------------------------- */

/* Cut in place; quotes go, escapes are resolved. */
static int split(char *s, char **words)
{
	int n = 0;
	while (*s && n < WORDS_MAX) {
		while (*s == ' ' || *s == '\t')
			s++;
		if (!*s || *s == '#')
			break;
		char *to = s;
		words[n++] = s;
		bool quoted = false;
		for (; *s && (quoted || (*s != ' ' && *s != '\t')); s++) {
			if (*s == '"') {
				quoted = !quoted;
			} else if (*s == '\\' && s[1]) {
				s++;
				*to++ = *s == 'n' ? '\n' : *s;
			} else {
				*to++ = *s;
			}
		}
		if (*s)
			s++;
		*to = '\0';
	}
	return n;
}

/* "key=value" to value, or NULL. */
static char *value_of(char *word, const char *key)
{
	size_t n = strlen(key);
	return !strncmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static void config(struct scenario *sc, char *word)
{
	const struct {
		const char *key;
		int *to;
	} settings[] = {
		{"page", &sc->opts.page}, {"pages", &sc->opts.pages},
		{"ctx", &sc->opts.ctx}, {"seqs", &sc->opts.seqs},
		{"batch", &sc->opts.batch}, {"prefix", &sc->opts.prefix},
		{"queue", &sc->opts.queue}, {"queue_tok", &sc->opts.queue_tok},
		{"chunk", &sc->opts.chunk}, {"states", &sc->opts.states},
		{"draft", &sc->opts.draft}, {"drafter", &sc->opts.drafter},
		{"disk", &sc->opts.disk},
		{"pad", &sc->opts.pad}};
	const struct {
		const char *key;
		int64_t *to;
	} times[] = {{"max_wait", &sc->opts.max_wait_us},
		     {"target", &sc->opts.target_us},
		     {"step", &sc->opts.step_us}, {"token", &sc->opts.token_us},
		     {"read", &sc->opts.read_us}, {"copy", &sc->opts.copy_us}};
	char *v;
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if ((v = value_of(word, settings[i].key))) {
			*settings[i].to = atoi(v);
			return;
		}
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		if ((v = value_of(word, times[i].key))) {
			*times[i].to = atoll(v);
			return;
		}
	bad(sc, "unknown setting", word);
}

/* --- submit -------------------------------------------------------------- */

static void submit(struct scenario *sc, char **words, int n)
{
	struct spec sp = {.prompt = 10, .prompts = 1, .n = 1, .max = 10};
	const struct {
		const char *key;
		int *to;
	} submit_keys[] = {{"prompt", &sp.prompt}, {"prompts", &sp.prompts},
			   {"n", &sp.n}, {"share_tok", &sp.share_tok},
			   {"max", &sp.max}, {"min", &sp.min},
			   {"scores", &sp.scores}, {"bad_token", &sp.bad_token},
			   {"priority", &sp.priority}, {"background", &sp.background}};
	snprintf(sp.name, sizeof sp.name, "%s", words[1]);
	for (int i = 2; i < n; i++) {
		char *v, *word = words[i];
		bool known = false;
		for (size_t k = 0; k < ARRAY_LEN(submit_keys); k++)
			if ((v = value_of(word, submit_keys[k].key))) {
				*submit_keys[k].to = atoi(v);
				known = true;
			}
		if (known)
			continue;
		if ((v = value_of(word, "share")))
			snprintf(sp.share, sizeof sp.share, "%s", v);
		else if ((v = value_of(word, "agent")))
			snprintf(sp.agent, sizeof sp.agent, "%s", v);
		else if ((v = value_of(word, "salt")))
			snprintf(sp.salt, sizeof sp.salt, "%s", v);
		else if ((v = value_of(word, "temp")))
			sp.temp = atof(v);
		else if ((v = value_of(word, "seed")))
			sp.seed = atoll(v);
		else if ((v = value_of(word, "budget")))
			sp.budget = atoi(v);
		else if ((v = value_of(word, "say")))
			sp.say = xstrdup(v);
		else if ((v = value_of(word, "deadline")))
			sp.deadline_us = atoll(v);
		else if ((v = value_of(word, "stop")) && sp.n_stops < STOPS_MAX)
			sp.stops[sp.n_stops++] = xstrdup(v);
		else if (!strcmp(word, "keep_stop"))
			sp.keep_stop = true;
		else if (!strcmp(word, "think"))
			sp.think = true;
		else if (!strcmp(word, "ignore_eos"))
			sp.ignore_eos = true;
		else if (!strcmp(word, "may_be_cut"))
			sp.may_be_cut = true;
		else
			bad(sc, "submit does not know", word);
	}
	world_submit(&sc->w, &sp);
}

/* --- facts --------------------------------------------------------------- */

static struct client *client_of(const struct scenario *sc, const char *name)
{
	struct client *c = world_find((struct world *)&sc->w, name);
	if (!c)
		bad(sc, "no client", name);
	return c;
}

static bool world_number(const struct scenario *sc, const char *key, double *out)
{
	const struct world *w = &sc->w;
	struct sched_counts counts;
	sched_counts(w->sched, &counts);
	const struct {
		const char *key;
		double v;
	} world_values[] = {
		{"running", counts.n_running}, {"waiting", counts.n_waiting},
		{"waiting_tok", (double)counts.n_waiting_tok},
		{"used", engine_pages_total(w->engine) - engine_pages_free(w->engine)},
		{"steps", (double)w->fake.n_steps}, {"fed", (double)w->fake.n_tok},
		{"now", (double)w->fake.now_us},
		{"failed", atomic_load(&w->health.state) == HEALTH_FAILED},
		{"idle", sched_is_idle(w->sched)},
		{"beat_age", (double)(w->fake.now_us - w->health.heartbeat_us)},
		{"preemptions", metric_get(METRIC_PREEMPTIONS)},
		{"resumed", (double)w->fake.n_resumed},
		{"drafts", (double)w->fake.n_drafts}, {"read", (double)w->drafter.n_tok},
		{"beside", (double)w->drafter.n_steps},
		{"kept", metric_get(METRIC_KV_DISK_MADE)},
		/* bytes written for each byte that was made, in thousandths */
		{"amplification", metric_get(METRIC_KV_DISK_WRITTEN) * 1000 /
					  MAX(metric_get(METRIC_KV_DISK_MADE), 1)},
		{"files", metric_get(METRIC_KV_DISK_FILES)},
		{"thrown_out", metric_get(METRIC_KV_DISK_EVICTED)}};
	for (size_t i = 0; i < ARRAY_LEN(world_values); i++)
		if (!strcmp(world_values[i].key, key)) {
			*out = world_values[i].v;
			return true;
		}
	return false;
}

static bool client_number(const struct client *c, const char *key, int i_choice,
			  double *out)
{
	const struct client_choice *ch = &c->choices[i_choice];
	const struct request_stats *st = &c->stats;
	const struct {
		const char *key;
		double v;
	} client_values[] = {
		{"tokens", (double)ch->tokens.n}, {"all", client_n_tokens(c)},
		{"done", c->n_last && c->failed.code == OK},
		{"over", c->n_last}, {"started", c->i_started > 0},
		{"progress", c->n_prefilled}, {"gap", (double)ch->max_gap_us},
		{"cached", st->n_cached}, {"disk", st->n_disk}, {"miss_at", st->miss.at},
		{"preempted", st->n_preempted},
		{"drafted", st->n_drafted}, {"accepted", st->n_accepted},
		{"reasoning_tok", st->n_reasoning},
		{"queued_us", (double)(st->scheduled_us - st->arrival_us)},
		{"ttft_us", (double)(st->first_token_us - st->arrival_us)},
		{"got", (double)c->refused.got}, {"limit", (double)c->refused.limit}};
	for (size_t i = 0; i < ARRAY_LEN(client_values); i++)
		if (!strcmp(client_values[i].key, key)) {
			*out = client_values[i].v;
			return true;
		}
	return false;
}

static const char *client_string(const struct client *c, const char *key, int i)
{
	const struct client_choice *ch = &c->choices[i];
	if (!strcmp(key, "text"))
		return buf_str(&ch->text[OUT_CONTENT]).p;
	if (!strcmp(key, "reasoning"))
		return buf_str(&ch->text[OUT_REASONING]).p;
	if (!strcmp(key, "finish"))
		return finish_name(ch->finish);
	if (!strcmp(key, "stop"))
		return ch->stop;
	if (!strcmp(key, "miss"))
		return miss_name(c->stats.miss.reason);
	if (!strcmp(key, "fail"))
		return status_name(c->failed.code);
	if (!strcmp(key, "refused"))
		return status_name(c->refused.code);
	return NULL;
}

static bool same_tokens(const struct client_choice *a,
			const struct client_choice *b)
{
	return a->tokens.n == b->tokens.n &&
	       !memcmp(a->tokens.p, b->tokens.p, a->tokens.n * sizeof(int32_t));
}

static bool compare(double got, char op, double want)
{
	return op == '<' ? got <= want : op == '>' ? got >= want : got == want;
}

static bool in_order(const struct scenario *sc, char *names)
{
	int before = 0;
	for (char *save, *name = strtok_r(names, ",", &save); name;
	     name = strtok_r(NULL, ",", &save)) {
		int at = client_of(sc, name)->i_started;
		if (at <= before)
			return false;
		before = at;
	}
	return true;
}

static void say(const struct scenario *sc, bool pass, const char *fact,
		const char *got)
{
	if (!ok(pass, "%s:%d: %s", sc->name, sc->line, fact))
		printf("# it is %s\n", got);
}

/* NAME.key[.I[.J]] against want. */
static void client_fact(const struct scenario *sc, char *left, char op,
			const char *want, const char *fact)
{
	char *save, text[300];
	double v;
	struct client *c = client_of(sc, strtok_r(left, ".", &save));
	const char *key = strtok_r(NULL, ".", &save);
	const char *first = strtok_r(NULL, ".", &save);
	const char *second = first ? strtok_r(NULL, ".", &save) : NULL;
	int i = first ? atoi(first) : 0;
	if (!key || i >= client_n_choices(c))
		bad(sc, "no such value", fact);
	if (!strcmp(key, "same") || !strcmp(key, "differs")) {
		const struct client_choice *other =
			second ? &c->choices[atoi(second)]
			       : &client_of(sc, want)->choices[i];
		bool same = same_tokens(&c->choices[i], other);
		say(sc, same == !strcmp(key, "same"), fact, "not so");
	} else if (client_number(c, key, i, &v)) {
		snprintf(text, sizeof text, "%g", v);
		say(sc, compare(v, op, atof(want)), fact, text);
	} else if (client_string(c, key, i)) {
		snprintf(text, sizeof text, "'%s'", client_string(c, key, i));
		say(sc, !strcmp(client_string(c, key, i), want), fact, text);
	} else {
		bad(sc, "no such value", fact);
	}
}

static void check(const struct scenario *sc, char *word)
{
	char fact[300], text[60];
	double v;
	snprintf(fact, sizeof fact, "%s", word);
	char *eq = strchr(word, '=');
	if (!eq)
		bad(sc, "not a fact", word);
	char op = eq > word && strchr("<>", eq[-1]) ? eq[-1] : '=';
	*(op == '=' ? eq : eq - 1) = '\0';
	char *want = eq + 1;
	if (!strcmp(word, "order")) {
		say(sc, in_order(sc, want), fact, "another");
	} else if (strchr(word, '.')) {
		client_fact(sc, word, op, want, fact);
	} else if (world_number(sc, word, &v)) {
		snprintf(text, sizeof text, "%g", v);
		say(sc, compare(v, op, atof(want)), fact, text);
	} else {
		bad(sc, "no such value", fact);
	}
}

/* --- commands ------------------------------------------------------------ */

static void on_step(void *ctx)
{
	struct scenario *sc = ctx;
	char *words[WORDS_MAX], *line = sc->inside;
	if (!line)
		return;
	sc->inside = NULL;
	command(sc, words, split(line, words));
	free(line);
}

static void open_world(struct scenario *sc)
{
	if (sc->is_open)
		return;
	metrics_reset();
	world_init(&sc->w, &sc->opts);
	sc->w.fake.on_step = on_step;
	sc->w.fake.ctx = sc;
	sc->is_open = true;
}

static void settle(struct scenario *sc)
{
	if (!world_settle(&sc->w))
		ok(false, "%s:%d: it comes to rest", sc->name, sc->line);
}

static void wait_until(struct scenario *sc, int64_t time_us)
{
	struct fake *f = &sc->w.fake;
	while (f->now_us < time_us)
		if (!world_iterate(&sc->w))
			f->now_us = time_us;
}

static void wait_for(struct scenario *sc, char **words)
{
	struct client *c = client_of(sc, words[1]);
	double v = 0, want = atof(words[3]);
	for (int i = 0; i < TURNS_MAX; i++) {
		if (!client_number(c, words[2], 0, &v))
			bad(sc, "no such value", words[2]);
		if (v >= want)
			return;
		if (!world_iterate(&sc->w))
			break;
	}
	ok(false, "%s:%d: %s %s %s comes to pass", sc->name, sc->line, words[1],
	   words[2], words[3]);
}

static void keep_inside(struct scenario *sc, char **words, int n)
{
	struct buf b = {0};
	for (int i = 0; i < n; i++)
		buf_addf(&b, "%s ", words[i]);
	free(sc->inside);
	sc->inside = buf_take(&b);
}

static void command(struct scenario *sc, char **words, int n)
{
	const char *verb = words[0];
	int count = n > 1 ? atoi(words[1]) : 1;
	if (!strcmp(verb, "set")) {
		for (int i = 1; i < n; i++)
			config(sc, words[i]);
		return;
	}
	open_world(sc);
	if (!strcmp(verb, "at") && n > 2) {
		wait_until(sc, atoll(words[1]));
		command(sc, words + 2, n - 2);
	} else if (!strcmp(verb, "when") && n > 4) {
		wait_for(sc, words);
		command(sc, words + 4, n - 4);
	} else if (!strcmp(verb, "inside") && n > 1) {
		keep_inside(sc, words + 1, n - 1);
	} else if (!strcmp(verb, "submit") && n > 1) {
		submit(sc, words, n);
	} else if (!strcmp(verb, "cancel") && n > 1) {
		sched_cancel(sc->w.sched, client_of(sc, words[1])->r);
	} else if (!strcmp(verb, "fail")) {
		sc->w.fake.n_fail = count;
	} else if (!strcmp(verb, "nan")) {
		sc->w.fake.n_nan = count;
	} else if (!strcmp(verb, "drain")) {
		sched_drain(sc->w.sched);
	} else if (!strcmp(verb, "stop")) {
		sched_stop(sc->w.sched);
	} else if (!strcmp(verb, "restart")) {
		settle(sc);
		world_restart(&sc->w);
	} else if (!strcmp(verb, "settle")) {
		settle(sc);
	} else if (!strcmp(verb, "iterate")) {
		for (int i = 0; i < count; i++)
			world_iterate(&sc->w);
	} else if (!strcmp(verb, "expect") || !strcmp(verb, "check")) {
		if (*verb == 'e')
			settle(sc);
		for (int i = 1; i < n; i++)
			check(sc, words[i]);
	} else {
		bad(sc, "no such command", verb);
	}
}

static void run_scenario(const char *path)
{
	struct buf text = {0};
	struct fail f;
	const char *slash = strrchr(path, '/');
	struct scenario sc = {
		.name = slash ? slash + 1 : path,
		.opts = {.page = 4, .pages = 64, .ctx = 128, .seqs = 4,
			 .batch = 32, .queue = 16, .chunk = 8, .step_us = 1000,
			 .token_us = 100}};
	if (file_read(path, 1 << 20, &text, &f) != OK)
		bad(&sc, "cannot read", f.text);
	char *words[WORDS_MAX];
	char *rest = text.p, *line;
	while ((line = strsep(&rest, "\n"))) {
		sc.line++;
		int n = split(line, words);
		if (n > 0)
			command(&sc, words, n);
	}
	open_world(&sc);
	settle(&sc);
	const char *fault = world_fault(&sc.w);
	if (!ok(!fault, "%s: the rules of the end hold", sc.name))
		printf("# %s\n", fault);
	free(sc.inside);
	world_deinit(&sc.w);
	buf_deinit(&text);
}

static int is_scenario(const struct dirent *d)
{
	return str_ends(str_of(d->d_name), STR(".scn"));
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			run_scenario(argv[i]);
		return tap_done();
	}
	struct dirent **names;
	char dir[1024], path[2048];
	snprintf(dir, sizeof dir, "%s", tap_src("tests/sim"));
	int n = scandir(dir, &names, is_scenario, alphasort);
	ok(n > 0, "there are scenarios in %s", dir);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
		run_scenario(path);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return tap_done();
}
