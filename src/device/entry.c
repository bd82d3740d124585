/* SPDX-License-Identifier: BSD-2-Clause */
/* Parser of UROCE_DEVICES. */
#include "device/entry.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/base.h"

#define RANGE ".."

static const char bad_name[] = "a device name has 1 to 63 characters, none of them '/'";

static bool read_address(const char *text, union ibv_gid *gid)
{
	struct in_addr ipv4;

	if (inet_pton(AF_INET6, text, gid->raw) == 1)
		return true;
	if (inet_pton(AF_INET, text, &ipv4) != 1)
		return false;
	gid_set(gid->raw, true, &ipv4);
	return true;
}

/* Last four bytes of an address as a number; the addresses of a range differ there. */
static uint32_t address_tail(const union ibv_gid *gid)
{
	uint32_t tail;

	memcpy(&tail, gid->raw + 12, sizeof(tail));
	return ntohl(tail);
}

/* Cuts `text` at ".." and returns what follows, or NULL. */
static char *cut_range(char *text)
{
	char *last = strstr(text, RANGE);

	if (!last)
		return NULL;
	*last = 0;
	return last + strlen(RANGE);
}

static bool read_node(const char *text, int *node)
{
	char *end;
	unsigned long value = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : ENTRY_NODES;

	*node = (int)value;
	return value < ENTRY_NODES && !*end;
}

static const char *parse_nodes(char *text, struct device_entry *e)
{
	char *last = cut_range(text);

	if (!read_node(text, &e->node) || !read_node(last ?: text, &e->last_node) || e->last_node < e->node)
		return "'@' must be followed by the number of a NUMA node, or by two with '..' between them";
	return NULL;
}

static const char *parse_name(char *text, struct device_entry *e)
{
	char *nodes = strchr(text, '@');

	if (nodes)
		*nodes++ = 0;
	if (!*text || strlen(text) >= sizeof(e->name) || strchr(text, '/'))
		return bad_name;
	strcpy(e->name, text);
	e->named = true;
	return nodes ? parse_nodes(nodes, e) : NULL;
}

static const char *parse_last(const char *text, uint32_t most, struct device_entry *e)
{
	union ibv_gid last;

	if (!read_address(text, &last) || memcmp(&last, &e->first, 12) != 0 ||
	    address_tail(&last) < address_tail(&e->first))
		return "'..' must be followed by the last address of the range, of the same family as the first";
	if (address_tail(&last) - address_tail(&e->first) >= most)
		return "the range has too many addresses";
	e->devices = address_tail(&last) - address_tail(&e->first) + 1;
	return NULL;
}

const char *entry_parse(const char *text, uint32_t most, struct device_entry *e)
{
	char *where = strdup(text), *name, *last;
	const char *why = NULL;

	*e = (struct device_entry){.devices = 1, .node = -1, .last_node = -1};
	if (!where)
		return "out of memory";
	name = strchr(where, '=');
	if (name)
		*name++ = 0;
	last = cut_range(where);
	if (read_address(where, &e->first))
		why = last ? parse_last(last, most, e) : NULL;
	else if (last)
		why = "'..' must stand between two addresses";
	else
		snprintf(e->interface, sizeof(e->interface), "%s", strlen(where) < IF_NAMESIZE ? where : "?");
	if (!why && name)
		why = parse_name(name, e);
	free(where);
	return why;
}

union ibv_gid entry_address(const struct device_entry *e, uint32_t index)
{
	union ibv_gid gid = e->first;
	uint32_t tail = htonl(address_tail(&gid) + index);

	memcpy(gid.raw + 12, &tail, sizeof(tail));
	return gid;
}

int entry_node(const struct device_entry *e, uint32_t index)
{
	return e->node + (int)(index * (uint32_t)(e->last_node - e->node + 1) / e->devices);
}

void entry_name(const struct device_entry *e, uint32_t index, char name[IBV_SYSFS_NAME_MAX])
{
	size_t digits = strlen(e->name);
	unsigned long number;

	while (digits && isdigit((unsigned char)e->name[digits - 1]))
		digits--;
	number = strtoul(e->name + digits, NULL, 10);
	if (e->devices == 1)
		memcpy(name, e->name, sizeof(e->name));
	else /* not cut, as a cut name could be another device's */
		snprintf(name, IBV_SYSFS_NAME_MAX, "%.*s%lu", (int)min_of(digits, (size_t)50), e->name, number + index);
}
