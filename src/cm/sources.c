/* SPDX-License-Identifier: BSD-2-Clause */
/* Source addresses of requests: see sources.h. */
#include "cm/sources.h"

#include <string.h>

static uint64_t source_hash(const struct sources *s, const union ibv_gid *gid)
{
	return siphash(&s->key, gid, sizeof(*gid));
}

void sources_init(struct sources *s, const struct siphash_key *key)
{
	*s = (struct sources){.key = *key};
}

void sources_prove(struct sources *s, const union ibv_gid *gid, uint64_t now)
{
	uint64_t place = source_hash(s, gid) % SOURCES_PROVEN;

	if (memcmp(&s->proven[place].gid, gid, sizeof(*gid)))
		s->proven[place].until = 0;
	s->proven[place].gid = *gid;
	s->proven[place].until = max_of(s->proven[place].until, now + SOURCE_TRUST);
}

bool sources_is_proven(const struct sources *s, const union ibv_gid *gid, uint64_t now)
{
	uint64_t place = source_hash(s, gid) % SOURCES_PROVEN;

	return now < s->proven[place].until && !memcmp(&s->proven[place].gid, gid, sizeof(*gid));
}

uint16_t *sources_half_open(struct sources *s, const union ibv_gid *gid)
{
	return &s->half_open[source_hash(s, gid) % SOURCES_COUNTED];
}

static uint64_t cookie_of_minute(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t minute)
{
	uint64_t input[4] = {id, minute};

	memcpy(&input[2], gid, sizeof(*gid));
	return siphash(&s->key, input, sizeof(input)) | 1;
}

uint64_t sources_cookie(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t now)
{
	return cookie_of_minute(s, gid, id, now / (60 * SEC));
}

bool sources_check_cookie(const struct sources *s, const union ibv_gid *gid, uint32_t id, uint64_t cookie, uint64_t now)
{
	uint64_t minute = now / (60 * SEC);

	return cookie == cookie_of_minute(s, gid, id, minute) || cookie == cookie_of_minute(s, gid, id, minute - 1);
}
