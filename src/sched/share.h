/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt that a running choice computes is not computed a second time. A choice in line
 * whose prompt begins alike waits until the common pages are in the cache, and finds them
 * there. Thread: engine.
 */
#pragma once
#include <stdbool.h>

struct sched;
struct sched_choice;

/* Should c, which holds no pages, wait for pages that a running choice (s->run) is about to
 * fill? The running choice is asked to leave its recurrent state there, too. */
bool share_waits(struct sched *s, struct sched_choice *c);
