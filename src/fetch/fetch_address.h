/* SPDX-License-Identifier: Apache-2.0
 *
 * IP addresses of hosts: can anybody on the internet reach them? A server that fetches for
 * clients must not give them access to its own private network. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

/* An IPv6 address that holds an IPv4 one (::ffff:a.b.c.d) is stored as IPv4. */
struct fetch_address {
	bool is_v6;
	uint8_t bytes[16]; /* IPv4 uses the first four; the rest is 0 */
};

/* False: the address is neither IPv4 nor IPv6. */
bool fetch_address_of(const struct sockaddr *a, struct fetch_address *out);
/* Parses "192.168.1.5", "fd00::5" or "[fd00::5]". False: text is no IP address. */
bool fetch_address_parse(const char *text, struct fetch_address *out);
bool fetch_address_eq(const struct fetch_address *a, const struct fetch_address *b);
/* False for addresses that are private, local, shared, reserved, for documents, or for
 * several hosts; RFC 6890 lists them. Of IPv6 only the range in use (2000::/3) is public,
 * and NAT64 to a public IPv4 address. */
bool fetch_address_is_public(const struct fetch_address *a);
