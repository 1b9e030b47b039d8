/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine asks of a graph between steps (struct engine_graph). Thread: engine.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Pages or states between the device and host memory. */
struct engine_move {
	bool is_load;      /* to the device */
	bool is_state;
	const int32_t *at; /* (n) pages, or slots */
	int n;
	void *host;        /* one behind the other */
	/* host is of engine_graph.pinned. A load then only begins: host has to stay until
	 * move_wait. */
	bool is_pinned;
};

/* A state goes on through n_tok tokens of the last forward, from its token first_tok on. The
 * inputs of its layers are known, so only the recurrence runs, and with the same bits. */
struct engine_replay {
	int i_seq;                 /* index of the sequence in that forward */
	int32_t first_tok, n_tok;
	/* Like struct seq_states, for one sequence; save_at counts from first_tok. */
	int32_t from, to, save, save_at;
};
