/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded first-in first-out queue of pointers. Any thread may push and pop. Memory is
 * allocated once, at creation.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue *queue_create(size_t capacity);
void queue_destroy(struct queue *q); /* NULL is allowed; items are not freed */
/* Returns false when full. Wakes one waiter. */
bool queue_push(struct queue *q, void *item);
/* Returns NULL when empty. */
void *queue_pop(struct queue *q);
/* Wait until there is an item, queue_wake() is called, or timeout_us (>= 0)
 * have passed. Does not pop. */
void queue_wait(struct queue *q, int64_t timeout_us);
/* Make the current queue_wait return, or the next one if none is waiting. */
void queue_wake(struct queue *q);
size_t queue_count(const struct queue *q);
