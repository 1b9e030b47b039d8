/* SPDX-License-Identifier: Apache-2.0
 *
 * What the headers of parts have in common. A part is a piece of a layer that several families
 * have. It knows no model: a family fills in its struct (struct attention and so on) and gives
 * each call one struct of arguments. Thread: engine.
 */
#pragma once
#include "backend/backend.h"

struct graph;
struct graph_ids;
struct graph_step;
struct engine_replay;
struct engine_batch;
struct layer;
