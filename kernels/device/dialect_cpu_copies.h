/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of dialect_cpu.h where DIALECT_TRIES_COPIES is defined: hardware that copies to LDS, as an
 * NVIDIA GPU does (dialect_cuda_rows.h), so that fibers execute the kernels' other way to LDS. A
 * copy lands when its thread waits, and not before. So a kernel that reads without a wait finds
 * what LDS had before.
 */
#pragma once

#define DIALECT_COPIES_TO_LDS
enum { COPY_LANDS = 0 };
template <int N> struct copy_ahead {
};

/* A thread's copies on their way. */
struct dialect_copies {
	enum { MOST = 256 };
	struct {
		uint16_t *to;
		const uint16_t *from;
		bool is_there;
	} at[MOST];
	uint32_t n;      /* asked for */
	uint32_t end[3]; /* where sets end that are closed: the last one, the one before, ... */
};

/* Those of this thread. A new workgroup has none, even if the last one did not wait. */
DEVICE dialect_copies *dialect_copies_of()
{
	enum { MOST_THREADS = 1024, SEEN = 1 };
	static thread_local dialect_copies all[MOST_THREADS];
	LDS(uint8_t, seen, MOST_THREADS);
	uint32_t i = thread_index();
	if (seen[i] != SEEN)
		all[i].n = all[i].end[0] = all[i].end[1] = all[i].end[2] = 0;
	seen[i] = SEEN;
	return &all[i];
}

template <int N>
DEVICE void copy_ask(copy_ahead<N> *, int, uint16_t *to, const uint16_t *from, bool is_there)
{
	dialect_copies *c = dialect_copies_of();
	if (c->n == c->MOST)
		__builtin_trap(); /* more than any kernel has on their way */
	c->at[c->n++] = {to, from, is_there};
}

template <int N>
DEVICE void copy_ask_once(copy_ahead<N> *c, int i, uint16_t *to, const uint16_t *from,
			  bool is_there)
{
	copy_ask(c, i, to, from, is_there);
}

template <int N> DEVICE void copy_land(copy_ahead<N> *, int, uint16_t *, bool) {}

/* The first n copies land; those behind them stay on their way. */
DEVICE void dialect_copies_land(dialect_copies *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		u32x4 piece = *(const u32x4 *)c->at[i].from; /* always read: it must be readable */
		*(u32x4 *)c->at[i].to = c->at[i].is_there ? piece : u32x4{};
	}
	for (uint32_t i = n; i < c->n; i++)
		c->at[i - n] = c->at[i];
	c->n -= n;
	for (uint32_t &end : c->end)
		end -= n < end ? n : end;
}

DEVICE void copy_wait()
{
	dialect_copies *c = dialect_copies_of();
	dialect_copies_land(c, c->n);
}

DEVICE void copy_close()
{
	dialect_copies *c = dialect_copies_of();
	c->end[2] = c->end[1];
	c->end[1] = c->end[0];
	c->end[0] = c->n;
}

template <int N> DEVICE void copy_wait_but()
{
	static_assert(N == 1 || N == 2, "as many sets as are remembered");
	dialect_copies *c = dialect_copies_of();
	dialect_copies_land(c, c->end[N]);
}

/* Values lie in LDS as they are, not transposed. */
DEVICE tile_a<TILE_F16> score_load_value(const uint16_t *p, int32_t stride)
{
	tile_a<TILE_F16> out;
	for (int k = 0; k < 16; k++)
		out.line.v[k] = f16_to_f32(p[k * stride + tile_column(0)]);
	return out;
}
