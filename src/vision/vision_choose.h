/* SPDX-License-Identifier: Apache-2.0
 *
 * Which frames of a file of video a model sees. Thread: any.
 */
#pragma once
#include "vision/vision.h"
#include "vision/vision_config.h"

/* As of vision_video_choose. */
enum status vision_choose(const struct vision_config *c, struct vision_choice *io,
			  struct fail *fail) MUST_USE;
