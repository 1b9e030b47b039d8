/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/states.h"

#include "tests/tap.h"

int main(void)
{
	struct states *s;
	is_int(states_create(3, &s), OK, "three slots");
	int32_t a = states_alloc(s), b = states_alloc(s), c = states_alloc(s);
	ok(a != b && b != c && a != c && a >= 0 && b >= 0 && c >= 0, "are different ones");
	is_int(states_alloc(s), -1, "and no more");
	is_int(states_available(s), 0, "none is to be had");
	ok(states_is_private(s, a), "one holder may write");
	states_hold(s, a);
	ok(!states_is_private(s, a), "two may not");
	states_release(s, a);
	states_keep(s, a, 17);
	ok(!states_is_private(s, a), "nor may one write a checkpoint");
	is_int(states_find(s, 17), a, "which is found by its prefix");
	is_int(states_find(s, 18), -1, "and by no other");
	is_int(states_find(s, KVCACHE_ROOT), -1, "the empty prefix needs none");
	states_release(s, a);
	is_int(states_available(s), 1, "a checkpoint that nobody holds can be had");
	is_int(states_find(s, 17), a, "and is still found");
	states_keep(s, b, 18);
	states_release(s, b);
	states_keep(s, c, 18);
	is_int(states_find(s, 18), b, "the first checkpoint of a prefix stays");
	ok(states_is_private(s, c), "the second is none");
	states_touch(s, a);
	is_int(states_alloc(s), b, "the least recently used goes first");
	is_int(states_find(s, 18), -1, "and is forgotten");
	is_int(states_n_kept(s), 1, "one is left");
	states_hold(s, a);
	is_int(states_alloc(s), -1, "one that is held does not go");
	states_release(s, a);
	states_drop(s, 17);
	is_int(states_n_kept(s), 0, "dropped");
	is_int(states_alloc(s), a, "its slot is free");
	states_release(s, -1);
	states_destroy(s);
	states_destroy(NULL);
	return tap_done();
}
