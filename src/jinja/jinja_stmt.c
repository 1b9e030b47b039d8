/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs statements and macros, and renders a template.
 *
 * Output goes to the caller's text. While a macro, a set block or a filter block runs,
 * output goes into a string instead (`capture`). Each statement returns how
 * control flow continues. break and continue are passed up as such; the captured text of
 * the blocks that they leave is dropped.
 *
 * A scope runs with a frame: an array of slots numbered by jinja_scope.c, and a pointer
 * to the enclosing frame. A loop refills one frame for all passes. If a macro is defined
 * inside, each pass gets a new frame, because the macro keeps the frame of its
 * definition.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/work.h"
#include "jinja/jinja_ast.h"

#define UNITS_A_STEP 8 /* of base/work.h */

enum jflow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };

static enum jflow run_one(struct jrt *rt, struct jframe *f, const struct stmt *s);

static enum jflow run_block(struct jrt *rt, struct jframe *f, const struct jblock *b)
{
	enum jflow flow = FLOW_NEXT;
	for (int i = 0; i < b->n && flow == FLOW_NEXT; i++)
		flow = run_one(rt, f, b->p[i]);
	return flow;
}

/* --- output -------------------------------------------------------------- */

static bool emit_out(struct jrt *rt, const struct jstr *s)
{
	size_t used = rt->out->text.n - rt->out_base;
	if (s->n > rt->out_max - used ||
	    rt->out->n_marks > rt->mem_max / sizeof *rt->out->marks)
		return jrt_limit(rt, "writes too much");
	if (!s->n_marks) {
		marked_add(rt->out, (struct str){s->p, s->n}, s->trust);
		return true;
	}
	size_t from = 0;
	for (size_t i = 0; from < s->n; i++) {
		size_t end = MIN(s->marks[i].end, s->n);
		marked_add(rt->out, (struct str){s->p + from, end - from},
			   s->marks[i].trust);
		from = end;
	}
	return true;
}

/* Writes str(v); undefined writes nothing. */
static bool emit(struct jrt *rt, struct jinja_value *v)
{
	if (v->kind == J_UNDEFINED)
		return true;
	if (v->kind != J_STRING && !(v = jrepr_str(rt, v)))
		return false;
	if (!jrt_work(rt, v->s.n / 16))
		return false;
	if (!rt->capture)
		return emit_out(rt, &v->s);
	jtext_add_jstr(rt->capture, &v->s);
	return !rt->capture->failed;
}

/* Runs body with its output going to a string. *out is set if the flow is FLOW_NEXT. */
static enum jflow capture_block(struct jrt *rt, struct jframe *f,
				const struct jblock *body, struct jinja_value **out)
{
	struct jtext *outer = rt->capture;
	struct jtext *text = rt->capture = jtext_new(rt, 0);
	enum jflow flow = run_block(rt, f, body);
	rt->capture = outer;
	if (flow == FLOW_NEXT && !(*out = jtext_finish(text)))
		flow = FLOW_FAIL;
	return flow;
}

/* --- frames and assignment ----------------------------------------------- */

/* Sets the slots to their values before the scope's first statement. */
static void fill_frame(struct jrt *rt, const struct scope *sc, struct jframe *frame)
{
	for (int i = 0; i < sc->n_slots; i++) {
		const struct jload *l = &sc->loads[i];
		struct jframe *from = frame;
		switch (l->how) {
		case LOAD_GLOBAL:
			frame->slots[i] = rt->globals[l->from];
			break;
		case LOAD_OUTER:
			for (int up = l->up; up > 0; up--)
				from = from->parent;
			frame->slots[i] = from->slots[l->from];
			break;
		default:
			frame->slots[i] = NULL;
		}
	}
}

static struct jframe *enter_scope(struct jrt *rt, const struct scope *sc,
				  struct jframe *parent)
{
	struct jframe *frame = arena_alloc(rt->arena, sizeof *frame +
					   (size_t)sc->n_slots * sizeof *frame->slots);
	frame->parent = parent;
	fill_frame(rt, sc, frame);
	return frame;
}

static struct jframe *frame_of(struct jframe *f, const struct expr *name)
{
	for (int up = name->up; up > 0; up--)
		f = f->parent;
	return f;
}

static bool assign(struct jrt *rt, struct jframe *f, const struct expr *target,
		   struct jinja_value *v);

static bool assign_tuple(struct jrt *rt, struct jframe *f, const struct expr *target,
			 struct jinja_value *v)
{
	struct jiter it;
	if (!jiter_init(rt, &it, v))
		return false;
	for (int i = 0; i < target->n; i++) {
		struct jinja_value *item = jiter_next(rt, &it);
		if (!item)
			return jrt_fail(rt, "not enough values to unpack (expected %d, "
					"got %d)", target->n, i);
		if (!assign(rt, f, target->items[i], item))
			return false;
	}
	if (jiter_next(rt, &it))
		return jrt_fail(rt, "too many values to unpack (expected %d)", target->n);
	return !jrt_failed(rt);
}

static bool assign(struct jrt *rt, struct jframe *f, const struct expr *target,
		   struct jinja_value *v)
{
	if (target->kind == EX_TUPLE)
		return assign_tuple(rt, f, target, v);
	if (target->kind == EX_NAME) {
		frame_of(f, target)->slots[target->slot] = v;
		return true;
	}
	struct jinja_value *ns = frame_of(f, target->a)->slots[target->a->slot];
	if (!ns || ns->kind != J_NAMESPACE)
		return jrt_fail(rt, "cannot assign attribute on non-namespace object");
	jdict_put_str(rt->arena, &ns->d, target->name, v);
	return true;
}

/* --- statements ---------------------------------------------------------- */

static enum jflow run_output(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	for (int i = 0; i < s->n; i++) {
		struct jinja_value *v = jeval(rt, f, s->items[i]);
		if (!v || !emit(rt, v))
			return FLOW_FAIL;
	}
	return FLOW_NEXT;
}

static enum jflow run_if(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	for (int i = 0; i < s->n_branches; i++) {
		const struct branch *b = &s->branches[i];
		struct jinja_value *test = b->test ? jeval(rt, f, b->test) : &jval_true;
		if (!test)
			return FLOW_FAIL;
		if (jval_truth(test))
			return run_block(rt, f, &b->body);
	}
	return FLOW_NEXT;
}

/* Evaluates the `if` of a `for` for one item. It has a frame of its own, so the names it
 * sets do not hide names of the loop's body. */
bool jstmt_for_test(struct jrt *rt, const struct stmt *s, struct jframe *f,
		    struct jinja_value *item)
{
	struct jframe *frame = enter_scope(rt, s->test_scope, f);
	struct jinja_value *test = assign(rt, frame, s->target, item)
				 ? jeval(rt, frame, s->test) : NULL;
	return test && jval_truth(test);
}

static enum jflow run_for(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	struct jinja_value *iterable = jeval(rt, f, s->expr);
	struct jloop *loop = arena_alloc(rt->arena, sizeof *loop);
	if (!iterable || !jiter_init(rt, &loop->it, iterable))
		return FLOW_FAIL;
	loop->it.filter = s->test ? s : NULL;
	loop->it.frame = f;
	loop->index0 = loop->length = -1;
	struct jinja_value *self = jval_new(rt->arena, J_LOOP);
	self->loop = loop;

	struct jframe *frame = NULL;
	bool ran = false;
	while (jloop_next(rt, loop)) {
		if (!frame || s->scope->is_captured)
			frame = enter_scope(rt, s->scope, f);
		else
			fill_frame(rt, s->scope, frame);
		frame->slots[s->loop_slot] = self;
		if (!jrt_work(rt, 64) || !assign(rt, frame, s->target, loop->current))
			return FLOW_FAIL;
		enum jflow flow = run_block(rt, frame, &s->body);
		if (flow == FLOW_FAIL)
			return FLOW_FAIL;
		if (flow == FLOW_BREAK)
			break;
		/* as in Jinja, a pass that `continue` left does not suppress `else` */
		ran |= flow == FLOW_NEXT;
	}
	if (jrt_failed(rt))
		return FLOW_FAIL;
	if (ran || !s->else_.n)
		return FLOW_NEXT;
	return run_block(rt, enter_scope(rt, s->else_scope, f), &s->else_);
}

static enum jflow run_set(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	struct jinja_value *v = jeval(rt, f, s->expr);
	return v && assign(rt, f, s->target, v) ? FLOW_NEXT : FLOW_FAIL;
}

/* Passes the body's text through the block's filters, if there are any. */
static enum jflow run_filtered(struct jrt *rt, struct jframe *f, const struct stmt *s,
			       struct jinja_value **out)
{
	struct jframe *frame = enter_scope(rt, s->scope, f);
	enum jflow flow = capture_block(rt, frame, &s->body, out);
	if (flow != FLOW_NEXT || !s->expr)
		return flow;
	struct jinja_value *outer = rt->block_text;
	rt->block_text = *out;
	*out = jeval(rt, frame, s->expr);
	rt->block_text = outer;
	return *out ? FLOW_NEXT : FLOW_FAIL;
}

/* All values are evaluated in the enclosing scope: in `with a=1, b=a`, b does not see the
 * new a. */
static enum jflow run_with(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	struct jframe *frame = enter_scope(rt, s->scope, f);
	for (int i = 0; i < s->n; i++) {
		struct jinja_value *v = jeval(rt, f, s->items[i]);
		if (!v || !assign(rt, frame, s->params[i], v))
			return FLOW_FAIL;
	}
	return run_block(rt, frame, &s->body);
}

/* Writes the result of a filter or call block, which must be a string: no str() is
 * applied. */
static enum jflow emit_text(struct jrt *rt, struct jinja_value *v)
{
	if (v->kind != J_STRING)
		jrt_fail(rt, "a block gives a string, not '%s'", jval_type(v));
	return !jrt_failed(rt) && emit(rt, v) ? FLOW_NEXT : FLOW_FAIL;
}

static struct jinja_value *new_macro(struct jrt *rt, struct jframe *f,
				     const struct stmt *s)
{
	struct jinja_value *v = jval_new(rt->arena, J_MACRO);
	v->macro.def = s;
	v->macro.frame = f;
	return v;
}

static enum jflow run_kind(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	struct jinja_value *v;
	enum jflow flow;
	switch (s->kind) {
	case ST_OUTPUT: return run_output(rt, f, s);
	case ST_IF: return run_if(rt, f, s);
	case ST_FOR: return run_for(rt, f, s);
	case ST_SET: return run_set(rt, f, s);
	case ST_SET_BLOCK:
		flow = run_filtered(rt, f, s, &v);
		return flow != FLOW_NEXT ? flow :
		       assign(rt, f, s->target, v) ? FLOW_NEXT : FLOW_FAIL;
	case ST_FILTER:
		flow = run_filtered(rt, f, s, &v);
		return flow != FLOW_NEXT ? flow : emit_text(rt, v);
	case ST_MACRO:
		return assign(rt, f, s->target, new_macro(rt, f, s)) ? FLOW_NEXT
								     : FLOW_FAIL;
	case ST_CALL:
		v = jeval_call(rt, f, s->expr, new_macro(rt, f, s));
		return v ? emit_text(rt, v) : FLOW_FAIL;
	case ST_WITH: return run_with(rt, f, s);
	case ST_GENERATION:
		return run_block(rt, enter_scope(rt, s->scope, f), &s->body);
	case ST_BREAK: return FLOW_BREAK;
	case ST_CONTINUE: return FLOW_CONTINUE;
	}
	return FLOW_FAIL;
}

static enum jflow run_one(struct jrt *rt, struct jframe *f, const struct stmt *s)
{
	if (!jrt_enter(rt, s->line))
		return FLOW_FAIL;
	enum jflow flow = run_kind(rt, f, s);
	jrt_leave(rt);
	return flow;
}

/* --- macros -------------------------------------------------------------- */

/* Moves the arguments that remain after the parameters to `kwargs` and `varargs`. */
static bool bind_rest(struct jrt *rt, const struct stmt *def, struct jframe *frame,
		      const struct jargs *args)
{
	int n = (int)def->name.n;
	const char *p = def->name.p;
	if (def->special_slot[SPECIAL_KWARGS] >= 0) {
		struct jinja_value *kwargs = jinja_dict(rt->arena);
		jcall_put_kws(rt, args, &kwargs->d);
		frame->slots[def->special_slot[SPECIAL_KWARGS]] = kwargs;
	} else {
		for (int i = 0; i < args->n_kw; i++)
			if (args->kw[i].value)
				return jrt_fail(rt, "macro '%.*s' takes no keyword "
						"argument '%.*s'", n, p,
						(int)args->kw[i].name.n,
						args->kw[i].name.p);
	}
	if (def->special_slot[SPECIAL_VARARGS] >= 0) {
		struct jinja_value *varargs = jval_seq(rt->arena, J_TUPLE, 0);
		for (int i = def->n_params; i < args->n_pos; i++)
			jval_seq_add(rt->arena, varargs, args->pos[i]);
		frame->slots[def->special_slot[SPECIAL_VARARGS]] = varargs;
	} else if (args->n_pos > def->n_params) {
		return jrt_fail(rt, "macro '%.*s' takes not more than %d argument(s)",
				n, p, def->n_params);
	}
	return true;
}

/* Binds positional arguments, then keywords, then the special variables that the body
 * mentions, then defaults. A default may use the parameters before it. */
static bool bind_macro(struct jrt *rt, const struct stmt *def, struct jframe *frame,
		       const struct jargs *args)
{
	for (int i = 0; i < def->n_params; i++) {
		const struct expr *p = def->params[i];
		if (!jrt_work(rt, (size_t)args->n_kw))
			return false;
		struct jinja_value *v = i < args->n_pos ? args->pos[i] : NULL;
		for (int k = 0; !v && k < args->n_kw; k++) {
			if (!args->kw[k].value || !str_eq(args->kw[k].name, p->name))
				continue;
			v = args->kw[k].value;
			args->kw[k].value = NULL;
		}
		frame->slots[p->slot] = v;
	}
	int caller = def->special_slot[SPECIAL_CALLER];
	if (caller >= 0) {
		struct jinja_value *v = jcall_take_kw(args, "caller");
		frame->slots[caller] = v && v->kind != J_NONE ? v :
				       jrt_undef_hint(rt, "No caller defined");
	}
	if (!bind_rest(rt, def, frame, args))
		return false;
	for (int i = 0; i < def->n_params; i++) {
		struct jinja_value **slot = &frame->slots[def->params[i]->slot];
		if (!*slot && def->defaults[i] &&
		    !(*slot = jeval(rt, frame, def->defaults[i])))
			return false;
		if (!*slot)
			*slot = jrt_undef_hint(rt, "a parameter was not provided");
	}
	return true;
}

struct jinja_value *jstmt_call_macro(struct jrt *rt, struct jinja_value *macro,
				     const struct jargs *args)
{
	const struct stmt *def = macro->macro.def;
	struct jframe *frame = enter_scope(rt, def->scope, macro->macro.frame);
	struct jinja_value *out = NULL;
	if (!bind_macro(rt, def, frame, args) ||
	    capture_block(rt, frame, &def->body, &out) != FLOW_NEXT)
		return NULL;
	return out;
}

/* --- rendering ----------------------------------------------------------- */

/* Looks up each context name once: the context cannot change while a template runs. The
 * caller's variables hide builtin functions of the same name. */
static void look_up_globals(struct jrt *rt)
{
	const struct jinja *j = rt->j;
	size_t n = (size_t)j->n_globals + 1;
	rt->globals = arena_alloc(rt->arena, sizeof *rt->globals * n);
	for (int i = 0; i < j->n_globals; i++) {
		struct str name = j->global_names[i];
		rt->globals[i] = rt->env->globals ?
				 jdict_get_str(&rt->env->globals->d, name) : NULL;
		const struct jbuiltin *fn = jglobal_find(name);
		if (rt->globals[i] || !fn)
			continue;
		rt->globals[i] = jval_new(rt->arena, J_NATIVE);
		rt->globals[i]->native.fn = fn;
	}
}

enum status jinja_render(const struct jinja *j, const struct jinja_env *env,
			 struct marked *out, struct fail *fail)
{
	const struct jinja_limits *l = &env->limits;
	struct jrt rt = {
		.arena = env->arena, .j = j, .env = env, .out = out, .line = 1,
		.mem_base = env->arena->n_bytes,
		.mem_max = l->max_memory_bytes ? l->max_memory_bytes : (size_t)256 << 20,
		.out_base = out->text.n,
		.out_max = l->max_output_bytes ? l->max_output_bytes : (size_t)64 << 20,
		.steps = l->max_steps ? l->max_steps : 50000000,
		.depth = l->max_depth ? l->max_depth : 200,
	};
	size_t n_marks = out->n_marks;
	int64_t paid = (int64_t)(work_left() / UNITS_A_STEP);
	bool is_poor = paid < rt.steps;
	int64_t steps = rt.steps = MIN(rt.steps, paid);
	look_up_globals(&rt);
	run_block(&rt, enter_scope(&rt, j->scope, NULL), &j->body);
	/* A rendering that took the last step was not finished. */
	work_spend(WORK_TEMPLATE, is_poor && rt.steps <= 0
					  ? work_left() + 1
					  : UNITS_A_STEP * (size_t)(steps - MAX(rt.steps, 0)));
	if (!jrt_failed(&rt))
		return OK;
	/* remove the output of the failed rendering */
	out->text.n = rt.out_base;
	out->n_marks = n_marks;
	if (n_marks)
		out->marks[n_marks - 1].end = rt.out_base;
	if (fail)
		*fail = rt.fail;
	return rt.fail.code;
}
