/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_config.json of PEFT, for lora.c alone. Thread: one at a time.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

struct lora_peft;
/* Reads the file of a folder. What is not computed here is E_UNSUPPORTED, with the key. */
enum status lora_peft_open(const char *dir, struct lora_peft **out, struct fail *fail) MUST_USE;
void lora_peft_close(struct lora_peft *p);
/* The factor of B A of the module with this name and rank. */
enum status lora_peft_scale(const struct lora_peft *p, const char *module, int32_t rank,
			    float *out, struct fail *fail) MUST_USE;
/* True if a version before 0.19 saved it, which takes the columns of a stacked parameter (E, N, K)
 * for its outputs. */
bool lora_peft_swaps_sides(const struct lora_peft *p);
/* What a tensor is that is neither A nor B, for a message. */
const char *lora_peft_other(const char *tensor);
