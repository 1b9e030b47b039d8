/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as audio. What is read keeps to the limits and has a spectrogram of finite numbers;
 * what is refused has words. Built without the libraries it sees only that all is refused.
 */
#include <build-config.h>

#include <assert.h>
#include <math.h>

#include "audio/mel.h"
#include "base/work.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_US = 250000, N_SEEN = 1700 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct audio_limits limits = {1 << 20, MAX_US};
	struct audio a;
	struct mel m;
	struct work_budget w;
	struct fail fail = {0};
	work_begin(&w, 10000000);
	enum status st = audio_decode((struct str){(const char *)data, n}, &limits, &a, &fail);
	work_end();
#ifdef HAVE_AUDIO
	assert(st != E_UNSUPPORTED); /* the libraries are not there */
#endif
	if (st != OK) {
		assert(fail.text[0] && !a.samples);
		return 0;
	}
	assert(a.n >= AUDIO_RATE / 10 && audio_us(&a) <= MAX_US + 1000);
	for (int64_t i = 0; i < a.n; i++)
		assert(isfinite(a.samples[i]));
	a.n = a.n < N_SEEN ? a.n : N_SEEN; /* the spectrogram of more would be slow */
	if (mel_compute(&a, 8, &m, &fail) == OK)
		for (int32_t i = 0; i < m.n_bands * m.n_frames; i++)
			assert(isfinite(m.rows[i]));
	mel_deinit(&m);
	audio_deinit(&a);
	return 0;
}
