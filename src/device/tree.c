/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookup of paths in the trees. */
#include "device/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/control_call.h"
#include "base/stat_read.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/device_list.h"
#include "device/front.h"
#include "device/tree_files.h"
#include "device/tree_names.h"
#include "loop/loop.h"
#include "memory/gpu.h"
#include "object/hca.h"
#include "port/count.h"

/* True if the driver is loaded, or the program has found a GPU already. */
static bool has_nvidia(void)
{
	const char *driver;

	if (!access("/proc/driver/nvidia/version", F_OK))
		return true;
	driver = gpu_works();
	return driver && !strcmp(driver, "CUDA");
}

static const struct {
	const char *path;
	bool nvidia; /* exists where memory of NVIDIA GPUs can be registered */
} roots[] = {
	{"/sys/class/infiniband", false}, {"/dev/infiniband", false}, {TREE_PCI, false},
	{TREE_PEER_MEMORY, true},	  {TREE_PEER_MODULE, true},
};

struct devices {
	struct device *list[DEVICE_LIMIT];
	int count;
};

static bool tree_is_ours(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		size_t n = strlen(roots[i].path);
		/* also matches /sys/class/infiniband_verbs, _mad ..., but not /dev/infinibandwagon */
		const char *ends = i == 0 ? "/_" : "/";

		if (strncmp(path, roots[i].path, n) == 0 && (!path[n] || strchr(ends, path[n])))
			return !roots[i].nvidia || has_nvidia();
	}
	return false;
}

static size_t part_length(const char *path)
{
	return strcspn(path, "/");
}

static bool part_is(const char *path, const char *name)
{
	size_t n = part_length(path);

	return strlen(name) == n && memcmp(path, name, n) == 0;
}

/* Name number `index` of a wildcard at this place; NULL after the last. */
static const char *expand(char wildcard, const struct devices *all, const struct tree_place *p, unsigned index,
			  char *buffer, size_t size)
{
	if (wildcard == 'g') {
		snprintf(buffer, size, "%u", index);
		return index < DEVICE_GIDS ? buffer : NULL;
	}
	if (wildcard == 'i')
		return index == 0 ? p->device->netif_name : NULL;
	if (index >= (unsigned)all->count)
		return NULL;
	if (wildcard == 'p') {
		tree_pci_address(all->list[index], buffer, size);
		return device_has_one_address(all->list[index]) ? buffer : "";
	}
	if (wildcard == 'm') {
		snprintf(buffer, size, "umad%u", tree_mad_minor(all->list[index]));
		return adapter_is_infiniband() ? buffer : "";
	}
	if (wildcard == 'd' && p->device)
		return all->list[index] == p->device ? p->device->base.name : "";
	return wildcard == 'd' ? all->list[index]->base.name : all->list[index]->base.dev_name;
}

static bool part_matches(const char *pattern, const char *part, const struct devices *all, struct tree_place *p)
{
	char buffer[16];
	const char *name;

	if (*pattern != '%')
		return part_length(pattern) == part_length(part) && memcmp(pattern, part, part_length(part)) == 0;
	for (unsigned n = 0; (name = expand(pattern[1], all, p, n, buffer, sizeof(buffer))); n++) {
		if (!*name || !part_is(part, name)) /* "": not on this device */
			continue;
		if (pattern[1] == 'g')
			p->index = n;
		else if (pattern[1] != 'i')
			p->device = all->list[n];
		return true;
	}
	return false;
}

/* Advances in the row's pattern and in the path while they match. Both then point to the rest, at the start of a
 * part or at the end. */
static void walk(const char **pattern, const char **path, const struct devices *all, struct tree_place *p)
{
	while (**pattern && **path && part_matches(*pattern, *path, all, p)) {
		*pattern += part_length(*pattern);
		*path += part_length(*path);
		*pattern += **pattern == '/';
		*path += **path == '/';
	}
}

/* Lists the next part of a row in this directory, unless just listed: rows with the same beginning are adjacent. */
static void list_names(FILE *out, const char *pattern, const struct devices *all, const struct tree_place *p,
		       const char **listed)
{
	size_t n = part_length(pattern);
	char buffer[16];
	const char *name;

	if (*listed && part_length(*listed) == n && memcmp(*listed, pattern, n) == 0)
		return;
	*listed = pattern;
	if (*pattern != '%') {
		fwrite(pattern, 1, n, out);
		putc(0, out);
		return;
	}
	for (unsigned i = 0; (name = expand(pattern[1], all, p, i, buffer, sizeof(buffer))); i++)
		fwrite(name, 1, *name ? strlen(name) + 1 : 0, out);
}

/* Looks up a path and writes its contents to `out`. 0 or ENOENT. */
static int tree_look(const char *path, const struct devices *all, struct tree_node *node, FILE *out)
{
	const char *listed = NULL;
	bool found = false;

	for (size_t i = 0; i < tree_row_count; i++) {
		const char *pattern = tree_rows[i].pattern, *rest = path;
		struct tree_place p = {0};

		walk(&pattern, &rest, all, &p);
		if (*pattern && !*rest) {
			found = true;
			node->kind = TREE_DIRECTORY;
			list_names(out, pattern, all, &p, &listed);
		} else if (!*pattern && (!*rest || tree_rows[i].kind == TREE_LINK)) {
			node->kind = tree_rows[i].kind;
			node->rest = rest;
			node->minor = !p.device		    ? 0
				      : tree_rows[i].is_mad ? tree_mad_minor(p.device)
							    : tree_minor(p.device);
			node->is_mad = tree_rows[i].is_mad;
			node->changes = tree_rows[i].counter;
			if (tree_rows[i].counter)
				node->error = tree_fill_counter(out, &p, tree_rows[i].counter);
			else if (tree_rows[i].fill)
				node->error = tree_rows[i].fill(out, &p);
			if (node->error == ENOENT) { /* not on this device: a row below may match */
				node->error = 0;
				continue;
			}
			if (tree_rows[i].text)
				fputs(tree_rows[i].text, out);
			return 0;
		}
	}
	return found ? 0 : ENOENT;
}

PUBLIC int uroce_tree_read(const char *path, struct tree_node *node)
{
	struct devices all;
	FILE *out;
	int error;

	if (!tree_is_ours(path))
		return -1;
	*node = (struct tree_node){0};
	all.count = max_of(devices_list(all.list), 0);
	out = open_memstream(&node->text, &node->length);
	if (!out)
		return ENOMEM;
	error = tree_look(path, &all, node, out);
	if (fclose(out) && !error)
		error = ENOMEM;
	if (error)
		free(node->text);
	return error;
}
