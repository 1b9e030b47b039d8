/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores: queries by keys. C has the layout of A, so weights need no exchange. A part of
 * dialect_cuda.h.
 */
#pragma once
typedef tile_a<TILE_F16> score_query, score_weight;
typedef tile_b<TILE_F16> score_key, score_value;
enum { SCORE_SLOTS = TILE_ROWS };

DEVICE int32_t score_query_at(int32_t i) { return tile_row(i); }
DEVICE int32_t score_other_at(int32_t i) { return tile_column(i); }
DEVICE int32_t score_slot(int32_t i) { return tile_slot(i); }
/* c.v[0] and c.v[2] are of a lane's two rows. */
DEVICE int32_t score_slot_query(int32_t s) { return tile_row(s * 2); }

DEVICE score_query score_load_query(const uint16_t *p, int32_t stride)
{
	return tile_load_a<TILE_F16>(p, stride);
}

DEVICE score_key score_load_key(const uint16_t *p, int32_t stride)
{
	return tile_load_b<TILE_F16>(p, stride);
}

DEVICE score_value score_load_value(const uint16_t *p, int32_t stride)
{
	return tile_load_b_rows<TILE_F16>(p, stride);
}

DEVICE tile_c score_mma(score_query q, score_key k, tile_c c) { return tile_mma(q, k, c); }
DEVICE tile_c score_add(score_weight w, score_value v, tile_c c) { return tile_mma(w, v, c); }
DEVICE float score_max(float x) { return tile_row_max(x); }
DEVICE void score_totals(const tile_c &c, float *out) { tile_row_totals(c, out); }

DEVICE score_weight score_weight_of(const tile_c &c)
{
	return tile_a_of_c<TILE_F16>(c, nullptr);
}
