/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and stores of memory by lanes (gfx11_exec.h includes this). A load
 * writes its registers at once and marks them busy until its wait.
 */
#pragma once
/* --- addresses ---------------------------------------------------------------------- */

static inline void addresses(const struct wave *w, const struct inst *p, u64 *a)
{
	u64 offset = (u64)(i64)p->imm;
	const u32 *lo = w->v[p->s[0].reg];
	if (p->s[2].kind) {
		u64 base = (w->s[p->s[2].reg] | (u64)w->s[p->s[2].reg + 1] << 32) + offset;
		LANE a[i] = base + lo[i];
	} else {
		const u32 *hi = w->v[p->s[0].reg + 1];
		LANE a[i] = (lo[i] | (u64)hi[i] << 32) + offset;
	}
}

/* Are all active lanes' n bytes within allocations, and aligned as the instruction needs
 * it? (Loads: halves only. gfx11 on Linux reads and writes at any address; halod's
 * kernels rely on it for loads of 16 bytes at even addresses, and for nothing else.) */
static bool check_addresses(struct wave *w, const struct inst *p, const u64 *a, u32 n,
			    unsigned access, struct span *span)
{
	struct group *g = w->g;
	u32 e = EXEC(w), align = access != MAY_READ ? (n < 4 ? n : 4) : n < 2 ? n : 2;
	u64 lo = ~0ull, hi = 0, all = 0;
	LANE {
		u64 is = e >> i & 1 ? ~0ull : 0, x = a[i];
		u64 low = x | ~is, high = x & is;
		lo = low < lo ? low : lo;
		hi = high > hi ? high : hi;
		all |= high;
	}
	*span = (struct span){lo, hi + n};
	if (all & (align - 1)) {
		wave_fault(w, p, "%u bytes at an address that is not aligned (%llx ...)", n,
			   (unsigned long long)lo);
		return false;
	}
	const struct range **cached = &g->cache[(p->address >> 2) % RANGE_CACHE];
	const struct range *r = *cached;
	if (r && lo >= r->lo && hi + n <= r->hi && (r->allows & access))
		return true;
	r = launch_range(g->l, lo, hi + n, access);
	if (r) {
		*cached = r;
		return true;
	}
	LANE if (e >> i & 1 && !launch_range(g->l, a[i], a[i] + n, access)) {
		wave_fault(w, p, "lane %d %s %u bytes at %llx: %s", i,
			   access == MAY_READ ? "reads" : "writes", n,
			   (unsigned long long)a[i],
			   launch_refusal(g->l, a[i], a[i] + n, access));
		return false;
	}
	return true;
}

/* --- what a lane holds ---------------------------------------------------------------- */

/* How the bytes of a load or store lie in registers. */
enum part { PART_WORDS, PART_SIGNED, PART_LOW, PART_HIGH };

static inline void lane_load(struct wave *w, u32 reg, int i, const void *from, u32 n,
			     enum part part)
{
	u32 t[4] = {0};
	memcpy(t, from, n);
	if (part == PART_SIGNED)
		t[0] = n == 1 ? (u32)(i32)(int8_t)t[0] : (u32)(i32)(i16)t[0];
	else if (part == PART_LOW)
		t[0] |= w->v[reg][i] & 0xFFFF0000;
	else if (part == PART_HIGH)
		t[0] = t[0] << 16 | (w->v[reg][i] & 0xFFFF);
	for (u32 j = 0; j < (n + 3) / 4; j++)
		w->v[reg + j][i] = t[j];
}

static inline void lane_store(const struct wave *w, u32 reg, int i, void *to, u32 n,
			      enum part part)
{
	u32 t[4];
	for (u32 j = 0; j < (n + 3) / 4; j++)
		t[j] = w->v[reg + j][i];
	if (part == PART_HIGH)
		t[0] >>= 16;
	memcpy(to, t, n);
}

/* Of a FLAT access: the lanes whose address is in LDS. */
static inline u32 lanes_in_lds(const struct wave *w, const u64 *a)
{
	u32 mask = 0;
	LANE mask |= (u32)(a[i] >> 32 == SHARED_APERTURE) << i;
	return mask & EXEC(w);
}

static inline bool check_lds_lane(struct wave *w, const struct inst *p, u32 a, u32 n,
				  enum lds_use use)
{
	if ((u64)a + n > w->g->l->lds_bytes || a & (n - 1 > 7 ? 15 : n - 1)) {
		wave_fault(w, p, "%u bytes at %x of LDS, of which the workgroup has %u: %s", n,
			   a, w->g->l->lds_bytes,
			   (u64)a + n > w->g->l->lds_bytes ? "beyond" : "not aligned");
		return false;
	}
	check_words(w, p, a, n, use);
	return true;
}

static void flat_lds(struct wave *w, const struct inst *p, const u64 *a, u32 lanes, u32 n,
		     enum part part, bool is_store)
{
	LANE {
		if (!(lanes >> i & 1) ||
		    !check_lds_lane(w, p, (u32)a[i], n, is_store ? LDS_WRITE : LDS_READ))
			continue;
		unsigned char *at = w->g->lds + (u32)a[i];
		if (is_store)
			lane_store(w, p->s[1].reg, i, at, n, part);
		else
			lane_load(w, p->d.reg, i, at, n, part);
	}
}

/* --- by lanes ------------------------------------------------------------------------- */

static inline void load_lanes(struct wave *w, const struct inst *p, u32 n, enum part part,
			      bool is_flat)
{
	u64 a[LANES] __attribute__((aligned(64)));
	u32 e = EXEC(w), saved = e;
	struct group *g = w->g;
	addresses(w, p, a);
	if (is_flat) {
		u32 lds = lanes_in_lds(w, a);
		flat_lds(w, p, a, lds, n, part, false);
		e &= ~lds;
	}
	EXEC(w) = e;
	struct span span;
	bool is_good = !e || check_addresses(w, p, a, n, MAY_READ, &span);
	EXEC(w) = saved;
	if (is_good && e == FULL && n == 16) {
		load_fours(&w->v[p->d.reg], a);
	} else if (is_good) {
		LANE if (e >> i & 1)
			lane_load(w, p->d.reg, i, (const void *)(uintptr_t)a[i], n, part);
	}
	if (is_good && e && __builtin_expect(caches_may_have(&span, a, e, n), 0))
		caches_load(w, p, a, e, n);
	wave_load_vgprs(w, p->d.reg, (n + 3) / 4, true, is_flat);
	if (g->l->is_counting) {
		u64 bytes = (u64)__builtin_popcount(e) * n;
		g->counts.load_bytes += bytes;
		g->counts.stream_bytes += p->slc ? bytes : 0;
		count_lines(g, a, e, n, false);
	}
}

static inline void store_lanes(struct wave *w, const struct inst *p, u32 n, enum part part,
			       bool is_flat)
{
	u64 a[LANES] __attribute__((aligned(64)));
	u32 e = EXEC(w), saved = e;
	struct group *g = w->g;
	addresses(w, p, a);
	if (is_flat) {
		u32 lds = lanes_in_lds(w, a);
		flat_lds(w, p, a, lds, n, part, true);
		e &= ~lds;
		wave_lds_access(w);
	}
	EXEC(w) = e;
	struct span span;
	bool is_good = !e || check_addresses(w, p, a, n, MAY_WRITE, &span);
	EXEC(w) = saved;
	LANE if (is_good && e >> i & 1)
		lane_store(w, p->s[1].reg, i, (void *)(uintptr_t)a[i], n, part);
	if (is_good)
		caches_store(w, a, e, n);
	wave_check_store(w, p);
	if (g->l->is_counting) {
		g->counts.store_bytes += (u64)__builtin_popcount(e) * n;
		count_lines(g, a, e, n, true);
	}
}

/* n: bytes of a number, 4 or 8. */
static inline void atomic_add_lanes(struct wave *w, const struct inst *p, u32 n, bool is_flat)
{
	u64 a[LANES] __attribute__((aligned(64)));
	VECTOR(old);
	VECTOR(high);
	u32 e = EXEC(w);
	addresses(w, p, a);
	if (is_flat && lanes_in_lds(w, a)) {
		wave_fault(w, p, "a flat atomic of LDS is not modelled");
		return;
	}
	struct span span;
	wave_check_atomic(w, p);
	if (e && !check_addresses(w, p, a, n, MAY_COUNT, &span))
		return;
	caches_store(w, a, e, n);
	LANE if (e >> i & 1) {
		u32 reg = p->s[1].reg;
		u64 x = w->v[reg][i] | (n == 8 ? (u64)w->v[reg + 1u][i] << 32 : 0);
		u64 was = n == 8 ? __atomic_fetch_add((u64 *)(uintptr_t)a[i], x,
						      __ATOMIC_SEQ_CST)
				 : __atomic_fetch_add((u32 *)(uintptr_t)a[i], (u32)x,
						      __ATOMIC_SEQ_CST);
		old[i] = (u32)was;
		high[i] = (u32)(was >> 32);
	}
	if (p->d.kind) {
		caches_ticket(w);
		write_vgpr(w, p->d.reg, old);
		if (n == 8)
			write_vgpr(w, p->d.reg + 1u, high);
		wave_load_vgprs(w, p->d.reg, n / 4, true, is_flat);
	} else {
		w->n_stores++;
	}
	if (w->g->l->is_counting) {
		w->g->counts.store_bytes += (u64)__builtin_popcount(e) * n;
		count_lines(w->g, a, e, n, true);
	}
}

#define ACCESS(kind, name, n, part)                                                        \
	DEF(global_##name)                                                                  \
	{                                                                                   \
		kind##_lanes(w, p, n, part, false);                                         \
	}                                                                                   \
	DEF(flat_##name)                                                                    \
	{                                                                                   \
		kind##_lanes(w, p, n, part, true);                                          \
	}
ACCESS(load, load_u8, 1, PART_WORDS)
ACCESS(load, load_i8, 1, PART_SIGNED)
ACCESS(load, load_u16, 2, PART_WORDS)
ACCESS(load, load_i16, 2, PART_SIGNED)
ACCESS(load, load_d16_b16, 2, PART_LOW)
ACCESS(load, load_d16_hi_b16, 2, PART_HIGH)
ACCESS(load, load_b32, 4, PART_WORDS)
ACCESS(load, load_b64, 8, PART_WORDS)
ACCESS(load, load_b96, 12, PART_WORDS)
ACCESS(load, load_b128, 16, PART_WORDS)
ACCESS(store, store_b8, 1, PART_WORDS)
ACCESS(store, store_b16, 2, PART_WORDS)
ACCESS(store, store_d16_hi_b16, 2, PART_HIGH)
ACCESS(store, store_b32, 4, PART_WORDS)
ACCESS(store, store_b64, 8, PART_WORDS)
ACCESS(store, store_b96, 12, PART_WORDS)
ACCESS(store, store_b128, 16, PART_WORDS)

DEF(global_atomic_add_u32)
{
	atomic_add_lanes(w, p, 4, false);
}

DEF(flat_atomic_add_u32)
{
	atomic_add_lanes(w, p, 4, true);
}

DEF(global_atomic_add_u64)
{
	atomic_add_lanes(w, p, 8, false);
}

DEF(flat_atomic_add_u64)
{
	atomic_add_lanes(w, p, 8, true);
}
