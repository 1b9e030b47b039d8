/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/samples.h"

#include "tests/tap.h"

int main(void)
{
	struct samples s = {0};
	ok(isnan(samples_mean(&s)) && isnan(samples_quantile(&s, 0.5)),
	   "nothing has no mean");
	for (int i = 100; i >= 0; i--)
		samples_add(&s, i);
	is_near(samples_mean(&s), 50, 1e-12, "mean");
	is_near(samples_quantile(&s, 0.5), 50, 1e-12, "median");
	is_near(samples_quantile(&s, 0.99), 99, 1e-9, "p99");
	is_near(samples_quantile(&s, 0), 0, 0, "least");
	is_near(samples_quantile(&s, 1), 100, 0, "most");
	samples_add(&s, 1000);
	is_near(samples_quantile(&s, 0.5), 50.5, 1e-12, "between two neighbours");
	samples_deinit(&s);
	samples_add(&s, 2);
	struct buf b = {0};
	samples_add_json(&s, "ttft_ms", &b);
	is_str(b.p, "\"mean_ttft_ms\":2,\"median_ttft_ms\":2,\"p90_ttft_ms\":2,"
	       "\"p99_ttft_ms\":2", "as JSON");
	buf_deinit(&b);
	samples_deinit(&s);
	return tap_done();
}
