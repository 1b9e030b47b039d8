/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk through instructions that a script prints as llvm-objdump does: loops with trip
 * counts from arguments, lanes that leave early, branches on what is not known, addresses,
 * and waves that meet at a barrier.
 */
#include "lab/walk.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

/* Lines of a kernel at 0x100, four bytes each. */
static const char text[] =
	"0000000000000100 <k>:\n"
	"\ts_load_b64 s[4:5], s[0:1], 0x0 // 000000000100: 0\n"
	"\ts_load_b32 s6, s[0:1], 0x8 // 000000000104: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 000000000108: 0\n"
	/* 16 bytes a thread, and n more steps of 8 KiB */
	"\tv_lshlrev_b32_e32 v1, 4, v0 // 00000000010C: 0\n"
	"\ts_mov_b32 s7, 0 // 000000000110: 0\n"
	"\tglobal_load_b128 v[4:7], v1, s[4:5] slc // 000000000114: 0\n"
	"\ts_add_i32 s7, s7, 1 // 000000000118: 0\n"
	"\tv_dual_mov_b32 v8, v9 :: v_dual_mov_b32 v9, v8 // 00000000011C: 0\n"
	"\ts_waitcnt vmcnt(0) // 000000000120: 0\n"
	"\ts_cmp_lt_i32 s7, s6 // 000000000124: 0\n"
	"\ts_cbranch_scc1 65530 // 000000000128: 0 <k+0x14>\n"
	/* the lower half of each wave stores */
	"\tv_and_b32_e32 v2, 31, v0 // 00000000012C: 0\n"
	"\tv_cmpx_gt_u32_e32 16, v2 // 000000000130: 0\n"
	"\tglobal_store_b32 v1, v4, s[4:5] // 000000000134: 0\n"
	/* what was loaded decides: it is done, and the loop ends */
	"\tv_readfirstlane_b32 s8, v4 // 000000000138: 0\n"
	"\ts_cmp_eq_u32 s8, 7 // 00000000013C: 0\n"
	"\ts_cbranch_scc1 1 // 000000000140: 0 <k+0x48>\n"
	"\tv_exp_f32_e32 v3, v4 // 000000000144: 0\n"
	"\ts_cbranch_scc1 65535 // 000000000148: 0 <k+0x44>\n"
	/* lanes 32 words apart in LDS: one bank, 16 lanes */
	"\tv_lshlrev_b32_e32 v3, 7, v2 // 00000000014C: 0\n"
	"\tds_store_b32 v3, v2 // 000000000150: 0\n"
	"\ts_endpgm // 000000000154: 0\n";

/* The second wave stores an argument in LDS. Behind the barrier both waves read it, and
 * load as often as it says. */
static const char shared_text[] =
	"0000000000000100 <k>:\n"
	"\ts_load_b32 s6, s[0:1], 0x8 // 000000000100: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 000000000104: 0\n"
	"\tv_mov_b32_e32 v5, s6 // 000000000108: 0\n"
	"\tv_mov_b32_e32 v6, 0 // 00000000010C: 0\n"
	"\tv_cmpx_eq_u32_e32 32, v0 // 000000000110: 0\n"
	"\tds_store_b32 v6, v5 // 000000000114: 0\n"
	"\ts_mov_b32 exec_lo, -1 // 000000000118: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 00000000011C: 0\n"
	"\ts_barrier // 000000000120: 0\n"
	"\tds_load_b32 v7, v6 // 000000000124: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 000000000128: 0\n"
	"\tv_readfirstlane_b32 s8, v7 // 00000000012C: 0\n"
	"\ts_mov_b32 s7, 0 // 000000000130: 0\n"
	"\tglobal_load_b32 v4, v6, s[4:5] // 000000000134: 0\n"
	"\ts_add_i32 s7, s7, 1 // 000000000138: 0\n"
	"\ts_cmp_lt_i32 s7, s8 // 00000000013C: 0\n"
	"\ts_cbranch_scc1 65532 // 000000000140: 0 <k+0x34>\n"
	"\ts_endpgm // 000000000144: 0\n";

static bool read_nothing(void *ctx, uint64_t at, size_t n, void *out)
{
	return false;
}

struct arguments {
	uint64_t p;
	int32_t n;
};

static void test_counts(struct walk_cache *c, int32_t x, int32_t y, int n_threads)
{
	struct code_kernel k = {.name = (char *)(uintptr_t)"k", .kernarg_bytes = 16,
				.begin = 0x100, .end = 0x158};
	struct arguments a = {.p = 1 << 20, .n = 5};
	struct walk_launch l = {.kernel = &k, .code = "code", .arch = "gfx1151", .kernarg = &a,
				.x = x, .y = y, .n_threads = n_threads,
				.latency = {.dram = 1000, .cache = 500, .first_scalar = 100,
					    .scalar = 50, .lds = 30, .matrix = 32, .vector = 5,
					    .to_memory = 18, .barrier = 18, .store = 298},
				.read = read_nothing};
	struct walk_count n;
	struct fail fail = {0};
	double waves = (double)x * y * n_threads / 32, slack = 1e-5 * waves;
	if (!ok(walk_run(c, &l, &n, &fail) == OK, "a walk: %s", fail.text))
		return;
	is_near(n.waves, waves, 0, "%d by %d: waves", x, y);
	is_near(n.issued[WALK_LOAD], 5 * waves, slack, "the loop's loads: by the argument");
	is_near(n.issued[WALK_DUAL], 5 * waves, slack, "dual instructions");
	is_near(n.issued[WALK_VALU], 5 * waves, slack, "vector instructions");
	is_near(n.issued[WALK_TRANS], waves, slack, "what may be skipped is done, once");
	is_near(n.load_bytes, 5 * 512 * waves, slack, "bytes loaded");
	is_near(n.stream_bytes, n.load_bytes, slack, "all of them a stream");
	is_near(n.store_bytes, 16 * 4 * waves, slack, "half of the lanes store");
	is_near(n.lines, (5 * 4 + 2) * waves, slack, "lines of 128 bytes");
	is_near(n.lds_cycles, 16 * waves, slack, "LDS: sixteen words of one bank");
	is_near(n.unknown, 2 * waves, slack, "branches on what is not known");
	ok(n.wave_cycles > 5400 && n.wave_cycles < 5500, "five waits for memory, and a store: "
	   "%.0f cycles", n.wave_cycles);
	is_near(n.ramp_cycles, 102 + 18 + 1 + 1000, 1, "the ramp: arguments, an address, a load");
	ok(n.tail_cycles > 300 && n.tail_cycles < 350, "the tail: a store, %.0f cycles",
	   n.tail_cycles);
}

/* Each result is waited for as long as traces of a gfx1100 show. */
static const char waits_text[] =
	"0000000000000100 <k>:\n"
	"\ts_load_b64 s[4:5], s[0:1], 0x0 // 000000000100: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 000000000104: 0\n"
	"\tv_lshlrev_b32_e32 v1, 2, v0 // 000000000108: 0\n"
	"\tv_add_nc_u32_e32 v2, v1, v1 // 00000000010C: 0\n"
	"\tv_mov_b32_e32 v3, 0 // 000000000110: 0\n"
	"\tds_store_b32 v1, v2 // 000000000114: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 000000000118: 0\n"
	"\ts_barrier // 00000000011C: 0\n"
	"\ts_load_b32 s6, s[0:1], 0x8 // 000000000120: 0\n"
	"\ts_waitcnt lgkmcnt(0) // 000000000124: 0\n"
	"\tglobal_store_b32 v1, v2, s[4:5] // 000000000128: 0\n"
	"\ts_endpgm // 00000000012C: 0\n";

static void test_waits(struct walk_cache *c)
{
	struct code_kernel k = {.name = (char *)(uintptr_t)"k", .kernarg_bytes = 16,
				.begin = 0x100, .end = 0x130};
	struct arguments a = {.p = 1 << 20};
	struct walk_launch l = {.kernel = &k, .code = "code", .arch = "gfx1151", .kernarg = &a,
				.x = 1, .y = 1, .n_threads = 64,
				.latency = {.first_scalar = 1325, .scalar = 150, .lds = 32,
					    .vector = 5, .to_memory = 18, .barrier = 18,
					    .store = 298},
				.read = read_nothing};
	struct walk_count n;
	struct fail fail = {0};
	if (!ok(walk_run(c, &l, &n, &fail) == OK, "a chain: %s", fail.text))
		return;
	double want = 1 + 1325 /* arguments */ + 5 /* v1 to v2 */ + 18 + 1 /* v2 to LDS */ +
		      1 + 32 /* LDS */ + 18 /* barrier */ + 1 + 150 /* more arguments */ +
		      1 + 298 /* a store, until the wave ends */;
	is_near(n.wave_cycles, want, 0.5, "each result is waited for");
	is_near(n.ramp_cycles + n.tail_cycles, 0, 0, "without a load there is no ramp");
}

/* A wave goes beyond a barrier after all others have come to it. */
static void test_barrier(struct walk_cache *c)
{
	struct code_kernel k = {.name = (char *)(uintptr_t)"k", .kernarg_bytes = 16,
				.begin = 0x100, .end = 0x148};
	struct arguments a = {.n = 5};
	struct walk_launch l = {.kernel = &k, .code = "code", .arch = "gfx1151", .kernarg = &a,
				.x = 1, .y = 1, .n_threads = 64, .read = read_nothing};
	struct walk_count n;
	struct fail fail = {0};
	if (!ok(walk_run(c, &l, &n, &fail) == OK, "two waves: %s", fail.text))
		return;
	is_near(n.issued[WALK_BARRIER], 2, 0, "each wave comes to the barrier once");
	is_near(n.unknown, 0, 0, "what another wave stored is known behind the barrier");
	is_near(n.issued[WALK_LOAD], 2 * 5, 0, "both waves load as often as it says");
}

static void test_faults(struct walk_cache *none)
{
	struct code_kernel k = {.name = (char *)(uintptr_t)"k", .begin = 0x100, .end = 0x158};
	struct walk_launch l = {.kernel = &k, .code = "code", .arch = "gfx1151", .x = 1,
				.y = 1, .n_threads = 32, .read = read_nothing};
	struct walk_count n;
	struct fail fail = {0};
	is_int(walk_run(none, &l, &n, &fail), E_FORMAT, "a disassembler that fails");
	l.code = "it's";
	is_int(walk_run(none, &l, &n, &fail), E_IO, "a quote in a name");
}

/* A script that prints text. False: it was not written. */
static bool write_script(char *path, const char *what)
{
	int fd = mkstemp(path);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!ok(f != NULL, "a script"))
		return false;
	fprintf(f, "#!/bin/sh\ncat <<'END'\n%sEND\n", what);
	fclose(f);
	return ok(chmod(path, 0700) == 0, "a script that can be run");
}

int main(void)
{
	char path[] = "/tmp/test_walk-XXXXXX", shared_path[] = "/tmp/test_walk-XXXXXX";
	char waits_path[] = "/tmp/test_walk-XXXXXX";
	if (!write_script(path, text) || !write_script(shared_path, shared_text) ||
	    !write_script(waits_path, waits_text))
		return tap_done();
	struct walk_cache *waits = walk_cache_create(waits_path);
	struct walk_cache *c = walk_cache_create(path), *none = walk_cache_create("false");
	struct walk_cache *shared = walk_cache_create(shared_path);
	test_counts(c, 1, 1, 32);
	test_counts(c, 40, 1, 256);
	test_counts(c, 3, 700, 64);
	test_counts(c, 100000, 1, 64);
	test_barrier(shared);
	test_waits(waits);
	test_faults(none);
	walk_cache_destroy(c);
	walk_cache_destroy(none);
	walk_cache_destroy(shared);
	walk_cache_destroy(waits);
	unlink(waits_path);
	unlink(path);
	unlink(shared_path);
	return tap_done();
}
