/* SPDX-License-Identifier: Apache-2.0
 *
 * The log-mel spectrogram against Transformers' (tests/golden/audio/mel.tsv), and at the ends of
 * what audio may be.
 */
#include "audio/mel.h"

#include "tests/unit/audio/golden.h"

/* WAV of 16 bits with a head of 44 bytes; needs no library. */
static void read_wav(const char *name, struct audio *out)
{
	struct buf b = {0};
	golden_read(name, &b);
	out->n = (int64_t)(b.n - 44) / 2;
	out->samples = malloc((size_t)out->n * sizeof *out->samples);
	for (int64_t i = 0; i < out->n; i++) {
		int16_t v;
		memcpy(&v, b.p + 44 + 2 * i, sizeof v);
		out->samples[i] = (float)v / 32768;
	}
	buf_deinit(&b);
}

static void test_golden(void)
{
	struct audio a = {0};
	struct mel m;
	struct buf list = {0};
	read_wav("mel.wav", &a);
	golden_read("mel.tsv", &list);
	is_int(mel_compute(&a, 128, &m, NULL), OK, "computed");
	double most = 0;
	int n = 0;
	char *p = list.p;
	for (; *p; p += *p == '\n') {
		int t = (int)strtol(p, &p, 10);
		for (int i = 0; i < 128; i++, n++)
			most = worse_of(most, fabs(strtod(p, &p) - m.rows[i * m.n_frames + t]));
	}
	ok(n > 0 && most <= 1e-4, "%d numbers differ from Transformers' by %.2g at most", n, most);
	is_int(m.n_frames, 33, "frames");
	mel_deinit(&m);
	audio_deinit(&a);
	buf_deinit(&list);
}

static void test_ends(void)
{
	float silence[1759] = {0};
	struct mel m;
	for (int n = 1600; n <= 1759; n += 159) {
		const struct audio a = {.n = n, .samples = silence};
		ok(mel_compute(&a, 80, &m, NULL) == OK && m.n_frames == 10 && m.n_bands == 80,
		   "%d samples are ten frames", n);
		bool same = true;
		for (int i = 0; i < 800; i++)
			same &= m.rows[i] == -1.5f;
		ok(same, "silence is (-10 + 4) / 4");
		mel_deinit(&m);
	}
	for (int i = 0; i < 1759; i++)
		silence[i] = i % 2 ? 1e6f : -1e6f;
	const struct audio loud = {.n = 1759, .samples = silence};
	bool finite = mel_compute(&loud, 128, &m, NULL) == OK;
	for (int i = 0; i < 1280; i++)
		finite &= isfinite(m.rows[i]);
	ok(finite, "the loudest audio has finite numbers");
	mel_deinit(&m);
}

int main(void)
{
	test_golden();
	test_ends();
	ok(audio_hold(0, AUDIO_HELD_MAX + 1), "nothing is held");
	const struct audio a = {.n = 1600, .samples = (float[1600]){0}};
	struct mel m;
	is_int(mel_compute(&a, 128, &m, NULL), E_NOMEM, "beside what others hold there is no room");
	audio_let(AUDIO_HELD_MAX + 1);
	ok(audio_hold(0, AUDIO_HELD_MAX + 1), "nor does it hold any");
	return tap_done();
}
