/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <sched.h>

#include "tests/tap.h"

static void test_create(void)
{
	struct backend *b = NULL;
	struct fail fail = {0};
	struct backend_opts o = {.name = "abacus"};
	is_int(backend_create(&o, &b, &fail), E_CONFIG, "a backend that is none");
	is_str(fail.param, "backend", "the key is named");
	ok(strstr(fail.text, "abacus") != NULL, "and what it said: %s", fail.text);
	o = (struct backend_opts){.name = "cpu", .n_threads = -1};
	is_int(backend_create(&o, &b, &fail), E_CONFIG, "fewer than no threads");
	o.n_threads = 1 << 20;
	is_int(backend_create(&o, &b, &fail), E_CONFIG, "very many threads");
	ok(b == NULL, "nothing was made");
	o.n_threads = 2;
	is_int(backend_create(&o, &b, &fail), OK, "two threads");
	is_str(b->name, "cpu", "its name");
	ok(strstr(b->device, ", 2 threads") != NULL, "its device: %s", b->device);
	is_int(b->act_type, DTYPE_F32, "its activations");
	ok(b->kv_type == DTYPE_F32 || b->kv_type == DTYPE_F16, "its cache");
	backend_destroy(b);
	o.exact = true;
	is_int(backend_create(&o, &b, &fail), OK, "exact");
	is_int(b->kv_type, DTYPE_F32, "its cache");
	o.cpu_isa = "mmx";
	is_int(backend_create(&o, &b, &fail), E_CONFIG, "an instruction set that is none");
	is_str(fail.param, "cpu_isa", "the key is named");
	backend_destroy(b);
	backend_destroy(NULL);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

/* cpu_isa: every set is there or not this processor's, and "auto" is the first that is
 * there and not slow. */
static void test_isa(void)
{
	static const char *const sets[] = {"avx512_bf16", "avx512", "avx2", "portable"};
	const char *best = NULL;
	char end[32];
	for (int i = 0; i < 4; i++) {
		struct backend *b = NULL;
		struct fail fail = {0};
		struct backend_opts o = {.name = "cpu", .n_threads = 1, .cpu_isa = sets[i]};
		enum status st = backend_create(&o, &b, &fail);
		snprintf(end, sizeof end, ", %s", sets[i]);
		ok(st == E_UNSUPPORTED || (st == OK && ends_with(b->device, end)),
		   "%s: %s", sets[i], st == OK ? b->device : fail.text);
		bool is_slow = false;
#ifdef __x86_64__
		is_slow = i == 0 && __builtin_cpu_is("intel");
#endif
		if (st == OK && !best && !is_slow)
			best = sets[i];
		backend_destroy(b);
	}
	struct backend *b = NULL;
	struct backend_opts o = {.name = "cpu", .n_threads = 1, .cpu_isa = "auto"};
	is_int(backend_create(&o, &b, NULL), OK, "auto");
	snprintf(end, sizeof end, ", %s", best);
	ok(ends_with(b->device, end), "auto: %s, of %s", best, b->device);
	backend_destroy(b);
}

static int n_cpus(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/* cpu_pin: whoever computes, for as long as that takes. */
static void test_pin(void)
{
	struct backend *b = NULL;
	struct backend_opts o = {.name = "cpu", .n_threads = 1};
	int n = n_cpus();
	for (int pins = 0; pins < 2; pins++) {
		bool runs = false, is_again = true;
		o.cpu_pin = pins;
		if (backend_create(&o, &b, NULL) != OK)
			abort();
		is_int(n_cpus(), n, "a backend leaves its maker alone");
		is_int(b->ops->step_begin(b, 1, &runs), OK, "a step");
		is_int(n_cpus(), pins ? 1 : n, "cpu_pin %d: the CPUs of who computes", pins);
		is_int(b->ops->step_end(b, &is_again), OK, "ends");
		ok(!is_again, "and is not done twice");
		is_int(n_cpus(), n, "and of who has computed");
		backend_destroy(b);
	}
}

static void test_memory(void)
{
	struct backend *b = NULL;
	struct backend_opts o = {.name = "cpu", .n_threads = 1};
	if (backend_create(&o, &b, NULL) != OK)
		abort();
	static const size_t sizes[] = {0, 1, 255, 256, 4096, 1000003};
	bool aligned = true, zero = true;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		void *p = NULL;
		is_int(b->ops->alloc(b, sizes[i], &p), OK, "%zu bytes", sizes[i]);
		aligned &= (uintptr_t)p % 256 == 0;
		char *copy = malloc(sizes[i] + 1);
		if (b->ops->download(b, copy, p, sizes[i]) != OK)
			abort();
		for (size_t j = 0; j < sizes[i]; j++)
			zero &= copy[j] == 0;
		memset(copy, 7, sizes[i]);
		if (b->ops->upload(b, p, copy, sizes[i]) != OK ||
		    b->ops->sync(b, NULL) != OK)
			abort();
		free(copy);
		b->ops->free(b, p);
	}
	ok(aligned, "memory is aligned to 256 bytes");
	ok(zero, "and zero");
	void *p = NULL;
	is_int(b->ops->alloc(b, SIZE_MAX, &p), E_NOMEM, "all memory there could be");
	ok(p == NULL, "nothing was handed out");
	b->ops->free(b, NULL);
	backend_destroy(b);
}

int main(void)
{
	test_create();
	test_isa();
	test_pin();
	test_memory();
	return tap_done();
}
