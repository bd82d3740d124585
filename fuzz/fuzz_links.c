/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text as the file of ports that are down (`uroce link`): it is read, and rewritten without a device and with it.
 * Seeds: corpus/links, made by links-seeds.py. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "require.h"
#include "device/device.h"
#include "device/link_set.h"
#include "device/link_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

NO_LOCK_ANALYSIS static void parse(const char *text, size_t length)
{
	FILE *in = length ? fmemopen((void *)text, length, "r") : NULL;

	links_parse(in);
	if (in)
		fclose(in);
}

/* The device's own line is gone, those of others stay. */
static void rewrite(const char *text, const char *name)
{
	struct device d = {0};
	char *without, *again;
	size_t length = 0, same = 0;

	if (!name[0] || strlen(name) >= sizeof(d.base.name))
		return;
	strcpy(d.base.name, name);
	without = links_rewritten(text, &d, true, &length);
	require(without && length <= strlen(text) + 1);
	parse(without, length);
	require(!link_is_down(name));
	again = links_rewritten(without, &d, true, &same);
	require(again && same == length && !memcmp(again, without, length));
	free(again);
	free(without);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1), name[IBV_SYSFS_NAME_MAX] = "";

	require(text);
	memcpy(text, data, size);
	size = strlen(text); /* as it is read from the file */
	parse(text, size);
	if (sscanf(text, "%63[^ \n]", name) == 1 && strcspn(text, " \n") < sizeof(name) && text[0] != ' ')
		require(link_is_down(name));
	rewrite(text, name);
	rewrite(text, "uroce0");
	parse(NULL, 0);
	require(!link_is_down(name));
	free(text);
	return 0;
}
