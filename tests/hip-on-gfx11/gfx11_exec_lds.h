/* SPDX-License-Identifier: Apache-2.0
 *
 * LDS (gfx11_exec.h includes this).
 */
#pragma once
/* Every active lane's n bytes at a[i]: in the workgroup's LDS, and aligned? */
static inline bool check_lds(struct wave *w, const struct inst *p, const u32 *a, u32 n,
		      enum lds_use use)
{
	u32 e = EXEC(w), high = 0, all = 0, limit = w->g->l->lds_bytes;
	u32 align = n > 8 ? 16 : n;
	LANE {
		u32 x = e >> i & 1 ? a[i] : 0;
		high = x > high ? x : high;
		all |= x;
	}
	if (e && ((u64)high + n > limit || all & (align - 1))) {
		wave_fault(w, p, "%u bytes at %x of LDS, of which the workgroup has %u: %s", n,
			   high, limit, (u64)high + n > limit ? "beyond" : "not aligned");
		return false;
	}
	if (w->g->n_waves > 1)
		check_lanes(w, p, a, e, n, use);
	return true;
}

static inline void lds_addresses(const struct wave *w, const struct inst *p, i32 offset,
				 u32 *a)
{
	const u32 *x = w->v[p->s[0].reg];
	LANE a[i] = x[i] + (u32)offset;
}

static inline void lds_count(struct wave *w, const u32 *a, u32 n)
{
	if (__builtin_expect(w->g->l->is_counting, 0))
		count_banks(w->g, a, EXEC(w), n);
}

static inline void lds_load(struct wave *w, const struct inst *p, u32 n, enum part part)
{
	VECTOR(a);
	u32 e = EXEC(w);
	lds_addresses(w, p, p->imm, a);
	const unsigned char *lds = w->g->lds;
	if (check_lds(w, p, a, n, LDS_READ)) {
		if (e == FULL && n == 16) {
			u64 from[LANES] __attribute__((aligned(64)));
			LANE from[i] = (u64)(uintptr_t)lds + a[i];
			load_fours(&w->v[p->d.reg], from);
		} else {
			LANE if (e >> i & 1)
				lane_load(w, p->d.reg, i, lds + a[i], n, part);
		}
	}
	lds_count(w, a, n);
	wave_load_vgprs(w, p->d.reg, (n + 3) / 4, false, true);
}

static inline void lds_store(struct wave *w, const struct inst *p, u32 n, enum part part)
{
	VECTOR(a);
	u32 e = EXEC(w);
	lds_addresses(w, p, p->imm, a);
	if (check_lds(w, p, a, n, LDS_WRITE))
		LANE if (e >> i & 1)
			lane_store(w, p->s[1].reg, i, w->g->lds + a[i], n, part);
	lds_count(w, a, n);
	wave_lds_access(w);
}

/* Two places, at offsets in units of `unit` bytes. */
static inline void lds_load2(struct wave *w, const struct inst *p, u32 n, i32 unit)
{
	VECTOR(a);
	VECTOR(b);
	u32 e = EXEC(w), words = n / 4;
	lds_addresses(w, p, p->imm * unit, a);
	lds_addresses(w, p, p->imm1 * unit, b);
	if (check_lds(w, p, a, n, LDS_READ) && check_lds(w, p, b, n, LDS_READ))
		LANE if (e >> i & 1) {
			lane_load(w, p->d.reg, i, w->g->lds + a[i], n, PART_WORDS);
			lane_load(w, p->d.reg + words, i, w->g->lds + b[i], n, PART_WORDS);
		}
	lds_count(w, a, n);
	lds_count(w, b, n);
	wave_load_vgprs(w, p->d.reg, 2 * words, false, true);
}

static inline void lds_store2(struct wave *w, const struct inst *p, u32 n, i32 unit)
{
	VECTOR(a);
	VECTOR(b);
	u32 e = EXEC(w);
	lds_addresses(w, p, p->imm * unit, a);
	lds_addresses(w, p, p->imm1 * unit, b);
	if (check_lds(w, p, a, n, LDS_WRITE) && check_lds(w, p, b, n, LDS_WRITE))
		LANE if (e >> i & 1) {
			lane_store(w, p->s[1].reg, i, w->g->lds + a[i], n, PART_WORDS);
			lane_store(w, p->s[2].reg, i, w->g->lds + b[i], n, PART_WORDS);
		}
	lds_count(w, a, n);
	lds_count(w, b, n);
	wave_lds_access(w);
}

static inline void lds_add(struct wave *w, const struct inst *p)
{
	VECTOR(a);
	VECTOR(old);
	u32 e = EXEC(w);
	lds_addresses(w, p, p->imm, a);
	if (check_lds(w, p, a, 4, LDS_ATOMIC))
		LANE if (e >> i & 1) {
			memcpy(&old[i], w->g->lds + a[i], 4);
			u32 sum = old[i] + w->v[p->s[1].reg][i];
			memcpy(w->g->lds + a[i], &sum, 4);
		}
	lds_count(w, a, 4);
	if (p->d.kind) {
		write_vgpr(w, p->d.reg, old);
		wave_load_vgprs(w, p->d.reg, 1, false, true);
	} else {
		wave_lds_access(w);
	}
}

#define LDS_LOAD(name, n, part)                                                            \
	DEF(ds_##name)                                                                      \
	{                                                                                   \
		lds_load(w, p, n, part);                                                    \
	}
#define LDS_STORE(name, n, part)                                                           \
	DEF(ds_##name)                                                                      \
	{                                                                                   \
		lds_store(w, p, n, part);                                                   \
	}
LDS_LOAD(load_u8, 1, PART_WORDS)
LDS_LOAD(load_i8, 1, PART_SIGNED)
LDS_LOAD(load_u16, 2, PART_WORDS)
LDS_LOAD(load_i16, 2, PART_SIGNED)
LDS_LOAD(load_u16_d16, 2, PART_LOW)
LDS_LOAD(load_u16_d16_hi, 2, PART_HIGH)
LDS_LOAD(load_b32, 4, PART_WORDS)
LDS_LOAD(load_b64, 8, PART_WORDS)
LDS_LOAD(load_b96, 12, PART_WORDS)
LDS_LOAD(load_b128, 16, PART_WORDS)
LDS_STORE(store_b8, 1, PART_WORDS)
LDS_STORE(store_b16, 2, PART_WORDS)
LDS_STORE(store_b16_d16_hi, 2, PART_HIGH)
LDS_STORE(store_b32, 4, PART_WORDS)
LDS_STORE(store_b64, 8, PART_WORDS)
LDS_STORE(store_b96, 12, PART_WORDS)
LDS_STORE(store_b128, 16, PART_WORDS)

DEF(ds_load_2addr_b32)
{
	lds_load2(w, p, 4, 4);
}

DEF(ds_load_2addr_stride64_b32)
{
	lds_load2(w, p, 4, 256);
}

DEF(ds_load_2addr_b64)
{
	lds_load2(w, p, 8, 8);
}

DEF(ds_store_2addr_b32)
{
	lds_store2(w, p, 4, 4);
}

DEF(ds_store_2addr_stride64_b32)
{
	lds_store2(w, p, 4, 256);
}

DEF(ds_store_2addr_b64)
{
	lds_store2(w, p, 8, 8);
}

DEF(ds_add_u32)
{
	lds_add(w, p);
}

DEF(ds_add_rtn_u32)
{
	lds_add(w, p);
}

/* Each lane reads the lane that its address names, in units of 4 bytes. */
DEF(ds_bpermute_b32)
{
	VECTOR(o);
	const u32 *a = w->v[p->s[0].reg], *x = w->v[p->s[1].reg];
	u32 e = EXEC(w), bad = 0;
	LANE {
		u32 from = (a[i] + (u32)p->imm) >> 2 & 31;
		bad |= (u32)!(e >> from & 1) << i;
		o[i] = e >> from & 1 ? x[from] : 0;
	}
	if (bad & e)
		wave_fault(w, p, "reads from an inactive lane (lanes %08x, EXEC %08x)",
			   bad & e, e);
	out(w, p, o);
	wave_load_vgprs(w, p->d.reg, 1, false, true);
}
