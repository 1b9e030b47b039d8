/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch/fetch_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static struct fetch_address of_v4(const uint8_t bytes[4])
{
	struct fetch_address a = {.is_v6 = false};
	memcpy(a.bytes, bytes, 4);
	return a;
}

static struct fetch_address of_v6(const uint8_t bytes[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct fetch_address a = {.is_v6 = true};
	if (memcmp(bytes, mapped, sizeof mapped) == 0)
		return of_v4(bytes + 12);
	memcpy(a.bytes, bytes, sizeof a.bytes);
	return a;
}

bool fetch_address_of(const struct sockaddr *a, struct fetch_address *out)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	if (a->sa_family == AF_INET) {
		memcpy(&v4, a, sizeof v4);
		*out = of_v4((const uint8_t *)&v4.sin_addr);
	} else if (a->sa_family == AF_INET6) {
		memcpy(&v6, a, sizeof v6);
		*out = of_v6((const uint8_t *)&v6.sin6_addr);
	}
	return a->sa_family == AF_INET || a->sa_family == AF_INET6;
}

bool fetch_address_parse(const char *text, struct fetch_address *out)
{
	char inner[INET6_ADDRSTRLEN];
	uint8_t bytes[16];
	size_t n = strlen(text);
	bool has_brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
	if (n >= sizeof inner)
		return false;
	snprintf(inner, sizeof inner, "%.*s", (int)(has_brackets ? n - 2 : n),
		 text + has_brackets);
	if (inet_pton(AF_INET6, inner, bytes) == 1)
		*out = of_v6(bytes);
	else if (!has_brackets && inet_pton(AF_INET, inner, bytes) == 1)
		*out = of_v4(bytes);
	else
		return false;
	return true;
}

bool fetch_address_eq(const struct fetch_address *a, const struct fetch_address *b)
{
	return a->is_v6 == b->is_v6 && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static uint32_t number_of(const uint8_t b[4])
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool is_public_v4(const uint8_t b[4])
{
	static const struct {
		uint8_t first[4];
		int bits;
	} others[] = {
		{{0, 0, 0, 0}, 8},	{{10, 0, 0, 0}, 8},	{{100, 64, 0, 0}, 10},
		{{127, 0, 0, 0}, 8},	{{169, 254, 0, 0}, 16}, {{172, 16, 0, 0}, 12},
		{{192, 0, 0, 0}, 24},	{{192, 0, 2, 0}, 24},	{{192, 88, 99, 0}, 24},
		{{192, 168, 0, 0}, 16}, {{198, 18, 0, 0}, 15},	{{198, 51, 100, 0}, 24},
		{{203, 0, 113, 0}, 24}, {{224, 0, 0, 0}, 3},
	};
	uint32_t address = number_of(b);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if ((address ^ number_of(others[i].first)) >> (32 - others[i].bits) == 0)
			return false;
	return true;
}

bool fetch_address_is_public(const struct fetch_address *a)
{
	static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
	static const uint8_t documents[4] = {0x20, 0x01, 0x0d, 0xb8};
	const uint8_t *b = a->bytes;
	if (!a->is_v6)
		return is_public_v4(b);
	if (memcmp(b, nat64, sizeof nat64) == 0)
		return is_public_v4(b + 12);
	if (b[0] == 0x20 && b[1] == 0x02) /* a 6to4 address */
		return is_public_v4(b + 2);
	/* 2001::/23 is for protocols such as Teredo. */
	bool is_protocol = b[0] == 0x20 && b[1] == 0x01 && b[2] < 2;
	return b[0] >> 5 == 1 && !is_protocol && memcmp(b, documents, sizeof documents) != 0;
}
