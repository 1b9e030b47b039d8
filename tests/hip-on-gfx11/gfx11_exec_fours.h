/* SPDX-License-Identifier: Apache-2.0
 *
 * Four words at a time: loads of 16 bytes, and what LDS notes of each word
 * (gfx11_exec.h includes this).
 */
#pragma once
typedef u32 four __attribute__((vector_size(16)));

/* 16 bytes of each lane, by four lanes at a time: their words change rows and columns. */
static inline void load_fours(u32 (*d)[LANES], const u64 *a)
{
	for (int i = 0; i < LANES; i += 4) {
		four x[4], o[4];
		for (int k = 0; k < 4; k++)
			memcpy(&x[k], (const void *)(uintptr_t)a[i + k], 16);
		four p = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
		four q = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
		four r = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
		four s = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
		o[0] = __builtin_shufflevector(p, q, 0, 1, 4, 5);
		o[1] = __builtin_shufflevector(p, q, 2, 3, 6, 7);
		o[2] = __builtin_shufflevector(r, s, 0, 1, 4, 5);
		o[3] = __builtin_shufflevector(r, s, 2, 3, 6, 7);
		for (int k = 0; k < 4; k++)
			memcpy(&d[k][i], &o[k], 16);
	}
}

/* One lane's access to LDS, within it, beside those of other waves. In the common cases
 * nobody used the word since the barrier, or this wave alone in the same way, or many
 * waves read it. */
static inline void check_words(struct wave *w, const struct inst *p, u32 a, u32 n,
			       enum lds_use use)
{
	struct group *g = w->g;
	lds_tag now = g->epoch << TAG_EPOCH, mine = now | w->number;
	for (u32 i = a / 4; i <= (a + n - 1) / 4; i++) {
		lds_tag *tag = use == LDS_READ ? &g->was_read[i] : &g->written[i];
		lds_tag other = use == LDS_READ ? g->written[i] : g->was_read[i];
		bool is_many = use == LDS_READ && *tag >= now && *tag & TAG_MANY;
		if (use == LDS_ATOMIC || other >= now || (*tag >= now && *tag != mine && !is_many))
			wave_check_word(w, p, i, n < 4, use);
		else if (!is_many)
			*tag = mine;
	}
}

/* Four tags at a time. Is anything uncommon about them: of a read, that they were written since
 * the barrier; of a write, that they were read, or another wave wrote them? */
static inline four are_odd(four own, four others, lds_tag now, lds_tag mine, enum lds_use use)
{
	four is_odd = (four)(others >= now);
	return use == LDS_READ ? is_odd : is_odd | (four)((own >= now) & (own != mine));
}

static inline four fours(const lds_tag *from)
{
	four x;
	memcpy(&x, from, sizeof x);
	return x;
}

/* n words, a multiple of four. False: something is uncommon, and no tag has changed. */
static inline bool check_run(lds_tag *own, const lds_tag *others, u32 n, lds_tag now,
			     lds_tag mine, enum lds_use use)
{
	four is_odd = {0};
	for (u32 k = 0; k < n; k += 4)
		is_odd |= are_odd(fours(own + k), fours(others + k), now, mine, use);
	if (is_odd[0] | is_odd[1] | is_odd[2] | is_odd[3])
		return false;
	for (u32 k = 0; k < n; k += 4) {
		four t = fours(own + k);
		t = ((four)((t >= now) & (t != mine)) & TAG_MANY) | mine;
		memcpy(own + k, &t, sizeof t);
	}
	return true;
}

/* The words of all lanes `e`, n bytes each, by check_words where something is uncommon. */
static inline void check_lanes(struct wave *w, const struct inst *p, const u32 *a, u32 e, u32 n,
			       enum lds_use use)
{
	struct group *g = w->g;
	lds_tag now = g->epoch << TAG_EPOCH, mine = now | w->number;
	lds_tag *own = use == LDS_READ ? g->was_read : g->written;
	const lds_tag *others = use == LDS_READ ? g->written : g->was_read;
	u32 apart = n % 4 || use == LDS_ATOMIC || e != FULL;
	LANE apart |= a[i] ^ (a[0] + (u32)i * n);
	if (!apart && check_run(own + a[0] / 4, others + a[0] / 4, LANES * n / 4, now, mine, use))
		return;
	bool is_wide = n == 16 && use != LDS_ATOMIC;
	LANE if (e >> i & 1) {
		u32 at = a[i] / 4;
		if (!is_wide || !check_run(own + at, others + at, 4, now, mine, use))
			check_words(w, p, a[i], n, use);
	}
}
