/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of hosts: which of them anybody on the internet can reach. A server that fetches
 * for clients must not lead them into the network around it. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

/* IPv4 also where it stands inside of IPv6 (::ffff:a.b.c.d). */
struct fetch_address {
	bool is_v6;
	uint8_t bytes[16]; /* of IPv4 the first four; the rest is 0 */
};

/* False: of another family. */
bool fetch_address_of(const struct sockaddr *a, struct fetch_address *out);
/* "192.168.1.5", "fd00::5" or "[fd00::5]". False: it is none. */
bool fetch_address_parse(const char *text, struct fetch_address *out);
bool fetch_address_eq(const struct fetch_address *a, const struct fetch_address *b);
/* Not private, local, shared, reserved, for documents, or for several hosts. RFC 6890 lists
 * them. Of IPv6 only what is given out (2000::/3), and NAT64 to such an address of IPv4. */
bool fetch_address_is_public(const struct fetch_address *a);
